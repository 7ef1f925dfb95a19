//! A user deletes a cluster, and gets what the claim policy promised.

use std::time::Duration;

use anyhow::{Context, ensure};
use api::v1alpha1::status::Phase;
use e2e::{Load, MINUTE, Played, check_truth, nothing_is_left, story, tell, until};
use k8s_openapi::api::core::v1::{Namespace, PersistentVolumeClaim, Pod};
use kube::api::DeleteParams;
use kube::{Api, ResourceExt};
use serde_json::json;

/// No deletion takes longer: nothing of ours stands in its way.
const SOON: Duration = Duration::from_secs(45);

#[test]
fn a_deleted_cluster_keeps_its_claims_and_a_new_object_resumes_the_data() -> Played {
    story(|stage| async move {
        let spec = json!({"size": 3, "version": "v3.6.16", "storage": {"size": "1Gi"}});
        let first = stage.create("c", spec.clone()).await?;
        first.ready().await?;
        first.put("kept", "before the deletion").await?;
        let load = Load::start(&first).await?;
        let id = first.status().await?.cluster_id;
        first.delete().await?;
        // Recreated at once, while the previous pods are still terminating.
        let second = stage.create("c", spec).await?;
        second.ready_within(MINUTE * 2).await?;
        load.finish().await?;
        ensure!(second.value("kept").await?.as_deref() == Some("before the deletion"));
        let status = second.status().await?;
        ensure!(
            status.cluster_id == id,
            "another cluster ID: {:?}, not {id:?}",
            status.cluster_id
        );
        ensure!(
            status.remembered().lineage.resumed == Some(true),
            "resumed is {:?}",
            status.remembered().lineage.resumed
        );
        check_truth(&second, 3, "3.6.16").await?;
        second.has_event("ClusterCreated", "retained").await
    })
}

#[test]
fn with_when_deleted_delete_nothing_is_left() -> Played {
    story(|stage| async move {
        let spec = json!({"size": 1, "version": "v3.6.16",
            "storage": {"size": "1Gi", "claimPolicy": {"whenDeleted": "Delete"}}});
        let cluster = stage.create("c", spec.clone()).await?;
        // A second one goes right after it came, before or while its objects are written.
        let hasty = stage.create("hasty", spec).await?;
        hasty.delete().await?;
        cluster.ready().await?;
        cluster.put("a", "b").await?;
        cluster.delete().await?;
        let took = nothing_is_left(&stage).await?;
        tell(&format!(
            "nothing was left {:.1} s after the object went",
            took.as_secs_f32()
        ));
        Ok(())
    })
}

#[test]
fn a_policy_that_is_switched_to_retain_before_the_deletion_keeps_the_claims() -> Played {
    story(|stage| async move {
        let spec = json!({"size": 1, "version": "v3.6.16",
            "storage": {"size": "1Gi", "claimPolicy": {"whenDeleted": "Delete"}}});
        let cluster = stage.create("c", spec).await?;
        cluster.ready().await?;
        cluster.put("kept", "after all").await?;
        let load = Load::start(&cluster).await?;
        let retain = r#"{"spec":{"storage":{"claimPolicy":{"whenDeleted":"Retain"}}}}"#;
        stage.commands.patch("c", retain).await?.accepted()?;
        cluster.ready().await?;
        let claims = stage.api::<PersistentVolumeClaim>();
        until("the claim has no owner", MINUTE, || async {
            Ok(claims.get("data-c-0").await?.owner_references().is_empty())
        })
        .await?;
        load.finish().await?;
        cluster.delete().await?;
        until("the pods are gone", SOON, || async {
            Ok(stage.list::<Pod>().await?.is_empty())
        })
        .await?;
        let claim = claims.get("data-c-0").await?;
        ensure!(
            claim.metadata.deletion_timestamp.is_none(),
            "the claim is being deleted"
        );
        Ok(())
    })
}

#[test]
fn a_cluster_whose_etcd_never_came_up_can_be_deleted() -> Played {
    story(|stage| async move {
        let spec = json!({"size": 3, "repository": "localhost/never/etcd", "version": "v3.6.16",
            "storage": {"size": "1Gi", "claimPolicy": {"whenDeleted": "Delete"}}});
        let cluster = stage.create("c", spec).await?;
        until("the pods cannot start", MINUTE, || async {
            let pods = cluster.pods().await?;
            Ok(pods.len() == 3 && cluster.status().await?.phase == Some(Phase::Creating))
        })
        .await?;
        cluster.delete().await?;
        nothing_is_left(&stage).await?;
        Ok(())
    })
}

#[test]
fn a_namespace_that_is_deleted_as_a_whole_goes_with_its_cluster() -> Played {
    story(|stage| async move {
        let cluster = stage
            .create("c", json!({"size": 1, "version": "v3.6.16"}))
            .await?;
        cluster.ready().await?;
        let namespaces: Api<Namespace> = Api::all(stage.client.clone());
        namespaces
            .delete(&stage.namespace, &DeleteParams::default())
            .await?;
        until("the namespace is gone", MINUTE, || async {
            let left = namespaces.get_opt(&stage.namespace).await?;
            let why = left.map(|left| left.status.and_then(|status| status.conditions));
            ensure!(why.is_none(), "{why:?}");
            Ok(true)
        })
        .await
        .context("something holds the namespace")?;
        Ok(())
    })
}

//! A user changes the size.

use anyhow::ensure;
use api::v1alpha1::status::Phase;
use e2e::{LIMIT, Load, MINUTE, Played, check_truth, story, tell, until};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt;
use serde_json::json;

#[test]
fn one_member_grows_to_three_by_kubectl_scale_and_serves_all_the_while() -> Played {
    story(|stage| async move {
        let spec = json!({"size": 1, "version": "v3.6.16", "storage": {"size": "1Gi"}});
        let cluster = stage.create("c", spec).await?;
        cluster.ready().await?;
        let first = cluster.pods().await?["c-0"].metadata.uid.clone();
        let load = Load::start(&cluster).await?;
        let scale = ["scale", "etcdclusters.etcd.etcd.io", "c", "--replicas=3"];
        stage.commands.kubectl(&scale).await?.accepted()?;
        cluster.ready().await?;
        let report = load.finish().await?;
        check_truth(&cluster, 3, "3.6.16").await?;
        ensure!(
            cluster.pods().await?["c-0"].metadata.uid == first,
            "the first member was restarted"
        );
        // Nothing is promised below three members, but it must not stand still either.
        report.assert_gap(LIMIT * 5)?;
        cluster.has_event("ClusterScaled", "").await?;
        // The scale subresource reads back what it was told.
        let get = [
            "get",
            "--raw",
            &format!(
                "/apis/etcd.etcd.io/v1alpha1/namespaces/{}/etcdclusters/c/scale",
                stage.namespace
            ),
        ];
        let scale: serde_json::Value =
            serde_json::from_str(&stage.commands.kubectl(&get).await?.accepted()?)?;
        ensure!(
            scale["spec"]["replicas"] == 3 && scale["status"]["replicas"] == 3,
            "{scale}"
        );
        Ok(())
    })
}

#[test]
fn three_members_shrink_to_one_and_nothing_written_is_lost() -> Played {
    story(|stage| async move {
        let spec = json!({"size": 3, "version": "v3.6.16", "storage": {"size": "1Gi"}});
        let cluster = stage.create("c", spec).await?;
        cluster.ready().await?;
        let load = Load::start(&cluster).await?;
        let scale = ["scale", "etcdclusters.etcd.etcd.io", "c", "--replicas=1"];
        stage.commands.kubectl(&scale).await?.accepted()?;
        cluster.ready().await?;
        load.finish().await?;
        check_truth(&cluster, 1, "3.6.16").await?;
        until("only the first member has a claim", MINUTE, || async {
            let claims = stage.list::<PersistentVolumeClaim>().await?;
            let names: Vec<String> = claims.iter().map(ResourceExt::name_any).collect();
            ensure!(names == ["data-c-0"], "{names:?}");
            Ok(true)
        })
        .await?;
        for member in ["c-1", "c-2"] {
            cluster.has_event("MemberRemoved", member).await?;
        }
        Ok(())
    })
}

#[test]
fn three_members_become_five_and_three_again_and_clients_hardly_notice() -> Played {
    story(|stage| async move {
        let spec = json!({"size": 3, "version": "v3.6.16", "storage": {"size": "1Gi"}});
        let cluster = stage.create("c", spec).await?;
        cluster.ready().await?;
        let load = Load::start(&cluster).await?;
        for size in [5_u32, 3] {
            let patch = format!(r#"{{"spec":{{"size":{size}}}}}"#);
            stage.commands.patch("c", &patch).await?.accepted()?;
            cluster.ready_within(MINUTE * 2).await?;
            check_truth(&cluster, size, "3.6.16").await?;
        }
        // An edit that is taken back at once leaves no claim.
        for size in [7_u32, 3] {
            let patch = format!(r#"{{"spec":{{"size":{size}}}}}"#);
            stage.commands.patch("c", &patch).await?.accepted()?;
        }
        until("every claim has a member", MINUTE * 2, || async {
            let claims = stage.list::<PersistentVolumeClaim>().await?;
            Ok(claims.len() == 3)
        })
        .await?;
        cluster.ready().await?;
        load.finish().await?.assert_gap(LIMIT)
    })
}

#[test]
fn size_zero_stops_a_cluster_and_three_starts_it_again_with_its_data() -> Played {
    story(|stage| async move {
        let spec = json!({"size": 3, "version": "v3.7.3", "storage": {"size": "1Gi"}});
        let cluster = stage.create("c", spec).await?;
        cluster.ready().await?;
        check_truth(&cluster, 3, "3.7.3").await?;
        cluster.put("kept", "while stopped").await?;
        let load = Load::start(&cluster).await?;
        let id = cluster.status().await?.cluster_id;
        let size = |size: u32| format!(r#"{{"spec":{{"size":{size}}}}}"#);
        stage.commands.patch("c", &size(0)).await?.accepted()?;
        let stop = cluster.phase(Phase::Stopped).await?;
        ensure!(cluster.pods().await?.is_empty(), "pods are left");
        let status = cluster.status().await?;
        ensure!(
            status.ready_replicas.unwrap_or_default() == 0,
            "{:?}",
            status.ready_replicas
        );
        ensure!(cluster.condition("Available").await?.status == "False");
        stage.commands.patch("c", &size(3)).await?.accepted()?;
        let start = cluster.ready().await?;
        load.finish().await?;
        tell(&format!(
            "stopped in {:.1} s, started in {:.1} s",
            stop.as_secs_f32(),
            start.as_secs_f32()
        ));
        ensure!(stop.as_secs() < 30, "stopping took {stop:?}");
        ensure!(cluster.value("kept").await?.as_deref() == Some("while stopped"));
        ensure!(
            cluster.status().await?.cluster_id == id,
            "another cluster ID"
        );
        check_truth(&cluster, 3, "3.7.3").await
    })
}

#[test]
fn a_cluster_that_was_created_with_size_zero_stays_stopped_until_it_is_asked_for() -> Played {
    story(|stage| async move {
        let cluster = stage
            .create("c", json!({"size": 0, "version": "v3.6.16"}))
            .await?;
        cluster.phase(Phase::Stopped).await?;
        ensure!(
            cluster.pods().await?.is_empty(),
            "size 0 became something else"
        );
        stage
            .commands
            .patch("c", r#"{"spec":{"size":1}}"#)
            .await?
            .accepted()?;
        cluster.ready().await?;
        check_truth(&cluster, 1, "3.6.16").await
    })
}

//! A prefix was deleted by mistake: by the words of the guide it comes back as it was just before, in a cluster of its own, and
//! then in the place of the data there is.

use anyhow::{Context, Result, ensure};
use api::v1alpha1::backup::BackupPhase;
use api::v1alpha1::restore::{EtcdRestore, EtcdRestoreStatus, RestorePhase};
use e2e::{Cluster, MINUTE, Played, Stage, lock, story, until};
use serde_json::{Value, json};

use super::lifecycle_backup::{backup, completed, into_s3, s3};

fn template() -> Value {
    let mut spec = json!({"size": 1, "version": "v3.6.16", "storage": {"size": "1Gi"}});
    if !lock::is_plaintext() {
        lock::ask_for_tls(&mut spec);
    }
    spec
}

fn restore(name: &str, spec: &Value) -> String {
    json!({"apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdRestore",
           "metadata": {"name": name}, "spec": spec})
    .to_string()
}

/// What was deleted is there, and what was written later is not.
async fn is_as_before(cluster: &Cluster, then: i64) -> Result<()> {
    cluster.ready().await?;
    for (key, value) in [
        ("/orders/1", Some("shipped")),
        ("/orders/2", Some("new")),
        ("later", None),
    ] {
        let found = cluster.value(key).await?;
        ensure!(found.as_deref() == value, "{key}: {found:?}");
    }
    let restored = cluster.status().await?.restored;
    let restored = restored.context("no status.restored")?;
    ensure!(restored.revision == then, "{restored:?}");
    Ok(())
}

async fn is_done(stage: &Stage, name: &str, then: i64) -> Result<()> {
    until(format!("{name} is done"), MINUTE * 3, || async {
        let restore = stage.api::<EtcdRestore>().get(name).await?;
        let status: EtcdRestoreStatus = restore.status.unwrap_or_default();
        let told = status.conditions.first().map(|it| it.message.clone());
        ensure!(
            status.phase == Some(RestorePhase::Completed),
            "{:?}: {told:?}",
            status.phase
        );
        ensure!(status.etcd_revision == Some(then), "{status:?}");
        Ok(true)
    })
    .await?;
    Ok(())
}

#[test]
fn what_was_deleted_by_mistake_comes_back_as_of_the_revision_before() -> Played {
    story(|stage| async move {
        stage.commands.apply(&s3()).await?.accepted()?;
        let cluster = stage.create("c", template()).await?;
        cluster.ready().await?;
        cluster.put("/orders/1", "new").await?;
        cluster.put("/orders/2", "new").await?;
        cluster.put("/orders/1", "shipped").await?;
        let then = cluster.any_member().await?.read_linearizable().await?;
        let delete = [
            "exec", "c-0", "-c", "etcd", "--", "etcdctl", "del", "--prefix", "/orders/",
        ];
        stage.commands.kubectl(&delete).await?.accepted()?;
        cluster.put("later", "than the mistake").await?;
        let store = json!({"storageType": "S3", "s3": into_s3(&stage.namespace)});
        let object = backup("nightly", &store);
        stage.commands.apply(&object).await?.accepted()?;
        completed(&stage, "nightly", BackupPhase::Completed, 1).await?;

        refused(&stage).await?;
        let spec = json!({"backupName": "nightly", "target": {"revision": then},
                          "clusterName": "before", "clusterTemplate": template()});
        let before = restore("before", &spec);
        stage.commands.apply(&before).await?.accepted()?;
        // One that no backup holds, until it is corrected.
        let mut spec = template();
        if let Some(spec) = spec.as_object_mut() {
            let asked = json!({"backupName": "nightly", "target": {"revision": 999_999}});
            spec.insert("bootstrap".into(), json!({"restore": asked}));
        }
        let other = stage.create("other", spec).await?;
        let newest = then + 2;
        let nearest = format!("the nearest before it is {newest} (base");
        let words = ["holds revision 999999", &nearest, "there is none after it"];
        other.complains("Degraded", &words).await?;
        let patch = format!(
            r#"{{"spec":{{"bootstrap":{{"restore":{{"target":{{"revision":{then}}}}}}}}}}}"#
        );
        stage.commands.patch("other", &patch).await?.accepted()?;
        is_done(&stage, "before", then).await?;
        is_as_before(&stage.cluster("before"), then).await?;
        is_as_before(&other, then).await?;
        set_back(&stage, &cluster, then).await
    })
}

/// What makes no sense is rejected when it is written.
async fn refused(stage: &Stage) -> Result<()> {
    let file = json!({"storageType": "S3", "s3": into_s3(&stage.namespace), "snapshot": {"key": "etcd.db"}});
    for (spec, words) in [
        (
            json!({"backupName": "nightly", "target": {}}),
            "write target.revision",
        ),
        (
            json!({"backupName": "nightly", "target": {"revision": 0}}),
            "spec.target.revision",
        ),
        (
            json!({"source": file, "target": {"revision": 7}}),
            "leave it out beside source.snapshot",
        ),
    ] {
        let mut spec = spec;
        if let Some(spec) = spec.as_object_mut() {
            spec.insert("clusterName".into(), json!("never"));
        }
        let answer = stage.commands.apply(&restore("never", &spec)).await?;
        answer.refused_with(&[words])?;
    }
    Ok(())
}

async fn set_back(stage: &Stage, cluster: &Cluster, then: i64) -> Result<()> {
    let id = cluster.status().await?.cluster_id.context("no ID")?;
    let spec = json!({"backupName": "nightly", "target": {"revision": then}, "clusterName": "c",
                      "restoreType": "Replace", "replaces": id});
    let back = restore("back", &spec);
    stage.commands.apply(&back).await?.accepted()?;
    is_done(stage, "back", then).await?;
    is_as_before(cluster, then).await
}

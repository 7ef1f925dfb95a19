//! The way back: a cluster whose objects are all gone comes back from its bucket, under another name; and one that is to begin
//! with a backup begins with that, or says why it cannot.

use age::secrecy::ExposeSecret as _;
use anyhow::{Context, Result, ensure};
use api::v1alpha1::backup::{BackupPhase, EtcdBackup};
use api::v1alpha1::restore::{EtcdRestore, EtcdRestoreStatus, RestorePhase};
use api::v1alpha1::status::Phase;
use e2e::{Cluster, MINUTE, Played, Stage, lock, story, until};
use etcd::Consistency;
use k8s_openapi::api::batch::v1::Job;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::lifecycle_backup::{backup, completed, into_s3, s3};

const KEYS: &str = "age-keys";

/// Every member that is asked has what the backup had, at a revision above all that clients of the other cluster saw.
async fn is_back(cluster: &Cluster, size: u32) -> Result<()> {
    cluster.ready().await?;
    let value = cluster.value("kept").await?;
    ensure!(value.as_deref() == Some("in the backup"), "{value:?}");
    let status = cluster.status().await?;
    let restored = status.restored.context("no status.restored")?;
    ensure!(restored.revision > 1 && restored.bytes > 0, "{restored:?}");
    ensure!(status.phase == Some(Phase::Running), "{:?}", status.phase);
    ensure!(status.ready_replicas == i32::try_from(size).ok());
    cluster.put("after", "the restore").await?;
    let member = cluster.any_member().await?;
    let after = member.get(b"after", Consistency::Linearizable).await?;
    let revision = after.context("a write is lost")?.mod_revision;
    ensure!(revision > 1_000_000_000, "the revision is {revision}");
    Ok(())
}

async fn status(stage: &Stage, name: &str) -> Result<EtcdRestoreStatus> {
    let restore = stage.api::<EtcdRestore>().get(name).await?;
    Ok(restore.status.unwrap_or_default())
}

fn template(size: u32) -> Value {
    let mut spec = json!({"size": size, "version": "v3.6.16", "storage": {"size": "1Gi"}});
    if !lock::is_plaintext() {
        lock::ask_for_tls(&mut spec);
    }
    spec
}

#[test]
fn a_cluster_of_which_nothing_is_left_comes_back_from_its_bucket() -> Played {
    story(|stage| async move {
        stage.commands.apply(&s3()).await?.accepted()?;
        let key = age::x25519::Identity::generate();
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": KEYS},
                            "stringData": {"key": key.to_string().expose_secret()}});
        stage
            .commands
            .apply(&secret.to_string())
            .await?
            .accepted()?;
        let cluster = stage.create("c", template(1)).await?;
        cluster.ready().await?;
        cluster.put("kept", "in the backup").await?;
        let store = into_s3(&stage.namespace);
        let spec = json!({"storageType": "S3", "s3": store, "encryption": {"recipients": [key.to_public().to_string()]}});
        let object = backup("once", &spec);
        stage.commands.apply(&object).await?.accepted()?;
        completed(&stage, "once", BackupPhase::Completed, 1).await?;
        cluster.put("kept", "no more").await?;
        cluster.delete().await?;
        let gone = DeleteParams::default();
        stage.api::<EtcdBackup>().delete("once", &gone).await?;

        let restore = json!({"apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdRestore", "metadata": {"name": "back"},
            "spec": {"clusterName": "again", "clusterTemplate": template(3), "identitySecret": KEYS,
                     "source": {"storageType": "S3", "s3": store, "clusterName": "c"}}});
        stage
            .commands
            .apply(&restore.to_string())
            .await?
            .accepted()?;
        until("it is restored", MINUTE * 3, || async {
            let status = status(&stage, "back").await?;
            let told = status.conditions.first().map(|it| it.message.clone());
            ensure!(
                status.phase == Some(RestorePhase::Completed),
                "{:?}: {told:?}",
                status.phase
            );
            Ok(true)
        })
        .await?;
        is_back(&stage.cluster("again"), 3).await?;
        let told = status(&stage, "back").await?;
        ensure!(
            told.restored_cluster.as_deref() == Some("again"),
            "{told:?}"
        );
        ensure!(told.restored_size.is_some_and(|size| size > 0), "{told:?}");
        let jobs = stage.list::<Job>().await?;
        ensure!(jobs.is_empty(), "Jobs are left");
        let account = stage.account().await;
        ensure!(
            !account.contains("AGE-SECRET-KEY"),
            "a private key was told"
        );
        // Nothing is done once more: neither by the object, nor by its deletion.
        stage.api::<EtcdRestore>().delete("back", &gone).await?;
        is_back(&stage.cluster("again"), 3).await?;
        set_back(&stage, &store).await
    })
}

/// The same backup takes the place of the data of the cluster that serves, once that is named.
async fn set_back(stage: &Stage, store: &Value) -> Result<()> {
    let cluster = stage.cluster("again");
    cluster.put("kept", "not in the backup").await?;
    let before = cluster.status().await?.cluster_id.context("no ID")?;
    let source = json!({"storageType": "S3", "s3": store, "clusterName": "c"});
    let restore = json!({"apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdRestore", "metadata": {"name": "set-back"},
        "spec": {"clusterName": "again", "restoreType": "Replace", "identitySecret": KEYS, "source": source}});
    let applied = stage.commands.apply(&restore.to_string()).await?;
    applied.accepted()?;
    until("it says what to write", MINUTE, || async {
        let told = status(stage, "set-back").await?.conditions;
        let told = told.first().map(|it| it.message.clone());
        Ok(told.is_some_and(|told| told.contains("--patch") && told.contains(&before)))
    })
    .await?;
    let value = cluster.value("kept").await?;
    ensure!(value.as_deref() == Some("not in the backup"), "{value:?}");
    let named = json!({"spec": {"replaces": before}});
    let api = stage.api::<EtcdRestore>();
    let params = PatchParams::default();
    api.patch("set-back", &params, &Patch::Merge(named)).await?;
    let other = json!({"spec": {"replaces": "abc"}});
    let changed = api.patch("set-back", &params, &Patch::Merge(other)).await;
    ensure!(changed.is_err(), "another cluster can be named");
    until("it is set back", MINUTE * 4, || async {
        let status = status(stage, "set-back").await?;
        let told = status.conditions.first().map(|it| it.message.clone());
        ensure!(
            status.phase == Some(RestorePhase::Completed),
            "{:?}: {told:?}",
            status.phase
        );
        Ok(true)
    })
    .await?;
    is_back(&cluster, 3).await?;
    let after = cluster.status().await?.cluster_id;
    ensure!(after.is_some_and(|after| after != before), "the same ID");
    cluster
        .has_event("ClusterRestored", "took the place of the data")
        .await?;
    ensure!(stage.list::<Job>().await?.is_empty(), "Jobs are left");
    Ok(())
}

#[test]
fn a_cluster_that_is_to_begin_with_a_backup_never_begins_without_it() -> Played {
    story(|stage| async move {
        stage.commands.apply(&s3()).await?.accepted()?;
        let cluster = stage.create("c", template(1)).await?;
        cluster.ready().await?;
        cluster.put("kept", "in the backup").await?;

        // Before there is any backup, and before there is an EtcdBackup.
        let mut spec = template(1);
        if let Some(spec) = spec.as_object_mut() {
            spec.insert(
                "bootstrap".into(),
                json!({"restore": {"backupName": "once"}}),
            );
        }
        let other = stage.create("other", spec).await?;
        other
            .complains("Degraded", &["there is no EtcdBackup once"])
            .await?;
        let store = json!({"storageType": "S3", "s3": into_s3(&stage.namespace)});
        let object = backup("once", &store);
        stage.commands.apply(&object).await?.accepted()?;
        completed(&stage, "once", BackupPhase::Completed, 1).await?;
        is_back(&other, 1).await?;
        other
            .has_event("ClusterRestored", "has formed with backup")
            .await?;

        // What it began with cannot be changed afterwards, and may be left out.
        let patch = r#"{"spec":{"bootstrap":{"restore":{"backup":"another"}}}}"#;
        let answer = stage.commands.patch("other", patch).await?;
        answer.refused_with(&["this one has begun"])?;
        let patch = r#"{"spec":{"bootstrap":null}}"#;
        stage.commands.patch("other", patch).await?.accepted()?;

        // A backup that is not there is told in the keeper's words.
        let mut spec = template(1);
        if let Some(spec) = spec.as_object_mut() {
            let restore = json!({"backupName": "once", "backup": "no-such-backup"});
            spec.insert("bootstrap".into(), json!({"restore": restore}));
        }
        let third = stage.create("third", spec).await?;
        third
            .complains("Degraded", &["there is no base no-such-backup"])
            .await?;
        ensure!(third.status().await?.cluster_id.is_none(), "it has begun");
        Ok(())
    })
}

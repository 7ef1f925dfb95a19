//! Backups, as the owner of a cluster meets them: in a bucket by a schedule or when asked, told in the status, and good for a
//! restore with nothing but the tools of etcd.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use api::v1alpha1::backup::{BackupPhase, Compared, EtcdBackup, EtcdBackupStatus};
use e2e::{MINUTE, Played, Stage, story, until};
use etcd::{Consistency, DirectTcp, Pool, Security, Target};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{Pod, Secret};
use serde_json::{Value, json};

const BUCKET: &str = "backups";
const CANARY: &str = "canary-of-the-store";

/// What every pod of these namespaces must say.
fn restricted(spec: &Value) -> Value {
    let container = json!({"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}});
    let pod = json!({"runAsNonRoot": true, "runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532,
                     "seccompProfile": {"type": "RuntimeDefault"}});
    let mut spec = spec.clone();
    for kind in ["initContainers", "containers"] {
        let containers = spec.get_mut(kind).and_then(Value::as_array_mut);
        for it in containers
            .into_iter()
            .flatten()
            .filter_map(Value::as_object_mut)
        {
            it.insert("securityContext".to_owned(), container.clone());
        }
    }
    if let Some(spec) = spec.as_object_mut() {
        spec.insert("securityContext".to_owned(), pod);
    }
    spec
}

/// An S3 server with one bucket, which is a directory.
pub(crate) fn s3() -> String {
    let key = |name: &str, key: &str| json!({"name": name, "valueFrom": {"secretKeyRef": {"name": "s3-credentials", "key": key}}});
    let spec = restricted(&json!({
        "initContainers": [{
            "name": "bucket", "image": "localhost/busybox:1", "imagePullPolicy": "Never",
            "command": ["/bin/busybox", "mkdir", "-p", format!("/data/{BUCKET}"), "/meta/data"],
            "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "meta", "mountPath": "/meta"}]}],
        "containers": [{
            "name": "s3", "image": "localhost/versitygw:1.8.0", "imagePullPolicy": "Never",
            "command": ["/usr/local/bin/versitygw", "--port", ":7070", "posix", "--sidecar", "/meta/data", "/data"],
            "env": [key("ROOT_ACCESS_KEY", "access-key"), key("ROOT_SECRET_KEY", "secret-key")],
            "readinessProbe": {"tcpSocket": {"port": 7070}, "periodSeconds": 1},
            "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "meta", "mountPath": "/meta"}]}],
        "volumes": [{"name": "data", "emptyDir": {}}, {"name": "meta", "emptyDir": {}}]
    }));
    let server = json!({"apiVersion": "v1", "kind": "Pod", "spec": spec,
                        "metadata": {"name": "s3", "labels": {"app": "s3"}}});
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s3"},
                         "spec": {"selector": {"app": "s3"}, "ports": [{"port": 7070}]}});
    json!({"apiVersion": "v1", "kind": "List", "items": [credentials(CANARY), server, service]})
        .to_string()
}

fn credentials(secret: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s3-credentials"},
           "stringData": {"access-key": "keeper", "secret-key": secret}})
}

pub(crate) fn backup(name: &str, spec: &Value) -> String {
    let mut whole = json!({"clusterName": "c"});
    if let (Some(whole), Some(spec)) = (whole.as_object_mut(), spec.as_object()) {
        whole.extend(spec.clone());
    }
    json!({"apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdBackup",
           "metadata": {"name": name}, "spec": whole})
    .to_string()
}

pub(crate) fn into_s3(namespace: &str) -> Value {
    json!({"bucket": BUCKET, "path": "etcd-backups/", "allowHTTP": true,
           "endpoint": format!("http://s3.{namespace}.svc:7070"),
           "accessKeySecret": "s3-credentials", "secretKeySecret": "s3-credentials"})
}

async fn status(stage: &Stage, name: &str) -> Result<EtcdBackupStatus> {
    let backup = stage.api::<EtcdBackup>().get(name).await?;
    Ok(backup.status.unwrap_or_default())
}

/// Waits for a number of backups in the store, and for nothing under way.
pub(crate) async fn completed(
    stage: &Stage,
    name: &str,
    phase: BackupPhase,
    backups: usize,
) -> Result<EtcdBackupStatus> {
    until(
        format!("{name} has {backups} backups"),
        MINUTE * 2,
        || async {
            let status = status(stage, name).await?;
            let ready = status.conditions.first().context("no condition")?;
            ensure!(
                status.phase == Some(phase) && status.backups.len() == backups,
                "{:?}, {} backups: {}",
                status.phase,
                status.backups.len(),
                ready.message
            );
            Ok(ready.status == "True")
        },
    )
    .await?;
    status(stage, name).await
}

async fn ask_again(stage: &Stage, name: &str, value: &str) -> Result<()> {
    let annotation = format!("etcd.etcd.io/backup-now={value}");
    let words = ["annotate", "--overwrite", "etcdbackup", name, &annotation];
    stage.commands.kubectl(&words).await?.accepted().map(drop)
}

#[test]
fn backups_go_to_a_bucket_and_as_many_stay_as_are_kept() -> Played {
    story(|stage| async move {
        stage.commands.apply(&s3()).await?.accepted()?;
        let spec = json!({"size": 3, "version": "v3.6.16", "storage": {"size": "1Gi"}});
        let cluster = stage.create("c", spec).await?;
        cluster.ready().await?;
        cluster.put("before", "1").await?;
        let spec = json!({"storageType": "S3", "s3": into_s3(&stage.namespace),
                          "schedule": "0 2 * * *", "retentionPolicy": {"maxBackups": 2}, "verify": {}});
        stage
            .commands
            .apply(&backup("nightly", &spec))
            .await?
            .accepted()?;
        until("it is scheduled", MINUTE, || async {
            Ok(status(&stage, "nightly").await?.phase == Some(BackupPhase::Scheduled))
        })
        .await?;
        for (value, backups) in [("first", 1), ("second", 2), ("third", 2)] {
            cluster.put("value", value).await?;
            let before = status(&stage, "nightly").await?.completion_time;
            ask_again(&stage, "nightly", value).await?;
            until(format!("backup {value} is there"), MINUTE * 2, || async {
                let now = status(&stage, "nightly").await?;
                let told = now.conditions.first().map(|it| it.message.clone());
                ensure!(now.completion_time != before, "{:?}: {told:?}", now.phase);
                Ok(true)
            })
            .await?;
            let told = completed(&stage, "nightly", BackupPhase::Scheduled, backups).await?;
            let newest = told.backups.first().context("none is listed")?;
            ensure!(told.etcd_revision == Some(newest.revision), "{told:?}");
            ensure!(told.backup_size.is_some_and(|size| size > 0), "{told:?}");
            ensure!(told.etcd_version.as_deref() == Some("3.6.16"), "{told:?}");
            let path = told.storage_path.context("no storagePath")?;
            ensure!(path.starts_with("s3://backups/etcd-backups/"), "{path}");
            // The newest verified one stays: it must not be an older one when the next is made.
            verified(&stage).await?;
        }
        // Its Jobs are gone, and the cluster tells of it.
        until("no Job is left", MINUTE, || async {
            Ok(stage.list::<Job>().await?.is_empty())
        })
        .await?;
        until("the cluster tells of it", MINUTE, || async {
            Ok(cluster.status().await?.last_backup_time.is_some())
        })
        .await?;
        wrong_key(&stage).await?;
        let account = stage.account().await;
        ensure!(!account.contains(CANARY), "the secret key was told");
        Ok(())
    })
}

/// The newest backup was restored for a trial, with the etcd of the cluster, and has the hash that a follower told.
async fn verified(stage: &Stage) -> Result<()> {
    until("the newest backup is verified", MINUTE * 2, || async {
        let status = status(stage, "nightly").await?;
        let newest = status.backups.first().context("none is listed")?;
        let conditions = &status.conditions;
        let told = conditions.iter().find(|it| it.type_ == "Verified");
        let told = told.context("no condition Verified")?;
        let last = status.last_verified.as_ref();
        let last = last.with_context(|| told.message.clone())?;
        ensure!(last.compared == Compared::HashKv, "{}", told.message);
        Ok(last.id == newest.id && told.status == "True" && newest.verified.is_some())
    })
    .await
    .map(drop)
}

/// A key that the store does not know is told in its words, and the right one is enough.
async fn wrong_key(stage: &Stage) -> Result<()> {
    let [wrong, right] = ["wrong", CANARY].map(|key| credentials(key).to_string());
    stage.commands.apply(&wrong).await?.accepted()?;
    ask_again(stage, "nightly", "with a wrong key").await?;
    until("it fails", MINUTE * 2, || async {
        let status = status(stage, "nightly").await?;
        let told = status.conditions.first().context("no condition")?;
        Ok(status.phase == Some(BackupPhase::Failed) && told.message.contains("the store:"))
    })
    .await?;
    let events = stage.events_of("EtcdBackup", "nightly").await?;
    ensure!(
        events.iter().any(|(reason, _)| reason == "BackupFailed"),
        "{events:?}"
    );
    stage.commands.apply(&right).await?.accepted()?;
    completed(stage, "nightly", BackupPhase::Scheduled, 2)
        .await
        .map(drop)
}

#[test]
fn a_backup_on_a_claim_is_brought_back_with_the_tools_of_etcd_alone() -> Played {
    story(|stage| async move {
        let claim = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "store"},
                           "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
        stage.commands.apply(&claim.to_string()).await?.accepted()?;
        let spec = json!({"size": 1, "version": "v3.6.16", "storage": {"size": "1Gi"}});
        let cluster = stage.create("c", spec).await?;
        cluster.ready().await?;
        cluster.put("kept", "in the backup").await?;
        let spec =
            json!({"storageType": "Local", "local": {"claimName": "store"}, "compression": false});
        stage
            .commands
            .apply(&backup("once", &spec))
            .await?
            .accepted()?;
        let told = completed(&stage, "once", BackupPhase::Completed, 1).await?;
        cluster.put("kept", "no more").await?;
        let path = told.storage_path.context("no storagePath")?;
        let file = path.strip_prefix("local://store/").context(path.clone())?;
        restored(&stage, file).await
    })
}

/// etcd of the official image, on what `etcdutl` makes of the file.
async fn restored(stage: &Stage, file: &str) -> Result<()> {
    let mounts = json!([{"name": "store", "mountPath": "/store", "readOnly": true}, {"name": "work", "mountPath": "/work"}]);
    let image = "quay.io/coreos/etcd:v3.6.16";
    let spec = restricted(&json!({
        "initContainers": [{"name": "restore", "image": image, "imagePullPolicy": "Never", "volumeMounts": mounts,
            "command": ["/usr/local/bin/etcdutl", "snapshot", "restore", format!("/store/{file}"), "--data-dir", "/work/data"]}],
        "containers": [{"name": "etcd", "image": image, "imagePullPolicy": "Never", "volumeMounts": mounts,
            "command": ["/usr/local/bin/etcd", "--data-dir", "/work/data", "--listen-client-urls", "http://0.0.0.0:2379",
                        "--advertise-client-urls", "http://127.0.0.1:2379"]}],
        "volumes": [{"name": "store", "persistentVolumeClaim": {"claimName": "store"}}, {"name": "work", "emptyDir": {}}]}));
    let pod =
        json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "by-hand"}, "spec": spec});
    stage.commands.apply(&pod.to_string()).await?.accepted()?;
    let pool = Pool::new(Arc::new(DirectTcp));
    until("the backup serves", MINUTE * 2, || async {
        let pod = stage.api::<Pod>().get("by-hand").await?;
        let status = pod.status.context("no status")?;
        let target = Target {
            namespace: stage.namespace.clone(),
            pod: "by-hand".to_owned(),
            address: status.pod_ip.context("no address")?,
        };
        let member = pool.member(&target, &Security::Plain);
        let found = member
            .get(b"kept", Consistency::Linearizable)
            .await?
            .context("the key is not there")?;
        ensure!(found.value == b"in the backup", "{:?}", found.value);
        Ok(true)
    })
    .await
    .map(drop)
}

#[test]
fn what_cannot_be_a_backup_is_rejected_when_it_is_written() -> Played {
    story(|stage| async move {
        let s3 = into_s3("ns");
        let cases = [
            (json!({"storageType": "S3"}), "storageType S3 needs s3"),
            (
                json!({"storageType": "S3", "s3": s3, "schedule": "at night"}),
                "five fields of cron",
            ),
            (
                json!({"storageType": "S3", "s3": {"bucket": "b", "endpoint": "http://s3"}}),
                "allowHTTP",
            ),
            (
                json!({"storageType": "S3", "s3": s3, "retentionPolicy": {"maxAge": "a month"}}),
                "such as 30d",
            ),
            (
                json!({"storageType": "S3", "s3": s3, "encryption": {"recipients": ["AGE-SECRET-KEY-1"]}}),
                "public key of age",
            ),
            (json!({"storageType": "Tape"}), "storageType"),
            (
                json!({"storageType": "Local", "local": {"claimName": "x"}, "s3": s3}),
                "s3 is for storageType S3",
            ),
        ];
        for (spec, words) in cases {
            let answer = stage.commands.try_apply(&backup("bad", &spec)).await?;
            answer.refused_with(&[words])?;
        }
        // Accepted, and told: only the operator can know.
        let spec = json!({"storageType": "S3", "s3": s3, "timeZone": "Mars/Base", "schedule": "0 2 * * *"});
        stage
            .commands
            .apply(&backup("odd", &spec))
            .await?
            .accepted()?;
        until("the time zone is told", MINUTE, || async {
            let status = status(&stage, "odd").await?;
            let told = status.conditions.first().context("no condition")?;
            Ok(told.reason == "BackupInvalid" && told.message.contains("Mars/Base"))
        })
        .await?;
        let secrets = stage.list::<Secret>().await?;
        ensure!(secrets.is_empty(), "a Secret was made");
        Ok(())
    })
}

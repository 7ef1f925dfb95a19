//! A kube-apiserver that keeps its objects in one of our clusters, with TLS and authentication: as the guide has it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};
use api::names;
use api::v1alpha1::user::EtcdUser;
use e2e::{Answer, Cluster, KubeApiServer, MINUTE, Played, Stage, comes_true, deep, story, until};
use serde_json::{Value, json};
use tokio::task::JoinHandle;

/// In the guide it is five minutes, kube-apiserver's own.
const COMPACTION: &str = "--etcd-compaction-interval=5s";

fn user(name: &str, role: &str) -> String {
    json!({"apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdUser", "metadata": {"name": name},
           "spec": {"clusterName": "c", "roles": [role], "certificate": true}})
    .to_string()
}

fn spec() -> Value {
    json!({"size": 3, "version": "v3.6.16", "storage": {"size": "1Gi"},
           "security": {"tls": {}, "auth": {"enabled": true, "rootPasswordSecret": "root"}}})
}

async fn locked(stage: &Stage, manifests: &[String]) -> Result<Cluster> {
    let password = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "root"},
                          "stringData": {"password": "wheel"}});
    stage
        .commands
        .apply(&password.to_string())
        .await?
        .accepted()?;
    for manifest in manifests {
        stage.commands.apply(manifest).await?.accepted()?;
    }
    let cluster = stage.create("c", spec()).await?;
    cluster.ready_within(MINUTE * 2).await?;
    Ok(cluster)
}

async fn is_ready(stage: &Stage, name: &str) -> Result<()> {
    until(format!("user {name} is ready"), MINUTE, || async {
        let status = stage.api::<EtcdUser>().get(name).await?.status;
        let conditions = status.unwrap_or_default().conditions;
        let ready = conditions.iter().find(|it| it.type_ == "Ready");
        Ok(ready.context("no condition")?.status == "True")
    })
    .await
    .map(drop)
}

/// Asked as user root, which has the password of the cluster's Secret.
async fn etcdctl(stage: &Stage, words: &[&str]) -> Result<Answer> {
    let login = "exec c-0 -c etcd -- etcdctl --user root:wheel";
    let login: Vec<&str> = login.split(' ').collect();
    stage.commands.kubectl(&[&login[..], words].concat()).await
}

/// Objects, one after another, and all that were acknowledged.
struct Writer {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Result<BTreeMap<String, String>>>,
}

impl Writer {
    fn start(server: &Arc<KubeApiServer>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (server, stopped) = (Arc::clone(server), Arc::clone(&stop));
        let task = tokio::spawn(async move {
            let mut written = BTreeMap::new();
            let mut number = 0;
            while !stopped.load(Ordering::Relaxed) {
                let (name, value) = (format!("written-{}", number % 40), number.to_string());
                // A member that ends takes calls with it, and kube-apiserver says so to its callers.
                until(format!("{name} is written"), MINUTE, || async {
                    server.put(&name, &value).await.map(|()| true)
                })
                .await?;
                written.insert(name, value);
                number += 1;
            }
            Ok(written)
        });
        Self { stop, task }
    }

    async fn finish(self) -> Result<BTreeMap<String, String>> {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await?
    }
}

#[test]
fn a_kube_apiserver_keeps_its_objects_through_a_rollout_and_compacts() -> Played {
    story(|stage| async move {
        let cluster = locked(&stage, &[user("kube-apiserver", "root")]).await?;
        is_ready(&stage, "kube-apiserver").await?;
        let secret = names::user_secret("c", "kube-apiserver");
        let Some(server) = KubeApiServer::start(&cluster, &secret, &[COMPACTION]).await? else {
            return Ok(());
        };
        let server = Arc::new(server);
        let before = cluster.pods().await?;
        let writer = Writer::start(&server);
        let restart = "etcd.etcd.io/restartedAt";
        cluster
            .annotate(restart, Some("2026-11-19T12:00:00Z"))
            .await?;
        cluster.replaced(&before, 3).await?;
        let written = writer.finish().await?;
        ensure!(written.len() == 40, "{} objects", written.len());
        comes_true(&cluster, 3, "3.6.16").await?;
        let mut kept = server.values().await?;
        kept.retain(|name, _| name.starts_with("written-"));
        ensure!(kept == written, "{kept:?} instead of {written:?}");
        compacts(&stage).await
    })
}

/// kube-apiserver keeps the time of its last compaction under a key of its own, and the history before it is gone.
async fn compacts(stage: &Stage) -> Result<()> {
    until("kube-apiserver compacts", MINUTE, || async {
        let old = etcdctl(stage, &["get", "--rev=1", "x"]).await?;
        Ok(!old.ok && old.stderr.contains("compacted"))
    })
    .await?;
    let key = etcdctl(stage, &["get", "compact_rev_key"]).await?;
    let key = key.accepted()?;
    ensure!(key.contains("compact_rev_key"), "{key}");
    Ok(())
}

#[test]
fn without_the_role_root_a_kube_apiserver_serves_and_cannot_compact() -> Played {
    story(|stage| async move {
        if !deep() {
            e2e::skipped("it waits for what does not happen");
            return Ok(());
        }
        let role = json!({"apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdRole",
            "metadata": {"name": "registry"},
            "spec": {"clusterName": "c", "permissions": [
                {"type": "ReadWrite", "prefix": "/registry/"},
                {"type": "ReadWrite", "key": "compact_rev_key"}]}});
        let user = user("kube-apiserver", "registry");
        let cluster = locked(&stage, &[role.to_string(), user]).await?;
        is_ready(&stage, "kube-apiserver").await?;
        let secret = names::user_secret("c", "kube-apiserver");
        let Some(server) = KubeApiServer::start(&cluster, &secret, &[COMPACTION]).await? else {
            return Ok(());
        };
        server.put("colour", "blue").await?;
        until("its compaction is rejected", MINUTE, || async {
            let log = server.log().await?;
            let mut lines = log.lines().filter(|line| line.contains("compact"));
            Ok(lines.any(|line| line.contains("permission denied")))
        })
        .await?;
        etcdctl(&stage, &["get", "--rev=1", "x"])
            .await?
            .accepted()?;
        let kept = server.values().await?;
        ensure!(
            kept.get("colour").map(String::as_str) == Some("blue"),
            "{kept:?}"
        );
        server.stop().await
    })
}

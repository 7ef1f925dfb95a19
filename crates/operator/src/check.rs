//! `etcd-operator check`, which `helm test` runs: a cluster of one member is made as a user makes one, written to, read, and
//! deleted with its data, whatever came of it. It looks at the installation from outside: no rule of the operator is in here.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context as _, bail, ensure};
use api::EtcdCluster;
use etcd::{Consistency, DirectTcp, Member, Pool, Security, Target};
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::{Api, Client, ResourceExt as _};
use serde_json::json;

use crate::args::{Check, LogFormat};
use crate::telemetry;

/// Between two looks.
const PAUSE: Duration = Duration::from_secs(1);
const KEY: &[u8] = b"etcd-operator/check";
/// Volumes of this size are made everywhere.
const SIZE: &str = "1Gi";

/// Tries the installation; an error says what did not work.
pub async fn check(options: Check) -> anyhow::Result<()> {
    telemetry::start(LogFormat::Text, "info")?;
    let client = Client::try_default()
        .await
        .context("no API server is known: run this in a pod, or set $KUBECONFIG")?;
    let trial = Trial {
        clusters: Api::namespaced(client, &options.namespace),
        deadline: Instant::now() + Duration::from_secs(options.timeout_seconds),
        options,
    };
    let uid = trial.create().await?;
    let worked = trial.work().await;
    let deleted = trial.delete(&uid).await;
    worked?;
    deleted?;
    tracing::info!("the installation works");
    Ok(())
}

struct Trial {
    clusters: Api<EtcdCluster>,
    deadline: Instant,
    options: Check,
}

impl Trial {
    /// Makes the cluster; its UID.
    async fn create(&self) -> anyhow::Result<String> {
        let (name, options) = (&self.options.name, &self.options);
        let said = |text: &String| (!text.is_empty()).then(|| text.clone());
        let cluster = json!({
            "apiVersion": "etcd.etcd.io/v1alpha1",
            "kind": "EtcdCluster",
            "metadata": {"name": name},
            "spec": {
                "size": 1,
                "version": said(&options.etcd_version),
                "repository": said(&options.repository),
                "storage": {
                    "size": SIZE,
                    "storageClassName": said(&options.storage_class),
                    "claimPolicy": {"whenDeleted": "Delete"},
                },
            },
        });
        let cluster: EtcdCluster = serde_json::from_value(cluster)?;
        match self.clusters.create(&PostParams::default(), &cluster).await {
            Ok(made) => {
                tracing::info!(name, namespace = %options.namespace, "EtcdCluster made");
                Ok(made.uid().unwrap_or_default())
            }
            Err(kube::Error::Api(status)) if status.code == 409 => bail!(
                "EtcdCluster {name} is there already: if an earlier check left it behind, `kubectl --namespace {} delete etcdcluster {name}`",
                options.namespace
            ),
            Err(error) => Err(error).with_context(|| format!("EtcdCluster {name} cannot be made")),
        }
    }

    async fn work(&self) -> anyhow::Result<()> {
        self.await_ready().await?;
        let member = self.connect().await?;
        let value = self.options.name.as_bytes();
        member.put(KEY, value).await.context("write a key")?;
        let read = member.get(KEY, Consistency::Linearizable).await;
        let read = read.context("read the key")?.map(|found| found.value);
        ensure!(
            read.as_deref() == Some(value),
            "another value was read than was written"
        );
        tracing::info!("a key was written and read");
        Ok(())
    }

    async fn await_ready(&self) -> anyhow::Result<()> {
        let name = &self.options.name;
        let mut said =
            "the operator has said nothing of it: does it run, and does it watch this namespace?"
                .to_owned();
        loop {
            let cluster = self.clusters.get(name).await;
            let cluster = cluster.with_context(|| format!("read EtcdCluster {name}"))?;
            let conditions = cluster
                .status
                .into_iter()
                .flat_map(|status| status.conditions);
            for condition in conditions.filter(|condition| condition.type_ == "Ready") {
                let now = format!("{}: {}", condition.reason, condition.message);
                if now != said {
                    tracing::info!(ready = condition.status, "{now}");
                    said = now;
                }
                if condition.status == "True" {
                    return Ok(());
                }
            }
            self.pause(&format!("EtcdCluster {name} is not ready: {said}"))
                .await?;
        }
    }

    /// Through the Service, as clients come.
    async fn connect(&self) -> anyhow::Result<Member> {
        let Check {
            name, namespace, ..
        } = &self.options;
        let host = format!("{}.{namespace}.svc", api::names::client_service(name));
        loop {
            let found = tokio::net::lookup_host((host.as_str(), etcd::CLIENT_PORT)).await;
            let found = found.map(|mut found| found.next());
            let why = match found {
                Ok(Some(address)) => {
                    let target = Target {
                        namespace: namespace.clone(),
                        pod: host.clone(),
                        address: address.ip().to_string(),
                    };
                    let pool = Pool::new(Arc::new(DirectTcp));
                    let member = pool.member(&target, &Security::Plain);
                    match member.status().await {
                        Ok(_) => return Ok(member),
                        Err(error) => error.to_string(),
                    }
                }
                Ok(None) => "the name has no address".to_owned(),
                Err(error) => error.to_string(),
            };
            self.pause(&format!("no client reaches {host}: {why}"))
                .await?;
        }
    }

    /// Only what was made here, and until it is gone.
    async fn delete(&self, uid: &str) -> anyhow::Result<()> {
        let name = &self.options.name;
        let parameters = DeleteParams {
            preconditions: Some(Preconditions {
                uid: Some(uid.to_owned()),
                resource_version: None,
            }),
            ..DeleteParams::foreground()
        };
        let deleted = self.clusters.delete(name, &parameters).await;
        deleted.with_context(|| format!("delete EtcdCluster {name}"))?;
        // Its pod may take its time to end, also after a check that took all of its own.
        let deadline = Instant::now() + Duration::from_secs(self.options.timeout_seconds);
        while let Some(there) = self.clusters.get_opt(name).await? {
            if there.uid().as_deref() != Some(uid) {
                break;
            }
            ensure!(
                Instant::now() < deadline,
                "EtcdCluster {name} was deleted and does not go: `kubectl --namespace {} get pods,pvc`",
                self.options.namespace
            );
            tokio::time::sleep(PAUSE).await;
        }
        tracing::info!(name, "EtcdCluster deleted");
        Ok(())
    }

    /// Waits before the next look, unless the time is over.
    async fn pause(&self, why: &str) -> anyhow::Result<()> {
        ensure!(
            Instant::now() < self.deadline,
            "after {} s: {why}",
            self.options.timeout_seconds
        );
        tokio::time::sleep(PAUSE).await;
        Ok(())
    }
}

//! One `EtcdCluster`: what Kubernetes says about it, and its members, asked behind the operator's back.

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::EtcdCluster;
use api::v1alpha1::status::{EtcdClusterStatus, Phase};
use etcd::{Consistency, Credentials, Member, Target};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{DeleteParams, ListParams, Preconditions};

use crate::secrets;
use crate::stage::Stage;
use crate::wait::{MINUTE, until};

/// One cluster of a story.
#[derive(Clone)]
pub struct Cluster {
    /// Where it plays.
    pub stage: Stage,
    /// Its name.
    pub name: String,
}

impl Cluster {
    pub(crate) fn new(stage: Stage, name: &str) -> Self {
        Self {
            stage,
            name: name.to_owned(),
        }
    }

    /// The object.
    pub async fn get(&self) -> Result<EtcdCluster> {
        Ok(self.stage.api::<EtcdCluster>().get(&self.name).await?)
    }

    /// Its status.
    pub async fn status(&self) -> Result<EtcdClusterStatus> {
        Ok(self.get().await?.status.unwrap_or_default())
    }

    /// One of its conditions.
    pub async fn condition(&self, kind: &str) -> Result<Condition> {
        let conditions = self.status().await?.conditions;
        let found = conditions
            .into_iter()
            .find(|condition| condition.type_ == kind);
        found.with_context(|| format!("{} has no condition {kind}", self.name))
    }

    /// Waits until it is Ready in the generation it has now.
    pub async fn ready(&self) -> Result<Duration> {
        self.ready_within(MINUTE).await
    }

    /// The same with another patience.
    pub async fn ready_within(&self, patience: Duration) -> Result<Duration> {
        until(format!("{} is Ready", self.name), patience, || async {
            let object = self.get().await?;
            let generation = object.metadata.generation;
            let conditions = object.status.unwrap_or_default().conditions;
            let ready = conditions
                .iter()
                .find(|condition| condition.type_ == "Ready")
                .context("no condition Ready")?;
            anyhow::ensure!(ready.status == "True", "{}", ready.message);
            Ok(ready.observed_generation == generation)
        })
        .await
    }

    /// Waits for a phase.
    pub async fn phase(&self, wanted: Phase) -> Result<Duration> {
        until(format!("{} is {wanted:?}", self.name), MINUTE, || async {
            let status = self.status().await?;
            anyhow::ensure!(status.phase == Some(wanted), "it is {:?}", status.phase);
            Ok(true)
        })
        .await
    }

    /// Waits until a condition is `True` with all these words in its message.
    pub async fn complains(&self, kind: &str, words: &[&str]) -> Result<String> {
        self.complains_within(MINUTE, kind, words).await
    }

    /// The same, with patience.
    pub async fn complains_within(
        &self,
        patience: Duration,
        kind: &str,
        words: &[&str],
    ) -> Result<String> {
        let what = format!("{} has {kind}=True with {words:?}", self.name);
        let matched = OnceLock::new();
        until(what, patience, || async {
            let condition = self.condition(kind).await?;
            let told = words.iter().all(|word| condition.message.contains(word));
            anyhow::ensure!(
                condition.status == "True" && told,
                "{kind}={} {}: {}",
                condition.status,
                condition.reason,
                condition.message
            );
            Ok(matched.set(condition.message).is_ok())
        })
        .await?;
        matched.into_inner().context("nothing was told")
    }

    /// Deletes the object and waits until it is gone.
    pub async fn delete(&self) -> Result<Duration> {
        let objects = self.stage.api::<EtcdCluster>();
        objects.delete(&self.name, &DeleteParams::default()).await?;
        until(format!("{} is gone", self.name), MINUTE, || async {
            Ok(objects.get_opt(&self.name).await?.is_none())
        })
        .await
    }

    /// Its pods by name.
    pub async fn pods(&self) -> Result<BTreeMap<String, Pod>> {
        let ours = ListParams::default().labels(&format!("etcd.etcd.io/cluster={}", self.name));
        let pods = self.stage.api::<Pod>().list(&ours).await?.items;
        Ok(pods
            .into_iter()
            .filter_map(|pod| Some((pod.metadata.name.clone()?, pod)))
            .collect())
    }

    /// A handle for every member whose pod has an address, by name.
    pub async fn members(&self) -> Result<BTreeMap<String, Member>> {
        let pods = self.pods().await?;
        let credentials = self.credentials(&pods).await?;
        let alive = pods.into_iter().filter(|(_, pod)| {
            pod.metadata.deletion_timestamp.is_none()
                && pod
                    .status
                    .as_ref()
                    .is_some_and(|status| status.pod_ip.is_some())
        });
        Ok(alive
            .map(|(name, pod)| {
                let target = Target {
                    namespace: self.stage.namespace.clone(),
                    pod: name.clone(),
                    address: pod
                        .status
                        .and_then(|status| status.pod_ip)
                        .unwrap_or_default(),
                };
                let place = (self.name.as_str(), self.stage.namespace.as_str());
                let security = secrets::security(credentials.as_ref(), place, &name);
                (name, self.stage.pool.member(&target, &security))
            })
            .collect())
    }

    /// What a client presents, where the pods expect something.
    pub(crate) async fn credentials(
        &self,
        pods: &BTreeMap<String, Pod>,
    ) -> Result<Option<Arc<Credentials>>> {
        if !secrets::is_locked(pods.values()) {
            return Ok(None);
        }
        let (client, namespace) = (&self.stage.client, &self.stage.namespace);
        let published = secrets::credentials(client, namespace, &self.name).await?;
        Ok(Some(Arc::new(published)))
    }

    /// One member.
    pub async fn member(&self, name: &str) -> Result<Member> {
        let mut members = self.members().await?;
        members
            .remove(name)
            .with_context(|| format!("no address for {name}"))
    }

    /// Any member that answers.
    pub async fn any_member(&self) -> Result<Member> {
        for member in self.members().await?.into_values() {
            if member.status().await.is_ok() {
                return Ok(member);
            }
        }
        anyhow::bail!("no member of {} answers", self.name)
    }

    /// Name of the pod that leads.
    pub async fn leader(&self) -> Result<String> {
        for (name, member) in self.members().await? {
            if let Ok(status) = member.status().await
                && status.leader == status.member_id
            {
                return Ok(name);
            }
        }
        anyhow::bail!("no member of {} leads", self.name)
    }

    /// Writes one key.
    pub async fn put(&self, key: &str, value: &str) -> Result<()> {
        let member = self.any_member().await?;
        member.put(key.as_bytes(), value.as_bytes()).await?;
        Ok(())
    }

    /// Reads one key from every member, each confirmed by a quorum, and returns what all agree on.
    pub async fn value(&self, key: &str) -> Result<Option<String>> {
        let mut answers = Vec::new();
        for member in self.members().await?.into_values() {
            let read = member
                .get(key.as_bytes(), Consistency::Linearizable)
                .await?;
            answers.push(read.map(|read| String::from_utf8_lossy(&read.value).into_owned()));
        }
        answers.dedup();
        anyhow::ensure!(
            answers.len() == 1,
            "the members differ on {key}: {answers:?}"
        );
        Ok(answers.pop().flatten())
    }

    /// Asks for another size.
    pub async fn resize(&self, size: u32) -> Result<()> {
        let patch = format!(r#"{{"spec":{{"size":{size}}}}}"#);
        let answer = self.stage.commands.patch(&self.name, &patch).await?;
        answer.accepted().map(drop)
    }

    /// Waits until every pod has been replaced and all of them are ready members of `size`.
    pub async fn replaced(&self, before: &BTreeMap<String, Pod>, size: u32) -> Result<Duration> {
        let size = usize::try_from(size)?;
        let what = format!("every pod of {} is another one", self.name);
        until(what, MINUTE * 3, || async {
            let pods = self.pods().await?;
            let former: Vec<&String> = pods
                .iter()
                .filter(|(name, pod)| {
                    let old = before.get(*name);
                    old.is_some_and(|old| old.metadata.uid == pod.metadata.uid)
                })
                .map(|(name, _)| name)
                .collect();
            anyhow::ensure!(former.is_empty(), "still there: {former:?}");
            Ok(pods.len() == size)
        })
        .await?;
        self.ready_within(MINUTE * 2).await
    }

    /// Waits for an event of a reason that says certain words: it is written after the step that it reports.
    pub async fn has_event(&self, reason: &str, words: &str) -> Result<()> {
        let what = format!("an event {reason} says {words:?}");
        until(what, MINUTE, || async {
            let events = self.stage.events_of("EtcdCluster", &self.name).await?;
            let told = |(of, text): &(String, String)| of == reason && text.contains(words);
            ensure!(events.iter().any(told), "{events:?}");
            Ok(true)
        })
        .await
        .map(drop)
    }

    /// Sets an annotation of the object, or removes it.
    pub async fn annotate(&self, name: &str, value: Option<&str>) -> Result<()> {
        let word = match value {
            Some(value) => format!("{name}={value}"),
            None => format!("{name}-"),
        };
        let kind = "etcdclusters.etcd.etcd.io";
        let arguments = ["annotate", "--overwrite", kind, &self.name, &word];
        let answer = self.stage.commands.kubectl(&arguments).await?;
        answer.accepted().map(drop)
    }

    /// Deletes exactly this pod, at once.
    pub async fn kill(&self, pod: &Pod) -> Result<()> {
        let name = pod
            .metadata
            .name
            .as_deref()
            .context("a pod without a name")?;
        let now = DeleteParams {
            grace_period_seconds: Some(0),
            preconditions: Some(Preconditions {
                uid: pod.metadata.uid.clone(),
                resource_version: None,
            }),
            ..DeleteParams::default()
        };
        self.stage.api::<Pod>().delete(name, &now).await?;
        Ok(())
    }
}

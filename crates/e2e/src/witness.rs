//! A task that looks on while a story plays: what the status said meanwhile, and which pods went when.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use api::v1alpha1::status::{EtcdClusterStatus, Phase};
use k8s_openapi::api::core::v1::Pod;
use tokio::task::JoinHandle;

use crate::cluster::Cluster;

/// How often to look.
const PERIOD: Duration = Duration::from_millis(100);

/// The task that is looking; to be asked at the end.
pub struct Witness {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Seen>,
}

/// What was seen. What lasted less than a tenth of a second may not have been.
#[derive(Debug, Default)]
pub struct Seen {
    /// Every phase, once.
    pub phases: Vec<Phase>,
    /// The message of every condition.
    pub messages: BTreeSet<String>,
    /// Every release that the status named, of the cluster or of a member.
    pub versions: BTreeSet<String>,
    /// The pods that were replaced, in this order.
    pub replaced: Vec<String>,
    /// How many of the first pods were not ready at once.
    pub most_away: usize,
}

impl Witness {
    /// Begins to look at the pods that there are now.
    pub async fn start(cluster: &Cluster) -> Result<Self> {
        let pods = uids(&cluster.pods().await?);
        let stop = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(look(cluster.clone(), pods, Arc::clone(&stop)));
        Ok(Self { stop, task })
    }

    /// Tells.
    pub async fn finish(self) -> Result<Seen> {
        self.stop.store(true, Ordering::SeqCst);
        Ok(self.task.await?)
    }
}

impl Seen {
    /// Whether some message holds this.
    pub fn was_told(&self, part: &str) -> bool {
        self.messages.iter().any(|message| message.contains(part))
    }
}

async fn look(
    cluster: Cluster,
    mut known: BTreeMap<String, String>,
    stop: Arc<AtomicBool>,
) -> Seen {
    let mut seen = Seen::default();
    let mut ticks = tokio::time::interval(PERIOD);
    while !stop.load(Ordering::SeqCst) {
        ticks.tick().await;
        // A look that fails is repeated.
        if let Ok(status) = cluster.status().await {
            seen.hear(status);
        }
        let Ok(pods) = cluster.pods().await else {
            continue;
        };
        for (name, uid) in uids(&pods) {
            let Some(before) = known.get_mut(&name) else {
                continue;
            };
            if *before != uid {
                *before = uid;
                seen.replaced.push(name);
            }
        }
        let away = |name: &&String| !pods.get(*name).is_some_and(is_ready);
        seen.most_away = seen.most_away.max(known.keys().filter(away).count());
    }
    seen
}

impl Seen {
    fn hear(&mut self, status: EtcdClusterStatus) {
        if let Some(phase) = status.phase
            && !self.phases.contains(&phase)
        {
            self.phases.push(phase);
        }
        let conditions = status.conditions.into_iter();
        self.messages
            .extend(conditions.map(|condition| condition.message));
        let members = status.members.into_iter();
        self.versions
            .extend(members.filter_map(|member| member.version));
        self.versions.extend(status.version);
    }
}

fn uids(pods: &BTreeMap<String, Pod>) -> BTreeMap<String, String> {
    let uid = |pod: &Pod| pod.metadata.uid.clone();
    pods.iter()
        .filter_map(|(name, pod)| Some((name.clone(), uid(pod)?)))
        .collect()
}

fn is_ready(pod: &Pod) -> bool {
    let mut conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    pod.metadata.deletion_timestamp.is_none()
        && conditions.any(|condition| condition.type_ == "Ready" && condition.status == "True")
}

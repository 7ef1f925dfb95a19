//! Carrying out faults and edits. Each looks first whether a quorum survives it, and waits a while for that; what it
//! takes away it gives back, also when the run ends in the midst of it.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::{Cluster, MINUTE, Operator, until};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::Api;
use kube::api::{DeleteParams, ListParams};
use rustix::process::Signal;

use crate::nodes::{Process, Tool};
use crate::schedule::{Edit, Fault, Victim};
use crate::timeline::Timeline;
use crate::{database, fill, health};

/// How long a fault waits for a cluster that can bear it.
const PATIENCE: Duration = MINUTE;

/// The hands of a run.
pub(crate) struct Faults {
    cluster: Cluster,
    tool: Option<Tool>,
    timeline: Timeline,
    /// What must be given back.
    taken: Vec<Taken>,
}

enum Taken {
    Frozen(Process),
    Cut(String),
    Killed(String),
}

/// How far a fault reaches.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Range {
    Member,
    Node,
}

/// A member that may be hit.
struct Target {
    pod: Pod,
    name: String,
    node: String,
}

impl Target {
    fn uid(&self) -> &str {
        self.pod.metadata.uid.as_deref().unwrap_or_default()
    }
}

impl Faults {
    pub(crate) fn new(cluster: &Cluster, tool: Option<Tool>, timeline: &Timeline) -> Self {
        Self {
            cluster: cluster.clone(),
            tool,
            timeline: timeline.clone(),
            taken: Vec::new(),
        }
    }

    pub(crate) fn cluster(&self) -> &Cluster {
        &self.cluster
    }

    /// Breaks something, holds it as long as the fault says, and repairs it. Returns what exactly was hit.
    pub(crate) async fn inflict(&mut self, fault: Fault) -> Result<String> {
        match fault {
            Fault::KillPod(victim) => self.kill_pod(victim).await,
            Fault::LoseVolume(victim) => self.lose_volume(victim).await,
            Fault::KillOperator => kill_operator(&self.cluster).await,
            Fault::CrashProcess(victim) => self.crash(victim).await,
            Fault::Freeze(victim, time) => self.freeze(victim, time).await,
            Fault::CutNode(victim, time) => self.cut(victim, time, false).await,
            Fault::CutPods(victim, time) => self.cut(victim, time, true).await,
            Fault::KillNode(victim, time) => self.kill_node(victim, time).await,
            Fault::RestartKubelet(victim) => {
                // The containers go on; no quorum depends on it.
                let target = self.find(victim).await?;
                let tool = self.tool()?;
                tool.restart(&format!("kubelet-{}", target.node)).await?;
                Ok(target.node)
            }
            Fault::RestartApiServer => {
                self.tool()?.restart("apiserver").await?;
                Ok(String::new())
            }
            Fault::FlipBytes(victim) => self.flip_bytes(victim).await,
            Fault::FillQuota => {
                let hit = fill::fill(&self.cluster).await?;
                self.timeline.note("fault", &hit);
                fill::forget(&self.cluster).await?;
                Ok("the filler is deleted again".to_owned())
            }
        }
    }

    /// Asks for a change, as a user does.
    pub(crate) async fn edit(&self, edit: Edit, round: usize) -> Result<()> {
        match edit {
            Edit::Resize(size) => self.cluster.resize(size).await,
            Edit::Restart => {
                let word = format!("chaos-{round}");
                let name = "etcd.etcd.io/restartedAt";
                self.cluster.annotate(name, Some(&word)).await
            }
            Edit::RotateAuthority => {
                let word = format!("chaos-{round}");
                let name = "etcd.etcd.io/rotate-ca";
                self.cluster.annotate(name, Some(&word)).await
            }
            Edit::Resources(cpu) => {
                let patch =
                    format!(r#"{{"spec":{{"resources":{{"requests":{{"cpu":"{cpu}m"}}}}}}}}"#);
                let commands = &self.cluster.stage.commands;
                let answer = commands.patch(&self.cluster.name, &patch).await?;
                answer.accepted().map(drop)
            }
        }
    }

    /// Gives back everything; tells what could not be.
    pub(crate) async fn give_back(&mut self) -> Vec<anyhow::Error> {
        let mut errors = Vec::new();
        while let Some(taken) = self.taken.pop() {
            let given = match &taken {
                Taken::Frozen(process) => process.signal(Signal::CONT),
                Taken::Cut(node) => match self.tool() {
                    Ok(tool) => tool.join(node).await,
                    Err(error) => Err(error),
                },
                Taken::Killed(node) => match self.tool() {
                    Ok(tool) => tool.start(node).await,
                    Err(error) => Err(error),
                },
            };
            errors.extend(given.err());
        }
        errors
    }

    async fn kill_pod(&self, victim: Victim) -> Result<String> {
        let target = self.spare(victim, Range::Member).await?;
        self.cluster.kill(&target.pod).await?;
        Ok(target.name)
    }

    async fn lose_volume(&self, victim: Victim) -> Result<String> {
        let target = self.spare(victim, Range::Member).await?;
        let claims = self.cluster.stage.api::<PersistentVolumeClaim>();
        let claim = format!("data-{}", target.name);
        claims.delete(&claim, &DeleteParams::default()).await?;
        self.cluster.kill(&target.pod).await?;
        Ok(target.name)
    }

    async fn crash(&self, victim: Victim) -> Result<String> {
        let target = self.spare(victim, Range::Member).await?;
        let process = Process::of_pod(target.uid())?;
        process.signal(Signal::KILL)?;
        Ok(format!("{}, process {}", target.name, process.id))
    }

    async fn flip_bytes(&self, victim: Victim) -> Result<String> {
        let target = self.spare(victim, Range::Member).await?;
        let found = e2e::database(&self.cluster, &target.name).await?;
        let database = found.context("its database file is not on this machine")?;
        let process = Process::of_pod(target.uid())?;
        // Without a pause between the two, so that nothing comes between: this process must not answer from what it
        // finds now.
        process.stop()?;
        let flipped = database::flip(&database);
        process.signal(Signal::KILL)?;
        let flipped = flipped?;
        Ok(format!("{}, {flipped} bytes", target.name))
    }

    async fn freeze(&mut self, victim: Victim, time: Duration) -> Result<String> {
        let target = self.spare(victim, Range::Member).await?;
        let process = Process::of_pod(target.uid())?;
        let id = process.id;
        process.signal(Signal::STOP)?;
        self.take(&target.name, Taken::Frozen(process));
        tokio::time::sleep(time).await;
        self.repair().await?;
        Ok(format!("{}, process {id}", target.name))
    }

    async fn cut(&mut self, victim: Victim, time: Duration, pods_only: bool) -> Result<String> {
        let target = self.spare(victim, Range::Node).await?;
        self.take(&target.node, Taken::Cut(target.node.clone()));
        self.tool()?.cut(&target.node, time, pods_only).await?;
        tokio::time::sleep(time).await;
        self.repair().await?;
        Ok(format!("{} with {}", target.node, target.name))
    }

    async fn kill_node(&mut self, victim: Victim, time: Duration) -> Result<String> {
        let target = self.spare(victim, Range::Node).await?;
        let named = self.nodes_of_name_servers().await?;
        // The only name server is nothing that the operator could have two of.
        ensure!(
            !named.contains(&target.node),
            "the name server runs on {}",
            target.node
        );
        self.take(&target.node, Taken::Killed(target.node.clone()));
        self.tool()?.kill(&target.node).await?;
        tokio::time::sleep(time).await;
        self.repair().await?;
        Ok(format!("{} with {}", target.node, target.name))
    }

    /// The begin of a fault that lasts is noted here; its end, by the caller.
    fn take(&mut self, target: &str, taken: Taken) {
        self.timeline.note("fault", &format!("{target} is hit"));
        self.taken.push(taken);
    }

    async fn repair(&mut self) -> Result<()> {
        let mut errors = self.give_back().await;
        errors.pop().map_or(Ok(()), Err)
    }

    /// The victim, once a quorum can do without it, and without all others that the fault reaches.
    async fn spare(&self, victim: Victim, range: Range) -> Result<Target> {
        let what = format!("a quorum can do without {victim}");
        until(what, PATIENCE, || async {
            self.spared_now(victim, range).await.map(drop)?;
            Ok(true)
        })
        .await?;
        self.spared_now(victim, range).await
    }

    async fn spared_now(&self, victim: Victim, range: Range) -> Result<Target> {
        let target = self.find(victim).await?;
        let hit: BTreeSet<String> = match range {
            Range::Member => [target.name.clone()].into(),
            Range::Node => {
                let pods = self.cluster.pods().await?;
                let there = |pod: &Pod| node(pod).is_some_and(|node| *node == target.node);
                let pods = pods.into_iter().filter(|(_, pod)| there(pod));
                pods.map(|(name, _)| name).collect()
            }
        };
        let voters = health::voters(&self.cluster).await?;
        ensure!(voters.can_bear(&hit), "{voters:?} without {hit:?}");
        Ok(target)
    }

    async fn find(&self, victim: Victim) -> Result<Target> {
        let leader = self.cluster.leader().await?;
        let mut pods = self.cluster.pods().await?;
        let name = match victim {
            Victim::Leader => leader,
            Victim::Follower(number) => {
                pods.remove(&leader);
                let index = number.checked_rem(u64::try_from(pods.len())?);
                let index = usize::try_from(index.context("no member follows")?)?;
                pods.keys().nth(index).context("no member follows")?.clone()
            }
        };
        let pod = self.cluster.pods().await?.remove(&name);
        let pod = pod.context("the pod is gone")?;
        let node = node(&pod).context("the pod has no node")?.clone();
        Ok(Target { pod, name, node })
    }

    async fn nodes_of_name_servers(&self) -> Result<BTreeSet<String>> {
        let client = self.cluster.stage.client.clone();
        let pods: Api<Pod> = Api::namespaced(client, "kube-system");
        let pods = pods.list(&ListParams::default()).await?.items;
        Ok(pods.iter().filter_map(node).cloned().collect())
    }

    fn tool(&self) -> Result<&Tool> {
        self.tool.as_ref().context("the nodes are out of reach")
    }
}

/// Ends every pod of the operator at once.
pub(crate) async fn kill_operator(cluster: &Cluster) -> Result<String> {
    let operator = Operator::disturb(&cluster.stage.client).await?;
    let pods = operator.pods().await?;
    let names: Vec<String> = pods
        .into_iter()
        .filter_map(|pod| pod.metadata.name)
        .collect();
    for name in &names {
        operator.kill(name, Some(0)).await?;
    }
    Ok(names.join(", "))
}

fn node(pod: &Pod) -> Option<&String> {
    pod.spec.as_ref()?.node_name.as_ref()
}

//! Looking at clusters while they live: objects as Kubernetes changes them, and etcd itself, asked behind the operator's
//! back. Nothing here changes anything but the keys of [`Writer`].

mod forward;
mod published;
mod write;

use std::collections::{BTreeMap, BTreeSet};
use std::io::BufReader;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::spawn;
use std::time::Duration;

use anyhow::{Context, Result};
use etcd::{Connect, Consistency, DirectTcp, Member, Pool, Security};
use serde::Deserialize;
use serde_json::Value;
use tokio::runtime::Runtime;

use self::forward::Forward;
use self::published::Published;
pub(crate) use self::write::{Writer, Written};
use crate::cluster::Target;

/// The objects of one kind in one namespace, kept current by one `kubectl get --watch`: asking again every time would
/// cost more processor time than what is measured.
pub(crate) struct Watch {
    child: Child,
    events: Receiver<Event>,
    /// By name.
    pub(crate) objects: BTreeMap<String, Value>,
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    object: Value,
}

impl Watch {
    pub(crate) fn start(target: &Target, namespace: &str, kind: &str) -> Result<Self> {
        let mut command = target.command("kubectl");
        command
            .args(["get", kind, "--namespace", namespace, "--watch"])
            .args(["--output-watch-events", "-o", "json"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn().context("start kubectl")?;
        let stdout = child.stdout.take().context("kubectl has no output")?;
        let (sender, events) = channel();
        drop(spawn(move || pass_on(BufReader::new(stdout), &sender)));
        let objects = BTreeMap::new();
        Ok(Self {
            child,
            events,
            objects,
        })
    }

    /// Waits for changes, at most this long, and takes in all there are. Whether there was one.
    pub(crate) fn wait(&mut self, limit: Duration) -> bool {
        let Ok(first) = self.events.recv_timeout(limit) else {
            return false;
        };
        self.take(first);
        while let Ok(next) = self.events.try_recv() {
            self.take(next);
        }
        true
    }

    fn take(&mut self, event: Event) {
        let Some(name) = text(&event.object, "/metadata/name") else {
            return;
        };
        if event.kind == "DELETED" {
            self.objects.remove(name);
        } else {
            self.objects.insert(name.to_owned(), event.object);
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn pass_on(stdout: impl std::io::Read, events: &Sender<Event>) {
    for event in serde_json::Deserializer::from_reader(stdout).into_iter() {
        let Ok(event) = event else { return };
        if events.send(event).is_err() {
            return;
        }
    }
}

/// The text at a JSON pointer.
pub(crate) fn text<'a>(object: &'a Value, pointer: &str) -> Option<&'a str> {
    object.pointer(pointer)?.as_str()
}

/// Connections to members, through which everything is asked that only etcd knows.
pub(crate) struct Etcd {
    runtime: Runtime,
    pool: Pool,
    deadline: Duration,
    published: Option<Published>,
}

impl Etcd {
    /// The same for clusters of one namespace that may have TLS.
    pub(crate) fn of(target: &Target, namespace: &str) -> Result<Self> {
        let published = Some(Published::start(target, namespace)?);
        Ok(Self {
            published,
            ..Self::new(target)?
        })
    }

    /// By the pods' addresses where this machine has routes to them, else through `kubectl port-forward`.
    pub(crate) fn new(target: &Target) -> Result<Self> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let (connect, deadline): (Arc<dyn Connect>, _) = if target.is_local() {
            (Arc::new(DirectTcp), Duration::from_millis(500))
        } else {
            (Arc::new(Forward::new(target)), Duration::from_secs(5))
        };
        Ok(Self {
            runtime,
            pool: Pool::new(connect),
            deadline,
            published: None,
        })
    }

    pub(crate) fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// Lets time pass while the connections are looked after. A member that is told to stop asks its clients to leave, and
    /// waits for seconds if there is no listener.
    pub(crate) fn rest(&self, time: Duration) {
        self.run(async { tokio::time::sleep(time).await });
    }

    /// The member in a pod; `None` until the pod has an address, or once it is on its way out.
    pub(crate) fn member(&self, pod: &Value) -> Option<Member> {
        if pod.pointer("/metadata/deletionTimestamp").is_some() {
            return None;
        }
        self.address(pod)
    }

    /// The same, also for a pod on its way out.
    fn address(&self, pod: &Value) -> Option<Member> {
        let target = etcd::Target {
            namespace: text(pod, "/metadata/namespace")?.to_owned(),
            pod: text(pod, "/metadata/name")?.to_owned(),
            address: text(pod, "/status/podIP")?.to_owned(),
        };
        let security = match &self.published {
            Some(published) => published.security(pod)?,
            None => Security::Plain,
        };
        let member = self.pool.member(&target, &security);
        Some(member.with_deadline(self.deadline))
    }

    /// Whether exactly these pods are voters of one cluster, confirmed by a quorum, and each of them is well.
    pub(crate) fn are_healthy_voters(&self, pods: &BTreeMap<String, Value>, size: usize) -> bool {
        let members: Vec<Member> = pods.values().filter_map(|pod| self.member(pod)).collect();
        members.len() == size && self.run(healthy_voters(&members))
    }

    /// The same, and each of them answers a linearizable read; then their IDs.
    pub(crate) fn serving_voters(
        &self,
        pods: &BTreeMap<String, Value>,
        size: usize,
    ) -> Option<BTreeSet<u64>> {
        if !self.are_healthy_voters(pods, size) {
            return None;
        }
        let serve = |pod| {
            let member = self.member(pod)?;
            self.run(member.read_linearizable()).ok()?;
            Some(self.run(member.status()).ok()?.member_id)
        };
        pods.values().map(serve).collect()
    }

    /// The pod that leads.
    pub(crate) fn leader(&self, pods: &BTreeMap<String, Value>) -> Option<String> {
        pods.values()
            .filter_map(|pod| self.member(pod))
            .find(|member| {
                let status = self.run(member.status());
                status.is_ok_and(|status| status.leader == status.member_id)
            })
            .map(|member| member.target().pod.clone())
    }
}

async fn healthy_voters(members: &[Member]) -> bool {
    for member in members {
        let Ok(status) = member.status().await else {
            return false;
        };
        if status.is_learner || status.leader == 0 || !status.errors.is_empty() {
            return false;
        }
    }
    let Some(first) = members.first() else {
        return false;
    };
    let Ok(list) = first.member_list(Consistency::Linearizable).await else {
        return false;
    };
    let voters = list.members.iter().filter(|member| !member.is_learner);
    list.members.len() == members.len() && voters.count() == members.len()
}

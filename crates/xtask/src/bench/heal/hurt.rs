//! How nodes are broken, and repaired however the measurement ends; and how a database is filled.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use etcd::{Cause, Member};
use tokio::task::JoinSet;

use crate::bench::place::Place;
use crate::cluster::{self, Command, Target};
use crate::deploy::NAMESPACE;
use crate::live::text;
use crate::tools::{output, run};

const TAINT: &str = "node.kubernetes.io/out-of-service";
/// Keys that are written over and over, and what is written.
const KEYS: usize = 32;
const VALUE: usize = 64 << 10;
/// More than any quota of a bench.
const ROUNDS: usize = 1000;
const DEADLINE: Duration = Duration::from_mins(1);

/// A node with members, and those members, but with neither the name server nor the operator: their absence would be
/// measured as well.
pub(super) fn quiet_node(place: &Place<'_>) -> Result<(String, Vec<String>)> {
    let mut busy = BTreeSet::new();
    for namespace in ["kube-system", NAMESPACE] {
        let mut kubectl = place.target.command("kubectl");
        kubectl.args(["get", "pods", "--namespace", namespace, "-o"]);
        let nodes = output(kubectl.arg("jsonpath={.items[*].spec.nodeName}"))?;
        busy.extend(nodes.split_whitespace().map(str::to_owned));
    }
    let pods = &place.pods.objects;
    let home = |name: &String| Some(text(pods.get(name)?, "/spec/nodeName")?.to_owned());
    let node = pods.keys().filter_map(home).find(|it| !busy.contains(it));
    let node = node.context("every member shares its node with the name server or the operator")?;
    let members = pods
        .keys()
        .filter(|name| home(name).as_ref() == Some(&node));
    let members = members.cloned().collect();
    Ok((node, members))
}

/// A node that is whole again at the end.
pub(super) struct BrokenNode<'a> {
    target: &'a Target,
    name: String,
    how: How,
}

#[derive(Clone, Copy)]
enum How {
    Tainted,
    Killed(u8),
    Repaired,
}

impl<'a> BrokenNode<'a> {
    /// As a person does who knows that it is off.
    pub(super) fn taint(target: &'a Target, name: &str) -> Result<Self> {
        let broken = Self::new(target, name, How::Tainted);
        broken.kubectl(&[
            "taint",
            "node",
            name,
            &format!("{TAINT}=nodeshutdown:NoExecute"),
        ])?;
        Ok(broken)
    }

    pub(super) fn kill(target: &'a Target, name: &str) -> Result<Self> {
        let number = name.strip_prefix('n').and_then(|it| it.parse().ok());
        let node = number.with_context(|| format!("{name} is no node of the local cluster"))?;
        let broken = Self::new(target, name, How::Killed(node));
        cluster::run(Command::KillNode { node }, None)?;
        Ok(broken)
    }

    fn new(target: &'a Target, name: &str, how: How) -> Self {
        let name = name.to_owned();
        Self { target, name, how }
    }

    /// Until it serves again.
    pub(super) fn repair(mut self) -> Result<()> {
        self.give_back()?;
        let node = format!("node/{}", self.name);
        self.kubectl(&["wait", &node, "--for=condition=Ready", "--timeout=90s"])
    }

    fn give_back(&mut self) -> Result<()> {
        match self.how {
            How::Tainted => self.kubectl(&["taint", "node", &self.name, &format!("{TAINT}-")])?,
            How::Killed(node) => cluster::run(Command::StartNode { node }, None)?,
            How::Repaired => {}
        }
        self.how = How::Repaired;
        Ok(())
    }

    fn kubectl(&self, words: &[&str]) -> Result<()> {
        run(self.target.command("kubectl").args(words))
    }
}

impl Drop for BrokenNode<'_> {
    fn drop(&mut self) {
        if let Err(error) = self.give_back() {
            eprintln!("{} is left broken: {error:#}", self.name);
        }
    }
}

/// Writes until etcd refuses. All of it is history of a few keys, which can be forgotten.
pub(super) fn fill(place: &Place<'_>) -> Result<()> {
    let pods = &place.pods.objects;
    let leader = place.etcd.leader(pods).context("no member leads")?;
    let leader = pods.get(&leader).and_then(|pod| place.etcd.member(pod));
    let leader = leader
        .context("the leader is gone")?
        .with_deadline(DEADLINE);
    place.etcd.run(async {
        for _round in 0..ROUNDS {
            let mut writes: JoinSet<_> = (0..KEYS)
                .map(|key| is_refused(leader.clone(), key))
                .collect();
            while let Some(refused) = writes.join_next().await {
                if refused?? {
                    return Ok(());
                }
            }
        }
        bail!("the quota was never reached")
    })
}

async fn is_refused(member: Member, key: usize) -> Result<bool> {
    let key = format!("fill/{key}");
    match member.put(key.as_bytes(), &vec![b'.'; VALUE]).await {
        Ok(_) => Ok(false),
        Err(error) if matches!(error.cause, Cause::NoSpace) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

//! From a fault to three healthy voters, beside the start of one bare pod in the same run, while a client writes. Healthy
//! is what etcd itself says: three voters, each answering a linearizable read, and none of those that were lost.

mod chronicle;
mod figures;
mod hurt;

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use self::chronicle::Chronicle;
use self::figures::Measured;
use self::hurt::{BrokenNode, fill, quiet_node};
use super::floors::start_pod;
use super::place::Place;
use crate::cluster::Target;
use crate::live::{Writer, text};

/// How long a node may be silent, in seconds.
const PATIENCE: u32 = 20;
const QUOTA: &str = "100Mi";
const PAUSED: &str = "etcd.etcd.io/paused";
const RECOVER: &str = "etcd.etcd.io/recover=";
const OBJECT: &str = "etcdclusters.etcd.etcd.io";
const THREE: usize = 3;
/// Writes before the fault, so that there is something to lose and the log is more than its beginning.
const HISTORY: u64 = 150;

/// What breaks. The variants are documented for `--help`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum Fault {
    /// Claim and pod of a follower are deleted
    Volume,
    /// A node gets the taint out-of-service
    Node,
    /// A node loses its power
    SilentNode,
    /// A database reaches its quota of 100 MiB
    Space,
    /// Claims and pods of two of three members are deleted
    Quorum,
}

/// Everything that is timed, in the order of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Row {
    Volume,
    Node,
    SilentNode,
    DeadNode,
    SpaceWrites,
    SpaceVoters,
    QuorumAsked,
    QuorumWrite,
    QuorumVoters,
}

/// Measures and prints.
pub(super) fn measure(target: &Target, version: &str, rounds: u8, only: &[Fault]) -> Result<()> {
    let mut measured = Measured::default();
    for round in 1..=rounds {
        eprintln!("etcd {version}, round {round} of {rounds}");
        let mut place = Place::new(target, &format!("heal{round}"))?;
        measured.add_pod(start_pod(&mut place, version)?);
        place.empty()?;
        for fault in only {
            let patient = Patient::begin(&mut place, version)?;
            match fault {
                Fault::Volume => patient.lose_volume(&mut measured),
                Fault::Node => patient.lose_node(&mut measured),
                Fault::SilentNode => patient.cut_power(&mut measured),
                Fault::Space => patient.run_full(&mut measured),
                Fault::Quorum => patient.lose_quorum(&mut measured),
            }?;
            place.empty()?;
        }
    }
    measured.print(version, rounds);
    let lost = measured.losses();
    ensure!(lost == 0, "LOST: {lost} writes were acknowledged");
    Ok(())
}

/// One cluster of three that is broken once.
struct Patient<'a, 'b> {
    place: &'a mut Place<'b>,
    chronicle: Chronicle,
    writer: Writer,
}

impl<'a, 'b> Patient<'a, 'b> {
    fn begin(place: &'a mut Place<'b>, version: &str) -> Result<Self> {
        let mut chronicle = Chronicle::new(place)?;
        let more = json!({"etcd": {"quotaBackendBytes": QUOTA}, "recovery": {"nodePatienceSeconds": PATIENCE}});
        place.create_cluster_with("c", 3, version, &more)?;
        place.settle(&mut chronicle.objects)?;
        let writer = place.writer()?;
        place.until("there is something to lose", Instant::now(), |_| {
            writer.acknowledged() >= HISTORY
        })?;
        place.settle(&mut chronicle.objects)?;
        Ok(Self {
            place,
            chronicle,
            writer,
        })
    }

    fn lose_volume(mut self, measured: &mut Measured) -> Result<()> {
        let victim = self.followers()?.pop().context("no member follows")?;
        let gone = self.ids(&[&victim])?;
        let since = self.since(&format!("{victim} loses its volume"));
        self.lose(&[&victim])?;
        let seconds = self.healed(&gone, since)?;
        measured.add(Row::Volume, seconds);
        self.end(Row::Volume, measured)
    }

    fn lose_node(mut self, measured: &mut Measured) -> Result<()> {
        let (node, members) = quiet_node(self.place)?;
        let gone = self.ids(&members)?;
        let since = self.since(&format!("{node} with {members:?} is out of service"));
        let broken = BrokenNode::taint(self.place.target, &node)?;
        let seconds = self.healed(&gone, since);
        broken.repair()?;
        measured.add(Row::Node, seconds?);
        self.end(Row::Node, measured)
    }

    fn cut_power(mut self, measured: &mut Measured) -> Result<()> {
        let (node, members) = quiet_node(self.place)?;
        let gone = self.ids(&members)?;
        let mut nodes = self.place.watch("nodes")?;
        let since = self.since(&format!("{node} with {members:?} loses its power"));
        let broken = BrokenNode::kill(self.place.target, &node)?;
        let chronicle = &mut self.chronicle;
        self.place
            .until("the node is reported silent", since, |place| {
                chronicle.look(&place.pods);
                nodes.wait(Duration::ZERO);
                nodes.objects.get(&node).is_some_and(is_silent)
            })?;
        let reported = Instant::now();
        chronicle.tell(&format!("Kubernetes reports that {node} is silent"));
        let seconds = self.healed(&gone, since);
        let from_report = reported.elapsed().as_secs_f64();
        broken.repair()?;
        measured.add(Row::DeadNode, seconds?);
        measured.add(Row::SilentNode, from_report);
        self.end(Row::SilentNode, measured)
    }

    /// Paused while it fills: the operator would make room before etcd complains.
    fn run_full(mut self, measured: &mut Measured) -> Result<()> {
        let pause = format!("{PAUSED}=true");
        self.place.kubectl(&["annotate", OBJECT, "c", &pause])?;
        fill(self.place)?;
        let before = self.writer.acknowledged();
        let since = self.since("the database is at its quota, and the operator may act");
        let resume = format!("{PAUSED}-");
        self.place.kubectl(&["annotate", OBJECT, "c", &resume])?;
        measured.add(Row::SpaceWrites, self.written(before, since)?);
        let seconds = self.healed(&BTreeSet::new(), since)?;
        measured.add(Row::SpaceVoters, seconds);
        self.end(Row::SpaceWrites, measured)
    }

    /// Who is left followed, and may lack what the leader had acknowledged last.
    fn lose_quorum(mut self, measured: &mut Measured) -> Result<()> {
        let survivor = self.followers()?.pop().context("no member follows")?;
        let all: Vec<String> = self.place.pods.objects.keys().cloned().collect();
        let gone = self.ids(&all)?;
        let victims: Vec<String> = all.into_iter().filter(|name| *name != survivor).collect();
        let since = self.since(&format!("{victims:?} lose their volumes"));
        self.lose(&victims)?;
        let mut word = None;
        let chronicle = &mut self.chronicle;
        let asked = self
            .place
            .until("the condition asks for a word", since, |place| {
                chronicle.look(&place.pods);
                word = chronicle.objects.objects.get("c").and_then(asked_word);
                word.is_some()
            })?;
        measured.add(Row::QuorumAsked, asked);
        let word = word.context("no word")?;
        let before = self.writer.acknowledged();
        let since = self.since(&format!("a person says {word}"));
        self.place.kubectl(&["annotate", OBJECT, "c", &word])?;
        measured.add(Row::QuorumWrite, self.written(before, since)?);
        let seconds = self.healed(&gone, since)?;
        measured.add(Row::QuorumVoters, seconds);
        self.end(Row::QuorumVoters, measured)
    }

    fn since(&mut self, what: &str) -> Instant {
        self.chronicle.begin(&self.place.pods, what)
    }

    /// Claims and pods go at once; both come back, the data does not.
    fn lose(&self, victims: &[impl AsRef<str>]) -> Result<()> {
        let claims = victims.iter().map(|it| format!("pvc/data-{}", it.as_ref()));
        let pods = victims.iter().map(|it| format!("pod/{}", it.as_ref()));
        let objects: Vec<String> = claims.chain(pods).collect();
        let mut words = vec!["delete", "--grace-period=0", "--force", "--wait=false"];
        words.extend(objects.iter().map(String::as_str));
        self.place.kubectl(&words)
    }

    /// Seconds until a write is acknowledged again.
    fn written(&mut self, before: u64, since: Instant) -> Result<f64> {
        let (chronicle, writer) = (&mut self.chronicle, &self.writer);
        let seconds = self.place.until("a write is taken", since, |place| {
            chronicle.look(&place.pods);
            writer.acknowledged() > before
        })?;
        chronicle.tell("a write is acknowledged");
        Ok(seconds)
    }

    /// Seconds until three voters serve, none of which is one of those that were lost.
    fn healed(&mut self, gone: &BTreeSet<u64>, since: Instant) -> Result<f64> {
        let chronicle = &mut self.chronicle;
        let seconds = self.place.until("three voters serve", since, |place| {
            chronicle.look(&place.pods);
            let voters = place.etcd.serving_voters(&place.pods.objects, THREE);
            voters.is_some_and(|voters| voters.is_disjoint(gone))
        })?;
        chronicle.tell("three healthy voters");
        Ok(seconds)
    }

    /// The client stops only when the operator, too, is content: what it does until then is part of the healing.
    fn end(mut self, row: Row, measured: &mut Measured) -> Result<()> {
        let objects = &mut self.chronicle.objects;
        self.place.settle(objects)?;
        measured.add_written(row, &self.writer.stop_and_count()?);
        Ok(())
    }

    /// Pods whose member does not lead.
    fn followers(&mut self) -> Result<Vec<String>> {
        self.place.pods.wait(Duration::ZERO);
        let pods = &self.place.pods.objects;
        let leader = self.place.etcd.leader(pods).context("no member leads")?;
        Ok(pods
            .keys()
            .filter(|name| **name != leader)
            .cloned()
            .collect())
    }

    /// IDs of the members in these pods.
    fn ids(&self, names: &[impl AsRef<str>]) -> Result<BTreeSet<u64>> {
        let id = |name: &str| {
            let pod = self.place.pods.objects.get(name)?;
            let member = self.place.etcd.member(pod)?;
            let status = self.place.etcd.run(member.status()).ok()?;
            Some(status.member_id)
        };
        let ids: Option<_> = names.iter().map(|name| id(name.as_ref())).collect();
        ids.context("a member does not answer")
    }
}

fn is_silent(node: &Value) -> bool {
    let conditions = node.pointer("/status/conditions").and_then(Value::as_array);
    let mut conditions = conditions.into_iter().flatten();
    conditions.any(|condition| {
        text(condition, "/type") == Some("Ready") && text(condition, "/status") != Some("True")
    })
}

/// The annotation that the condition asks for.
fn asked_word(object: &Value) -> Option<String> {
    let conditions = object.pointer("/status/conditions")?.as_array()?;
    let degraded = conditions
        .iter()
        .find(|condition| text(condition, "/type") == Some("Degraded"))?;
    let (_, rest) = text(degraded, "/message")?.split_once(RECOVER)?;
    let id: String = rest.chars().take_while(char::is_ascii_hexdigit).collect();
    (!id.is_empty()).then(|| format!("{RECOVER}{id}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_word_is_the_one_that_the_condition_asks_for() {
        let object = |message: &str| {
            json!({"status": {"conditions": [
                {"type": "Degraded", "status": "True", "reason": "QuorumLost", "message": message}]}})
        };
        let asked =
            object("to start: kubectl annotate etcdcluster c etcd.etcd.io/recover=af12; or wait");
        assert_eq!(
            asked_word(&asked).as_deref(),
            Some("etcd.etcd.io/recover=af12")
        );
        assert_eq!(asked_word(&object("two voters are away")), None);
    }

    #[test]
    fn a_node_is_silent_when_its_state_is_unknown() {
        let node =
            |status: &str| json!({"status": {"conditions": [{"type": "Ready", "status": status}]}});
        assert!(is_silent(&node("Unknown")) && is_silent(&node("False")));
        assert!(!is_silent(&node("True")));
    }
}

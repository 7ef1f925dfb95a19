//! Databases that grow, are compacted and defragmented, raise alarms, and go bad: a file for each member, of which the
//! quota counts what it once had, and a history that every write makes longer.

use std::collections::{BTreeMap, BTreeSet};

use api::Quantity;
use api::intent::DailyWindow;
use plan::cluster::Due;
use plan::observed::{Alarm, AlarmKind, Hash, Process, Serving, Space, quorum};
use plan::{Observed, Step};

use crate::world::World;
use crate::world::observe::{Look, target_of};

/// What an empty database takes.
const BASE: u64 = 1 << 20;
/// Revisions that must be kept.
const FLOOR: u64 = 1000;

/// Everything about the databases. Nothing of it plays a part until a story says so.
#[derive(Clone, Debug, Default)]
pub struct Upkeep {
    /// Bytes that a revision takes.
    pub row: u64,
    /// Bytes that the newest revision of every key takes, however many revisions there are.
    pub keys: u64,
    /// `spec.etcd.quotaBackendBytes`.
    pub quota: Option<u64>,
    /// `spec.maintenance.defragment` is `Never`.
    pub never: bool,
    /// `spec.maintenance.compact` is `Never`.
    pub keep_all: bool,
    /// `spec.maintenance.keepRevisions`.
    pub kept: Option<u64>,
    /// `spec.maintenance.window`.
    pub window: Option<DailyWindow>,
    /// Alarms that stand.
    pub alarms: BTreeSet<Alarm>,
    /// Members whose data is not what it should be, and what it is instead.
    pub wrong: BTreeMap<u64, u32>,
    /// It is time to compare the hashes of members that seem well.
    pub compare: bool,
    /// How often a member was defragmented, in order.
    pub defragmented: Vec<u64>,
    /// Revision up to which the history was forgotten.
    pub compacted: u64,
    /// Ordinals of the members that keepers read.
    pub read: BTreeSet<u32>,
    files: BTreeMap<u64, u64>,
    busy: BTreeMap<u64, u64>,
    quotas: BTreeMap<String, u64>,
}

impl World {
    /// A user changes the quota.
    pub fn set_quota(&mut self, quota: u64) {
        self.upkeep.quota = Some(quota);
        self.object.generation += 1;
        self.object.revision += 1;
    }

    /// The data of a member is damaged, and that was not noticed yet.
    pub fn spoil(&mut self, ordinal: u32, into: u32) {
        let data = self.claims.get(&ordinal).and_then(|c| c.volume.data);
        if let Some(data) = data {
            self.upkeep.wrong.insert(data.member, into);
        }
    }

    /// etcd notices that data differs.
    pub fn raise_corrupt(&mut self, member_id: u64) {
        let kind = AlarmKind::Corrupt;
        self.upkeep.alarms.insert(Alarm { kind, member_id });
    }

    /// Bytes of a member's file.
    pub fn file(&self, member: u64) -> u64 {
        self.upkeep.files.get(&member).copied().unwrap_or(BASE)
    }

    /// It is being defragmented, and does not respond.
    pub(super) fn is_busy(&self, member: u64) -> bool {
        self.upkeep.busy.contains_key(&member)
    }

    pub(super) fn upkeep_intent(&self, intent: &mut api::ClusterIntent) {
        let bytes = |quota: u64| Quantity(quota.to_string());
        intent.etcd.quota_backend_bytes = self.upkeep.quota.map(bytes);
        intent.maintenance.defragment = !self.upkeep.never;
        intent.maintenance.window = self.upkeep.window;
        let kept = self.upkeep.kept.unwrap_or(FLOOR);
        intent.maintenance.history = (!self.upkeep.keep_all).then_some(kept);
    }

    fn in_use(&self, cluster: u64, member: u64) -> u64 {
        let log = self.log_of(cluster, member);
        let history = log.saturating_sub(self.upkeep.compacted);
        BASE + self.upkeep.keys + history * self.upkeep.row
    }

    fn quota(&self, template: &str) -> u64 {
        let known = self.upkeep.quotas.get(template).copied();
        known.unwrap_or(2 << 30)
    }

    /// Members that run: ordinal, cluster, member.
    fn running(&self) -> Vec<(u32, u64, u64)> {
        let live = self.live();
        live.map(|(ordinal, process)| (ordinal, process.cluster, process.member))
            .collect()
    }

    /// Files grow, defragmentations come to their end, and who is at the quota says so.
    pub(super) fn run_space(&mut self) {
        if self.upkeep.row == 0 && self.upkeep.keys == 0 && self.upkeep.wrong.is_empty() {
            return;
        }
        let latched = plan::status::latched(&self.object.status);
        let target = target_of(&self.intent(), &latched);
        let quota = target.intent.quota();
        self.upkeep.quotas.insert(target.template, quota);
        let running = self.running();
        let alive: BTreeSet<u64> = running.iter().map(|(_, _, member)| *member).collect();
        self.upkeep.busy.retain(|member, _| alive.contains(member));
        for (ordinal, cluster, member) in running {
            self.catch(cluster, member);
            let in_use = self.in_use(cluster, member);
            let file = self.file(member).max(in_use);
            self.upkeep.files.insert(member, file);
            if let Some(left) = self.upkeep.busy.get_mut(&member) {
                *left = left.saturating_sub(1);
                if *left == 0 {
                    self.upkeep.busy.remove(&member);
                    self.upkeep.files.insert(member, in_use);
                }
            }
            let template = self.pods.get(&ordinal).map(|pod| pod.template.hash.clone());
            let full = file >= self.quota(&template.unwrap_or_default());
            let votes = self.live_voters(cluster).contains(&member);
            if full && votes && self.has_quorum(cluster) && !self.quiet {
                let kind = AlarmKind::NoSpace;
                let member_id = member;
                self.upkeep.alarms.insert(Alarm { kind, member_id });
            }
        }
    }

    /// Who joins gets the data of the leader.
    fn catch(&mut self, cluster: u64, member: u64) {
        if self.upkeep.files.contains_key(&member) {
            return;
        }
        let leader = self.clusters.get(&cluster).and_then(|c| c.leader);
        let wrong = leader.and_then(|leader| self.upkeep.wrong.get(&leader).copied());
        if let (Some(wrong), Some(leader)) = (wrong, leader)
            && leader != member
            && self.log_of(cluster, member) == 0
        {
            self.upkeep.wrong.insert(member, wrong);
            self.violate("data that is wrong was copied to another member");
        }
    }

    /// The operator's calls.
    pub(super) fn maintain(
        &mut self,
        look: &Look,
        step: &Step,
        cluster: u64,
    ) -> Result<(), String> {
        match step {
            Step::Compact { revision } => self.compact(cluster, *revision),
            Step::Disarm { alarm } => self.disarm(cluster, *alarm),
            Step::Defragment { id, .. } => {
                let led = look.observed.leader() == Some(*id);
                self.defragment(*id, led)
            }
            _other => Err("no such call".to_owned()),
        }
    }

    /// `Compact`.
    fn compact(&mut self, cluster: u64, revision: u64) -> Result<(), String> {
        if !self.has_quorum(cluster) {
            return Err("context deadline exceeded".to_owned());
        }
        let leader = self.clusters.get(&cluster).and_then(|c| c.leader);
        let head = leader.map_or(0, |leader| self.log_of(cluster, leader));
        if revision > head {
            return Err("required revision is a future revision".to_owned());
        }
        let floor = self.upkeep.kept.unwrap_or(FLOOR);
        let further = revision > self.upkeep.compacted;
        if further && (self.upkeep.keep_all || head.saturating_sub(revision) < floor) {
            self.violate("history that must be kept was forgotten");
        }
        self.upkeep.compacted = self.upkeep.compacted.max(revision);
        Ok(())
    }

    /// `Defragment`: now and then it takes longer than any caller waits.
    fn defragment(&mut self, member: u64, led: bool) -> Result<(), String> {
        let running = self.running();
        let own = running.iter().find(|(_, _, running)| *running == member);
        let Some((ordinal, cluster, _)) = own.copied() else {
            return Err("connection refused".to_owned());
        };
        if self.upkeep.read.contains(&ordinal) {
            self.violate("a member was defragmented while a keeper read it");
        }
        let leads = self.clusters.get(&cluster).and_then(|c| c.leader) == Some(member);
        let alone = self.voters(cluster) == 1;
        if leads && !alone {
            if !led {
                return Err("it leads by now".to_owned());
            }
            self.violate("a leader was defragmented while others could lead");
        }
        if self.upkeep.busy.keys().any(|busy| *busy != member) {
            self.violate("two members were defragmented at once");
        }
        self.upkeep.defragmented.push(member);
        if self.rng.chance(60) {
            let ticks = 1 + self.rng.below(12);
            self.upkeep.busy.insert(member, ticks);
            return Err("no answer in time".to_owned());
        }
        let in_use = self.in_use(cluster, member);
        self.upkeep.files.insert(member, in_use);
        Ok(())
    }

    /// `Alarm` with `DEACTIVATE`.
    fn disarm(&mut self, cluster: u64, alarm: Alarm) -> Result<(), String> {
        if !self.has_quorum(cluster) {
            return Err("context deadline exceeded".to_owned());
        }
        let voters = self.live_voters(cluster);
        let bad = match alarm.kind {
            AlarmKind::NoSpace => self.running().iter().any(|(ordinal, _, member)| {
                let pod = self.pods.get(ordinal);
                let quota = self.quota(pod.map_or("", |pod| &pod.template.hash));
                voters.contains(member) && self.file(*member) * 10 >= quota * 8
            }),
            AlarmKind::Corrupt => {
                let seen: BTreeSet<u32> = voters.iter().map(|voter| self.sum(*voter)).collect();
                seen.len() > 1
            }
        };
        if bad && self.upkeep.alarms.contains(&alarm) {
            self.violate("an alarm was disarmed before its cause was gone");
        }
        self.upkeep.alarms.remove(&alarm);
        Ok(())
    }

    fn sum(&self, member: u64) -> u32 {
        let wrong = self.upkeep.wrong.get(&member).copied();
        0xfeed + wrong.unwrap_or(0)
    }

    /// A member is removed; where data differs it must not be one of the majority.
    pub(super) fn note_removal(&mut self, cluster: u64, member: u64) {
        self.note_hung_removal(cluster, member);
        let serves = self.process_of(cluster, member).is_some();
        let members = self.clusters.get(&cluster).map(|c| c.members.clone());
        let members = members.unwrap_or_default();
        let voters: Vec<u64> = members
            .iter()
            .filter(|m| !m.learner)
            .map(|m| m.id)
            .collect();
        let wrong = voters.iter().any(|id| self.upkeep.wrong.contains_key(id));
        if !wrong || !serves || !voters.contains(&member) {
            return;
        }
        let others = voters.iter().map(|voter| self.sum(*voter));
        let others = others.filter(|sum| *sum != self.sum(member));
        let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
        for sum in others {
            *counts.entry(sum).or_default() += 1;
        }
        let outvoted = counts.values().any(|count| *count >= quorum(voters.len()));
        if !outvoted {
            self.violate("a member was removed though no majority says that its data is wrong");
        }
    }

    pub(super) fn observe_alarms(&self) -> Vec<String> {
        let text = |alarm: &Alarm| {
            let kind = match alarm.kind {
                AlarmKind::NoSpace => "NOSPACE",
                AlarmKind::Corrupt => "CORRUPT",
            };
            format!("memberID:{} alarm:{kind} ", alarm.member_id)
        };
        self.upkeep.alarms.iter().map(text).collect()
    }

    pub(super) fn observe_space(&self, process: &super::Process, template: &str) -> Space {
        let (cluster, member) = (process.cluster, process.member);
        Space {
            size: self.file(member),
            in_use: self.in_use(cluster, member).min(self.file(member)),
            // 3.5 does not tell.
            quota: (process.minor > 5).then(|| self.quota(template)),
            revision: self.log_of(cluster, member),
        }
    }

    /// Hashes are asked for only where the rules want them.
    pub(super) fn observe_hashes(&self, observed: &mut Observed) {
        let due = if self.upkeep.compare {
            Due::ByTheClock
        } else {
            Due::No
        };
        if !plan::cluster::compares(observed, due) {
            return;
        }
        let Some(revision) = plan::cluster::common_revision(observed) else {
            return;
        };
        for pod in observed.pods.values_mut() {
            if let Process::Serving(serving) = &mut pod.process {
                serving.hash = Some(self.hash(serving, revision));
            }
        }
    }

    fn hash(&self, serving: &Serving, revision: u64) -> Hash {
        Hash {
            revision,
            compacted: i64::try_from(self.upkeep.compacted).unwrap_or(-1),
            hash: self.sum(serving.member_id),
        }
    }
}

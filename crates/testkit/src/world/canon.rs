//! One number for a world, the same for all worlds that differ only in what things are called and in how old they
//! are beyond what any rule asks: names that were drawn from the counter are numbered in the order in which they are
//! met, times fall into the few spans that some rule waits for. What no rule and no violation depends on is left out.

mod locked;

use std::hash::{Hash, Hasher};

use gate::{Action, Grant, Report};
use jiff::Timestamp;
use plan::observed::{Latched, NodeState, parse_id};
use plan::{Observed, Step};

use crate::world::observe::Look;
use crate::world::{Claim, Cluster, Container, Pod, Set, Template, World};

/// Ages that rules ask for, in seconds.
const COMING: i64 = 20;
const BLINK: i64 = 15;
const SUSTAINED: i64 = 60;
const PATIENCE: i64 = 300;
const LATE: i64 = 600;

/// Multiplies and folds: good enough to tell worlds apart, and a third of the time of the standard one.
#[derive(Default)]
pub(crate) struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            for (to, from) in word.iter_mut().zip(chunk) {
                *to = *from;
            }
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u8(&mut self, value: u8) {
        self.write_u64(u64::from(value));
    }

    fn write_u32(&mut self, value: u32) {
        self.write_u64(u64::from(value));
    }

    fn write_u64(&mut self, value: u64) {
        let mixed = u128::from(self.0 ^ value ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93;
        let low = u64::try_from(mixed & u128::from(u64::MAX)).unwrap_or(0);
        let high = u64::try_from(mixed >> 64).unwrap_or(0);
        self.0 = low ^ high.rotate_left(17);
    }
}

struct Code<'a> {
    world: &'a World,
    hasher: Mix,
    met: Vec<u64>,
}

impl World {
    /// The number of this world, and of a look that was not acted on yet.
    pub(crate) fn canonical(&self, late: Option<(&Look, &Step)>) -> u64 {
        let mut code = Code {
            world: self,
            hasher: Mix::default(),
            met: Vec::new(),
        };
        code.everything();
        if let Some((look, step)) = late {
            code.look(look, step);
        }
        code.hasher.finish()
    }
}

impl Code<'_> {
    fn put(&mut self, value: impl Hash) {
        value.hash(&mut self.hasher);
    }

    fn id(&mut self, id: u64) {
        let known = self.met.iter().position(|met| *met == id);
        let number = known.unwrap_or_else(|| {
            self.met.push(id);
            self.met.len() - 1
        });
        self.put(number);
    }

    /// Every name ends in the number that it was drawn with.
    fn name(&mut self, name: &str) {
        let drawn = name.rsplit('-').next().and_then(|n| n.parse().ok());
        match drawn {
            Some(number) => self.id(number),
            None => self.put(name),
        }
    }

    fn hex(&mut self, id: &str) {
        self.id(parse_id(id).unwrap_or(0));
    }

    fn spans(&mut self, since: Timestamp, spans: &[i64]) {
        let age = self.world.now.duration_since(since).as_secs();
        let span = spans.iter().filter(|span| age >= **span).count();
        self.put(span);
    }

    fn everything(&mut self) {
        let world = self.world;
        self.put((world.object.size, world.object.edit, world.object.minor));
        self.put(world.object.paused);
        for (id, cluster) in &world.clusters {
            self.cluster(*id, cluster);
        }
        for (ordinal, claim) in &world.claims {
            self.put((1, ordinal));
            self.claim(claim);
        }
        for (ordinal, pod) in &world.pods {
            self.put((2, ordinal));
            self.pod(pod);
            // Others wait a while for a pod that may still become a member.
            if !pod.terminating && !world.has_member(*ordinal) {
                self.spans(pod.created, &[COMING]);
            }
        }
        self.set(world.set.as_ref());
        for (name, (_, content)) in &world.small {
            self.put((name, content));
        }
        self.put(world.tokens.len());
        self.put(&world.restarted);
        let latched = plan::status::latched(&world.object.status);
        self.latched(&latched);
        self.locked(&latched);
        self.put(world.is_word_given());
        match world.unavailable_since() {
            Some(since) => self.spans(since, &[BLINK, SUSTAINED]),
            None => self.put("light"),
        }
    }

    fn cluster(&mut self, id: u64, cluster: &Cluster) {
        self.id(id);
        for member in &cluster.members {
            self.id(member.id);
            self.put((&member.name, &member.peer_urls, member.learner));
            self.put(cluster.started.contains(&member.id));
        }
        self.put((cluster.acknowledged, cluster.given_up));
        self.id(cluster.leader.unwrap_or(0));
        self.accounts(cluster);
    }

    fn claim(&mut self, claim: &Claim) {
        self.name(&claim.uid);
        self.put(claim.terminating);
        // What it says of members and pods is in the status as well.
        self.put(api::Lineage::parse(&claim.lineage).map(|lineage| lineage.rank()));
        if let Some(node) = &claim.node {
            self.name(node);
            let state = self.world.nodes.get(node);
            self.node(state.copied().unwrap_or(NodeState::Ready));
        }
        if let Some(data) = claim.volume.data {
            self.id(data.cluster);
            self.id(data.member);
            self.put(data.log);
            let cluster = self.world.clusters.get(&data.cluster);
            self.put(cluster.is_some_and(|c| c.removed.contains(&data.member)));
        }
        self.put((claim.volume.damaged, claim.volume.broken, claim.is_full()));
        self.identity(claim);
    }

    fn node(&mut self, state: NodeState) {
        match state {
            NodeState::Ready => self.put(0),
            NodeState::OutOfService => self.put(1),
            NodeState::Deleted => self.put(2),
            NodeState::NotReady(since) => {
                self.put(3);
                self.spans(since, &[PATIENCE]);
            }
        }
    }

    /// Whose it is only matters where the data is not that one's.
    fn identity(&mut self, claim: &Claim) {
        let (identity, data) = (&claim.volume.identity, claim.volume.data);
        self.put(identity.as_ref().map(|identity| identity.incarnation));
        let agrees = |written: Option<&String>, found: Option<u64>| {
            written.is_none_or(|written| parse_id(written) == found)
        };
        let fits = identity.as_ref().is_none_or(|identity| {
            let member = agrees(identity.member_id.as_ref(), data.map(|d| d.member));
            member && agrees(identity.cluster_id.as_ref(), data.map(|d| d.cluster))
        });
        self.put(fits);
        self.noted(claim);
    }

    fn pod(&mut self, pod: &Pod) {
        self.name(&pod.uid);
        self.put((pod.terminating, pod.refuses, pod.frozen, pod.node.is_some()));
        self.template(&pod.template);
        self.brought(pod);
        for id in &pod.told_removed {
            self.id(*id);
        }
        self.put(pod.grant.is_some());
        if let Some(grant) = &pod.grant {
            // What it says, except which wait it was for, is over with that wait.
            let stands = match &pod.container {
                Container::Waiting(report) => report.nonce == grant.nonce,
                Container::Down | Container::Etcd(_) => false,
            };
            self.put(stands);
            self.grant(grant, stands);
        }
        match &pod.container {
            Container::Down => self.put(0),
            Container::Waiting(report) => {
                self.put(1);
                self.report(report);
            }
            Container::Etcd(process) => {
                self.put((2, process.serving));
                self.trust(process);
                self.id(process.cluster);
                self.id(process.member);
                for member in &process.view {
                    self.id(member.id);
                }
            }
        }
    }

    fn template(&mut self, template: &Template) {
        self.put((&template.hash, template.bad, template.fence));
        for (id, index) in &template.floors {
            self.hex(id);
            self.put(index);
        }
    }

    fn report(&mut self, report: &Report) {
        self.name(&report.nonce);
        self.put((report.data.is_some(), std::mem::discriminant(&report.state)));
    }

    fn grant(&mut self, grant: &Grant, stands: bool) {
        self.name(&grant.nonce);
        self.put(grant.incarnation);
        match &grant.action {
            Action::Bootstrap { discard, .. } => self.put((0, discard)),
            Action::Join {
                initial_cluster,
                member_id,
                discard,
                ..
            } => {
                let given = stands.then_some((initial_cluster, discard));
                self.put((1, given));
                self.hex(member_id);
            }
            Action::Resume { member_id, .. } => {
                self.put(2);
                self.hex(member_id);
            }
            Action::Recover { member_id, .. } => {
                self.put(3);
                self.hex(member_id);
            }
            Action::Restore { .. } => self.put(4),
        }
    }

    fn set(&mut self, set: Option<&Set>) {
        self.put(set.is_some());
        if let Some(set) = set {
            self.put((set.replicas, set.storage));
            self.template(&set.template);
            self.put(set.kept.is_some());
            if let Some(kept) = &set.kept {
                self.template(kept);
            }
        }
    }

    fn latched(&mut self, latched: &Latched) {
        self.put((latched.incarnation, latched.replicas, latched.resumed));
        self.id(latched.cluster_id.unwrap_or(0));
        if let Some(bootstrap) = &latched.bootstrap {
            self.put(&bootstrap.member);
            self.name(&bootstrap.pod_uid);
            self.name(&bootstrap.claim_uid);
            self.name(&bootstrap.nonce);
        }
        for join in &latched.joins {
            self.put(&join.member);
            self.name(&join.pod_uid);
            self.name(&join.nonce);
        }
        for leaving in &latched.retiring {
            self.put((&leaving.member, leaving.replaced.is_some()));
            self.hex(&leaving.member_id);
            self.name(&leaving.claim_uid);
        }
        for voter in &latched.voters {
            self.hex(&voter.member_id);
            self.put((&voter.member, voter.index));
        }
        for (id, joining) in &latched.learners {
            self.id(*id);
            self.spans(joining.since, &[LATE]);
            self.put(joining.behind.is_some());
        }
        let proven = latched.proven.as_ref();
        self.put(proven.map(|proven| (&proven.template, proven.everywhere)));
        if let Some(trial) = latched.trial() {
            self.put((&trial.member, &trial.template));
            self.name(&trial.pod_uid);
        }
        self.put((latched.fence, latched.ending, latched.is_renewing()));
        self.put(&latched.called_off);
        if let Some(recovery) = &latched.recovery {
            self.hex(&recovery.cluster_id);
            self.put(&recovery.excused);
            let survivor = recovery.survivor.as_ref();
            self.put(survivor.map(|survivor| &survivor.member));
            self.name(survivor.map_or("", |survivor| survivor.claim_uid.as_str()));
        }
    }

    /// What was decided on a look, and what of the look its execution rests on.
    fn look(&mut self, look: &Look, step: &Step) {
        let object = look.revision == self.world.object.revision;
        let set = self.world.own_set().map(|set| set.revision) == look.set_revision;
        self.put((object, set));
        self.put(look.observed.claims.keys().collect::<Vec<_>>());
        self.seen(&look.observed);
        self.step(step);
    }

    fn seen(&mut self, observed: &Observed) {
        let list = observed.etcd.members.as_ref();
        self.id(list.map_or(0, |list| list.cluster_id));
        let target = observed.cluster.target.as_ref();
        self.put(target.map(|target| &target.template));
    }

    fn step(&mut self, step: &Step) {
        self.put(std::mem::discriminant(step));
        match step {
            Step::ApplyObjects(shape) | Step::RestoreTemplate(shape) => {
                self.put(format!("{shape:?}"));
            }
            Step::Latch(latched) => self.latched(latched),
            Step::Grant {
                ordinal,
                pod_uid,
                grant,
            } => {
                self.put(ordinal);
                self.name(pod_uid);
                self.grant(grant, true);
            }
            Step::AddLearner { ordinal, .. } => self.put(ordinal),
            Step::Promote { id, .. }
            | Step::RetireMember { id, .. }
            | Step::MoveLeader { to: id, .. } => self.id(*id),
            Step::RemoveMember { id, nonce, .. } => {
                self.id(*id);
                self.name(nonce);
            }
            Step::RestartPod { uid, .. } | Step::DeleteClaim { uid, .. } => self.name(uid),
            Step::StopPod { uid, force, .. } => {
                self.name(uid);
                self.put(force);
            }
            Step::MarkRemoved { uid, members, .. } => {
                self.name(uid);
                for id in members {
                    self.id(*id);
                }
            }
            _without_names => self.put(format!("{step:?}")),
        }
    }
}

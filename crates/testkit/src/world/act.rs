//! The hands of the operator in this world: one executor for each step, every write with its
//! precondition, and an operator that can be killed at any write.

use std::fmt;

use gate::Grant;
use manifests::Shape;
use plan::decision::Issue;
use plan::observed::{Answer, Attempt, Latched, Process, Told};
use plan::status::{Outcome, decide_status, with_latched};
use plan::{Decision, Observed, Step};

use crate::world::observe::Look;
use crate::world::refuse::{How, wish};
use crate::world::{Set, Template, World};

/// The operator was killed in the middle of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Killed;

/// An object that `ApplyObjects` writes.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "there are a dozen at most, for one step"
)]
pub(crate) enum Written {
    /// `account`, `peer`, `budget` or `client`, with its content.
    Small(&'static str, u32),
    /// A claim, and which data it belongs to.
    Claim(u32, String),
    /// The StatefulSet.
    Set(Set),
    /// Clients are let in no more.
    NoClient,
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Small(name, _) => write!(f, "{name}"),
            Self::Claim(ordinal, _) => write!(f, "claim {ordinal}"),
            Self::Set(_) => write!(f, "StatefulSet"),
            Self::NoClient => write!(f, "client"),
        }
    }
}

impl World {
    /// Every write goes through here.
    fn attempt(&mut self, write: impl FnOnce(&mut Self)) -> Result<(), Killed> {
        self.writes += 1;
        let dies = self.kill.filter(|kill| kill.at == self.writes);
        if dies.is_none_or(|kill| kill.performed) {
            write(self);
        }
        if dies.is_some() { Err(Killed) } else { Ok(()) }
    }

    /// Carries out a step that was decided on a look.
    pub fn apply(&mut self, look: &Look, decision: &Decision) -> Result<Outcome, Killed> {
        let step = &decision.step;
        let list = look.observed.etcd.members.as_ref();
        let cluster = list.map_or(0, |list| list.cluster_id);
        if is_guarded(step) && look.revision != self.object.revision {
            return Ok(Outcome::NotNow("it has changed since".to_owned()));
        }
        let forbidden = self.forbids(cluster, step).map(Outcome::Failed);
        if let Some(outcome) = forbidden.or_else(|| self.thwarted(step)) {
            self.attempt(|_| {})?;
            return Ok(outcome);
        }
        match step {
            // No user debugs in this world.
            Step::Nothing
            | Step::Wait
            | Step::Refuse
            | Step::RemoveFinalizer
            | Step::AddDebugContainer { .. } => Ok(Outcome::Done),
            Step::ApplyObjects(shape) => self.apply_objects(look, shape),
            Step::RestoreTemplate(shape) => self.restore_template(look, shape),
            Step::Latch(latched) => {
                self.attempt(|world| world.record(look, decision, latched))?;
                Ok(Outcome::Done)
            }
            Step::Grant {
                ordinal,
                pod_uid,
                grant,
            } => self.grant(*ordinal, pod_uid, grant),
            Step::Fetch(_) | Step::EndFetch { .. } => self.call(|world| world.change_job(step)),
            Step::AddLearner { peer_url, .. } => {
                self.call(|world| world.member_add(cluster, peer_url))
            }
            Step::UpdatePeer { id, peer_urls, .. } => {
                self.call(|world| world.member_update(cluster, *id, peer_urls))
            }
            Step::Promote { id, .. } => self.call(|world| world.member_promote(cluster, *id)),
            Step::MoveLeader { to, .. } => self.call(|world| world.move_leader(cluster, *to)),
            Step::RetireMember { id, .. } => self.call(|world| world.retire(cluster, *id)),
            Step::Compact { .. } | Step::Defragment { .. } | Step::Disarm { .. } => {
                self.call(|world| world.maintain(look, step, cluster))
            }
            Step::ChangeAuth(change) => self.call(|world| world.change_auth(cluster, change)),
            Step::Downgrade { to } => self.call(|world| world.downgrade(cluster, *to)),
            Step::RemoveMember { id, ordinal, nonce } => {
                self.remove(look, (*id, *ordinal, nonce), cluster)
            }
            Step::RestartPod { .. }
            | Step::StopPod { .. }
            | Step::MarkRemoved { .. }
            | Step::RepeatGrant { .. }
            | Step::DeleteClaim { .. }
            | Step::ExpandClaim { .. }
            | Step::OrphanPods { .. } => self.touch(step),
            Step::IssueCertificates(_)
            | Step::RequestCertificate
            | Step::RotateAuthority(_)
            | Step::RefreshCertificates { .. } => self.call(|world| world.certify(step)),
        }
    }

    fn retire(&mut self, cluster: u64, id: u64) -> Result<(), String> {
        self.note_removal(cluster, id);
        self.member_remove(cluster, id)
    }

    /// A latch is written together with the report on it, as the operator does.
    fn record(&mut self, look: &Look, decision: &Decision, latched: &Latched) {
        let before = self.memory().recovery;
        let mut with = look.observed.clone();
        with.cluster.latched = latched.clone();
        self.object.status = decide_status(&with, decision, &Outcome::Done, &look.status)
            .unwrap_or_else(|| with_latched(&look.status, &self.object.uid, latched));
        self.object.revision += 1;
        // What begins with a backup is not chosen for its log.
        if self.memory().recovery != before && !self.memory().is_being_replaced() {
            self.check_choice();
        }
    }

    /// Steps on exactly the pod, claim or StatefulSet that was seen.
    fn touch(&mut self, step: &Step) -> Result<Outcome, Killed> {
        match step {
            Step::RestartPod { ordinal, uid } if self.is_pod(*ordinal, uid) => {
                self.attempt(|world| world.restart(*ordinal))?;
            }
            Step::StopPod {
                ordinal,
                uid,
                force,
            } if self.is_pod(*ordinal, uid) => {
                self.attempt(|world| world.free(*ordinal, *force))?;
            }
            Step::MarkRemoved {
                ordinal,
                uid,
                members,
            } if self.is_pod(*ordinal, uid) => {
                self.attempt(|world| world.tell_removed(*ordinal, members))?;
            }
            Step::RepeatGrant { ordinal, uid, told } if self.is_pod(*ordinal, uid) => {
                self.attempt(|world| world.tell(*ordinal, *told))?;
            }
            Step::DeleteClaim { ordinal, uid } => return self.delete_exactly(*ordinal, uid),
            Step::ExpandClaim { ordinal, uid, size } => {
                let claim = self.claims.get(ordinal).filter(|claim| claim.uid == *uid);
                let bytes = api::Quantity(size.clone()).value().unwrap_or(0);
                if claim.is_some() {
                    self.attempt(|world| world.expand(*ordinal, bytes))?;
                }
            }
            Step::OrphanPods { uid } => self.attempt(|world| world.orphan(uid))?,
            _another_pod_by_now => {}
        }
        Ok(Outcome::Done)
    }

    fn is_pod(&self, ordinal: u32, uid: &str) -> bool {
        self.pods.get(&ordinal).is_some_and(|pod| pod.uid == uid)
    }

    fn tell(&mut self, ordinal: u32, told: Told) {
        if let Some(pod) = self.pods.get_mut(&ordinal) {
            pod.told = Some(told);
        }
    }

    fn tell_removed(&mut self, ordinal: u32, members: &[u64]) {
        if let Some(pod) = self.pods.get_mut(&ordinal) {
            pod.told_removed.extend(members);
        }
    }

    fn grant(&mut self, ordinal: u32, pod_uid: &str, grant: &Grant) -> Result<Outcome, Killed> {
        let pod = self.pods.get(&ordinal).filter(|pod| pod.uid == pod_uid);
        if pod.is_none() {
            return Ok(Outcome::NotNow("another pod by now".to_owned()));
        }
        self.attempt(|world| {
            if let Some(pod) = world.pods.get_mut(&ordinal) {
                pod.grant = Some(grant.clone());
                pod.told = world.deaf.then(|| Told::first(world.now));
            }
        })?;
        Ok(Outcome::Done)
    }

    fn delete_exactly(&mut self, ordinal: u32, uid: &str) -> Result<Outcome, Killed> {
        let claim = self.claims.get(&ordinal);
        if claim.is_none_or(|claim| claim.uid != uid) {
            return Ok(Outcome::NotNow("another claim by now".to_owned()));
        }
        self.attempt(|world| world.delete_claim(ordinal))?;
        Ok(Outcome::Done)
    }

    /// etcd knows no resourceVersion, so both facts that the removal rests on are looked at once more: that
    /// the pod still waits, and that no join was recorded for that wait since.
    fn remove(
        &mut self,
        look: &Look,
        (id, ordinal, nonce): (u64, u32, &str),
        cluster: u64,
    ) -> Result<Outcome, Killed> {
        let seen = look.observed.pods.get(&ordinal);
        let instead = self.found_instead(ordinal);
        let found = instead.or_else(|| Some(self.process(self.pods.get(&ordinal)?)));
        let waits = match (found, seen) {
            (Some(Process::Held(report)), Some(pod)) => {
                report.nonce == nonce && report.pod_uid == pod.uid
            }
            _another => false,
        };
        if !waits || look.revision != self.object.revision {
            return Ok(Outcome::NotNow("it has changed since".to_owned()));
        }
        self.call(|world| world.member_remove(cluster, id))
    }

    fn call(
        &mut self,
        call: impl FnOnce(&mut Self) -> Result<(), String>,
    ) -> Result<Outcome, Killed> {
        let mut outcome = Outcome::Done;
        self.attempt(|world| {
            if let Err(why) = call(world) {
                outcome = Outcome::NotNow(why);
            }
        })?;
        Ok(outcome)
    }

    /// Writes the status that follows, unless the object has changed since the look.
    pub fn report(
        &mut self,
        look: &Look,
        decision: &Decision,
        outcome: &Outcome,
    ) -> Result<(), Killed> {
        self.tell_users(look, decision, outcome);
        let new = decide_status(&look.observed, decision, outcome, &look.status);
        match new.filter(|_| look.revision == self.object.revision) {
            None => Ok(()),
            Some(status) => self.attempt(|world| {
                world.object.status = status;
                world.object.revision += 1;
            }),
        }
    }

    /// Objects of a shape that do not exist or differ, in the order in which they are written.
    pub(crate) fn unwritten(&self, observed: &Observed, shape: &Shape) -> Vec<Written> {
        let mut all = vec![
            Written::Small("account", 0),
            Written::Small("peer", 0),
            Written::Small("budget", shape.min_available),
        ];
        all.extend(shape.claims.iter().map(|ordinal| {
            let lineage = shape.lineage.get(ordinal).cloned();
            Written::Claim(*ordinal, lineage.unwrap_or_default())
        }));
        all.push(Written::Set(self.wanted_set(observed, shape)));
        if shape.client_service {
            all.push(Written::Small("client", 0));
        }
        if shape.closing {
            all.push(Written::NoClient);
        }
        all.retain(|object| {
            let mutated = self.fate(&object.to_string()) == Some(How::Mutated);
            mutated || !self.is_written(object)
        });
        all
    }

    fn wanted_set(&self, observed: &Observed, shape: &Shape) -> Set {
        let target = observed.cluster.target.as_ref();
        let rendered = || {
            target.map_or_else(Template::default, |target| {
                let edit = target.intent.restarted_at.as_ref();
                let edit = edit.and_then(|edit| edit.parse().ok()).unwrap_or(0);
                let rendered = target.rendered(shape.template);
                let transport = rendered.tls.transport;
                let same = transport == target.intent.tls.transport;
                let other = || manifests::template_hash(&rendered);
                Template {
                    hash: if same {
                        target.template.clone()
                    } else {
                        other()
                    },
                    minor: target.intent.version.minor,
                    bad: self.bad_edits.contains(&edit) || self.bad_transports.contains(&transport),
                    rejected: self.rejected_edits.contains(&edit),
                    ungated: false,
                    transport,
                    trust: rendered.tls.trust,
                    fence: None,
                    floors: std::collections::BTreeMap::new(),
                }
            })
        };
        let live = self.own_set();
        let kept = live.and_then(|set| set.kept.clone());
        let (mut template, kept) = match shape.template {
            manifests::Template::Render => (rendered(), None),
            manifests::Template::Live => (live.map_or_else(rendered, |s| s.template.clone()), None),
            manifests::Template::Kept => (kept.unwrap_or_else(rendered), None),
            manifests::Template::Try => {
                let before = live.map(|set| set.template.clone());
                let before = before.filter(|before| before.hash != rendered().hash);
                (rendered(), before.or(kept))
            }
        };
        template.fence = shape.fence.or(template.fence);
        if !shape.floors.is_empty() {
            template.floors.clone_from(&shape.floors);
        }
        Set {
            owner: self.object.uid.clone(),
            replicas: shape.replicas,
            template,
            kept,
            // What cannot be changed stays.
            storage: live.map_or(self.object.storage, |set| set.storage),
            uid: live.map_or_else(String::new, |set| set.uid.clone()),
            revision: live.map_or(0, |set| set.revision),
        }
    }

    fn is_written(&self, object: &Written) -> bool {
        let uid = &self.object.uid;
        match object {
            Written::Small(name, content) => self
                .small
                .get(name)
                .is_some_and(|live| (&live.0, live.1) == (uid, *content)),
            Written::Claim(ordinal, lineage) => self
                .claims
                .get(ordinal)
                .is_some_and(|claim| claim.cluster_uid == *uid && claim.lineage == *lineage),
            Written::Set(set) => self.own_set() == Some(set),
            Written::NoClient => !self.small.contains_key("client"),
        }
    }

    /// Writes everything that may be written; what is refused holds up nothing else.
    fn apply_objects(&mut self, look: &Look, shape: &Shape) -> Result<Outcome, Killed> {
        let mut attempts = Vec::new();
        for object in self.unwritten(&look.observed, shape) {
            let wish = wish(&object, shape);
            if look.observed.is_held_back(wish.kind, &wish.name) {
                continue;
            }
            let (late, fate) = (self.is_late(look, &object), self.fate(&object.to_string()));
            let answer = match (late, fate) {
                (Some(why), _) => Answer::Later(why.to_owned()),
                (None, Some(how)) if how != How::Mutated => {
                    self.attempt(|_| {})?;
                    how.answer()
                }
                (None, _written) => {
                    self.attempt(|world| world.write_object(object))?;
                    Answer::Written
                }
            };
            attempts.push(Attempt {
                wish,
                answer,
                manager: None,
            });
        }
        Ok(Outcome::Applied(attempts))
    }

    /// Why the API server, or a second look at the object, turns down a write that was decided on an old observation.
    fn is_late(&self, look: &Look, object: &Written) -> Option<&'static str> {
        let late = look.revision != self.object.revision;
        match object {
            // A template is written only into the StatefulSet that was seen, and only while the object says what it
            // said then: it decides over pods that are made long after.
            Written::Set(set) => {
                let live = self.own_set();
                let differs = live.is_some_and(|live| live.template != set.template);
                let seen = live.map(|live| live.revision) == look.set_revision;
                (differs && (late || !seen)).then_some("the StatefulSet changed")
            }
            // One that was not seen is created, never taken over.
            Written::Claim(ordinal, _) => {
                let unseen = !look.observed.claims.contains_key(ordinal);
                (unseen && self.claims.contains_key(ordinal)).then_some("claim exists")
            }
            // Clients are let in only while the object still says that there is a cluster.
            Written::Small("client", _) => late.then_some("the object changed"),
            Written::Small(..) | Written::NoClient => None,
        }
    }

    /// Writes the template of the StatefulSet that was seen, and nothing else of it.
    fn restore_template(&mut self, look: &Look, shape: &Shape) -> Result<Outcome, Killed> {
        let wanted = self.wanted_set(&look.observed, shape);
        let seen = self.own_set().map(|live| live.revision) == look.set_revision;
        let Some(live) = self.own_set().cloned().filter(|_| seen) else {
            return Ok(Outcome::NotNow("the StatefulSet changed".to_owned()));
        };
        if look.revision != self.object.revision {
            return Ok(Outcome::NotNow("the object changed".to_owned()));
        }
        let restored = Set {
            template: wanted.template,
            kept: wanted.kept,
            ..live
        };
        self.attempt(|world| world.write_object(Written::Set(restored)))?;
        Ok(Outcome::Done)
    }

    fn write_object(&mut self, object: Written) {
        let uid = self.object.uid.clone();
        match object {
            Written::Small(name, content) => {
                if name == "client" && self.object.status.cluster_id.is_none() {
                    self.violate("clients are let in before the cluster ID is latched");
                }
                self.small.insert(name, (uid, content));
            }
            Written::Claim(ordinal, lineage) => {
                self.make_claim(ordinal);
                if let Some(claim) = self.claims.get_mut(&ordinal) {
                    claim.lineage = lineage;
                    claim.cluster_uid = uid;
                }
            }
            Written::Set(mut set) => {
                if set.uid.is_empty() {
                    set.uid = self.fresh("set");
                }
                set.revision += 1;
                self.set = Some(set);
            }
            Written::NoClient => {
                self.small.remove("client");
            }
        }
    }
}

/// What no precondition of its own guards is done only on the newest revision of the object.
fn is_guarded(step: &Step) -> bool {
    matches!(
        step,
        Step::Latch(_)
            | Step::RestartPod { .. }
            | Step::StopPod { .. }
            | Step::RetireMember { .. }
            | Step::UpdatePeer { .. }
            | Step::Downgrade { .. }
            | Step::Defragment { .. }
            | Step::Compact { .. }
            | Step::Disarm { .. }
            | Step::ChangeAuth(_)
            | Step::RotateAuthority(plan::decision::Rotate::Begin)
            | Step::IssueCertificates(Issue {
                authority: true,
                ..
            })
    )
}

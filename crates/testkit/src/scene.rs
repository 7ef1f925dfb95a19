//! Single observations, painted from a few strokes for each ordinal: the same vocabulary for tables of
//! every small world, for random large ones and for the handful that a status is shown for.

use std::collections::{BTreeMap, BTreeSet};

use api::names;
use api::v1alpha1::status::{BootstrapIntent, JoinIntent, RetireIntent, TrialIntent};
use gate::{Action, Data, Grant, Report, State};
use jiff::{SignedDuration, Timestamp};
use plan::Observed;
use plan::observed::{
    Claim, Cluster, Etcd, Latched, Member, MemberList, Objects, Pod, Process, Proven, Serving,
    format_id,
};
use plan::target::decide_target;

use crate::intent::intent;
use crate::world::{NAME, NAMESPACE, peer_url};

/// The cluster in every scene.
pub const CLUSTER: u64 = 0xc1;
/// Another cluster.
pub const STRANGER: u64 = 0xf0;
/// Index of the leader's log.
pub const HEAD: u64 = 50_000;
/// UID of the object.
pub const UID: &str = "uid";

/// What a pod does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Does {
    /// There is no pod.
    Absent,
    /// It does not answer.
    Unknown,
    /// It waits at the gate.
    Waits(State),
    /// It waits at the gate with data of another cluster.
    WaitsWithStranger,
    /// etcd runs and does not serve.
    Starts,
    /// etcd serves, with a leader.
    Serves,
    /// etcd serves, far behind.
    Lags,
    /// etcd serves, without a leader.
    Leaderless,
    /// etcd serves another cluster.
    ServesStranger,
}

/// What etcd lists for an ordinal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Listed {
    /// Nothing.
    No,
    /// A learner that never started.
    New,
    /// A learner.
    Learner,
    /// A voter.
    Voter,
}

/// The wait that something was written down for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum For {
    /// None.
    Nobody,
    /// The wait that stands.
    ThisWait,
    /// A wait that is over.
    FormerWait,
}

/// A claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Claimed {
    /// None.
    Absent,
    /// Made for this object.
    Ours,
    /// Kept by an earlier one.
    Kept,
    /// Being deleted.
    Terminating,
}

/// One ordinal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Slot {
    /// What its pod does.
    pub does: Does,
    /// What etcd lists.
    pub listed: Listed,
    /// The join that is latched.
    pub join: For,
    /// The grant that the pod carries.
    pub grant: For,
    /// Its claim.
    pub claim: Claimed,
    /// The pod is being deleted.
    pub terminating: bool,
    /// The kubelet calls it ready.
    pub ready: bool,
    /// Age of the pod in seconds.
    pub age: i64,
    /// It knows the present membership.
    pub informed: bool,
    /// It was written down that this member leaves.
    pub leaves: bool,
    /// It was made from another template than is asked for.
    pub outdated: bool,
    /// Its container cannot start.
    pub stuck: bool,
}

impl Slot {
    /// A pod on its own claim.
    pub fn new(does: Does, listed: Listed) -> Self {
        Self {
            does,
            listed,
            join: For::Nobody,
            grant: For::Nobody,
            claim: Claimed::Ours,
            terminating: false,
            ready: false,
            age: 60,
            informed: true,
            leaves: false,
            outdated: false,
            stuck: false,
        }
    }

    /// A healthy voter.
    pub fn voter() -> Self {
        Self {
            ready: true,
            ..Self::new(Does::Serves, Listed::Voter)
        }
    }

    /// An agent that waits on an empty volume.
    pub fn empty() -> Self {
        Self::new(Does::Waits(State::Empty), Listed::No)
    }
}

/// A whole observation.
#[derive(Clone, Debug)]
pub struct Scene {
    /// Members asked for.
    pub size: u32,
    /// Line of etcd.
    pub minor: u8,
    /// By ordinal.
    pub slots: Vec<Slot>,
    /// The cluster ID is latched.
    pub formed: bool,
    /// The data was taken over.
    pub resumed: bool,
    /// Who may found the cluster, and for which wait.
    pub founder: Option<(u32, For)>,
    /// The member list could be had.
    pub list: bool,
    /// Objects that differ.
    pub drifted: bool,
    /// Replicas of the live StatefulSet.
    pub replicas: Option<u32>,
    /// What is asked for has not been proven.
    pub edited: bool,
    /// Who tries it.
    pub trial: Option<u32>,
}

/// Hash of a template that is not asked for.
pub const OLD: &str = "old";

impl Scene {
    /// A formed cluster of these.
    pub fn formed(size: u32, slots: Vec<Slot>) -> Self {
        let list = slots.iter().any(|slot| slot.listed != Listed::No);
        let replicas = Some(u32::try_from(slots.len()).unwrap_or(0));
        Self {
            formed: true,
            list,
            replicas,
            ..Self::unformed(size, slots)
        }
    }

    /// A cluster of these that has not formed.
    pub fn unformed(size: u32, slots: Vec<Slot>) -> Self {
        Self {
            size,
            minor: 6,
            slots,
            formed: false,
            resumed: false,
            founder: None,
            list: false,
            drifted: false,
            replicas: None,
            edited: false,
            trial: None,
        }
    }

    /// The moment of every scene.
    pub fn now() -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24)
    }

    /// The observation.
    pub fn observed(&self) -> Observed {
        let latched = self.latched();
        let intent = intent(self.size, self.minor);
        Observed {
            now: Self::now(),
            cluster: Cluster {
                name: NAME.to_owned(),
                namespace: NAMESPACE.to_owned(),
                uid: UID.to_owned(),
                generation: 1,
                deleting: false,
                held_by_predecessor: false,
                paused: false,
                target: Some(decide_target(&intent, &latched)),
                intent: Ok(intent),
                latched,
            },
            objects: Objects {
                replicas: self.replicas,
                template: self.replicas.map(|_| self.set_template()),
                kept_template: self.trial.map(|_| OLD.to_owned()),
                claim_template: Some(10 << 30),
                set_uid: self.replicas.map(|_| "set".to_owned()),
                drifted: if self.drifted {
                    vec!["Service".to_owned()]
                } else {
                    Vec::new()
                },
                ..Objects::default()
            },
            claims: self
                .each()
                .filter_map(|(n, slot)| Some((n, claim(n, slot)?)))
                .collect(),
            pods: self.pods(),
            etcd: Etcd {
                members: self.list.then(|| self.member_list()),
            },
        }
    }

    /// The template that is asked for.
    pub fn asked_for(&self) -> String {
        let mut intent = intent(self.size, self.minor);
        intent.storage.size_in_force = Some(10 << 30);
        manifests::template_hash(&intent)
    }

    fn set_template(&self) -> String {
        if self.edited && self.trial.is_none() {
            OLD.to_owned()
        } else {
            self.asked_for()
        }
    }

    fn each(&self) -> impl Iterator<Item = (u32, &Slot)> {
        (0..).zip(&self.slots)
    }

    fn latched(&self) -> Latched {
        let joins = self.each().filter(|(_, slot)| slot.join != For::Nobody);
        Latched {
            incarnation: 1,
            bootstrap: self.founder.map(|(ordinal, wait)| BootstrapIntent {
                member: names::member(NAME, ordinal),
                pod_uid: pod_uid(ordinal),
                claim_uid: claim_uid(ordinal),
                nonce: nonce(ordinal, wait),
            }),
            joins: joins
                .map(|(ordinal, slot)| JoinIntent {
                    member: names::member(NAME, ordinal),
                    pod_uid: pod_uid(ordinal),
                    nonce: nonce(ordinal, slot.join),
                })
                .collect(),
            retiring: self
                .each()
                .filter(|(_, slot)| slot.leaves)
                .map(|(ordinal, _)| RetireIntent {
                    member: names::member(NAME, ordinal),
                    member_id: format_id(member_id(ordinal)),
                    claim_uid: claim_uid(ordinal),
                })
                .collect(),
            cluster_id: self.formed.then_some(CLUSTER),
            resumed: self.resumed,
            replicas: self.replicas,
            proven: self.formed.then(|| Proven {
                template: if self.edited {
                    OLD.to_owned()
                } else {
                    self.asked_for()
                },
                version: intent(1, self.minor).version,
                everywhere: self.slots.iter().all(|slot| !slot.outdated),
                before: None,
            }),
            trial: self.trial.map(|ordinal| TrialIntent {
                member: names::member(NAME, ordinal),
                template: self.asked_for(),
                pod_uid: pod_uid(ordinal),
            }),
            storage: self.formed.then_some(10 << 30),
            log_line: self.formed.then_some(self.minor),
            ending: false,
        }
    }

    /// The members that the slots list.
    pub fn member_list(&self) -> MemberList {
        let listed = self.each().filter(|(_, slot)| slot.listed != Listed::No);
        let members = listed.map(|(ordinal, slot)| Member {
            id: member_id(ordinal),
            name: if slot.listed == Listed::New {
                String::new()
            } else {
                names::member(NAME, ordinal)
            },
            peer_urls: vec![peer_url(ordinal)],
            learner: slot.listed != Listed::Voter,
        });
        MemberList {
            cluster_id: CLUSTER,
            members: members.collect(),
        }
    }

    fn pods(&self) -> BTreeMap<u32, Pod> {
        let ids: BTreeSet<u64> = self
            .each()
            .filter(|(_, slot)| slot.listed != Listed::No)
            .map(|(ordinal, _)| member_id(ordinal))
            .collect();
        let leader = self
            .each()
            .find(|(_, s)| s.does == Does::Serves && s.listed == Listed::Voter);
        let leader = leader.map_or(0xee, |(ordinal, _)| member_id(ordinal));
        let pods = self
            .each()
            .filter(|(_, slot)| slot.does != Does::Absent)
            .map(|(ordinal, slot)| {
                let pod = Pod {
                    uid: pod_uid(ordinal),
                    created: Self::now() - SignedDuration::from_secs(slot.age),
                    resolvable: slot.does != Does::Unknown,
                    terminating: slot.terminating,
                    ready: slot.ready,
                    problem: slot.stuck.then(|| "ImagePullBackOff".to_owned()),
                    outdated: false,
                    template: if slot.outdated {
                        OLD.to_owned()
                    } else {
                        self.asked_for()
                    },
                    debug: false,
                    told_removed: Vec::new(),
                    grant: self.grant(ordinal, slot),
                    process: self.process(ordinal, slot, &ids, leader),
                };
                (ordinal, pod)
            });
        pods.collect()
    }

    fn grant(&self, ordinal: u32, slot: &Slot) -> Option<Grant> {
        let founds = !self.formed && self.founder.is_some_and(|(founder, _)| founder == ordinal);
        let (token, entry) = (
            format!("{UID}-1"),
            format!("{}={}", names::member(NAME, ordinal), peer_url(ordinal)),
        );
        let action = if founds {
            Action::Bootstrap {
                token,
                initial_cluster: entry,
                discard: false,
            }
        } else {
            Action::Join {
                token,
                initial_cluster: entry,
                member_id: format_id(member_id(ordinal)),
                cluster_id: format_id(CLUSTER),
                discard: false,
            }
        };
        (slot.grant != For::Nobody).then(|| Grant {
            nonce: nonce(ordinal, slot.grant),
            cluster_uid: UID.to_owned(),
            incarnation: 1,
            action,
        })
    }

    fn process(&self, ordinal: u32, slot: &Slot, ids: &BTreeSet<u64>, leader: u64) -> Process {
        let serving = |cluster_id, leader, applied_index| {
            Process::Serving(Serving {
                member_id: member_id(ordinal),
                cluster_id,
                version: Some(intent(1, self.minor).version),
                leader,
                raft_index: applied_index,
                applied_index,
                errors: Vec::new(),
                view: Some(if slot.informed {
                    ids.clone()
                } else {
                    BTreeSet::new()
                }),
                reads: Some(slot.ready),
                storage: Some(self.minor),
                downgrade: None,
            })
        };
        match slot.does {
            Does::Absent | Does::Unknown => Process::Unknown,
            Does::Waits(state) => Process::Held(report(ordinal, state, CLUSTER)),
            Does::WaitsWithStranger => Process::Held(report(ordinal, State::OtherObject, STRANGER)),
            Does::Starts => Process::Starting,
            Does::Serves => serving(CLUSTER, leader, HEAD),
            Does::Lags => serving(CLUSTER, leader, HEAD / 2),
            Does::Leaderless => serving(CLUSTER, 0, HEAD),
            Does::ServesStranger => serving(STRANGER, leader, HEAD),
        }
    }
}

fn claim(ordinal: u32, slot: &Slot) -> Option<Claim> {
    (slot.claim != Claimed::Absent).then(|| Claim {
        uid: claim_uid(ordinal),
        ours: slot.claim == Claimed::Ours,
        terminating: slot.claim == Claimed::Terminating,
        requested: Some(10 << 30),
        capacity: Some(10 << 30),
        expandable: Some(true),
    })
}

fn report(ordinal: u32, state: State, cluster: u64) -> Report {
    let data = !matches!(state, State::Empty | State::Damaged);
    Report {
        protocol: gate::PROTOCOL,
        state,
        nonce: nonce(ordinal, For::ThisWait),
        pod_uid: pod_uid(ordinal),
        detail: match state {
            State::Empty => "the data directory is empty",
            State::OtherObject => "data of the EtcdCluster with UID other",
            State::Unidentified => "data without an identity file",
            State::Mismatch => "the identity file names another member",
            State::Damaged => "the WAL cannot be read",
        }
        .to_owned(),
        data: data.then(|| Data {
            cluster_id: format_id(cluster),
            member_id: format_id(member_id(ordinal)),
            term: 2,
            index: HEAD,
            commit: HEAD,
            identity: None,
        }),
    }
}

/// Member ID of an ordinal in every scene.
pub fn member_id(ordinal: u32) -> u64 {
    0xa0 + u64::from(ordinal)
}

/// UID of its pod.
pub fn pod_uid(ordinal: u32) -> String {
    format!("pod-{ordinal}")
}

/// UID of its claim.
pub fn claim_uid(ordinal: u32) -> String {
    format!("claim-{ordinal}")
}

/// Nonce of a wait.
pub fn nonce(ordinal: u32, wait: For) -> String {
    match wait {
        For::Nobody | For::ThisWait => format!("nonce-{ordinal}"),
        For::FormerWait => format!("former-{ordinal}"),
    }
}

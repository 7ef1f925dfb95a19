//! From the strokes of a scene to the observation.

use std::collections::{BTreeMap, BTreeSet};

use api::names;
use api::v1alpha1::status::{BootstrapIntent, JoinIntent, RetireIntent, TrialIntent};
use api::{ClusterIntent, EtcdVersion, Quantity, Transport};
use gate::{Action, Data, Grant, Report, State};
use jiff::SignedDuration;
use manifests::Kind;
use plan::Observed;
use plan::observed::{
    Certificates, Claim, Cluster, Disturbance, Etcd, Latched, Member, MemberList, NodeBinding,
    NodeState, Objects, Pod, Process, Proven, Serving, Told, Wish, format_id,
};
use plan::target::Target;

use super::{
    CLUSTER, Claimed, Does, FENCE, Fate, For, HEAD, LARGE, Listed, Made, OLD, OTHER, SMALL,
    STRANGER, Scene, Sized, Slot, Trial, UID, claim_uid, member_id, nonce, pod_uid,
};
use crate::intent::{intent, newest};
use crate::world::observe::target_of;
use crate::world::{NAME, NAMESPACE, peer_url};

/// An object that is to be written as a whole.
pub fn wish(kind: Kind, name: &str) -> Wish {
    Wish {
        kind,
        name: name.to_owned(),
        field: None,
        body: 0,
        template: None,
    }
}

/// What a scene is about, found out once.
struct Templates {
    target: Target,
    proven: String,
}

impl Scene {
    /// The observation.
    pub fn observed(&self) -> Observed {
        let templates = self.templates();
        Observed {
            now: Self::now(),
            cluster: Cluster {
                name: NAME.to_owned(),
                namespace: NAMESPACE.to_owned(),
                uid: UID.to_owned(),
                generation: 1,
                deleting: false,
                held_by_predecessor: false,
                paused: self.paused,
                recover: self.dark.named(),
                unavailable_since: self.dark.since(),
                recalled: false,
                target: Some(templates.target.clone()),
                intent: Ok(self.intent()),
                latched: self.latched(&templates),
            },
            objects: self.objects(&templates),
            claims: self
                .each()
                .filter_map(|(n, slot)| Some((n, self.claim(n, slot)?)))
                .collect(),
            pods: self.pods(&templates),
            node_bindings: self
                .each()
                .filter_map(|(n, slot)| Some((n, binding(slot.fate)?)))
                .collect(),
            etcd: Etcd {
                members: self.list.then(|| self.member_list()),
                upkeep: None,
                auth: plan::observed::Auth::default(),
            },
            certificates: Certificates::default(),
            failed: Vec::new(),
            recreated: BTreeMap::new(),
            not_created: BTreeMap::new(),
            backups: plan::observed::Backups::default(),
            restore: plan::observed::Restore::default(),
            indexes_recorded: None,
        }
    }

    /// What the spec asks for.
    pub fn intent(&self) -> ClusterIntent {
        let mut intent = intent(self.size, self.minor);
        intent.allow_intermediate = self.walk;
        intent.on_quorum_loss = self.dark.policy();
        intent.storage.when_scaled = self.when_scaled;
        intent.storage.when_stopped = self.when_stopped;
        if self.larger {
            intent.storage.size = Quantity("20Gi".to_owned());
            intent.storage.bytes = LARGE;
        }
        intent
    }

    /// What to run next.
    pub fn target(&self) -> Target {
        let latched = Latched {
            cluster_id: self.formed.then_some(CLUSTER),
            proven: Some(Proven {
                template: if self.predecessor { "" } else { OLD }.to_owned(),
                version: newest(self.from),
                everywhere: self.everywhere,
                before: None,
            }),
            storage: self.formed.then_some(SMALL),
            log_line: self.formed.then_some(self.minor),
            ..Latched::default()
        };
        target_of(&self.intent(), &latched)
    }

    /// Hash of what to run next.
    pub fn asked_for(&self) -> String {
        self.target().template
    }

    /// Hash of what is proven.
    pub fn proven(&self) -> String {
        self.templates().proven
    }

    fn templates(&self) -> Templates {
        let target = self.target();
        let proven = if self.predecessor {
            String::new()
        } else if self.edited || self.from != self.minor {
            OLD.to_owned()
        } else {
            target.template.clone()
        };
        Templates { target, proven }
    }

    fn objects(&self, templates: &Templates) -> Objects {
        let untried = templates.proven != templates.target.template;
        let written = matches!(self.trial, Some((_, Trial::Written | Trial::Remade))) && untried;
        let size = if self.claims_follow && self.larger {
            LARGE
        } else {
            SMALL
        };
        Objects {
            replicas: self.replicas,
            template: self.replicas.map(|_| {
                if written || !self.formed {
                    templates.target.template.clone()
                } else {
                    templates.proven.clone()
                }
            }),
            kept_template: written.then(|| templates.proven.clone()),
            claim_template: Some(size),
            set_uid: self.replicas.map(|_| "set".to_owned()),
            predecessor: self.predecessor,
            client_service: self.clients,
            drifted: if self.drifted {
                vec![wish(Kind::Service, "db-client")]
            } else {
                Vec::new()
            },
            ..Objects::default()
        }
    }

    fn latched(&self, templates: &Templates) -> Latched {
        let joins = self.each().filter(|(_, slot)| slot.join != For::NoWait);
        Latched {
            restore: None,
            replace: None,
            made: plan::observed::Made::default(),
            voters: self.known_voters(),
            learners: self.known_learners(),
            incarnation: self.dark.incarnation(),
            bootstrap: self.bootstrap.map(|(ordinal, wait)| BootstrapIntent {
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
                .map(|(ordinal, slot)| RetireIntent {
                    member: names::member(NAME, ordinal),
                    member_id: format_id(member_id(ordinal)),
                    claim_uid: claim_uid(ordinal),
                    replaced: slot.replaced.then(|| "its node is gone".to_owned()),
                })
                .collect(),
            cluster_id: self.formed.then_some(CLUSTER),
            resumed: self.resumed,
            transport: None,
            transport_before: None,
            switches: 0,
            replicas: self.replicas,
            proven: self.formed.then(|| Proven {
                template: templates.proven.clone(),
                version: newest(self.from),
                everywhere: self.everywhere,
                before: None,
            }),
            disturbance: self.disturbance(templates),
            storage: self.formed.then_some(SMALL),
            log_line: self.log_line(),
            ending: self.ending,
            fence: self.dark.fence(),
            recovery: self.dark.recovery(),
            compacted: self.compacted,
            hung: self.hung(),
            called_off: None,
        }
    }

    /// At most one: of what a scene has of them, the trial comes first.
    fn disturbance(&self, templates: &Templates) -> Option<Disturbance> {
        let member = self.defragmenting.map(|n| names::member(NAME, n));
        let trial = self.trial_intent(templates).map(Disturbance::Trial);
        trial
            .or_else(|| member.map(|member| Disturbance::Defragment { member }))
            .or_else(|| self.renewing.then_some(Disturbance::RenewLogs))
    }

    fn trial_intent(&self, templates: &Templates) -> Option<TrialIntent> {
        let (ordinal, stage) = self.trial?;
        Some(TrialIntent {
            member: names::member(NAME, ordinal),
            template: templates.target.template.clone(),
            pod_uid: match stage {
                Trial::Chosen | Trial::Written => pod_uid(ordinal),
                Trial::Remade | Trial::Restored => format!("former-{}", pod_uid(ordinal)),
            },
        })
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

    /// The voter that leads in every scene.
    pub fn leader(&self) -> Option<u32> {
        self.each()
            .find(|(_, s)| s.does == Does::Serves && s.listed == Listed::Voter && !s.hangs())
            .map(|(ordinal, _)| ordinal)
    }

    /// The release that a pod of this kind runs.
    pub fn version_of(&self, slot: &Slot) -> EtcdVersion {
        self.version_on(slot, &self.target())
    }

    fn version_on(&self, slot: &Slot, target: &Target) -> EtcdVersion {
        match slot.made {
            Made::AsAsked => target.intent.version,
            Made::Before | Made::Otherwise => newest(self.from),
        }
    }

    fn pods(&self, templates: &Templates) -> BTreeMap<u32, Pod> {
        let ids: BTreeSet<u64> = self
            .each()
            .filter(|(_, slot)| slot.listed != Listed::No)
            .map(|(ordinal, _)| member_id(ordinal))
            .collect();
        let leader = self.leader().map_or(0xee, member_id);
        let (asked_for, proven) = (&templates.target.template, &templates.proven);
        let before = if proven == asked_for { OLD } else { proven };
        let pods = self
            .each()
            .filter(|(_, slot)| slot.does != Does::Absent)
            .map(|(ordinal, slot)| {
                let pod = Pod {
                    uid: pod_uid(ordinal),
                    created: Self::now() - SignedDuration::from_secs(slot.age),
                    resolvable: slot.does != Does::Unknown,
                    // Where no node is found, nothing is known.
                    scheduled: slot.does != Does::Unknown || slot.fate != Fate::Unknown,
                    terminating: slot.terminating,
                    ready: slot.ready,
                    broken: (slot.fate == Fate::Broken)
                        .then(|| "failed to open database".to_owned()),
                    problem: slot.stuck.then(|| "ImagePullBackOff".to_owned()),
                    outdated: slot.made != Made::AsAsked,
                    template: match slot.made {
                        Made::AsAsked => asked_for.clone(),
                        Made::Before => before.to_owned(),
                        Made::Otherwise => OTHER.to_owned(),
                    },
                    transport: Transport::default(),
                    trust: 0,
                    refreshed: None,
                    debug: false,
                    told_removed: slot.told.then(|| member_id(ordinal)).into_iter().collect(),
                    grant: self.grant(ordinal, slot),
                    // Of half of them, what they were told is recorded.
                    told: (ordinal % 2 == 0)
                        .then(|| Told::first(Self::now() - SignedDuration::from_secs(slot.age))),
                    fence: slot.fenced.then_some(FENCE),
                    process: self.process((ordinal, slot), &ids, leader, templates),
                    received: None,
                    stranger: None,
                    stall: slot.stalls.stall(),
                };
                (ordinal, pod)
            });
        pods.collect()
    }

    fn grant(&self, ordinal: u32, slot: &Slot) -> Option<Grant> {
        let bootstraps = !self.formed
            && self
                .bootstrap
                .is_some_and(|(bootstrap, _)| bootstrap == ordinal);
        let (token, entry) = (
            format!("{UID}-1"),
            format!("{}={}", names::member(NAME, ordinal), peer_url(ordinal)),
        );
        let action = if bootstraps {
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
        (slot.grant != For::NoWait).then(|| Grant {
            nonce: nonce(ordinal, slot.grant),
            cluster_uid: UID.to_owned(),
            incarnation: 1,
            action,
        })
    }

    fn process(
        &self,
        (ordinal, slot): (u32, &Slot),
        ids: &BTreeSet<u64>,
        leader: u64,
        templates: &Templates,
    ) -> Process {
        let serving = |cluster_id, leader, applied_index| {
            let version = self.version_on(slot, &templates.target);
            Process::Serving(Serving {
                member_id: member_id(ordinal),
                cluster_id,
                version: Some(version),
                leader,
                raft_index: applied_index,
                applied_index,
                errors: self.errors(),
                view: Some(if slot.informed {
                    ids.clone()
                } else {
                    BTreeSet::new()
                }),
                reads: Some(slot.ready),
                // 3.5 does not tell.
                storage: (version.minor > 5).then(|| slot.format.unwrap_or(self.format)),
                downgrade: self.downgrade,
                space: slot.fill.space(),
                hash: slot.differs.hash(),
            })
        };
        match slot.does {
            Does::Absent | Does::Unknown => Process::Unknown,
            Does::Waits(state) => {
                let given_up = self.is_given_up(ordinal);
                let cluster = if given_up { STRANGER } else { CLUSTER };
                Process::Held(report((ordinal, slot), state, cluster))
            }
            Does::WaitsWithStranger => {
                Process::Held(report((ordinal, slot), State::OtherObject, STRANGER))
            }
            Does::Starts => Process::Starting,
            Does::Serves => serving(CLUSTER, leader, HEAD),
            Does::Lags => serving(CLUSTER, leader, HEAD / 2),
            Does::Leaderless => serving(CLUSTER, 0, HEAD),
            Does::ServesStranger => serving(STRANGER, leader, HEAD),
        }
    }

    fn claim(&self, ordinal: u32, slot: &Slot) -> Option<Claim> {
        let wanted = if self.larger { LARGE } else { SMALL };
        let (requested, capacity, expandable) = match slot.volume {
            Sized::AsAsked => (wanted, wanted, Some(true)),
            Sized::Small => (SMALL, SMALL, Some(true)),
            Sized::Fixed => (SMALL, SMALL, Some(false)),
            Sized::Classless => (SMALL, SMALL, None),
            Sized::Huge => (wanted + SMALL, wanted + SMALL, Some(true)),
            Sized::Growing => (wanted, SMALL, Some(true)),
        };
        (slot.claim != Claimed::Absent).then(|| Claim {
            uid: claim_uid(ordinal),
            ours: slot.claim == Claimed::Ours,
            terminating: slot.claim == Claimed::Terminating,
            requested: Some(requested),
            capacity: Some(capacity),
            expandable,
            class: Some("fixed".to_owned()),
            lost: (slot.fate == Fate::Lost).then(|| "the claim says Lost".to_owned()),
            lineage: None,
        })
    }
}

fn binding(fate: Fate) -> Option<NodeBinding> {
    let ago = |seconds: i64| Scene::now() - SignedDuration::from_secs(seconds);
    let state = match fate {
        Fate::Unknown => return None,
        Fate::Fine | Fate::Lost | Fate::Broken => NodeState::Ready,
        Fate::Late => NodeState::NotReady(ago(20)),
        Fate::Silent => NodeState::NotReady(ago(400)),
        Fate::OutOfService => NodeState::OutOfService,
        Fate::Deleted => NodeState::Deleted,
    };
    let node = "n1".to_owned();
    let elsewhere = Some(false);
    Some(NodeBinding {
        node,
        state,
        elsewhere,
        gone_since: None,
    })
}

fn report((ordinal, slot): (u32, &Slot), state: State, cluster: u64) -> Report {
    let (term, index) = slot.log.end();
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
            State::Fenced => "data of incarnation 1, held back by the fence of incarnation 2",
            State::RolledBack => "the log ends before what this member is known to have applied",
        }
        .to_owned(),
        data: data.then(|| Data {
            cluster_id: format_id(cluster),
            member_id: format_id(member_id(ordinal)),
            term,
            index,
            commit: index,
            written: None,
            identity: None,
        }),
        failed: None,
        received_bytes: None,
    }
}

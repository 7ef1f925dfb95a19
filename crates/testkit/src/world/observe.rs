//! What an operator sees of the world, and what it fails to see.

use std::collections::{BTreeMap, BTreeSet};

use api::EtcdClusterStatus;
use plan::Observed;
use plan::observed::{Claim, Cluster, Etcd, MemberList, Objects, Pod, Process, Serving};
use plan::shape::decide_shape;

use crate::intent::intent;
use crate::world::{self, Container, NAME, NAMESPACE, World};

/// One look: what was seen, and the version of the object it was seen at.
#[derive(Clone, Debug)]
pub struct Look {
    /// What was seen.
    pub observed: Observed,
    /// The status at that time.
    pub status: EtcdClusterStatus,
    /// The object's resourceVersion at that time.
    pub revision: u64,
}

/// What cannot be seen.
#[derive(Clone, Debug, Default)]
pub struct Blind {
    /// Pods that do not answer.
    pub pods: BTreeSet<u32>,
    /// The member list cannot be had.
    pub list: bool,
}

impl World {
    /// Looks at everything.
    pub fn look_around(&self, blind: &Blind) -> Look {
        let mut observed = Observed {
            now: self.now,
            cluster: self.observe_cluster(),
            objects: Objects {
                replicas: self.own_set(),
                client_service: self
                    .small
                    .get("client")
                    .is_some_and(|s| s.0 == self.object.uid),
                former: self.former(),
                ..Objects::default()
            },
            claims: self.observe_claims(),
            pods: self.observe_pods(blind),
            etcd: Etcd {
                members: self.observe_list().filter(|_| !blind.list),
            },
        };
        observed.objects.drifted = self.drifted(&observed);
        Look {
            observed,
            status: self.object.status.clone(),
            revision: self.object.revision,
        }
    }

    fn observe_cluster(&self) -> Cluster {
        Cluster {
            name: NAME.to_owned(),
            namespace: NAMESPACE.to_owned(),
            uid: self.object.uid.clone(),
            generation: self.object.generation,
            deleting: false,
            held_by_predecessor: false,
            intent: Ok(intent(self.object.size, self.object.minor)),
            latched: plan::status::latched(&self.object.status),
        }
    }

    pub(super) fn own_set(&self) -> Option<u32> {
        self.set
            .as_ref()
            .filter(|(owner, _)| *owner == self.object.uid)
            .map(|(_, replicas)| *replicas)
    }

    /// What an earlier object of this name still owns.
    fn former(&self) -> Vec<String> {
        let uid = &self.object.uid;
        let small = self.small.iter().filter(|(_, (owner, _))| owner != uid);
        let set = self.set.iter().filter(|(owner, _)| owner != uid);
        let pods = self.pods.iter().filter(|(_, pod)| pod.owner != *uid);
        // A claim that goes with its owner, though it still carries that owner's label.
        let claims = self
            .claims
            .iter()
            .filter(|(_, claim)| claim.terminating && claim.cluster_uid != *uid);
        small
            .map(|(name, _)| (*name).to_owned())
            .chain(set.map(|_| "statefulset".to_owned()))
            .chain(pods.map(|(ordinal, _)| format!("pod {ordinal}")))
            .chain(claims.map(|(ordinal, _)| format!("claim {ordinal}")))
            .collect()
    }

    fn observe_claims(&self) -> BTreeMap<u32, Claim> {
        let seen = self.claims.iter().map(|(ordinal, claim)| {
            let ours = claim.cluster_uid == self.object.uid;
            (
                *ordinal,
                Claim {
                    uid: claim.uid.clone(),
                    ours,
                    terminating: claim.terminating,
                },
            )
        });
        seen.collect()
    }

    fn observe_pods(&self, blind: &Blind) -> BTreeMap<u32, Pod> {
        let seen = self
            .pods
            .iter()
            .filter(|(_, pod)| pod.owner == self.object.uid);
        seen.map(|(ordinal, pod)| {
            let process = if blind.pods.contains(ordinal) {
                Process::Unknown
            } else {
                self.process(pod)
            };
            let seen = Pod {
                uid: pod.uid.clone(),
                created: pod.created,
                resolvable: !matches!(pod.container, Container::Down),
                terminating: pod.terminating,
                ready: matches!(process, Process::Serving(_)),
                problem: None,
                outdated: false,
                grant: pod.grant.clone(),
                process,
            };
            (*ordinal, seen)
        })
        .collect()
    }

    fn process(&self, pod: &world::Pod) -> Process {
        let process = match &pod.container {
            Container::Down => return Process::Unknown,
            Container::Waiting(report) => return Process::Held(report.clone()),
            Container::Etcd(process) => process,
        };
        if !process.serving {
            return Process::Starting;
        }
        let log = self.log_of(process.cluster, process.member);
        let leader = self
            .clusters
            .get(&process.cluster)
            .and_then(|cluster| cluster.leader);
        Process::Serving(Serving {
            member_id: process.member,
            cluster_id: process.cluster,
            version: Some(intent(1, self.object.minor).version),
            leader: leader.unwrap_or(0),
            raft_index: log,
            applied_index: log,
            errors: Vec::new(),
            view: Some(process.view.iter().map(|member| member.id).collect()),
        })
    }

    /// The list that a quorum confirms.
    fn observe_list(&self) -> Option<MemberList> {
        let (id, cluster) = self.clusters.iter().find(|(id, cluster)| {
            let mut members = cluster.members.iter();
            let serves = |id: u64, member| self.process_of(id, member).is_some_and(|p| p.serving);
            self.has_quorum(**id) && members.any(|member| serves(**id, member.id))
        })?;
        Some(MemberList {
            cluster_id: *id,
            members: cluster.members.clone(),
        })
    }

    /// What is missing or not as it should be.
    fn drifted(&self, observed: &Observed) -> Vec<String> {
        let Some(shape) = decide_shape(observed) else {
            return Vec::new();
        };
        self.unwritten(&shape)
            .into_iter()
            .map(|object| object.to_string())
            .collect()
    }
}

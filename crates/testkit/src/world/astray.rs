//! Addresses that lead elsewhere: the status of a pod holds one that was given to another pod since.

use std::collections::{BTreeMap, BTreeSet};

use gate::{Report, State};
use plan::Observed;
use plan::observed::{Member, MemberList, Process, Serving, Space};

use crate::intent::newest;
use crate::world::{Container, World};

/// Who answers instead of a pod.
#[derive(Clone, Debug)]
pub enum Stray {
    /// The pod of another cluster waits at its gate.
    Waits(Box<Report>),
    /// The only member of another cluster serves.
    Serves(MemberList),
    /// Another pod of this cluster.
    Sibling(u32),
}

impl Stray {
    /// Another cluster's pod, on an empty volume.
    pub fn waiting() -> Self {
        Self::Waits(Box::new(Report {
            protocol: gate::PROTOCOL,
            state: State::Empty,
            nonce: "of another wait".to_owned(),
            pod_uid: "of another pod".to_owned(),
            detail: "the data directory is empty".to_owned(),
            data: None,
            failed: None,
            received_bytes: None,
        }))
    }

    /// Another cluster's member.
    pub fn serving() -> Self {
        let member = Member {
            id: 0xbad,
            name: "other-0".to_owned(),
            peer_urls: vec!["http://other-0.other-peer.ns.svc:2380".to_owned()],
            learner: false,
        };
        Self::Serves(MemberList {
            cluster_id: 0xbadc,
            members: vec![member],
        })
    }
}

impl World {
    /// What is found at the address of a pod that is another's; `None` where the address is right.
    pub(super) fn found_instead(&self, ordinal: u32) -> Option<Process> {
        Some(match self.astray.get(&ordinal)? {
            Stray::Waits(report) => Process::Held((**report).clone()),
            Stray::Serves(list) => Process::Serving(alone(list)),
            Stray::Sibling(other) => {
                let pod = self.pods.get(other);
                pod.map_or(Process::Unknown, |pod| self.process(pod))
            }
        })
    }

    /// As the operator does it: every answer is proved to be that of the pod that was asked.
    pub(super) fn prove(&self, observed: &mut Observed, confirmed: Option<&MemberList>) {
        observed.disown_waits();
        let serving = observed.pods.iter();
        let serving = serving.filter(|(_, pod)| pod.serving().is_some());
        let list = serving.map(|(ordinal, _)| *ordinal).find_map(|ordinal| {
            let list = match self.astray.get(&ordinal) {
                Some(Stray::Serves(list)) => Some(list),
                Some(Stray::Waits(_) | Stray::Sibling(_)) | None => confirmed,
            };
            list.filter(|list| observed.is_own_list(ordinal, list))
        });
        observed.etcd.members = list.cloned();
        let asked = observed.unproved().into_iter();
        let own: BTreeMap<u32, MemberList> = asked
            .filter_map(|ordinal| Some((ordinal, self.listed_by(ordinal)?)))
            .collect();
        observed.disown_members(&own);
    }

    /// What the one that answers for an ordinal lists by itself.
    fn listed_by(&self, ordinal: u32) -> Option<MemberList> {
        let ordinal = match self.astray.get(&ordinal) {
            Some(Stray::Serves(list)) => return Some(list.clone()),
            Some(Stray::Sibling(other)) => *other,
            Some(Stray::Waits(_)) => return None,
            None => ordinal,
        };
        let Container::Etcd(process) = &self.pods.get(&ordinal)?.container else {
            return None;
        };
        // A learner refuses.
        let mut own = process.view.iter();
        let learns = own.any(|member| member.id == process.member && member.learner);
        (!learns).then(|| MemberList {
            cluster_id: process.cluster,
            members: process.view.clone(),
        })
    }
}

/// The first member of a list, as it would say of itself.
pub fn alone(list: &MemberList) -> Serving {
    let ids: BTreeSet<u64> = list.members.iter().map(|member| member.id).collect();
    let id = ids.first().copied().unwrap_or_default();
    Serving {
        member_id: id,
        cluster_id: list.cluster_id,
        version: Some(newest(6)),
        leader: id,
        raft_index: 10,
        applied_index: 10,
        errors: Vec::new(),
        view: Some(ids),
        reads: Some(true),
        storage: Some(6),
        downgrade: None,
        space: Space::default(),
        hash: None,
    }
}

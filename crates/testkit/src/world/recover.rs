//! What is left of a cluster continues as another one, and what must never happen on the way.

use std::collections::BTreeSet;

use gate::{Failed, State};
use plan::observed::{Member, NodeState};

use crate::world::{Claim, Cluster, Container, NAME, World};

impl World {
    /// Its owner lets the operator go on with what is left of the cluster that was.
    pub fn approve_recovery(&mut self) {
        let id = self.object.status.cluster_id.clone();
        self.object.recover = id.and_then(|id| plan::observed::parse_id(&id));
        self.object.revision += 1;
    }

    /// A survivor was recorded. No member that can be reached has more.
    pub(super) fn check_choice(&mut self) {
        let recovery = self.memory().recovery;
        let chosen = recovery.and_then(|recovery| recovery.survivor);
        let chosen = chosen.and_then(|chosen| api::names::ordinal(NAME, &chosen.member));
        let log = |claim: &Claim| claim.volume.data.filter(|_| !claim.volume.damaged);
        let Some(data) = chosen.and_then(|ordinal| log(self.claims.get(&ordinal)?)) else {
            return;
        };
        let longer = self.claims.values().any(|claim| {
            let node = claim.node.as_ref().and_then(|node| self.nodes.get(node));
            let reachable = node.is_none_or(|state| *state == NodeState::Ready);
            let other = log(claim).filter(|other| other.cluster == data.cluster);
            // What is left of one that was removed is never read again, whatever it holds.
            let other = other.filter(|other| self.is_listed(other.cluster, other.member));
            reachable && other.is_some_and(|other| other.log > data.log)
        });
        if longer {
            self.violate("lost write: a longer log was passed over");
        }
    }

    /// The data cannot be replayed: it stays as it was, and the agent waits again. Whether it came to that.
    pub(super) fn fails_to_recover(&mut self, ordinal: u32) -> bool {
        let volume = self.claims.get(&ordinal).map(|claim| claim.volume.clone());
        let full = self.claims.get(&ordinal).is_some_and(Claim::is_full);
        let Some(volume) = volume.filter(|volume| volume.stubborn || full) else {
            return false;
        };
        self.wait(ordinal, State::Fenced, &volume);
        let time = self.now.as_second();
        let pod = self.pods.get_mut(&ordinal);
        if let Some(Container::Waiting(report)) = pod.map(|pod| &mut pod.container) {
            report.failed = Some(Failed {
                why: "etcd ended: removed all voters".to_owned(),
                time,
            });
        }
        true
    }

    /// A survivor bootstraps another cluster from its data.
    pub(super) fn start_recovered(&mut self, ordinal: u32, token: &str) {
        if !self.tokens.insert(token.to_owned()) {
            self.violate(format!("a second bootstrap under the token {token}"));
        }
        let Some(mut data) = self.claims.get(&ordinal).and_then(|c| c.volume.data) else {
            return;
        };
        let runs = self.pods.values().any(|pod| match &pod.container {
            Container::Etcd(_) => true,
            Container::Down | Container::Waiting(_) => false,
        });
        if runs {
            self.violate("fork: recovered beside a process of the old cluster");
        }
        // What only the others had was given up, and so was what an earlier survivor bootstrapped before it was lost.
        let old = self.clusters.get(&data.cluster);
        let accounts = old.map(|old| old.accounts.clone()).unwrap_or_default();
        for old in self.clusters.values_mut() {
            old.acknowledged = 0;
            old.given_up = true;
        }
        self.counter += 1;
        let (id, member) = (0xc000 + self.counter, 0xa000 + self.counter);
        let first = Member {
            id: member,
            name: String::new(),
            peer_urls: vec![self.own_peer_url(ordinal)],
            learner: false,
        };
        let cluster = Cluster {
            members: vec![first.clone()],
            started: BTreeSet::from([member]),
            acknowledged: data.log,
            accounts,
            ..Cluster::default()
        };
        self.clusters.insert(id, cluster);
        (data.cluster, data.member) = (id, member);
        if let Some(claim) = self.claims.get_mut(&ordinal) {
            claim.volume.data = Some(data);
            if let Some(identity) = &mut claim.volume.identity {
                identity.member_id = None;
                identity.cluster_id = None;
            }
        }
        self.start(ordinal, data, vec![first]);
    }
}

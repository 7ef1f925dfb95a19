//! What can happen by itself, one move at a time and by name instead of by chance: for a search that tries every order.

use jiff::{SignedDuration, Timestamp};
use plan::observed::{Member, NodeState, parse_id};

use crate::rng::Rng;
use crate::world::{Claim, Container, NAME, NAMESPACE, Process, World};

/// One thing that happens by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Happens {
    /// A pod that is being deleted is gone.
    Gone(u32),
    /// The StatefulSet controller makes a pod, and it is scheduled where there is room.
    Created(u32),
    /// The kubelet or the agent of a pod goes on: looks at the volume, obeys a grant, starts etcd.
    Goes(u32),
    /// A process hears of the membership, begins to serve, or learns that it was removed.
    Hears(u32),
    /// A member has what the leader has.
    CatchesUp(u32),
}

/// Longer than etcd asks voters to have been connected.
const LONG_CONNECTED: SignedDuration = SignedDuration::from_secs(10);

fn knows(process: &Process, members: &[Member]) -> bool {
    let view = process.view.iter().map(|member| member.id);
    view.eq(members.iter().map(|member| member.id))
}

impl World {
    /// Everything that could happen now.
    pub fn possible(&self) -> Vec<Happens> {
        let replicas = self.own_set().map_or(0, |set| set.replicas);
        let most = self.pods.keys().next_back().map_or(0, |last| last + 1);
        let mut all = Vec::new();
        for ordinal in 0..replicas.max(most) {
            let kinds: [fn(u32) -> Happens; 5] = [
                Happens::Gone,
                Happens::Created,
                Happens::Goes,
                Happens::Hears,
                Happens::CatchesUp,
            ];
            let moves = kinds.map(|kind| kind(ordinal));
            all.extend(moves.into_iter().filter(|what| self.can(*what, replicas)));
        }
        all
    }

    fn can(&self, what: Happens, replicas: u32) -> bool {
        match what {
            Happens::Gone(n) => self.pods.get(&n).is_some_and(|pod| {
                let held = pod.frozen && pod.node.is_some();
                pod.terminating && !held
            }),
            Happens::Created(n) => {
                let claim = self.claims.get(&n);
                let usable = claim.is_none_or(|claim| !claim.terminating);
                n < replicas && usable && !self.pods.contains_key(&n)
            }
            Happens::Goes(n) => self.can_go(n),
            Happens::Hears(n) => self.process_in(n).is_some_and(|process| {
                let cluster = self.clusters.get(&process.cluster);
                cluster.filter(|c| c.leader.is_some()).is_some_and(|c| {
                    let removed = c.removed.contains(&process.member);
                    removed || !process.serving || !knows(process, &c.members)
                })
            }),
            Happens::CatchesUp(n) => self.process_in(n).is_some_and(|process| {
                let (cluster, member) = (process.cluster, process.member);
                let leader = self.clusters.get(&cluster).and_then(|c| c.leader);
                leader.is_some_and(|leader| {
                    self.is_listed(cluster, member)
                        && self.log_of(cluster, member) < self.log_of(cluster, leader)
                })
            }),
        }
    }

    fn process_in(&self, ordinal: u32) -> Option<&Process> {
        match &self.pods.get(&ordinal)?.container {
            Container::Etcd(process) => Some(process),
            Container::Down | Container::Waiting(_) => None,
        }
    }

    /// Some cluster lists a member for an ordinal.
    pub(super) fn has_member(&self, ordinal: u32) -> bool {
        let of = |url: &String| api::names::ordinal_of_url(NAME, NAMESPACE, url);
        let mut members = self.clusters.values().flat_map(|c| &c.members);
        members.any(|member| member.peer_urls.iter().any(|url| of(url) == Some(ordinal)))
    }

    /// Seconds that would make a difference to some rule: for pods that come, and for a cluster that went dark.
    pub(crate) fn waits_seconds(&self) -> bool {
        let age = |since| self.now.duration_since(since).as_secs();
        let dark = self.unavailable_since();
        dark.is_some_and(|since| age(since) < 15)
            || self.pods.iter().any(|(ordinal, pod)| {
                age(pod.created) < 20 && !pod.terminating && !self.has_member(*ordinal)
            })
    }

    /// Minutes would: for nodes that are silent, and for a cluster that stays dark.
    pub(crate) fn waits_minutes(&self) -> bool {
        let age = |since| self.now.duration_since(since).as_secs();
        let dark = self.unavailable_since();
        dark.is_some_and(|since| age(since) < 60)
            || self.nodes.values().any(|state| match state {
                NodeState::NotReady(since) => age(*since) < 300,
                NodeState::Ready | NodeState::OutOfService | NodeState::Deleted => false,
            })
    }

    /// Since when no quorum serves; for a cluster that has not formed that does not matter.
    pub(super) fn unavailable_since(&self) -> Option<Timestamp> {
        let formed = self.object.status.cluster_id.is_some();
        plan::status::unavailable_since(&self.object.status).filter(|_| formed)
    }

    /// A person gave the word for the cluster that the status names.
    pub(crate) fn is_word_given(&self) -> bool {
        let named = plan::status::latched(&self.object.status).cluster_id;
        self.object.recover.is_some() && self.object.recover == named
    }

    pub(super) fn is_listed(&self, cluster: u64, member: u64) -> bool {
        let cluster = self.clusters.get(&cluster);
        cluster.is_some_and(|c| c.members.iter().any(|m| m.id == member))
    }

    fn is_voter(&self, cluster: u64, member: u64) -> bool {
        let cluster = self.clusters.get(&cluster);
        cluster.is_some_and(|c| c.members.iter().any(|m| m.id == member && !m.learner))
    }

    /// One of the things that are possible, and what follows in the same pod at once where that is all the same to
    /// others: a pod is scheduled and started in one go, a member that is reached also catches up, and no pod is young.
    pub fn happen_coarsely(&mut self, what: Happens) {
        self.happen(what);
        match what {
            Happens::Created(n) => {
                if let Some(pod) = self.pods.get_mut(&n) {
                    pod.created = self.now - SignedDuration::from_secs(60);
                }
                self.happen(Happens::Goes(n));
            }
            Happens::Hears(n) => self.happen(Happens::CatchesUp(n)),
            Happens::Gone(_) | Happens::Goes(_) | Happens::CatchesUp(_) => {}
        }
    }

    /// One of the things that are possible.
    pub fn happen(&mut self, what: Happens) {
        self.rng = Rng::new(0);
        match what {
            Happens::Gone(n) => {
                self.pods.remove(&n);
            }
            Happens::Created(n) => {
                if let Some(set) = self.own_set().cloned() {
                    self.make_claim(n);
                    self.make_pod(n, &set);
                }
            }
            Happens::Goes(n) => self.run_pod(n),
            Happens::Hears(n) => self.hear(n),
            Happens::CatchesUp(n) => {
                if let Some((cluster, member)) = self.process_in(n).map(|p| (p.cluster, p.member)) {
                    let leader = self.clusters.get(&cluster).and_then(|c| c.leader);
                    let head = leader.map_or(0, |leader| self.log_of(cluster, leader));
                    self.set_log(cluster, member, head);
                }
            }
        }
        self.follow();
    }

    fn hear(&mut self, ordinal: u32) {
        let Some(process) = self.process_in(ordinal) else {
            return;
        };
        let (id, member) = (process.cluster, process.member);
        let Some(cluster) = self.clusters.get(&id) else {
            return;
        };
        let (members, removed) = (cluster.members.clone(), cluster.removed.contains(&member));
        let Some(pod) = self.pods.get_mut(&ordinal) else {
            return;
        };
        if removed {
            pod.container = Container::Down;
        } else if let Container::Etcd(process) = &mut pod.container {
            process.view = members;
            process.serving = true;
            self.publish(id, member, ordinal);
        }
    }

    /// What follows at once from what happened: nothing waits for it, and nothing comes between.
    pub fn follow(&mut self) {
        let replicas = self.own_set().map(|set| set.replicas);
        if let Some(replicas) = replicas {
            for (_, pod) in self.pods.range_mut(replicas..) {
                pod.terminating = true;
            }
        }
        let pods = &self.pods;
        self.claims
            .retain(|ordinal, claim| !claim.terminating || pods.contains_key(ordinal));
        self.run_scheduler();
        let ids: Vec<u64> = self.clusters.keys().copied().collect();
        for id in ids {
            self.elect(id);
        }
        self.count_restarted();
        self.check_fork();
        if self.is_locked() {
            self.check_schemes();
            self.check_auth();
        }
        let long_ago = self.now - LONG_CONNECTED;
        for pod in self.pods.values_mut() {
            if let Container::Etcd(process) = &mut pod.container {
                process.connected = long_ago;
            }
        }
    }

    /// Only what reaches the rules is kept of a status.
    pub(crate) fn forget_words(&mut self) {
        let status = &mut self.object.status;
        status.members.clear();
        status.conditions.retain(|c| c.type_ == "Available");
        status.client_endpoints.clear();
        status.selector = None;
    }

    /// A person deletes the claims whose node is gone or whose data is no use; whether there was one.
    pub(crate) fn give_up_useless(&mut self) -> bool {
        let gone = |claim: &Claim| {
            let node = claim.node.as_ref().and_then(|node| self.nodes.get(node));
            let deleted = node.is_some_and(|state| *state == NodeState::Deleted);
            (deleted || claim.volume.broken) && !claim.terminating
        };
        let useless = self.claims.iter().filter(|(_, claim)| gone(claim));
        let useless: Vec<u32> = useless.map(|(ordinal, _)| *ordinal).collect();
        for ordinal in &useless {
            self.lose_claim(*ordinal);
        }
        self.follow();
        !useless.is_empty()
    }

    /// A user deletes the claim of the survivor; true if one was chosen.
    pub(crate) fn give_up_chosen(&mut self) -> bool {
        let recovery = self.memory().recovery;
        let chosen = recovery.and_then(|recovery| recovery.survivor);
        let chosen = chosen.and_then(|chosen| api::names::ordinal(NAME, &chosen.member));
        if let Some(ordinal) = chosen {
            self.lose_claim(ordinal);
            self.follow();
        }
        chosen.is_some()
    }

    /// Voters of the cluster in the status that run, or could run again without a person: on data that can be used, on
    /// a node that is well.
    pub fn can_have_quorum(&self) -> bool {
        let id = plan::status::latched(&self.object.status).cluster_id;
        let Some((id, cluster)) = id.and_then(|id| Some((id, self.clusters.get(&id)?))) else {
            return true;
        };
        let voters = cluster.members.iter().filter(|member| !member.learner);
        let usable = voters.filter(|voter| {
            self.claims.values().any(|claim| {
                let data = claim.volume.data;
                let own = data.is_some_and(|d| (d.cluster, d.member) == (id, voter.id));
                let node = claim.node.as_ref().and_then(|node| self.nodes.get(node));
                let reachable = node.is_none_or(|state| *state == NodeState::Ready);
                own && reachable && !claim.volume.damaged && !claim.volume.broken
            })
        });
        usable.count() >= plan::observed::quorum(self.voters(id))
    }

    /// Some volume that can be reached holds data of one that votes, in the incarnation that counts, and it can be used.
    pub fn has_remains(&self) -> bool {
        let latched = plan::status::latched(&self.object.status);
        let recovered = latched.recovery.as_ref();
        let recovered = recovered.and_then(|recovery| parse_id(&recovery.cluster_id));
        let current = recovered.or(latched.cluster_id);
        self.claims.values().any(|claim| {
            let node = claim.node.as_ref().and_then(|node| self.nodes.get(node));
            let reachable = node.is_none_or(|state| *state == NodeState::Ready);
            let data = claim.volume.data.filter(|d| Some(d.cluster) == current);
            // etcd does not go on from what a learner has.
            let voter = data.is_some_and(|data| self.is_voter(data.cluster, data.member));
            reachable && voter && !claim.volume.damaged && !claim.volume.broken
        })
    }
}

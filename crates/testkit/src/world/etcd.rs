//! etcd: processes, elections, replication, membership by quorum, and one client that writes.
//!
//! Simplified against us: elections are won with the shortest log that can, a write
//! is on no more than a quorum when it is acknowledged, and every process has its own, late idea of
//! the membership.

use std::collections::BTreeSet;

use plan::observed::{Member, quorum};

use crate::world::{Cluster, Container, Data, Process, World};

/// Entries that a follower takes at a time.
const BATCH: u64 = 400;

impl World {
    /// The running process of a member.
    pub(crate) fn process_of(&self, cluster: u64, member: u64) -> Option<&Process> {
        self.live()
            .find(|(_, process)| process.cluster == cluster && process.member == member)
            .map(|(_, process)| process)
    }

    /// Every etcd that runs, by the ordinal of its pod.
    pub fn live(&self) -> impl Iterator<Item = (u32, &Process)> {
        self.pods
            .iter()
            .filter_map(|(ordinal, pod)| match &pod.container {
                Container::Etcd(process) => Some((*ordinal, process)),
                Container::Down | Container::Waiting(_) => None,
            })
    }

    fn ordinal_of(&self, cluster: u64, member: u64) -> Option<u32> {
        let mut live = self.live();
        live.find(|(_, p)| p.cluster == cluster && p.member == member)
            .map(|(ordinal, _)| ordinal)
    }

    /// Length of the log that a running member has.
    pub(crate) fn log_of(&self, cluster: u64, member: u64) -> u64 {
        let ordinal = self.ordinal_of(cluster, member);
        let claim = ordinal.and_then(|ordinal| self.claims.get(&ordinal));
        claim
            .and_then(|claim| claim.volume.data)
            .map_or(0, |data| data.log)
    }

    pub(super) fn set_log(&mut self, cluster: u64, member: u64, log: u64) {
        let ordinal = self.ordinal_of(cluster, member);
        let claim = ordinal.and_then(|ordinal| self.claims.get_mut(&ordinal));
        if let Some(data) = claim.and_then(|claim| claim.volume.data.as_mut()) {
            data.log = log;
        }
    }

    pub(super) fn live_voters(&self, id: u64) -> Vec<u64> {
        let Some(cluster) = self.clusters.get(&id) else {
            return Vec::new();
        };
        let voters = cluster.members.iter().filter(|member| !member.learner);
        voters
            .map(|v| v.id)
            .filter(|v| self.process_of(id, *v).is_some_and(|p| !p.hung))
            .filter(|v| !self.is_cut_off(id, *v))
            .collect()
    }

    pub(super) fn voters(&self, id: u64) -> usize {
        let members = self.clusters.get(&id).map(|cluster| &cluster.members);
        members
            .into_iter()
            .flatten()
            .filter(|member| !member.learner)
            .count()
    }

    /// A leader leads a quorum of running voters.
    pub(crate) fn has_quorum(&self, id: u64) -> bool {
        self.clusters
            .get(&id)
            .is_some_and(|cluster| cluster.leader.is_some())
            && self.live_voters(id).len() >= quorum(self.voters(id))
    }

    /// etcd starts on the data that is there.
    pub(super) fn start_on_data(&mut self, ordinal: u32) {
        let data = self
            .claims
            .get(&ordinal)
            .and_then(|claim| claim.volume.data);
        let claim = self.claims.get(&ordinal);
        if claim.is_some_and(|claim| claim.volume.broken || claim.is_full()) {
            return;
        }
        if let Some(data) = data {
            let minor = self.pods.get(&ordinal).map_or(0, |pod| pod.template.minor);
            if !self.fits(ordinal, minor) {
                return;
            }
            let view = self.clusters.get(&data.cluster).map(|c| c.members.clone());
            self.start(ordinal, data, view.unwrap_or_default());
        }
    }

    pub(super) fn start(&mut self, ordinal: u32, data: Data, view: Vec<Member>) {
        let minor = self.pods.get(&ordinal).map_or(0, |pod| pod.template.minor);
        let hung = self.is_stalled(ordinal);
        let process = Process {
            cluster: data.cluster,
            member: data.member,
            minor,
            serving: false,
            connected: self.now,
            view,
            trust: self.read_trust(ordinal),
            hung,
            followed: None,
        };
        if let Some(pod) = self.pods.get_mut(&ordinal) {
            pod.container = Container::Etcd(process);
        }
        self.note_transport(ordinal);
    }

    /// etcd bootstraps a cluster.
    pub(super) fn start_new(&mut self, ordinal: u32, token: &str) {
        if !self.tokens.insert(token.to_owned()) {
            self.violate(format!("a second bootstrap under the token {token}"));
        }
        let written = self
            .clusters
            .values()
            .any(|cluster| cluster.acknowledged > 0);
        // What cannot be read can never run beside it; that no client has written yet is asked above.
        let beside = self
            .claims
            .values()
            .any(|claim| claim.volume.data.is_some() && !claim.volume.damaged);
        if written || beside {
            self.violate("fork: a bootstrap beside a cluster that has data");
        }
        self.counter += 1;
        let (id, member) = (0xc000 + self.counter, 0xa000 + self.counter);
        let url = vec![self.own_peer_url(ordinal)];
        let first = Member {
            id: member,
            name: String::new(),
            peer_urls: url,
            learner: false,
        };
        let cluster = Cluster {
            members: vec![first.clone()],
            started: BTreeSet::from([member]),
            ..Cluster::default()
        };
        self.clusters.insert(id, cluster);
        self.lay_down(
            ordinal,
            Data {
                cluster: id,
                member,
                log: 0,
                storage: 0,
                log_line: 0,
            },
            vec![first],
        );
    }

    /// etcd joins: it believes the first peer that answers, and takes the ID listed for its URL.
    pub(super) fn start_joining(&mut self, ordinal: u32, initial: &str, cluster: u64) {
        let view = self.ask_a_peer(cluster);
        let told: BTreeSet<&str> = initial
            .split(',')
            .filter_map(|entry| entry.split_once('='))
            .map(|(_, url)| url)
            .collect();
        let known: BTreeSet<&str> = view
            .iter()
            .flat_map(|member| &member.peer_urls)
            .map(String::as_str)
            .collect();
        let own = view
            .iter()
            .find(|member| member.peer_urls == [self.own_peer_url(ordinal)]);
        // A member newer than the minor version that the cluster goes down to is not let in.
        let minor = self.pods.get(&ordinal).map_or(0, |pod| pod.template.minor);
        let falls = self.clusters.get(&cluster).and_then(|c| c.downgrade);
        let too_new = falls.is_some_and(|to| minor > to);
        let Some(member) = own.filter(|_| told == known && !too_new).map(|own| own.id) else {
            // "member count is unequal", or no member to ask: it exits, and the agent waits again.
            self.crash(ordinal);
            return;
        };
        let seen_before = self
            .clusters
            .get_mut(&cluster)
            .is_some_and(|c| !c.started.insert(member));
        if seen_before {
            self.violate(format!(
                "amnesia: {member:x} started again from an empty directory"
            ));
        }
        self.lay_down(
            ordinal,
            Data {
                cluster,
                member,
                log: 0,
                storage: 0,
                log_line: 0,
            },
            view,
        );
    }

    /// What some voter lists; of those who are late one, where the world is contrary. Learners are left out, and with
    /// them a member that has not learned yet that it votes: ADR 3.
    fn ask_a_peer(&mut self, cluster: u64) -> Vec<Member> {
        let voters = self.live_voters(cluster);
        let mut views: Vec<Vec<Member>> = self
            .live()
            .filter(|(_, process)| process.cluster == cluster)
            .filter(|(_, process)| voters.contains(&process.member))
            .filter(|(_, process)| {
                let mut own = process.view.iter().filter(|m| m.id == process.member);
                own.all(|own| !own.learner)
            })
            .map(|(_, process)| process.view.clone())
            .collect();
        let pick = self.rng.below(u64::try_from(views.len()).unwrap_or(1));
        let ids = |view: &[Member]| view.iter().map(|m| m.id).collect::<Vec<_>>();
        let listed = self.clusters.get(&cluster).map(|c| ids(&c.members));
        let late = views.iter().position(|v| Some(ids(v)) != listed);
        let late = late.filter(|_| self.contrary);
        let pick = late.or(usize::try_from(pick).ok());
        let pick = pick.filter(|pick| *pick < views.len());
        pick.map_or_else(Vec::new, |pick| views.swap_remove(pick))
    }

    pub(super) fn lay_down(&mut self, ordinal: u32, mut data: Data, view: Vec<Member>) {
        // A joiner takes the format of the others; a member that bootstraps, its own.
        let others = self.claims.values().filter_map(|claim| claim.volume.data);
        let others = others.filter(|other| other.cluster == data.cluster);
        let own = self.pods.get(&ordinal).map_or(0, |pod| pod.template.minor);
        let others: Vec<Data> = others.collect();
        let oldest = |of: fn(&Data) -> u8| others.iter().map(of).min().unwrap_or(own);
        data.storage = oldest(|other| other.storage);
        data.log_line = oldest(|other| other.log_line).min(own);
        if let Some(claim) = self.claims.get_mut(&ordinal) {
            claim.volume.data = Some(data);
        }
        self.start(ordinal, data, view);
    }

    pub(super) fn run_etcd(&mut self) {
        let ids: Vec<u64> = self.clusters.keys().copied().collect();
        for id in &ids {
            self.elect(*id);
            self.replicate(*id);
            self.announce(*id);
        }
        self.check_fork();
    }

    pub(super) fn check_fork(&mut self) {
        let served: BTreeSet<u64> = self
            .live()
            .filter(|(_, p)| p.serving)
            .map(|(_, p)| p.cluster)
            .collect();
        if served.len() > 1 {
            self.violate("fork: two clusters serve under one name");
        }
    }

    /// The shortest log that a quorum would vote for wins.
    pub(super) fn elect(&mut self, id: u64) {
        let needed = quorum(self.voters(id));
        let voters = self.live_voters(id);
        let Some(cluster) = self.clusters.get_mut(&id) else {
            return;
        };
        let stands = cluster
            .leader
            .is_some_and(|leader| voters.contains(&leader));
        if voters.len() < needed || needed == 0 {
            cluster.leader = None;
        } else if !stands {
            let acknowledged = cluster.acknowledged;
            let mut logs: Vec<(u64, u64)> = voters
                .iter()
                .map(|voter| (self.log_of(id, *voter), *voter))
                .collect();
            logs.sort_unstable();
            let Some((log, winner)) = logs.get(needed - 1).copied() else {
                return;
            };
            if log < acknowledged {
                self.violate(format!(
                    "lost write: the leader of {id:x} misses acknowledged entries"
                ));
            }
            for (_, voter) in logs.iter().filter(|(longer, _)| *longer > log) {
                self.set_log(id, *voter, log);
            }
            if let Some(cluster) = self.clusters.get_mut(&id) {
                cluster.leader = Some(winner);
            }
        }
    }

    fn replicate(&mut self, id: u64) {
        let Some(cluster) = self.clusters.get(&id) else {
            return;
        };
        let (Some(leader), members) = (cluster.leader, cluster.members.clone()) else {
            return;
        };
        let head = self.log_of(id, leader);
        for member in &members {
            let process = self.process_of(id, member.id);
            let takes = process.is_some_and(|p| !p.hung) && !self.is_busy(member.id);
            let takes = takes && !self.is_cut_off(id, member.id);
            if takes && self.rng.chance(70) {
                let log = self.log_of(id, member.id);
                self.set_log(id, member.id, head.min(log + BATCH));
            }
        }
    }

    /// Processes hear of the membership, begin to serve, publish their names, or learn that they were
    /// removed and exit.
    fn announce(&mut self, id: u64) {
        let Some(cluster) = self
            .clusters
            .get(&id)
            .filter(|cluster| cluster.leader.is_some())
        else {
            return;
        };
        let (members, removed) = (cluster.members.clone(), cluster.removed.clone());
        let ordinals: Vec<u32> = self
            .live()
            .filter(|(_, p)| p.cluster == id && !p.hung && !self.is_cut_off(id, p.member))
            .map(|(ordinal, _)| ordinal)
            .collect();
        for ordinal in ordinals {
            let (lucky, heard) = (self.rng.chance(60), self.rng.chance(60));
            let claim = self.claims.get(&ordinal);
            let sluggish = claim.is_some_and(|claim| self.sluggish.contains(&claim.uid))
                || !self.has_received(ordinal);
            let now = self.now;
            let Some(pod) = self.pods.get_mut(&ordinal) else {
                continue;
            };
            let Container::Etcd(process) = &mut pod.container else {
                continue;
            };
            if removed.contains(&process.member) {
                pod.container = Container::Down;
                continue;
            }
            if heard {
                process.view.clone_from(&members);
            }
            let member = process.member;
            if lucky && !process.serving && !sluggish {
                process.serving = true;
                process.connected = now;
                self.publish(id, member, ordinal);
            }
        }
    }

    pub(super) fn publish(&mut self, id: u64, member: u64, ordinal: u32) {
        let members = self
            .clusters
            .get_mut(&id)
            .map(|cluster| &mut cluster.members);
        if let Some(own) = members.into_iter().flatten().find(|m| m.id == member) {
            own.name = api::names::member(crate::world::NAME, ordinal);
        }
    }

    /// `MoveLeader`: only a voter that runs can lead.
    pub(super) fn move_leader(&mut self, id: u64, to: u64) -> Result<(), String> {
        if !self.has_quorum(id) || !self.live_voters(id).contains(&to) {
            return Err("bad leader transferee".to_owned());
        }
        let leader = self.clusters.get(&id).and_then(|cluster| cluster.leader);
        // Only a leader that runs can hand over.
        let Some(leader) = leader.filter(|leader| self.process_of(id, *leader).is_some()) else {
            return Err("not leader".to_owned());
        };
        let head = self.log_of(id, leader);
        // etcd lets the transferee catch up first.
        self.set_log(id, to, head);
        if let Some(cluster) = self.clusters.get_mut(&id) {
            cluster.leader = Some(to);
        }
        Ok(())
    }

    /// The operator deletes a claim. Data of a member that is listed must never go so.
    pub(super) fn delete_claim(&mut self, ordinal: u32) {
        let Some(claim) = self.claims.get_mut(&ordinal) else {
            return;
        };
        claim.terminating = true;
        let data = claim.volume.data;
        // With pods it is the claim of one member, whatever a person wrote into the status.
        if self.memory().ending && self.pods.is_empty() {
            if self.object.when_stopped != api::v1alpha1::cluster::Retention::Delete {
                self.violate("data was deleted against its owner's policy");
            }
            // What the owner deletes on purpose is no lost write.
            for cluster in self.clusters.values_mut() {
                cluster.acknowledged = 0;
            }
            return;
        }
        let listed = data.is_some_and(|data| {
            let cluster = self.clusters.get(&data.cluster);
            let cluster = cluster.filter(|cluster| !cluster.given_up);
            cluster.is_some_and(|c| c.members.iter().any(|member| member.id == data.member))
        });
        if listed {
            self.violate(format!("the data of {ordinal} went before its member"));
        }
    }

    /// One client that writes wherever the Service leads it.
    pub(super) fn run_client(&mut self) {
        let stopped = self.quiet || !self.upkeep.alarms.is_empty();
        if stopped || !self.small.contains_key("client") || !self.rng.chance(50) {
            return;
        }
        let ids: Vec<u64> = self.clusters.keys().copied().collect();
        for id in ids {
            self.write(id, 1);
        }
    }

    /// Writes entries; they are on a quorum, and on no one else, when this returns.
    pub fn write(&mut self, id: u64, entries: u64) {
        let leader = self.clusters.get(&id).and_then(|cluster| cluster.leader);
        let (Some(leader), true) = (leader, self.has_quorum(id)) else {
            return;
        };
        if !self
            .process_of(id, leader)
            .is_some_and(|process| process.serving)
        {
            return;
        }
        let log = self.log_of(id, leader) + entries;
        let needed = quorum(self.voters(id));
        let others = self
            .live_voters(id)
            .into_iter()
            .filter(|voter| *voter != leader);
        let holders: Vec<u64> = std::iter::once(leader).chain(others).take(needed).collect();
        for holder in holders {
            self.set_log(id, holder, log);
        }
        if let Some(cluster) = self.clusters.get_mut(&id) {
            cluster.acknowledged = cluster.acknowledged.max(log);
        }
    }

    /// Whatever was acknowledged is on a quorum of the volumes of the voters.
    pub fn check_writes(&mut self) {
        let clusters: Vec<u64> = self.clusters.keys().copied().collect();
        for id in clusters {
            let Some(cluster) = self.clusters.get(&id).filter(|c| c.acknowledged > 0) else {
                continue;
            };
            let holders = cluster
                .members
                .iter()
                .filter(|voter| !voter.learner)
                .filter(|voter| {
                    self.claims
                        .values()
                        .filter_map(|claim| claim.volume.data)
                        .any(|data| {
                            (data.cluster, data.member) == (id, voter.id)
                                && data.log >= cluster.acknowledged
                        })
                });
            if holders.count() < quorum(self.voters(id)) {
                self.violate(format!(
                    "lost write: {id:x} has acknowledged entries on no quorum"
                ));
            }
        }
    }
}

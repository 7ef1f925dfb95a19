//! The garbage collector, the StatefulSet controller, the kubelets, and the agents in the pods.

use std::collections::BTreeSet;

use api::names;
use gate::{Action, Data as Found, Grant, Identity, Report, State};
use plan::observed::{format_id, parse_id};

use crate::world::{Claim, Container, NAME, Pod, Set, Template, Volume, World};

impl World {
    pub(super) fn run_controllers(&mut self) {
        self.collect_garbage();
        let Some(set) = self.set.clone().filter(|set| set.owner == self.object.uid) else {
            return;
        };
        let replicas = set.replicas;
        for (_, pod) in self.pods.range_mut(replicas..) {
            pod.terminating = true;
        }
        for ordinal in 0..replicas {
            let ready = self
                .claims
                .get(&ordinal)
                .is_none_or(|claim| !claim.terminating);
            let ready = ready && self.can_have_claim(ordinal) && !set.template.rejected;
            if ready && !self.pods.contains_key(&ordinal) && self.rng.chance(70) {
                self.make_claim(ordinal);
                self.make_pod(ordinal, &set);
            }
        }
    }

    /// An object that is deleted goes; a claim only when no pod uses it; what the owner left goes with it.
    fn collect_garbage(&mut self) {
        let uid = self.object.uid.clone();
        if self.rng.chance(50) {
            self.small.retain(|_, (owner, _)| *owner == uid);
            self.set = self.set.take().filter(|set| set.owner == uid);
        }
        for pod in self.pods.values_mut().filter(|pod| pod.owner != uid) {
            pod.terminating = true;
        }
        // Every third takes its time, so that they do not go in order.
        let rng = &mut self.rng;
        self.pods.retain(|_, pod| {
            let slow = pod.uid.bytes().map(u32::from).sum::<u32>() % 3 == 0;
            let goes = rng.chance(if slow { 10 } else { 70 });
            // Without a node there is nothing to wait for.
            let held = pod.frozen && pod.node.is_some();
            !(pod.terminating && !held && goes)
        });
        let used: BTreeSet<u32> = self.pods.keys().copied().collect();
        self.claims
            .retain(|ordinal, claim| !claim.terminating || used.contains(ordinal));
    }

    /// A claim from the template, should it be missing.
    pub(super) fn make_claim(&mut self, ordinal: u32) {
        if !self.claims.contains_key(&ordinal) {
            let uid = self.fresh("claim");
            let cluster_uid = self.object.uid.clone();
            let volume = Volume::default();
            // The operator makes claims as large as is asked for, the controller as its template says.
            let requested = self.object.storage;
            self.claims.insert(
                ordinal,
                Claim {
                    uid,
                    cluster_uid,
                    terminating: false,
                    requested,
                    capacity: requested,
                    node: None,
                    lineage: String::new(),
                    volume,
                },
            );
        }
    }

    pub(super) fn make_pod(&mut self, ordinal: u32, set: &Set) {
        let pod = Pod {
            uid: self.fresh("pod"),
            owner: set.owner.clone(),
            template: set.template.clone(),
            told_removed: Vec::new(),
            told: None,
            refreshed: None,
            refuses: false,
            created: self.now,
            terminating: false,
            grant: None,
            container: Container::Down,
            // Until the scheduler has found a node for it.
            node: None,
            frozen: true,
        };
        self.pods.insert(ordinal, pod);
    }

    /// Each kubelet does something or nothing; who is first is up to chance.
    pub(super) fn run_kubelets(&mut self) {
        let mut ordinals: Vec<u32> = self.pods.keys().copied().collect();
        if self.rng.chance(50) {
            ordinals.reverse();
        }
        for ordinal in ordinals {
            if self.rng.chance(60) {
                self.run_pod(ordinal);
            }
        }
    }

    pub(super) fn run_pod(&mut self, ordinal: u32) {
        let Some(pod) = self.pods.get(&ordinal).filter(|pod| !pod.frozen) else {
            return;
        };
        match pod.container.clone() {
            Container::Down if pod.terminating || pod.template.bad => (),
            Container::Down if !self.can_mount(pod) => (),
            // Wherever it lies: where the agent has moved it, a link in the root leads to it. Where there
            // is none, the link leads nowhere and etcd exits; it never starts over.
            Container::Down if pod.template.ungated => self.start_on_data(ordinal),
            Container::Down => self.look(ordinal),
            Container::Waiting(report) => {
                let heard = !self.deaf || pod.told.is_some_and(|told| told.again > 0);
                let grant = pod
                    .grant
                    .clone()
                    .filter(|grant| heard && grant.nonce == report.nonce);
                if let Some(grant) = grant.filter(|grant| self.permits(ordinal, &report, grant)) {
                    self.obey(ordinal, &grant);
                }
            }
            Container::Etcd(_) => (),
        }
    }

    /// Something would come of [`Self::run_pod`].
    pub(super) fn can_go(&self, ordinal: u32) -> bool {
        let Some(pod) = self.pods.get(&ordinal).filter(|pod| !pod.frozen) else {
            return false;
        };
        match &pod.container {
            Container::Down if pod.terminating || pod.template.bad => false,
            Container::Down if !self.can_mount(pod) => false,
            Container::Down => self.claims.get(&ordinal).is_some_and(|claim| {
                let starts =
                    judge(&claim.volume, (ordinal, &self.object.uid), &pod.template).is_none();
                !(starts && (claim.volume.broken || claim.is_full()))
            }),
            Container::Waiting(report) => pod.grant.as_ref().is_some_and(|grant| {
                grant.nonce == report.nonce && self.permits(ordinal, report, grant)
            }),
            Container::Etcd(_) => false,
        }
    }

    /// The agent looks at the volume, and starts etcd or waits.
    fn look(&mut self, ordinal: u32) {
        self.set_aside(ordinal);
        let Some(volume) = self.claims.get(&ordinal).map(|claim| claim.volume.clone()) else {
            return;
        };
        let Some(template) = self.pods.get(&ordinal).map(|pod| pod.template.clone()) else {
            return;
        };
        match judge(&volume, (ordinal, &self.object.uid), &template) {
            None => self.start_on_data(ordinal),
            Some(state) => self.wait(ordinal, state, &volume),
        }
    }

    /// Data of a member that was removed, as the agent was told, is never read again.
    fn set_aside(&mut self, ordinal: u32) {
        let Some(pod) = self.pods.get(&ordinal) else {
            return;
        };
        if let Some(claim) = self.claims.get_mut(&ordinal)
            && let Some(data) = claim.volume.data
            && pod.told_removed.contains(&data.member)
        {
            claim.volume = Volume::default();
            let cluster = self.clusters.get(&data.cluster);
            if cluster.is_some_and(|c| c.members.iter().any(|m| m.id == data.member)) {
                self.violate(format!(
                    "the data of {ordinal} was set aside before its member went"
                ));
            }
        }
    }

    pub(super) fn wait(&mut self, ordinal: u32, state: State, volume: &Volume) {
        let nonce = self.fresh("nonce");
        let Some(pod) = self.pods.get_mut(&ordinal) else {
            return;
        };
        let data = volume.data.filter(|_| !volume.damaged).map(|data| Found {
            cluster_id: format_id(data.cluster),
            member_id: format_id(data.member),
            term: 1,
            index: data.log,
            commit: data.log,
            written: None,
            identity: volume.identity.clone(),
        });
        pod.container = Container::Waiting(Report {
            protocol: gate::PROTOCOL,
            state,
            nonce,
            pod_uid: pod.uid.clone(),
            detail: format!("{state:?}"),
            data,
            failed: None,
            received_bytes: None,
        });
    }

    /// What the agent checks by itself before it obeys.
    fn permits(&self, ordinal: u32, report: &Report, grant: &Grant) -> bool {
        let Some(claim) = self.claims.get(&ordinal) else {
            return false;
        };
        let room = |discard: bool| report.state == State::Empty || discard;
        let token_fits =
            |token: &str| token == format!("{}-{}", grant.cluster_uid, grant.incarnation);
        grant.cluster_uid == self.object.uid
            && match &grant.action {
                Action::Bootstrap { discard, token, .. } | Action::Join { discard, token, .. } => {
                    room(*discard) && token_fits(token)
                }
                Action::Resume {
                    member_id,
                    cluster_id,
                } => claim.volume.data.is_some_and(|data| {
                    parse_id(member_id) == Some(data.member)
                        && parse_id(cluster_id) == Some(data.cluster)
                }),
                Action::Recover {
                    token,
                    member_id,
                    cluster_id,
                    ..
                } => {
                    let fits = claim.volume.data.is_some_and(|data| {
                        parse_id(member_id) == Some(data.member)
                            && parse_id(cluster_id) == Some(data.cluster)
                    });
                    report.state == State::Fenced && fits && token_fits(token)
                }
                Action::Restore { token, .. } => {
                    self.may_restore(ordinal, report.state) && token_fits(token)
                }
            }
    }

    fn obey(&mut self, ordinal: u32, grant: &Grant) {
        if matches!(grant.action, Action::Recover { .. }) && self.fails_to_recover(ordinal) {
            return;
        }
        if self.fails_to_restore(ordinal, grant) {
            return;
        }
        let ids = match &grant.action {
            Action::Bootstrap { .. } | Action::Recover { .. } | Action::Restore { .. } => None,
            Action::Join {
                member_id,
                cluster_id,
                ..
            }
            | Action::Resume {
                member_id,
                cluster_id,
            } => Some((member_id.clone(), cluster_id.clone())),
        };
        let identity = Identity {
            cluster_uid: grant.cluster_uid.clone(),
            incarnation: grant.incarnation,
            nonce: grant.nonce.clone(),
            pod: Some(names::member(NAME, ordinal)),
            member_id: ids.as_ref().map(|ids| ids.0.clone()),
            cluster_id: ids.map(|ids| ids.1),
            transport: None,
        };
        if let Some(claim) = self.claims.get_mut(&ordinal) {
            claim.volume.identity = Some(identity);
            if !matches!(grant.action, Action::Resume { .. } | Action::Recover { .. }) {
                claim.volume.data = None;
                claim.volume.damaged = false;
                claim.volume.broken = false;
            }
        }
        match &grant.action {
            Action::Bootstrap { token, .. } => self.start_new(ordinal, token),
            Action::Restore { token, .. } => self.start_restored(ordinal, token),
            Action::Join {
                initial_cluster,
                cluster_id,
                ..
            } => {
                self.start_joining(ordinal, initial_cluster, parse_id(cluster_id).unwrap_or(0));
            }
            Action::Resume { .. } => self.start_on_data(ordinal),
            Action::Recover { token, .. } => self.start_recovered(ordinal, token),
        }
    }
}

/// Why the agent waits; `None` when it starts etcd by itself.
fn judge(volume: &Volume, (ordinal, uid): (u32, &str), template: &Template) -> Option<State> {
    let fence = template.fence;
    if volume.damaged {
        return Some(State::Damaged);
    }
    let Some(data) = volume.data else {
        return Some(State::Empty);
    };
    let Some(identity) = &volume.identity else {
        return Some(if fence.is_some() {
            State::Fenced
        } else {
            State::Unidentified
        });
    };
    if identity.cluster_uid != uid {
        return Some(State::OtherObject);
    }
    if fence.is_some_and(|fence| identity.incarnation < fence) {
        return Some(State::Fenced);
    }
    let agrees = |written: &Option<String>, found: u64| {
        written
            .as_deref()
            .is_none_or(|written| parse_id(written) == Some(found))
    };
    let ours =
        agrees(&identity.member_id, data.member) && agrees(&identity.cluster_id, data.cluster);
    let written = identity.pod.as_ref();
    if !ours || written.is_some_and(|written| *written != names::member(NAME, ordinal)) {
        return Some(State::Mismatch);
    }
    let floor = template.floors.get(&format_id(data.member));
    let short = floor.is_some_and(|floor| data.log < *floor);
    short.then_some(State::RolledBack)
}

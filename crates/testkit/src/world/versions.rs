//! Minor versions of etcd: which process may read which data, when data changes its format, and downgrades.

use crate::world::{Container, World};

/// Ticks after which two members on an untried template are there to stay.
const LASTING: u32 = 120;

impl World {
    /// A process of one minor version starts on data of another. etcd refuses older ones and panics on data that is two
    /// minor versions old; an operator that lets it come to that has made a mistake.
    pub(super) fn fits(&mut self, ordinal: u32, minor: u8) -> bool {
        let claim = self.claims.get(&ordinal);
        let Some(data) = claim.and_then(|claim| claim.volume.data) else {
            return true;
        };
        let fits = minor == data.storage || minor == data.storage + 1;
        let reads = minor < 7 || data.log_line > 5;
        if let Some(pod) = self.pods.get_mut(&ordinal) {
            pod.refuses = !fits || !reads;
        }
        if !fits && !self.forgiving {
            self.violate(format!(
                "3.{minor} was started on data of 3.{}",
                data.storage
            ));
        }
        if !reads && !self.forgiving {
            self.violate("3.7 was started on a log that 3.5 wrote into");
        }
        fits && reads
    }

    /// The format follows the oldest member, once all of them are known; downgrades say otherwise.
    pub(super) fn convert(&mut self) {
        let ids: Vec<u64> = self.clusters.keys().copied().collect();
        for id in ids {
            let Some(cluster) = self.clusters.get(&id).filter(|c| c.leader.is_some()) else {
                continue;
            };
            let members: Vec<u64> = cluster.members.iter().map(|member| member.id).collect();
            let minors = members
                .iter()
                .map(|member| self.process_of(id, *member).map(|process| process.minor));
            let Some(minors) = minors.collect::<Option<Vec<u8>>>() else {
                continue;
            };
            let Some(oldest) = minors.iter().min().copied() else {
                continue;
            };
            let (downgrade, lucky) = (cluster.downgrade, self.rng.chance(self.conversion));
            let storage = downgrade.map_or(oldest, |to| to.min(oldest));
            if let Some(newest) = minors.iter().max().filter(|newest| **newest > storage + 1) {
                self.violate(format!("3.{newest} runs in a cluster of 3.{storage}"));
            }
            if lucky {
                self.set_storage(id, storage, oldest);
            }
            let reached = downgrade.is_some_and(|to| minors.iter().all(|minor| *minor == to));
            if let Some(cluster) = self.clusters.get_mut(&id).filter(|_| reached && lucky) {
                cluster.downgrade = None;
            }
        }
    }

    /// Members make a snapshot when the format falls; otherwise entries stay as long as little is written.
    fn set_storage(&mut self, id: u64, storage: u8, oldest: u8) {
        let hung = self.hung();
        for (ordinal, claim) in &mut self.claims {
            // One that hangs applies nothing, and so does not hear of it.
            let hears = !hung.contains(ordinal);
            let data = claim.volume.data.as_mut().filter(|_| hears);
            if let Some(data) = data.filter(|data| data.cluster == id) {
                let falls = storage < data.storage;
                data.log_line = if falls {
                    oldest
                } else {
                    data.log_line.min(oldest)
                };
                data.storage = storage;
            }
        }
    }

    /// `Downgrade`: one minor version down from where the cluster is, by a cluster that is all there.
    pub(super) fn downgrade(&mut self, id: u64, to: Option<u8>) -> Result<(), String> {
        if !self.has_quorum(id) {
            return Err("context deadline exceeded".to_owned());
        }
        let at = self.pods.keys().find_map(|ordinal| {
            let data = self.claims.get(ordinal)?.volume.data?;
            (data.cluster == id).then_some(data.storage)
        });
        let Some(cluster) = self.clusters.get_mut(&id) else {
            return Err("gone".to_owned());
        };
        if let Some(to) = to
            && at != Some(to + 1)
        {
            return Err("etcdserver: invalid downgrade target version".to_owned());
        }
        cluster.downgrade = to;
        Ok(())
    }

    /// How many voters were away at once.
    pub(super) fn count_away(&mut self) {
        let served = self.clusters.iter().filter(|(_, c)| c.acknowledged > 0);
        let away = served.map(|(id, _)| {
            let running = self.live_voters(*id).len();
            self.voters(*id).saturating_sub(running)
        });
        self.most_away = self.most_away.max(away.max().unwrap_or(0));
    }

    /// How many pods there are on a template that no member has served on. The window between the write of a template
    /// and the birth of its pod may give one too many; that must not last.
    pub(super) fn count_untried(&mut self) {
        let mut served = Vec::new();
        for pod in self.pods.values() {
            if let Container::Etcd(process) = &pod.container
                && process.serving
                && self.has_quorum(process.cluster)
                && self.live_voters(process.cluster).contains(&process.member)
            {
                served.push(pod.template.hash.clone());
            }
        }
        let first = self.tried.is_empty();
        self.tried.extend(served);
        if first {
            return;
        }
        let untried = self.pods.values().map(|pod| &pod.template.hash);
        let untried = untried.filter(|hash| !self.tried.contains(*hash));
        let mut counts = std::collections::BTreeMap::<&String, usize>::new();
        for hash in untried {
            *counts.entry(hash).or_default() += 1;
        }
        let most = counts.into_values().max().unwrap_or(0);
        self.most_untried = self.most_untried.max(most);
        self.untried_for = if most > 1 { self.untried_for + 1 } else { 0 };
        if self.untried_for > LASTING {
            self.violate("two members stay on an untried template");
        }
    }

    /// The operator restarts a pod. Members that others took away are not its fault; members that it restarted before
    /// are.
    pub(super) fn restart(&mut self, ordinal: u32) {
        let process = match self.pods.get(&ordinal).map(|pod| &pod.container) {
            Some(Container::Etcd(process)) => Some((process.cluster, process.member)),
            _not_running => None,
        };
        if let Some((id, member)) = process
            && self.live_voters(id).contains(&member)
        {
            self.restarted.insert(ordinal);
            let voters = self.voters(id);
            let spare = voters - plan::observed::quorum(voters);
            if voters > 1 && self.restarted.len() > spare {
                self.violate("quorum was lost by a restart");
            }
            if self.restarted.len() > 1 {
                self.violate("two members were restarted at once");
            }
        }
        self.delete_pod(ordinal);
    }

    /// A member that serves again is back, and one that was removed is not missed.
    pub(super) fn count_restarted(&mut self) {
        let (pods, clusters) = (&self.pods, &self.clusters);
        self.restarted.retain(|ordinal| {
            let name = api::names::member(crate::world::NAME, *ordinal);
            let mut members = clusters.values().flat_map(|cluster| &cluster.members);
            if !members.any(|member| member.name == name) {
                return false;
            }
            let pod = pods.get(ordinal).filter(|pod| !pod.terminating);
            let back = pod.is_some_and(|pod| match &pod.container {
                Container::Etcd(process) => process.serving,
                Container::Down | Container::Waiting(_) => false,
            });
            !back
        });
    }

    /// Minor versions of etcd that run now.
    pub fn minors(&self) -> Vec<u8> {
        let running = self.pods.values().filter_map(|pod| match &pod.container {
            Container::Etcd(process) => Some(process.minor),
            Container::Down | Container::Waiting(_) => None,
        });
        running.collect()
    }

    /// Hashes of the templates that the pods were made from.
    pub fn templates(&self) -> Vec<String> {
        let pods = self.pods.values();
        pods.map(|pod| pod.template.hash.clone()).collect()
    }
}

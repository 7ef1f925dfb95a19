//! Members that hang: the process answers what it can answer by itself, and takes part in nothing, because a write to
//! its disk does not end.

use std::collections::BTreeMap;

use plan::Observed;
use plan::observed::{Process, Vitals, Writes};

use crate::world::{Container, World};

impl World {
    /// The process of a pod hangs until it is restarted; on a bad disk, the next one hangs as well.
    pub fn hang(&mut self, ordinal: u32, bad_disk: bool) {
        if let Some(claim) = self.claims.get_mut(&ordinal) {
            claim.volume.stalled = bad_disk;
        }
        if let Some(pod) = self.pods.get_mut(&ordinal)
            && let Container::Etcd(process) = &mut pod.container
        {
            process.hung = true;
            let cluster = self.clusters.get(&process.cluster);
            process.followed = cluster.and_then(|cluster| cluster.leader);
            self.hung_in.insert(process.member, pod.uid.clone());
        }
    }

    /// Members that hang.
    pub fn hung(&self) -> Vec<u32> {
        let live = self.live().filter(|(_, process)| process.hung);
        live.map(|(ordinal, _)| ordinal).collect()
    }

    pub(super) fn is_stalled(&self, ordinal: u32) -> bool {
        let claim = self.claims.get(&ordinal);
        claim.is_some_and(|claim| claim.volume.stalled)
    }

    /// What etcd counts of itself, of those who would be asked.
    pub(crate) fn vitals(&self, observed: &Observed) -> BTreeMap<u32, Vitals> {
        let asked = plan::observed::doubts(observed);
        let live = self.live().filter(|(ordinal, _)| asked.contains(ordinal));
        let answered = live.filter(|(ordinal, _)| {
            let pod = observed.pods.get(ordinal);
            pod.is_some_and(|pod| pod.process != Process::Unknown)
        });
        let vitals = answered.map(|(ordinal, process)| {
            let applied = self.log_of(process.cluster, process.member);
            let cluster = self.clusters.get(&process.cluster);
            let ended = Writes {
                count: applied,
                millis: applied,
            };
            let seen = Vitals {
                applied,
                led: cluster.is_some_and(|cluster| cluster.leader.is_some()),
                busy: self.is_busy(process.member),
                log: Some(ended),
                database: Some(ended),
            };
            (ordinal, seen)
        });
        vitals.collect()
    }

    /// A member that hangs is removed: not before it was restarted, and not while the others need it.
    pub(super) fn note_hung_removal(&mut self, cluster: u64, member: u64) {
        let hung = |process: &super::Process| process.hung && process.member == member;
        let found = self.live().find(|(_, process)| hung(process));
        let Some((ordinal, _)) = found else {
            return;
        };
        let pod = self.pods.get(&ordinal).map(|pod| &pod.uid);
        if self.hung_in.get(&member) == pod {
            self.violate("a member that hangs was removed and had never been restarted");
        }
        if !self.has_quorum(cluster) {
            self.violate("a member that hangs was removed without a quorum of the others");
        }
    }
}

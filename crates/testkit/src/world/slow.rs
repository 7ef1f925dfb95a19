//! Data that takes its time to come: a member that joins serves once all of it is there.

use plan::observed;

use crate::world::{Container, Process, World};

/// Between the leader and the member that joins.
#[derive(Clone, Copy, Debug)]
pub struct Link {
    /// Bytes of the database.
    pub size: u64,
    /// Bytes that come in a second.
    pub rate: u64,
}

impl World {
    /// Bytes that the learner of an ordinal has received, while it does not serve.
    pub(super) fn received(&self, ordinal: u32, seen: &observed::Process) -> Option<u64> {
        let link = self.link?;
        let process = self.learner_at(ordinal)?;
        if *seen != observed::Process::Starting {
            return None;
        }
        let claim = self.claims.get(&ordinal)?;
        // A member that never begins to serve hangs in the middle of it.
        if self.sluggish.contains(&claim.uid) {
            return Some(link.size / 2);
        }
        let seconds = self.now.duration_since(process.connected).as_secs();
        let seconds = u64::try_from(seconds).unwrap_or(0);
        Some(seconds.saturating_mul(link.rate).min(link.size))
    }

    /// All of it is there; voters need nothing.
    pub(super) fn has_received(&self, ordinal: u32) -> bool {
        let received = self.received(ordinal, &observed::Process::Starting);
        received.is_none_or(|received| self.link.is_none_or(|link| received >= link.size))
    }

    fn learner_at(&self, ordinal: u32) -> Option<&Process> {
        let Container::Etcd(process) = &self.pods.get(&ordinal)?.container else {
            return None;
        };
        let cluster = self.clusters.get(&process.cluster)?;
        let mut members = cluster.members.iter();
        let learns = members.any(|member| member.id == process.member && member.learner);
        (learns && !process.serving).then_some(process)
    }
}

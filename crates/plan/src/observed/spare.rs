//! Which voters the others can do without, and which of them can lead instead.

use super::{Member, MemberList, Observed, Pod, quorum};

/// Entries that a learner may be behind when it is promoted; etcd itself would accept a tenth of the log.
pub(crate) const MAX_LAG: u64 = 1000;

impl Observed {
    /// Enough healthy voters remain to agree on the removal, and to go on after it.
    pub(crate) fn can_lose(&self, list: &MemberList, member: &Member) -> bool {
        let others = list.voters().filter(|voter| voter.id != member.id);
        let healthy = others.filter(|voter| self.is_healthy(voter)).count();
        healthy >= quorum(list.voters().count())
    }

    /// The most advanced of the other voters that are well.
    pub(crate) fn transferee<'a>(&self, list: &'a MemberList, leader: u64) -> Option<&'a Member> {
        let others = list.voters().filter(|voter| voter.id != leader);
        let well = others.filter(|voter| self.is_healthy(voter) && !self.is_away(voter));
        well.max_by_key(|voter| {
            let serving = self.serving_as(voter.id);
            serving.map_or(0, |serving| serving.applied_index)
        })
    }

    /// The pod of a voter cannot start.
    pub(crate) fn has_stopped(&self, list: &MemberList) -> bool {
        let ordinals = list.voters().filter_map(|voter| self.ordinal_of(voter));
        let mut pods = ordinals.filter_map(|ordinal| self.pods.get(&ordinal));
        pods.any(Pod::runs_nothing)
    }
}

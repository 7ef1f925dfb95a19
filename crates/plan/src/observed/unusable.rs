//! Volumes whose data their member cannot use.

use gate::{Report, State};

use super::{Claim, Observed, parse_id};

impl Observed {
    /// The report of an agent whose pod must join as a new member: its volume is empty, cannot be used, was rolled back,
    /// or was exchanged for another one.
    pub fn needs_new_member(&self, ordinal: u32) -> Option<&Report> {
        let report = self.pods.get(&ordinal)?.held()?;
        let unusable = match report.state {
            State::Empty | State::Damaged | State::Fenced | State::RolledBack => true,
            State::OtherObject | State::Unidentified => self.is_foreign(ordinal, report),
            State::Mismatch => self.is_not_its_own(ordinal, report),
        };
        unusable.then_some(report)
    }

    /// The data was never this member's: it belongs to another cluster, to another member, or to none.
    pub fn is_not_its_own(&self, ordinal: u32, report: &Report) -> bool {
        self.is_foreign(ordinal, report)
            || self.is_exchanged(ordinal, report)
            || self.is_misled(report)
    }

    /// The volume of another member, on a claim that was made for this one.
    pub fn is_exchanged(&self, ordinal: u32, report: &Report) -> bool {
        let ours = self.claims.get(&ordinal).is_some_and(|claim| claim.ours);
        let identity = report.data.as_ref().and_then(|data| data.identity.as_ref());
        let written = identity.and_then(|identity| identity.pod.as_ref());
        let other = written.is_some_and(|written| *written != self.member_name(ordinal));
        ours && other && report.state == State::Mismatch
    }

    /// A joiner asked a member that lagged behind, and took the ID of a member that had been removed: nothing was ever
    /// written under it.
    pub fn is_misled(&self, report: &Report) -> bool {
        let (Some(list), Some(data)) = (&self.etcd.members, &report.data) else {
            return false;
        };
        let id = parse_id(&data.member_id);
        let ours = parse_id(&data.cluster_id) == Some(list.cluster_id);
        ours && list.members.iter().all(|member| Some(member.id) != id)
    }

    /// The claim was created for this object, or this object has resumed its data. A claim that a deleted object retained and
    /// that was not resumed yet must not be deleted.
    pub fn has_used(&self, claim: &Claim) -> bool {
        claim.ours || self.cluster.latched.cluster_id.is_some()
    }

    /// Data of another cluster, on a claim that was created for this one. Claims that a deleted object retained are left to
    /// their owner, and their data proves nothing.
    pub fn is_foreign(&self, ordinal: u32, report: &Report) -> bool {
        let ours = self.claims.get(&ordinal).is_some_and(|claim| claim.ours);
        let known = self.cluster.latched.cluster_id;
        let data = report.data.as_ref().map(|data| parse_id(&data.cluster_id));
        ours && known.is_some() && data.is_some_and(|found| found != known)
    }
}

/// What the member of such a volume lost.
pub(crate) fn what_is_lost(state: State) -> &'static str {
    match state {
        State::Empty | State::Damaged | State::Fenced => "lost its data",
        State::RolledBack => "has less data than before: its volume was rolled back",
        State::OtherObject | State::Unidentified => "has the volume of another cluster",
        State::Mismatch => "has a volume that is not its own",
    }
}

//! What etcd itself must have done before members may run on another minor version: its data follows the oldest member up
//! only after the last one, and goes down only by etcd's own protocol. [`stage`] says how far etcd is, [`answer`] what is
//! done at each stage.

mod downgrade;
mod serving;
mod snapshots;
mod upgrade;

use std::cmp::Ordering;

use crate::decision::{Decision, LATER, Step};
use crate::observed::{Disturbance, Latched, Member, MemberList, Observed, Proven};
use crate::why::{Formats, Release};

pub(super) use downgrade::other_than;
use serving::say;
use snapshots::{Snapshots, are_needed};
pub(super) use upgrade::is_unfinished;

/// What keeps members from running on the target's minor version. Each has one answer.
pub(super) enum Stage<'a> {
    /// Their logs may hold entries that the target cannot read.
    Snapshots(Snapshots),
    /// etcd was asked for a downgrade to a minor version that is not the target.
    OtherDowngrade {
        /// That minor version.
        to: u8,
    },
    /// Upgrade: the data of these members does not have the format of the minor version that they run.
    DataNotUpgraded {
        /// The minor version.
        minor: u8,
        /// The members.
        late: Vec<&'a Member>,
    },
    /// Downgrade: etcd has not finished the upgrade before it, and until then it knows of no downgrade.
    UpgradeNotFinished {
        /// The minor version to go down to.
        to: u8,
    },
    /// Downgrade: etcd cannot be asked for it, because this member takes no part.
    MemberNotFit {
        /// The minor version to go down to.
        to: u8,
        /// The member.
        member: &'a Member,
    },
    /// Downgrade: etcd is asked for it.
    DowngradeDue {
        /// The minor version to go down to.
        to: u8,
    },
    /// Downgrade: etcd prepares the data of these members for it.
    DowngradeEnabled {
        /// The minor version to go down to.
        to: u8,
        /// The members.
        late: Vec<&'a Member>,
    },
}

/// How far etcd is; `None` when members may run on the target's minor version.
pub(super) fn stage<'a>(
    observed: &'a Observed,
    list: &'a MemberList,
    proven: &Proven,
) -> Option<Stage<'a>> {
    let from = proven.version.minor;
    let to = observed.cluster.target.as_ref()?.intent.version.minor;
    if let Some(snapshots) = snapshots::stage(observed, list, proven) {
        return Some(Stage::Snapshots(snapshots));
    }
    if let Some(other) = other_than(observed, list, to) {
        return Some(Stage::OtherDowngrade { to: other });
    }
    match to.cmp(&from) {
        Ordering::Less => downgrade::stage(observed, list, to),
        Ordering::Greater => upgrade::stage(observed, list, from),
        Ordering::Equal => None,
    }
}

/// What is done at each stage.
pub(super) fn answer(observed: &Observed, list: &MemberList, stage: Stage<'_>) -> Decision {
    let latched = &observed.cluster.latched;
    match stage {
        Stage::Snapshots(Snapshots::NotNeeded) => {
            let latched = latched.clone().undisturbed();
            Decision::act(Step::Latch(latched), Release::SnapshotsNotNeeded)
        }
        Stage::Snapshots(Snapshots::Due) => {
            let begun = latched.clone().with_disturbance(Disturbance::RenewLogs);
            Decision::act(Step::Latch(begun), Release::SnapshotsFirst)
        }
        Stage::Snapshots(Snapshots::Recorded) => {
            let step = Step::Downgrade { to: Some(5) };
            Decision::act(step, Release::SnapshotsFirst)
        }
        Stage::Snapshots(Snapshots::Awaited) => Decision::wait(Release::SnapshotsAwaited, LATER),
        Stage::Snapshots(Snapshots::Taken) => {
            let renewed = Latched {
                log_line: Some(6),
                ..latched.clone().undisturbed()
            };
            Decision::act(Step::Latch(renewed), Release::SnapshotsTaken)
        }
        Stage::OtherDowngrade { to } => {
            Decision::act(Step::Downgrade { to: None }, Release::DowngradeReverted(to))
        }
        Stage::DataNotUpgraded { minor, late } => {
            let formats = formats(observed, list, &late);
            Decision::wait(Release::NotUpgraded(minor, formats), LATER)
        }
        Stage::UpgradeNotFinished { to } => Decision::wait(Release::UpgradeNotFinished(to), LATER),
        Stage::MemberNotFit { to, member } => {
            Decision::wait(Release::NotFit(to, say(observed, member)), LATER)
        }
        Stage::DowngradeDue { to } => {
            let step = Step::Downgrade { to: Some(to) };
            Decision::act(step, Release::Enabling(to))
        }
        Stage::DowngradeEnabled { to, late } => {
            let formats = formats(observed, list, &late);
            Decision::wait(Release::Preparing(to, formats), LATER)
        }
    }
}

/// Which members are waited for, of how many.
fn formats(observed: &Observed, list: &MemberList, late: &[&Member]) -> Formats {
    let late = late.iter().map(|member| say(observed, member));
    Formats {
        all: list.members.len(),
        late: late.collect(),
    }
}

/// The release that the spec asks for cannot be reached from the one that runs, or the spec makes no sense.
pub(super) fn refused(observed: &Observed, _: &MemberList) -> Option<Decision> {
    let target = observed.cluster.target.as_ref()?;

    Some(Decision::refuse(Release::Refused(target.refused.clone()?)))
}

/// No member joins while snapshots are taken: etcd lets in no member that is newer than the minor version that it goes down
/// to.
pub(super) fn renewal(observed: &Observed, list: &MemberList) -> Option<Decision> {
    let latched = &observed.cluster.latched;
    let proven = latched.proven.as_ref()?;
    let to = observed.cluster.target.as_ref()?.intent.version.minor;
    let snapshots = match (latched.is_renewing(), are_needed(proven, to)) {
        (true, false) => Some(Snapshots::NotNeeded),
        (true, true) => snapshots::stage(observed, list, proven),
        (false, _) => None,
    };
    // The downgrade by which they were taken is over, or was asked for earlier.
    let left = || {
        let upgrades = to > proven.version.minor && latched.trial().is_none();
        let other = other_than(observed, list, to).filter(|_| upgrades)?;
        Some(Stage::OtherDowngrade { to: other })
    };
    let stage = snapshots.map(Stage::Snapshots).or_else(left)?;
    Some(answer(observed, list, stage))
}

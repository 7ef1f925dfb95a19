//! What etcd itself must have done before members may run on another minor version: its data follows the oldest member up
//! only after the last one, and goes down only by etcd's own protocol. [`stage`] says how far etcd is, [`answer`] what is
//! done at each stage.

mod downgrade;
mod serving;
mod snapshots;
mod upgrade;

use std::cmp::Ordering;

use api::Reason;

use crate::decision::{Decision, LATER, Step};
use crate::observed::{Disturbance, Latched, Member, MemberList, Observed, Proven};

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
            let why = "no snapshots are needed any more: the upgrade to 3.7 was reverted";
            Decision::act(Step::Latch(latched), Reason::RollingOut, why)
        }
        Stage::Snapshots(Snapshots::Due) => {
            let begun = latched.clone().with_disturbance(Disturbance::RenewLogs);
            Decision::act(Step::Latch(begun), Reason::RollingOut, SNAPSHOTS_FIRST)
        }
        Stage::Snapshots(Snapshots::Recorded) => {
            let step = Step::Downgrade { to: Some(5) };
            Decision::act(step, Reason::RollingOut, SNAPSHOTS_FIRST)
        }
        Stage::Snapshots(Snapshots::Awaited) => {
            let why = "waiting until every member has a snapshot that 3.7 can start from";
            Decision::wait(Reason::RollingOut, why, LATER)
        }
        Stage::Snapshots(Snapshots::Taken) => {
            let renewed = Latched {
                log_line: Some(6),
                ..latched.clone().undisturbed()
            };
            let why = "every member has a snapshot that 3.7 can start from";
            Decision::act(Step::Latch(renewed), Reason::RollingOut, why)
        }
        Stage::OtherDowngrade { to } => {
            let why = format!("the downgrade to 3.{to} was reverted");
            Decision::act(Step::Downgrade { to: None }, Reason::Downgrading, why)
        }
        Stage::DataNotUpgraded { minor, late } => {
            let why = format_of(observed, list, minor, &late);
            Decision::wait(Reason::RollingOut, why, LATER)
        }
        Stage::UpgradeNotFinished { to } => {
            let why = format!(
                "waiting until etcd has finished the upgrade; then it prepares its data for 3.{to}"
            );
            Decision::wait(Reason::Downgrading, why, LATER)
        }
        Stage::MemberNotFit { to, member } => {
            let why = format!(
                "etcd prepares its data for 3.{to} once every member is healthy: waiting for {}",
                say(observed, member)
            );
            Decision::wait(Reason::Downgrading, why, LATER)
        }
        Stage::DowngradeDue { to } => {
            let why = format!("enabling the downgrade to 3.{to} in etcd");
            Decision::act(Step::Downgrade { to: Some(to) }, Reason::Downgrading, why)
        }
        Stage::DowngradeEnabled { to, late } => {
            let why = format_of(observed, list, to, &late);
            Decision::wait(Reason::Downgrading, why, LATER)
        }
    }
}

const SNAPSHOTS_FIRST: &str =
    "every member writes a snapshot first: 3.7 cannot read log entries of 3.5";

/// Whose data has the format of a minor version, and which members are waited for.
fn format_of(observed: &Observed, list: &MemberList, minor: u8, late: &[&Member]) -> String {
    let all = list.members.len();
    let done = all.saturating_sub(late.len());
    let names: Vec<String> = late.iter().map(|member| say(observed, member)).collect();
    format!(
        "the data of {done} of {all} members has the format of 3.{minor}: waiting for {}",
        names.join("; ")
    )
}

/// The release that the spec asks for cannot be reached from the one that runs, or the spec makes no sense.
pub(super) fn refused(observed: &Observed, _: &MemberList) -> Option<Decision> {
    let target = observed.cluster.target.as_ref()?;
    let reason = match target.invalid {
        Some(_) => Reason::InvalidSpec,
        None => Reason::ChangeRefused,
    };
    Some(Decision::refuse(reason, target.refused.clone()?))
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

//! 3.7 reads the log from the last snapshot on and cannot read what 3.5 wrote there; a quiet cluster makes none for
//! months. It makes one when the format of its data falls: so it falls to that of 3.5 and rises again, which takes
//! seconds and restarts no member.

use super::serving::all;
use crate::observed::{Member, MemberList, Observed, Proven, Serving};

/// How far the members are with the snapshots that 3.7 needs.
pub(in crate::cluster) enum Snapshots {
    /// They are recorded as being taken, and the upgrade to 3.7 is not asked for any more.
    NotNeeded,
    /// Every member is ready to take one.
    Due,
    /// That is recorded, and etcd is not asked yet.
    Recorded,
    /// Some members have none yet, or are not ready to take one.
    Awaited,
    /// Every member has one.
    Taken,
}

/// Only on the way from 3.6 to 3.7.
pub(super) fn are_needed(proven: &Proven, to: u8) -> bool {
    to >= 7 && proven.version.minor == 6
}

/// `None` where no snapshots are needed, or all were taken.
pub(super) fn stage(observed: &Observed, list: &MemberList, proven: &Proven) -> Option<Snapshots> {
    let to = observed.cluster.target.as_ref()?.intent.version.minor;
    let latched = &observed.cluster.latched;
    // No member runs 3.7 before all logs were renewed, whatever the status still knows of it.
    let runs_newer = |serving: &Serving| serving.version.is_some_and(|version| version.minor > 6);
    let renewed = latched.log_line.is_some_and(|minor| minor > 5)
        || all(observed, list).flatten().any(runs_newer);
    if !are_needed(proven, to) || renewed {
        return None;
    }
    let every = |holds: &dyn Fn(&Serving) -> bool| {
        all(observed, list).all(|serving| serving.is_some_and(holds))
    };
    let falls = all(observed, list)
        .flatten()
        .any(|serving| serving.downgrade == Some(5));
    // A member whose pod is going may come back on another minor version.
    let here = |member: &Member| observed.is_healthy(member) && !observed.is_away(member);
    let ready = list.members.iter().all(here) && every(&|serving| serving.storage == Some(6));
    let fallen = every(&|serving| serving.storage == Some(5));
    match (latched.is_renewing(), falls) {
        // A downgrade that was asked for earlier, which is cancelled first: members of 3.5 may have run since.
        (false, true) => None,
        (true, true) if fallen => Some(Snapshots::Taken),
        (false, false) if ready => Some(Snapshots::Due),
        (true, false) if ready => Some(Snapshots::Recorded),
        (_, _) => Some(Snapshots::Awaited),
    }
}

//! What must hold for the upkeep of the database: history has a floor, one file at a time, and no alarm goes before its
//! cause.

use super::departed::Departure;
use super::{Violation, ensure, facts};
use crate::observed::{Alarm, AlarmKind, Hash, Latched, MemberList, Observed, Serving, quorum};

/// All voters take part and are here, and nothing else is under way.
fn check_quiet(observed: &Observed) -> Result<&MemberList, Violation> {
    let list = observed.etcd.members.as_ref().ok_or(Violation::Unknown)?;
    ensure(facts::no_grant_is_open(observed), Violation::OpenGrant)?;
    ensure(list.learners().next().is_none(), Violation::Busy)?;
    let latched = &observed.cluster.latched;
    let leaving = Departure::all(observed).any(|leaves| leaves.is_listed(observed));
    ensure(latched.trial().is_none() && !leaving, Violation::Busy)?;
    for voter in list.voters() {
        let well = facts::is_healthy(observed, list, voter) && !facts::is_away(observed, voter);
        ensure(well, Violation::Quorum)?;
    }
    Ok(list)
}

fn serving<'a>(
    observed: &'a Observed,
    list: &'a MemberList,
) -> impl Iterator<Item = Option<&'a Serving>> {
    list.voters().map(|voter| {
        let serving = facts::serving_as(observed, voter.id);
        serving.filter(|serving| serving.cluster_id == list.cluster_id)
    })
}

/// What the owner keeps lies below what every voter has.
pub(super) fn check_compact(observed: &Observed, revision: u64) -> Result<(), Violation> {
    let intent = observed
        .cluster
        .intent
        .as_ref()
        .or(Err(Violation::Unknown))?;
    let floor = intent.maintenance.history.ok_or(Violation::History)?;
    let list = check_quiet(observed)?;
    for serving in serving(observed, list) {
        let reached = serving.ok_or(Violation::Unknown)?.space.revision;
        let kept = reached.saturating_sub(revision);
        ensure(kept >= floor && revision > 0, Violation::History)?;
    }
    Ok(())
}

/// One that was recorded, of its own ID, while it does not lead others.
pub(super) fn check_defragment(
    observed: &Observed,
    id: u64,
    ordinal: u32,
) -> Result<(), Violation> {
    let list = check_quiet(observed)?;
    let name = observed.member_name(ordinal);
    let written = observed.cluster.latched.defragmenting() == Some(&name);
    let read = observed.backups.read.contains(&ordinal);
    ensure(written && !read, Violation::Busy)?;
    let member = facts::member_of(observed, ordinal).ok_or(Violation::Unknown)?;
    ensure(member.id == id && !member.learner, Violation::Unknown)?;
    let alone = list.voters().count() == 1;
    let leads = facts::leader(observed) == Some(id);
    ensure(alone || !leads, Violation::Quorum)?;
    let space = facts::serving_as(observed, id).map(|serving| serving.space);
    let loose = space.is_some_and(|space| space.size > space.in_use);
    ensure(loose, Violation::Unknown)
}

/// One after the other: no member is recorded beside another, no trial is forgotten for it, and what was compacted is
/// not for a latch to say.
pub(super) fn check_written(observed: &Observed, new: &Latched) -> Result<(), Violation> {
    let old = &observed.cluster.latched;
    let fresh = old.incarnation < new.incarnation;
    ensure(fresh || old.compacted == new.compacted, Violation::Forgets)?;
    let forgets = new.is_renewing() && old.trial().is_some();
    ensure(!forgets, Violation::Busy)?;
    match (old.defragmenting(), new.defragmenting()) {
        (_, None) => Ok(()),
        (Some(old), Some(new)) => ensure(old == new, Violation::Busy),
        (None, Some(_)) => check_quiet(observed).map(drop),
    }
}

/// Room on every voter, or data that is alike on every voter.
pub(super) fn check_disarm(observed: &Observed, alarm: Alarm) -> Result<(), Violation> {
    let list = observed.etcd.members.as_ref().ok_or(Violation::Unknown)?;
    ensure(facts::stands(observed, list, alarm), Violation::Unknown)?;
    let mut first: Option<Hash> = None;
    for serving in serving(observed, list) {
        let serving = serving.ok_or(Violation::Unknown)?;
        match alarm.kind {
            AlarmKind::NoSpace => {
                let quota = facts::quota_of(observed, serving).ok_or(Violation::Unknown)?;
                ensure(serving.space.size < quota / 5 * 4, Violation::Cause)?;
            }
            AlarmKind::Corrupt => {
                let hash = serving.hash.ok_or(Violation::Unknown)?;
                let same = *first.get_or_insert(hash) == hash;
                ensure(same, Violation::Cause)?;
            }
        }
    }
    Ok(())
}

/// A majority of all voters has one hash, and this member, at the same revisions, another.
pub(super) fn is_outvoted(observed: &Observed, list: &MemberList, id: u64) -> bool {
    let Some(own) = facts::serving_as(observed, id).and_then(|serving| serving.hash) else {
        return false;
    };
    let others = serving(observed, list).flatten();
    let others: Vec<Hash> = others.filter_map(|serving| serving.hash).collect();
    others.iter().any(|other| {
        let comparable = (other.revision, other.compacted) == (own.revision, own.compacted);
        let count = others.iter().filter(|same| *same == other).count();
        comparable && other.hash != own.hash && count >= quorum(list.voters().count())
    })
}

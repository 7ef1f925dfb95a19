//! Fewer members: from the top, one at a time, leadership first, then the member, then its claim and pod. What is
//! about to leave is recorded before, so that a claim is deleted only if its member was removed for it.

use api::names;
use api::v1alpha1::status::RetireIntent;

use crate::cluster::answers::{record_leaving, requeue_by_pod_age, starting};
use crate::cluster::{claims, replace};
use crate::decision::{Decision, LATER, Step};
use crate::observed::{
    Leaving, Member, MemberList, NO_MEMBER, Observed, format_id, parse_id, quorum,
};
use crate::why::Leave;

/// Seconds in which a pod that is to run finds a node.
const SCHEDULED_WITHIN: i64 = 60;

/// An edit that was taken back, or a departure that is complete, is forgotten before anything else: what is
/// recorded here decides over a volume.
pub(super) fn forget(observed: &Observed, list: &MemberList) -> Option<Decision> {
    let size = observed.cluster.intent.as_ref().ok()?.size;
    let stale = observed.leaving().find(|leaving| {
        let asked = leaving.ordinal < size && !replace::is_due(observed, leaving);
        let member = observed.member_of(leaving.ordinal);
        let needed = leaving.ordinal >= size
            && member
                .is_some_and(|member| is_needed(observed, list, (size, leaving.ordinal, member)));
        let stays = leaving.listed == Some(true) && (asked || needed);
        let gone = leaving.claim.is_none() || is_used_again(observed, leaving);
        let complete = leaving.listed == Some(false) && gone;
        stays || complete || claims::is_spared(observed, leaving.intent, leaving.ordinal)
    })?;
    let mut latched = observed.cluster.latched.clone();
    latched.retiring.retain(|intent| intent != stale.intent);
    let why = Leave::Forgotten(stale.intent.member.clone());
    Some(Decision::act(Step::Latch(latched), why))
}

/// Another member serves on the volume that was kept.
fn is_used_again(observed: &Observed, leaving: &Leaving<'_>) -> bool {
    let member = observed.member_of(leaving.ordinal);
    member.is_some_and(|member| observed.serving_as(member.id).is_some())
}

/// A volume that was kept is used again: the data on it is that of a member that was removed, and is never read again.
pub(super) fn tell_removed(observed: &Observed, _: &MemberList) -> Option<Decision> {
    let size = observed.cluster.intent.as_ref().ok()?.size;
    let told = observed.leaving().filter_map(|leaving| {
        let kept = leaving.claim.is_some() && !observed.goes(&leaving);
        let pod = observed.pods.get(&leaving.ordinal)?;
        let id = parse_id(&leaving.intent.member_id)?;
        let told = pod.told_removed.contains(&id) || pod.terminating || pod.serving().is_some();
        let due = kept && leaving.listed == Some(false) && leaving.ordinal < size && !told;
        due.then(|| {
            let step = Step::MarkRemoved {
                ordinal: leaving.ordinal,
                uid: pod.uid.clone(),
                members: vec![id],
            };
            let why = Leave::RetainedInUse(leaving.intent.member.clone());
            Decision::act(step, why)
        })
    });
    observed.first_awake(told)
}

/// A member that a person removed joins again: its data is of no use to any member, and is never read again.
pub(super) fn tell_vanished(observed: &Observed, _: &MemberList) -> Option<Decision> {
    let vanished = observed.vanished();
    let vanished = vanished.filter(|(_, _, pod)| !pod.terminating && pod.serving().is_none());
    observed.first_awake(vanished.map(|(ordinal, id, pod)| {
        let step = Step::MarkRemoved {
            ordinal,
            uid: pod.uid.clone(),
            members: vec![id],
        };
        let why = Leave::Vanished(observed.member_name(ordinal), id);
        Decision::act(step, why)
    }))
}

/// The data of a member that has left goes with its pod.
pub(super) fn delete_claim(observed: &Observed, list: &MemberList) -> Option<Decision> {
    if observed.healthy_voters() < quorum(list.voters().count()) {
        return None;
    }
    let deleted = observed.leaving().filter_map(|leaving| {
        let claim = leaving
            .claim
            .filter(|claim| !claim.terminating && observed.goes(&leaving))?;
        let gone = leaving.listed == Some(false) && observed.member_of(leaving.ordinal).is_none();
        gone.then(|| {
            let step = Step::DeleteClaim {
                ordinal: leaving.ordinal,
                uid: claim.uid.clone(),
            };
            let why = match leaving.intent.member_id.as_str() {
                NO_MEMBER => {
                    Leave::DeletingUnused(names::claim(&observed.cluster.name, leaving.ordinal))
                }
                _left => Leave::DeletingClaim(leaving.intent.member.clone()),
            };
            Decision::act(step, why)
        })
    });
    observed.first_awake(deleted)
}

/// All is not as it should be before the volume of the last one who left is gone.
pub(super) fn departing(observed: &Observed, _: &MemberList) -> Option<Decision> {
    let mut leaving = observed.leaving();
    let last = leaving.find(|leaving| observed.goes(leaving))?;
    let claim = names::claim(&observed.cluster.name, last.ordinal);
    let why = match last.intent.member_id.as_str() {
        NO_MEMBER => Leave::UnusedTerminating(claim),
        _left => Leave::ClaimTerminating(last.intent.member.clone(), claim),
    };
    Some(Decision::wait(why, LATER))
}

/// The member with the highest ordinal that is not asked for any more leaves next; one that is dead before it.
pub(super) fn retire(observed: &Observed, list: &MemberList) -> Option<Decision> {
    if observed.is_spec_invalid() {
        return None;
    }
    let size = observed.cluster.intent.as_ref().ok()?.size;
    // A member that cannot come back holds up no other: it goes first, and before all others if it was granted its
    // start.
    let is_dead = |ordinal: u32| replace::why_dead(observed, ordinal).is_some();
    let dead = observed.open_grant().filter(|open| is_dead(*open));
    let (ordinal, member) = list
        .members
        .iter()
        .filter_map(|member| Some((observed.ordinal_of(member)?, member)))
        .filter(|(ordinal, member)| {
            *ordinal >= size && !is_needed(observed, list, (size, *ordinal, member))
        })
        .max_by_key(|(n, _)| (Some(*n) == dead, is_dead(*n), *n))?;
    // The last voter stays until another votes.
    if !list.voters().any(|voter| voter.id != member.id) {
        return None;
    }
    if let Some(open) = observed.open_grant().filter(|_| dead != Some(ordinal)) {
        return Some(starting(observed, open));
    }
    let name = observed.member_name(ordinal);
    if let Some(dark) = unhealthy_survivor(observed, list, (size, member)) {
        return Some(Decision::wait(Leave::OtherUnhealthy(name, dark), LATER));
    }
    Some(latch(observed, ordinal, member).unwrap_or_else(|| leave(observed, list, ordinal, member)))
}

/// It votes and is well, and without it fewer would vote than are asked for: one of those lost its data, or has not joined yet.
/// That one joins first. Five that are made three, one of them lost, would otherwise be two for as long as it takes to bring the
/// data of the leader to the third, and two voters tolerate no failure at all. A member that is not well, or whose data differs,
/// adds nothing, and while it is listed etcd may take in no other; a learner has no vote. And where the missing one does not come,
/// this one may be what it waits for: it has the node that the other needs.
fn is_needed(
    observed: &Observed,
    list: &MemberList,
    (size, ordinal, member): (u32, u32, &Member),
) -> bool {
    let rest = list.voters().filter(|voter| voter.id != member.id).count();
    let fewer = u32::try_from(rest).is_ok_and(|rest| rest < size);
    fewer
        && !member.learner
        && observed.is_healthy(member)
        && replace::diagnose(observed, ordinal, member).is_none()
        && missing(observed, size).any(|ordinal| is_coming(observed, ordinal))
}

/// Members that are asked for and do not vote yet.
fn missing(observed: &Observed, size: u32) -> impl Iterator<Item = u32> {
    let votes = |ordinal: u32| observed.member_of(ordinal).is_some_and(|m| !m.learner);
    (0..size).filter(move |ordinal| !votes(*ordinal))
}

/// It joins, or its pod has a node, or has not waited for one for long, or is about to be created.
fn is_coming(observed: &Observed, ordinal: u32) -> bool {
    let joins = observed.member_of(ordinal).is_some();
    let pod = observed.pods.get(&ordinal);
    joins
        || pod.map_or_else(
            || !observed.cannot_be_created(ordinal) && !observed.is_withheld(ordinal),
            |pod| {
                let age = observed.now.duration_since(pod.created);
                pod.scheduled || age.as_secs() < SCHEDULED_WITHIN
            },
        )
}

/// What cannot leave yet, and for which member it stays.
pub(super) fn staying(observed: &Observed, list: &MemberList) -> Option<Decision> {
    let size = observed.cluster.intent.as_ref().ok()?.size;
    let stays = list.voters().find_map(|voter| {
        let ordinal = observed.ordinal_of(voter).filter(|n| *n >= size)?;
        is_needed(observed, list, (size, ordinal, voter)).then_some(ordinal)
    })?;
    let missing = missing(observed, size).find(|ordinal| is_coming(observed, *ordinal))?;
    let why = Leave::Needed {
        member: observed.member_name(stays),
        missing: observed.member_name(missing),
        doing: observed.doing(missing),
    };
    let requeue = requeue_by_pod_age(observed, missing).min(LATER);
    Some(Decision::wait(why, requeue))
}

/// A voter that would remain and is not healthy, or is about to be away: with the claim of the member that leaves may
/// go data that only it has. Learners do not count, and a member that leaves need not be well. Of several that are dead
/// and not asked for any more, none keeps the others, as long as a quorum can do without.
fn unhealthy_survivor(
    observed: &Observed,
    list: &MemberList,
    (size, leaver): (u32, &Member),
) -> Option<String> {
    let spare = observed.can_lose(list, leaver);
    let hopeless = |voter: &Member| {
        let superfluous = observed.ordinal_of(voter).filter(|n| spare && *n >= size);
        superfluous.is_some_and(|n| replace::why_dead(observed, n).is_some())
    };
    let mut survivors = list.voters().filter(|voter| voter.id != leaver.id);
    let dark = survivors.find(|voter| {
        !hopeless(voter) && (!observed.is_healthy(voter) || observed.is_away(voter))
    })?;
    Some(
        observed
            .ordinal_of(dark)
            .map_or_else(|| dark.name.clone(), |n| observed.member_name(n)),
    )
}

/// A member that lost its data and is not asked for any more: nothing takes its place, so that its claim must be written
/// down with it before it is removed.
pub(super) fn announce(
    observed: &Observed,
    list: &MemberList,
    (ordinal, member): (u32, &Member),
) -> Option<Decision> {
    let size = observed.cluster.intent.as_ref().ok()?.size;
    let leaves = ordinal >= size && observed.can_lose(list, member);
    leaves.then(|| latch(observed, ordinal, member)).flatten()
}

fn latch(observed: &Observed, ordinal: u32, member: &Member) -> Option<Decision> {
    let intent = RetireIntent {
        member: observed.member_name(ordinal),
        member_id: format_id(member.id),
        claim_uid: observed
            .claims
            .get(&ordinal)
            .map(|claim| claim.uid.clone())
            .unwrap_or_default(),
        replaced: None,
    };
    if observed.cluster.latched.retiring.contains(&intent) {
        return None;
    }
    let why = Leave::Recorded(intent.member.clone());
    Some(record_leaving(observed, intent, why))
}

/// Leadership first: a leader transfers it to the most advanced of those that stay.
fn leave(observed: &Observed, list: &MemberList, ordinal: u32, member: &Member) -> Decision {
    let name = observed.member_name(ordinal);
    let transferee = list
        .voters()
        .filter(|voter| voter.id != member.id)
        .max_by_key(|voter| {
            let applied = observed
                .serving_as(voter.id)
                .map_or(0, |serving| serving.applied_index);
            // The member that stays longest spares a second transfer.
            (applied, std::cmp::Reverse(observed.ordinal_of(voter)))
        });
    match transferee {
        Some(transferee) if observed.leader() == Some(member.id) => {
            let step = Step::MoveLeader {
                to: transferee.id,
                ordinal,
            };
            let why = Leave::HandsOver(name, transferee.name.clone());
            Decision::act(step, why)
        }
        _other => {
            let step = Step::RetireMember {
                id: member.id,
                ordinal,
            };
            Decision::act(step, Leave::Removing(name))
        }
    }
}

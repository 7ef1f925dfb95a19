//! Fewer members: from the top, one at a time, leadership first, then the member, then its claim and pod. What is
//! about to leave is written down before, so that a claim is deleted only if its member was removed for it.

use api::v1alpha1::cluster::Retention;
use api::v1alpha1::status::RetireIntent;
use api::{Reason, names};

use crate::cluster::membership::{can_lose, starting};
use crate::cluster::{claims, replace};
use crate::decision::{Decision, LATER, Step};
use crate::observed::{
    Latched, Leaving, Member, MemberList, Observed, format_id, parse_id, quorum,
};

/// An edit that was taken back, or a departure that is complete, is forgotten before anything else: what is
/// written down here decides over a volume.
pub(super) fn forget(observed: &Observed, _: &MemberList) -> Option<Decision> {
    let size = observed.cluster.intent.as_ref().ok()?.size;
    let stale = observed.leaving().find(|leaving| {
        let stays = leaving.listed == Some(true)
            && leaving.ordinal < size
            && !replace::is_due(observed, leaving);
        let gone = leaving.claim.is_none() || is_used_anew(observed, leaving);
        let complete = leaving.listed == Some(false) && gone;
        stays || complete || claims::is_spared(observed, leaving.intent, leaving.ordinal)
    })?;
    let mut latched = observed.cluster.latched.clone();
    latched.retiring.retain(|intent| intent != stale.intent);
    let why = format!("{} is no longer leaving", stale.intent.member);
    Some(Decision::act(
        Step::Latch(latched),
        Reason::RemovingMember,
        why,
    ))
}

/// Another member serves on the volume that was kept.
fn is_used_anew(observed: &Observed, leaving: &Leaving<'_>) -> bool {
    let member = observed.member_of(leaving.ordinal);
    member.is_some_and(|member| observed.serving_as(member.id).is_some())
}

/// Somebody is on the way out, and what becomes of the volume is not settled yet.
pub(crate) fn is_under_way(observed: &Observed) -> bool {
    observed
        .leaving()
        .any(|leaving| leaving.listed != Some(false) || goes(observed, &leaving))
}

/// Its claim is there and shall go.
pub(crate) fn goes(observed: &Observed, leaving: &Leaving<'_>) -> bool {
    let intent = observed.cluster.intent.as_ref();
    let kept = intent.is_ok_and(|intent| intent.storage.when_scaled == Retention::Retain);
    // Whoever takes its place needs the name of its claim.
    leaving.claim.is_some() && (!kept || leaving.intent.replaced.is_some())
}

/// A volume that was kept is used again: the data on it is that of a member that was removed, and is never read again.
pub(super) fn tell_removed(observed: &Observed, _: &MemberList) -> Option<Decision> {
    let size = observed.cluster.intent.as_ref().ok()?.size;
    observed.leaving().find_map(|leaving| {
        let kept = leaving.claim.is_some() && !goes(observed, &leaving);
        let pod = observed.pods.get(&leaving.ordinal)?;
        let id = parse_id(&leaving.intent.member_id)?;
        let told = pod.told_removed.contains(&id) || pod.terminating || pod.serving().is_some();
        let due = kept && leaving.listed == Some(false) && leaving.ordinal < size && !told;
        due.then(|| {
            let step = Step::TellRemoved {
                ordinal: leaving.ordinal,
                uid: pod.uid.clone(),
                members: vec![id],
            };
            let why = format!(
                "the volume of {} was kept, and what is on it belongs to a member that was removed",
                leaving.intent.member
            );
            Decision::act(step, Reason::AddingMember, why)
        })
    })
}

/// Whoever was removed by somebody else joins anew: what it had is of no use to anybody, and is never read again.
pub(super) fn tell_vanished(observed: &Observed, _: &MemberList) -> Option<Decision> {
    let mut vanished = observed.vanished();
    let (ordinal, id, pod) =
        vanished.find(|(_, _, pod)| !pod.terminating && pod.serving().is_none())?;
    let step = Step::TellRemoved {
        ordinal,
        uid: pod.uid.clone(),
        members: vec![id],
    };
    let why = format!(
        "{} ({id:x}) was removed from the cluster by somebody else, and joins anew",
        observed.member_name(ordinal)
    );
    Some(Decision::act(step, Reason::ReplacingMember, why))
}

/// The data of a member that has left goes with its pod.
pub(super) fn delete_claim(observed: &Observed, list: &MemberList) -> Option<Decision> {
    if observed.healthy_voters() < quorum(list.voters().count()) {
        return None;
    }
    observed.leaving().find_map(|leaving| {
        let claim = leaving
            .claim
            .filter(|claim| !claim.terminating && goes(observed, &leaving))?;
        let gone = leaving.listed == Some(false) && observed.member_of(leaving.ordinal).is_none();
        gone.then(|| {
            let step = Step::DeleteClaim {
                ordinal: leaving.ordinal,
                uid: claim.uid.clone(),
            };
            let why = match leaving.intent.member_id.as_str() {
                replace::NO_MEMBER => format!(
                    "no member uses {}, and it goes",
                    names::claim(&observed.cluster.name, leaving.ordinal)
                ),
                _left => format!("{} has left, and its volume goes", leaving.intent.member),
            };
            Decision::act(step, Reason::RemovingMember, why)
        })
    })
}

/// All is not as it should be before the volume of the last one who left is gone.
pub(super) fn departing(observed: &Observed, _: &MemberList) -> Option<Decision> {
    let mut leaving = observed.leaving();
    let last = leaving.find(|leaving| goes(observed, leaving))?;
    let claim = names::claim(&observed.cluster.name, last.ordinal);
    let why = match last.intent.member_id.as_str() {
        replace::NO_MEMBER => format!("no member uses {claim}, which is being deleted"),
        _left => format!("{} has left, and {claim} is going", last.intent.member),
    };
    Some(Decision::wait(Reason::RemovingMember, why, LATER))
}

/// The member with the highest ordinal that is not asked for any more leaves next; one that is dead before it.
pub(super) fn retire(observed: &Observed, list: &MemberList) -> Option<Decision> {
    if observed.is_spec_invalid() {
        return None;
    }
    let size = observed.cluster.intent.as_ref().ok()?.size;
    // Whoever cannot come back keeps nobody waiting: it goes first, and before all others if it was let through.
    let is_dead = |ordinal: u32| replace::why_dead(observed, ordinal).is_some();
    let dead = observed.open_grant().filter(|open| is_dead(*open));
    let (ordinal, member) = list
        .members
        .iter()
        .filter_map(|member| Some((observed.ordinal_of(member)?, member)))
        .filter(|(ordinal, _)| *ordinal >= size)
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
        let why = format!(
            "{name} is not removed while {dark} is not healthy: fewer members would tolerate less"
        );
        return Some(Decision::wait(Reason::Refused, why, LATER));
    }
    Some(latch(observed, ordinal, member).unwrap_or_else(|| leave(observed, list, ordinal, member)))
}

/// A voter that would remain and is not healthy, or is about to be away: with its claim the data may go that whoever
/// leaves still has. Learners do not count, and a member that leaves need not be well. Of several that are dead and not
/// asked for any more, none keeps the others, as long as a quorum can do without.
fn unhealthy_survivor(
    observed: &Observed,
    list: &MemberList,
    (size, leaver): (u32, &Member),
) -> Option<String> {
    let spare = can_lose(observed, list, leaver);
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
    let leaves = ordinal >= size && can_lose(observed, list, member);
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
    let why = format!("{} is to leave", intent.member);
    Some(write_down(observed, intent, Reason::RemovingMember, why))
}

/// Writes down who leaves, in place of what was written of it before.
pub(super) fn write_down(
    observed: &Observed,
    intent: RetireIntent,
    reason: Reason,
    why: String,
) -> Decision {
    let mut retiring = observed.cluster.latched.retiring.clone();
    retiring.retain(|other| other.member != intent.member);
    retiring.push(intent);
    let latched = Latched {
        retiring,
        ..observed.cluster.latched.clone()
    };
    Decision::act(Step::Latch(latched), reason, why)
}

/// Leadership first: whoever leads hands over to the most advanced of those who stay.
fn leave(observed: &Observed, list: &MemberList, ordinal: u32, member: &Member) -> Decision {
    let name = observed.member_name(ordinal);
    let heir = list
        .voters()
        .filter(|voter| voter.id != member.id)
        .max_by_key(|voter| {
            let applied = observed
                .serving_as(voter.id)
                .map_or(0, |serving| serving.applied_index);
            // Whoever stays longest spares a second hand-over.
            (applied, std::cmp::Reverse(observed.ordinal_of(voter)))
        });
    match heir {
        Some(heir) if observed.leader() == Some(member.id) => {
            let step = Step::MoveLeader {
                to: heir.id,
                ordinal,
            };
            let why = format!("{name} leads and is to leave; {} leads instead", heir.name);
            Decision::act(step, Reason::RemovingMember, why)
        }
        _other => {
            let step = Step::RetireMember {
                id: member.id,
                ordinal,
            };
            Decision::act(step, Reason::RemovingMember, format!("{name} leaves"))
        }
    }
}

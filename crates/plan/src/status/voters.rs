//! Who votes and how far each has come: what is known when no member can be asked any more.

use std::collections::BTreeMap;

use api::v1alpha1::status::{KnownLearner, KnownVoter};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::observed::{Joining, Member, MemberList, Observed, format_id, parse_id};

/// An index is recorded again when it has doubled, or risen by this: not at every write.
const FAR: i64 = 50_000;
/// Seconds between two times that indexes are recorded, unless a voter came or left: each time costs a write of the
/// StatefulSet.
const APART: i64 = 600;
/// Seconds after which progress of a learner is recorded again: not at every look.
const NOTED: i64 = 30;
/// Nothing is recorded of a log that is shorter.
const SHORT: i64 = 500;

/// The voters of ours in the list, and those that left it and whose data may still be started; what was known before,
/// while there is no list.
pub(super) fn remember(observed: &Observed) -> Vec<KnownVoter> {
    let known = &observed.cluster.latched.voters;
    let Some(list) = observed.own_list() else {
        return known.clone();
    };
    let calm = is_calm(observed, list);
    let due = |voter: &Member| {
        let (before, applied) = progress(observed, voter);
        applied.is_some_and(|applied| is_due(before, applied))
    };
    let raises = calm && may_be_raised(observed, list) && list.voters().any(due);
    let highest = list
        .voters()
        .filter_map(|voter| progress(observed, voter).0);
    let highest = highest.max().unwrap_or(0);
    let of_member = |member: &Member| {
        let ordinal = observed.ordinal_of(member)?;
        let (before, applied) = progress(observed, member);
        let higher = applied.and_then(|applied| {
            // All at once: they go into one object.
            let risen = applied >= SHORT && before.is_none_or(|before| before < applied);
            // One that was behind when the others were recorded is, once it has come as far.
            let follows = applied >= highest && is_due(before, highest);
            let along = (calm && follows).then_some(highest);
            (raises && risen).then_some(applied).or(along)
        });
        Some(KnownVoter {
            member: observed.member_name(ordinal),
            member_id: format_id(member.id),
            index: higher.or(before),
        })
    };
    let mut voters: Vec<KnownVoter> = list.voters().filter_map(of_member).collect();
    let left = known
        .iter()
        .filter(|known| may_start(observed, list, known));
    voters.extend(left.cloned());
    voters.sort();
    voters
}

/// It is no longer listed, and its data may still lie on its volume: a pod that is made before another member has started
/// there must be held back by its floor, or its agent must know.
fn may_start(observed: &Observed, list: &MemberList, known: &KnownVoter) -> bool {
    let id = parse_id(&known.member_id);
    let listed = list.members.iter().any(|member| Some(member.id) == id);
    let mut leaving = observed.leaving();
    let leaves = leaving.any(|leaving| leaving.intent.member_id == known.member_id);
    let ordinal = api::names::ordinal(&observed.cluster.name, &known.member);
    let exists = ordinal.is_some_and(|ordinal| observed.claims.contains_key(&ordinal));
    let successor = ordinal.and_then(|ordinal| observed.member_of(ordinal));
    let taken = successor.is_some_and(|member| !member.is_unstarted());
    let pod = ordinal.and_then(|ordinal| observed.pods.get(&ordinal));
    let told = pod.is_some_and(|pod| id.is_some_and(|id| pod.told_removed.contains(&id)));
    !listed && !leaves && exists && !taken && !told
}

/// Indexes go into the pod template, so they are left alone while members come and go.
fn is_calm(observed: &Observed, list: &MemberList) -> bool {
    // A claim that is kept after its member has left disturbs nothing.
    !observed.is_any_leaving()
        && observed.cluster.latched.recovery.is_none()
        && list.learners().next().is_none()
        && list.voters().all(|voter| observed.is_healthy(voter))
}

/// It is not long since they were raised, unless a voter came: then they are written anyway.
fn may_be_raised(observed: &Observed, list: &MemberList) -> bool {
    let known = |voter: &Member| {
        let id = format_id(voter.id);
        let mut known = observed.cluster.latched.voters.iter();
        known.any(|known| known.member_id == id)
    };
    let before = observed.indexes_recorded;
    let rested = before.is_none_or(|at| observed.now.duration_since(at).as_secs() >= APART);
    rested || !list.voters().all(known)
}

/// The index that is recorded of a member, and the one that it has applied.
fn progress(observed: &Observed, member: &Member) -> (Option<i64>, Option<i64>) {
    let id = format_id(member.id);
    let mut known = observed.cluster.latched.voters.iter();
    let before = known.find(|known| known.member_id == id);
    let before = before.and_then(|known| known.index);
    let serving = observed.serving_as(member.id);
    let applied = serving.and_then(|now| i64::try_from(now.applied_index).ok());
    // No log ends above the leader's: an index that does was edited.
    let leader = observed.leader().and_then(|id| observed.serving_as(id));
    let head = leader.and_then(|leader| i64::try_from(leader.raft_index).ok());
    let head = head.filter(|_| applied.is_some());
    let before = before.filter(|index| head.is_none_or(|head| *index <= head));
    (before, applied)
}

/// It has doubled, or risen far.
fn is_due(before: Option<i64>, reached: i64) -> bool {
    let old = before.unwrap_or(0);
    let risen = reached.saturating_sub(old);
    risen >= FAR || (risen >= old && risen >= SHORT)
}

/// The learners in the list, each with how far it has come and since when; what was known before, while there is none.
pub(super) fn remember_learners(observed: &Observed) -> BTreeMap<u64, Joining> {
    let known = &observed.cluster.latched.learners;
    let Some(list) = observed.own_list() else {
        return known.clone();
    };
    let learners = list.learners().map(|learner| {
        let now = observed.joining(learner);
        let Some(before) = known.get(&learner.id) else {
            return (learner.id, now);
        };
        let age = observed.now.duration_since(before.since).as_secs();
        let moves = before.is_passed_by(&now) || observed.awaits_grant(learner);
        let due = moves && age >= NOTED;
        (
            learner.id,
            if due { now.or_before(before) } else { *before },
        )
    });
    learners.collect()
}

pub(super) fn read_learners(known: &[KnownLearner]) -> BTreeMap<u64, Joining> {
    let known = known.iter();
    let count = |written: Option<i64>| written.and_then(|count| u64::try_from(count).ok());
    known
        .filter_map(|learner| {
            let joining = Joining {
                since: learner.since.0,
                received: count(learner.received_bytes),
                behind: count(learner.behind),
            };
            Some((parse_id(&learner.member_id)?, joining))
        })
        .collect()
}

pub(super) fn write_learners(known: &BTreeMap<u64, Joining>) -> Vec<KnownLearner> {
    let known = known.iter();
    let count = |count: Option<u64>| count.and_then(|count| i64::try_from(count).ok());
    known
        .map(|(id, joining)| KnownLearner {
            member_id: format_id(*id),
            since: Time(joining.since),
            received_bytes: count(joining.received),
            behind: count(joining.behind),
        })
        .collect()
}

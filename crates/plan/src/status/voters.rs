//! Who votes and how far each has come: what is known when nobody can be asked any more.

use std::collections::BTreeMap;

use api::v1alpha1::status::{KnownLearner, KnownVoter};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::cluster::shrink;
use crate::observed::{Joining, Member, MemberList, Observed, format_id, parse_id};

/// An index is written down anew when it has doubled, or risen by this: not at every write.
const FAR: i64 = 50_000;
/// Seconds after which progress of a learner is written down again: not at every look.
const NOTED: i64 = 30;
/// Nothing is written down of a log that is shorter.
const SHORT: i64 = 500;

/// The voters of ours in the list, and those that left it and whose data may still be started; what was known before,
/// while there is no list.
pub(super) fn remember(observed: &Observed) -> Vec<KnownVoter> {
    let known = &observed.cluster.latched.voters;
    let Some(list) = observed.own_list() else {
        return known.clone();
    };
    let of_member = |member: &Member| {
        let ordinal = observed.ordinal_of(member)?;
        let member_id = format_id(member.id);
        let before = known.iter().find(|known| known.member_id == member_id);
        Some(KnownVoter {
            member: observed.member_name(ordinal),
            index: index(observed, list, member, before.and_then(|known| known.index)),
            member_id,
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
/// there must be held back by its floor, or its agent must be told.
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

/// It goes into the pod template, so it is left alone while members come and go.
fn index(
    observed: &Observed,
    list: &MemberList,
    member: &Member,
    before: Option<i64>,
) -> Option<i64> {
    let latched = &observed.cluster.latched;
    // A claim that is kept after its member has left disturbs nothing.
    let calm = !shrink::is_under_way(observed)
        && latched.recovery.is_none()
        && list.learners().next().is_none()
        && list.voters().all(|voter| observed.is_healthy(voter));
    let serving = observed.serving_as(member.id).filter(|_| calm);
    let Some(applied) = serving.and_then(|now| i64::try_from(now.applied_index).ok()) else {
        return before;
    };
    let old = before.unwrap_or(0);
    let risen = applied.saturating_sub(old);
    let due = risen >= FAR || (risen >= old && risen >= SHORT);
    if due { Some(applied) } else { before }
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

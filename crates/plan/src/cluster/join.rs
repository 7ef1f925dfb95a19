//! A member joins: its wait is recorded, it is added as a learner, granted its start, and promoted once it has caught
//! up. One way for the second member of a new cluster, for growth, and for a member whose volume was lost.

use std::collections::BTreeSet;

use api::EtcdVersion;
use api::v1alpha1::status::JoinIntent;
use gate::{Action, Grant, Report, State};

use crate::cluster::answers::starting;
use crate::decision::{Decision, LATER, SOON, Step};
use crate::observed::{Latched, MAX_LAG, Member, MemberList, Observed, Pod, format_id, quorum};
use crate::why::Join;

/// How long a promotion waits for pods that are still coming, in seconds of their age. On 3.6 and later a
/// learner that is added before the promotion of another costs nothing, one that is added after it 5 s.
const PROMOTION_HOLD_SECONDS: i64 = 20;

/// The waits for which members may be added: those already recorded that still stand, and every blank
/// volume within the size that has no member yet.
pub(super) fn joins(observed: &Observed) -> Vec<JoinIntent> {
    let size = observed
        .cluster
        .intent
        .as_ref()
        .map_or(0, |intent| intent.size);
    let waiting = observed.pods.range(..size).filter_map(|(ordinal, pod)| {
        let report = observed
            .needs_new_member(*ordinal)
            .filter(|_| !pod.terminating)?;
        let known = observed.may_join(*ordinal, pod, report);
        (known || observed.member_of(*ordinal).is_none()).then(|| JoinIntent {
            member: observed.member_name(*ordinal),
            pod_uid: pod.uid.clone(),
            nonce: report.nonce.clone(),
        })
    });
    waiting.collect()
}

pub(super) fn latch_joins(observed: &Observed, _: &MemberList) -> Option<Decision> {
    let joins = joins(observed);
    let known: BTreeSet<&JoinIntent> = observed.cluster.latched.joins.iter().collect();
    let new = joins.iter().find(|join| !known.contains(join))?;
    let why = Join::Recorded(new.member.clone());
    let latched = Latched {
        joins: joins.clone(),
        ..observed.cluster.latched.clone()
    };
    Some(Decision::act(Step::Latch(latched), why))
}

pub(super) fn add(observed: &Observed, list: &MemberList) -> Option<Decision> {
    let pods = observed.pods.iter().filter(|(ordinal, pod)| {
        let waits = observed
            .needs_new_member(**ordinal)
            .is_some_and(|report| observed.may_join(**ordinal, pod, report));
        let unlisted = observed.member_of(**ordinal).is_none();
        waits && unlisted && !pod.terminating && observed.can_be_found(pod)
    });
    // etcd adds a member only while every voter is connected, and the rule that repairs one that is not comes later.
    let refused = observed.has_stopped(list) || observed.open_grant().is_some();
    if refused || !has_room_for_a_learner(observed, list) {
        return None;
    }
    observed.first_awake(pods.map(|(ordinal, _)| {
        let step = Step::AddLearner {
            ordinal: *ordinal,
            peer_url: observed.peer_url(*ordinal),
        };
        let why = Join::Adding(observed.member_name(*ordinal));
        Decision::act(step, why)
    }))
}

/// A second learner only where every member is seen on 3.6 or later: etcd enforces the limit where it applies entries.
fn has_room_for_a_learner(observed: &Observed, list: &MemberList) -> bool {
    list.learners().next().is_none() || many_learners(observed, list)
}

/// One that has not started yet will run what is proven.
fn many_learners(observed: &Observed, list: &MemberList) -> bool {
    let latched = &observed.cluster.latched;
    let proven = latched.proven.as_ref().map(|proven| proven.version);
    let seen = |m: &Member| observed.serving_as(m.id)?.version;
    let version = |m: &Member| if m.is_unstarted() { proven } else { seen(m) };
    let mut versions = list.members.iter().map(version);
    versions.all(|version| version.is_some_and(EtcdVersion::allows_many_learners))
}

/// One behind the other: members that start at the same instant wait for each other.
pub(super) fn grant_join(observed: &Observed, list: &MemberList) -> Option<Decision> {
    if let Some(open) = observed.open_grant() {
        // Nothing else may touch the member list, but a learner that serves may be promoted.
        return promote(observed, list)
            .filter(|decision| matches!(decision.step, Step::Promote { .. }))
            .or_else(|| Some(starting(observed, open)));
    }
    let waiting = observed.pods.iter().filter_map(|(ordinal, pod)| {
        let report = observed
            .needs_new_member(*ordinal)
            .filter(|_| !pod.terminating && !pod.is_granted())?;
        let member = observed.member_of(*ordinal)?;
        let may = observed.may_join(*ordinal, pod, report) && member.is_unstarted();
        may.then_some((*ordinal, pod, report, member))
    });
    let rests = |pod: &Pod, report: &Report| observed.is_grant_resting(pod, &report.nonce);
    let (ordinal, pod, report, member) =
        waiting.min_by_key(|(ordinal, pod, report, _)| (rests(pod, report), *ordinal))?;
    let name = observed.member_name(ordinal);
    // What is moved aside must not be the last copy, and no member joins without a leader.
    let led = observed.healthy_voters() >= quorum(list.voters().count());
    if !led || !is_listed_everywhere(observed, list) {
        return Some(Decision::wait(Join::NotListed(name), SOON));
    }
    let grant = join_grant(observed, list, member, (ordinal, report));
    let step = Step::Grant {
        ordinal,
        pod_uid: pod.uid.clone(),
        grant,
    };
    Some(Decision::act(step, Join::Starts(name)))
}

/// A joiner believes the first peer that answers, and takes the ID which that peer lists for its URL. A voter that is
/// late would give it the ID of one that was removed, so each one must be *seen* to list exactly what the list says. One
/// that does not answer us may well answer the joiner. A learner does not report its view: a joiner that
/// it misleads waits at the gate with an ID that no voter lists, and joins again.
fn is_listed_everywhere(observed: &Observed, list: &MemberList) -> bool {
    let ids: BTreeSet<u64> = list.members.iter().map(|member| member.id).collect();
    list.voters().all(|voter| {
        let view = observed
            .serving_as(voter.id)
            .and_then(|serving| serving.view.as_ref());
        view == Some(&ids)
    })
}

fn join_grant(
    observed: &Observed,
    list: &MemberList,
    member: &Member,
    (ordinal, report): (u32, &Report),
) -> Grant {
    Grant {
        nonce: report.nonce.clone(),
        cluster_uid: observed.cluster.uid.clone(),
        incarnation: observed.cluster.latched.incarnation,
        action: Action::Join {
            token: observed.token(),
            initial_cluster: initial_cluster(observed, list, ordinal),
            member_id: format_id(member.id),
            cluster_id: format_id(list.cluster_id),
            discard: report.state != State::Empty,
        },
    }
}

/// Exactly the member list. etcd matches by URL; names only have to differ, and the joiner's must be
/// its own.
fn initial_cluster(observed: &Observed, list: &MemberList, joiner: u32) -> String {
    let entries = list.members.iter().flat_map(|member| {
        let name = match observed.ordinal_of(member) {
            Some(ordinal) if ordinal == joiner || member.is_unstarted() => {
                observed.member_name(ordinal)
            }
            _other if member.is_unstarted() => format_id(member.id),
            _started => member.name.clone(),
        };
        member
            .peer_urls
            .iter()
            .map(move |url| format!("{name}={url}"))
    });
    entries.collect::<Vec<_>>().join(",")
}

pub(super) fn promote(observed: &Observed, list: &MemberList) -> Option<Decision> {
    let head = observed
        .leader()
        .and_then(|leader| observed.serving_as(leader))?
        .raft_index;
    let mut behind = None;
    for learner in list.learners().filter(|learner| !learner.is_unstarted()) {
        let Some(ordinal) = observed.ordinal_of(learner) else {
            continue;
        };
        let name = observed.member_name(ordinal);
        let Some(serving) = observed.serving_as(learner.id) else {
            continue;
        };
        if !can_count_on(observed, list, learner) {
            continue;
        }
        let lag = head.saturating_sub(serving.applied_index);
        if lag > MAX_LAG {
            let why = Join::CatchingUp(name, lag);
            behind = behind.or(Some(Decision::wait(why, LATER)));
        } else if let Some(coming) = pending_joiner(observed, list) {
            let why = Join::PromotedAfter(name, coming);
            behind = behind.or(Some(Decision::wait(why, SOON)));
        } else {
            let step = Step::Promote {
                id: learner.id,
                ordinal,
            };
            let promotion = Decision::act(step, Join::Promoting(name));
            if !observed.rests(&promotion.step) {
                return Some(promotion);
            }
            behind = behind.or(Some(promotion));
        }
    }
    behind
}

/// With its vote the healthy voters are a quorum; a promotion asks one more of them to agree.
fn can_count_on(observed: &Observed, list: &MemberList, learner: &Member) -> bool {
    let healthy = observed.healthy_voters().saturating_add(1);
    let stays = observed.is_healthy(learner) && !observed.is_away(learner);
    stays && healthy >= quorum(list.voters().count().saturating_add(1))
}

/// A young pod that has no member yet but is about to.
fn pending_joiner(observed: &Observed, list: &MemberList) -> Option<String> {
    let size = observed.cluster.intent.as_ref().ok()?.size;
    let coming = observed.pods.range(..size).find(|(ordinal, pod)| {
        let age = observed.now.duration_since(pod.created).as_secs();
        let unlisted = observed.member_of(**ordinal).is_none();
        unlisted && !pod.terminating && pod.problem.is_none() && age < PROMOTION_HOLD_SECONDS
    });
    many_learners(observed, list)
        .then_some(coming)?
        .map(|(ordinal, _)| observed.member_name(*ordinal))
}

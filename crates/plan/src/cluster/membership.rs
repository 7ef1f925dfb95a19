//! Members of a cluster that has formed: pod first, then member, then process, then vote. One code
//! path for the second member of a new cluster, for growth, and for a member whose volume was lost.

use std::collections::BTreeSet;

use api::v1alpha1::status::JoinIntent;
use api::{EtcdVersion, Reason};
use gate::{Action, Grant, Report, State};

use crate::cluster::{
    bootstrap, claims, corrupt, first_allowed, hang, maintain, patience, recover, replace, rollout,
    shrink, storage, versions,
};
use crate::decision::{Decision, LATER, SETTLED, SOON, Step};
use crate::observed::{
    Latched, Member, MemberList, Observed, Pod, Process, Proven, format_id, parse_id, quorum,
    what_is_lost,
};

/// Entries that a learner may be behind when it is promoted; etcd itself would accept a tenth of the log.
pub(crate) const MAX_LAG: u64 = 1000;
/// How long a promotion waits for pods that are still coming, in seconds of their age. On 3.6 and later a
/// learner that is added before the promotion of another costs nothing, one that is added after it 5 s.
const COMPANY: i64 = 20;

type Rule = fn(&Observed, &MemberList) -> Option<Decision>;

const RULES: &[Rule] = &[
    remember,
    // Where nobody can say whose data is right, nothing is touched.
    corrupt::decide,
    shrink::forget,
    // A wait that no member was added for, though one is listed: that member's data is gone.
    remove_lost,
    // Whoever cannot come back makes room for a new member before anything else waits for it.
    replace::decide,
    // One that hangs counts for nothing, and everything else would wait for it.
    hang::decide,
    // A database that is full keeps everybody from writing; it waits for nobody but members that come or go.
    maintain::relieve,
    // What has begun is brought to an end before anything else is begun.
    rollout::go_on,
    shrink::tell_removed,
    shrink::tell_vanished,
    // Fewer before more: who leaves is not replaced, and makes room.
    shrink::delete_claim,
    // Claims that no member uses, after those of members that left, which are known better.
    claims::sweep,
    shrink::retire,
    versions::renewal,
    // Waits are written down, then members added for them, then let through, one after another.
    latch_joins,
    add,
    let_through,
    promote,
    rollout::begin,
    hang::wait,
    // What this operator does to a member explains why that member is missing.
    maintain::under_way,
    incomplete,
    storage::grow,
    versions::refused,
    debug,
    shrink::departing,
    hang::forget,
    // Only where nothing else is to be done.
    maintain::tidy_up,
    maintain::exhausted,
];

pub(super) fn decide(observed: &Observed) -> Option<Decision> {
    let decision = recover::decide(observed).or_else(|| match &observed.etcd.members {
        None => Some(recover::without_a_list(observed).unwrap_or_else(|| unreachable(observed))),
        Some(list) => {
            let answers = RULES.iter().filter_map(|rule| rule(observed, list));
            first_allowed(observed, answers)
        }
    })?;
    Some(storage::grow_meanwhile(observed, decision))
}

/// What the members run on when nothing is written down of it: after data was taken over, or a status was lost.
fn remember(observed: &Observed, list: &MemberList) -> Option<Decision> {
    let latched = &observed.cluster.latched;
    if latched.proven.is_some() {
        return None;
    }
    let proven = list.voters().find_map(|voter| {
        let pod = observed.pods.get(&observed.ordinal_of(voter)?)?;
        Some(Proven {
            template: pod.template.clone(),
            version: pod.serving()?.version?,
            everywhere: observed
                .pods
                .values()
                .all(|other| other.template == pod.template),
            before: None,
        })
    })?;
    let sizes = observed.claims.values().filter_map(|claim| claim.requested);
    let why = format!("the members run on v{}", proven.version);
    let latched = Latched {
        storage: latched.storage.or(sizes.min()),
        proven: Some(proven),
        ..latched.clone()
    };
    Some(Decision::act(Step::Latch(latched), Reason::Resuming, why))
}

/// Nobody could give a confirmed member list: nothing is known, so nothing is done.
fn unreachable(observed: &Observed) -> Decision {
    let states: Vec<String> = observed
        .pods
        .iter()
        .map(|(ordinal, pod)| format!("{} {}", observed.member_name(*ordinal), describe(pod)))
        .collect();
    let why = if states.is_empty() {
        "no pod exists yet".to_owned()
    } else {
        format!("no quorum answers: {}", states.join(", "))
    };
    let soonest = observed
        .pods
        .keys()
        .map(|ordinal| patience(observed, *ordinal))
        .min();
    Decision::wait(Reason::EtcdUnreachable, why, soonest.unwrap_or(SETTLED))
}

/// What a pod is doing, in a few words.
pub(crate) fn describe(pod: &Pod) -> String {
    if let Some(stranger) = &pod.stranger {
        return format!("does not answer: at its address {stranger} answers");
    }
    match (&pod.problem, &pod.process) {
        (_, Process::Serving(serving)) if serving.leader == 0 => "serves without a leader".into(),
        (_, Process::Serving(_)) if pod.stall.is_some() => "serves but does not keep up".into(),
        (_, Process::Serving(_)) => "serves".into(),
        (_, Process::Held(report)) => format!("waits at the gate ({})", report.detail),
        (_, Process::Starting) => "runs but does not serve yet".into(),
        (Some(problem), Process::Unknown) => format!("cannot start: {problem}"),
        (None, Process::Unknown) => "does not answer".into(),
    }
}

/// Invariant: a member ID is granted at most once. A blank volume whose member was not added for this very wait
/// gets a new member, and the old one goes first.
fn remove_lost(observed: &Observed, list: &MemberList) -> Option<Decision> {
    observed.pods.iter().find_map(|(ordinal, pod)| {
        let report = observed.blank(*ordinal)?;
        let member = observed.member_of(*ordinal)?;
        // Whoever was let through for this very wait may have started since the gate was asked.
        if observed.may_join(*ordinal, pod, report) {
            return None;
        }
        let name = observed.member_name(*ordinal);
        if let Some(open) = observed.open_grant() {
            return Some(starting(observed, open));
        }
        if let Some(first) = shrink::announce(observed, list, (*ordinal, member)) {
            return Some(first);
        }
        Some(if can_lose(observed, list, member) {
            let step = Step::RemoveMember {
                id: member.id,
                ordinal: *ordinal,
                nonce: report.nonce.clone(),
            };
            let why = format!(
                "{name} {}; its member {:x} goes first",
                what_is_lost(report.state),
                member.id
            );
            Decision::act(step, Reason::RemovingMember, why)
        } else {
            let why = format!(
                "{name} {}, and without it there is no quorum to replace it",
                what_is_lost(report.state)
            );
            Decision::wait(Reason::QuorumLost, why, LATER)
        })
    })
}

/// Enough healthy voters remain to agree on the removal, and to go on after it.
pub(super) fn can_lose(observed: &Observed, list: &MemberList, member: &Member) -> bool {
    let others = list.voters().filter(|voter| voter.id != member.id);
    let healthy = others.filter(|voter| observed.is_healthy(voter)).count();
    healthy >= quorum(list.voters().count())
}

/// The waits for which members may be added: those already written down that still stand, and every blank
/// volume within the size that has no member yet.
pub(super) fn joins(observed: &Observed) -> Vec<JoinIntent> {
    let size = observed
        .cluster
        .intent
        .as_ref()
        .map_or(0, |intent| intent.size);
    let waiting = observed.pods.range(..size).filter_map(|(ordinal, pod)| {
        let report = observed.blank(*ordinal).filter(|_| !pod.terminating)?;
        let known = observed.may_join(*ordinal, pod, report);
        (known || observed.member_of(*ordinal).is_none()).then(|| JoinIntent {
            member: observed.member_name(*ordinal),
            pod_uid: pod.uid.clone(),
            nonce: report.nonce.clone(),
        })
    });
    waiting.collect()
}

fn latch_joins(observed: &Observed, _: &MemberList) -> Option<Decision> {
    let joins = joins(observed);
    let known: BTreeSet<&JoinIntent> = observed.cluster.latched.joins.iter().collect();
    let new = joins.iter().find(|join| !known.contains(join))?;
    let why = format!("{} waits at the gate and may join", new.member);
    let latched = Latched {
        joins: joins.clone(),
        ..observed.cluster.latched.clone()
    };
    Some(Decision::act(
        Step::Latch(latched),
        Reason::AddingMember,
        why,
    ))
}

fn add(observed: &Observed, list: &MemberList) -> Option<Decision> {
    let (ordinal, _) = observed.pods.iter().find(|(ordinal, pod)| {
        let waits = observed
            .blank(**ordinal)
            .is_some_and(|report| observed.may_join(**ordinal, pod, report));
        let unlisted = observed.member_of(**ordinal).is_none();
        waits && unlisted && !pod.terminating && observed.can_be_found(pod)
    })?;
    // etcd adds a member only while every voter is connected, and what mends one that is not comes later.
    let refused = rollout::has_stopped(observed, list) || observed.open_grant().is_some();
    if refused || !has_room_for_a_learner(observed, list) {
        return None;
    }
    let step = Step::AddLearner {
        ordinal: *ordinal,
        peer_url: observed.peer_url(*ordinal),
    };
    let why = format!("adding {} as a learner", observed.member_name(*ordinal));
    Some(Decision::act(step, Reason::AddingMember, why))
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
fn let_through(observed: &Observed, list: &MemberList) -> Option<Decision> {
    if let Some(open) = observed.open_grant() {
        // Nothing else may touch the member list, but a learner that serves may be promoted.
        return promote(observed, list)
            .filter(|decision| matches!(decision.step, Step::Promote { .. }))
            .or_else(|| Some(starting(observed, open)));
    }
    let (ordinal, pod, report, member) = observed.pods.iter().find_map(|(ordinal, pod)| {
        let report = observed
            .blank(*ordinal)
            .filter(|_| !pod.terminating && !pod.is_granted())?;
        let member = observed.member_of(*ordinal)?;
        let may = observed.may_join(*ordinal, pod, report) && member.is_unstarted();
        may.then_some((*ordinal, pod, report, member))
    })?;
    let name = observed.member_name(ordinal);
    // What is moved aside must not be the last copy, and nobody joins where nobody leads.
    let led = observed.healthy_voters() >= quorum(list.voters().count());
    if !led || !is_listed_everywhere(observed, list) {
        let why = format!("waiting until every voter lists {name}");
        return Some(Decision::wait(Reason::StartingMember, why, SOON));
    }
    let grant = join_grant(observed, list, member, (ordinal, report));
    let step = Step::Grant {
        ordinal,
        pod_uid: pod.uid.clone(),
        grant,
    };
    Some(Decision::act(
        step,
        Reason::StartingMember,
        format!("{name} starts as a learner"),
    ))
}

pub(super) fn starting(observed: &Observed, ordinal: u32) -> Decision {
    let name = observed.member_name(ordinal);
    let what = observed
        .pods
        .get(&ordinal)
        .map_or_else(|| "has no pod".to_owned(), describe);
    let why = format!("{name} was let through and is starting: it {what}");
    Decision::wait(Reason::StartingMember, why, patience(observed, ordinal))
}

/// A joiner believes the first peer that answers, and takes the ID which that peer lists for its URL. A voter that is
/// late would give it the ID of one that was removed, so each one must be *seen* to list exactly what the list says. One
/// that does not answer us may well answer the joiner. A learner does not tell its view: whoever it misleads waits at
/// the gate with an ID that nobody lists, and joins anew.
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
            token: bootstrap::token(observed),
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

fn promote(observed: &Observed, list: &MemberList) -> Option<Decision> {
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
            let why = format!("{name} is catching up: {lag} entries behind");
            behind = behind.or(Some(Decision::wait(Reason::PromotingMember, why, LATER)));
        } else if let Some(coming) = company(observed, list) {
            let why = format!("{name} is promoted once {coming} was added");
            behind = behind.or(Some(Decision::wait(Reason::PromotingMember, why, SOON)));
        } else {
            let step = Step::Promote {
                id: learner.id,
                ordinal,
            };
            return Some(Decision::act(
                step,
                Reason::PromotingMember,
                format!("promoting {name}"),
            ));
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
fn company(observed: &Observed, list: &MemberList) -> Option<String> {
    let size = observed.cluster.intent.as_ref().ok()?.size;
    let coming = observed.pods.range(..size).find(|(ordinal, pod)| {
        let age = observed.now.duration_since(pod.created).as_secs();
        let unlisted = observed.member_of(**ordinal).is_none();
        unlisted && !pod.terminating && pod.problem.is_none() && age < COMPANY
    });
    many_learners(observed, list)
        .then_some(coming)?
        .map(|(ordinal, _)| observed.member_name(*ordinal))
}

/// Nothing to do, and yet not there: say on whom we wait.
fn incomplete(observed: &Observed, list: &MemberList) -> Option<Decision> {
    let size = observed.cluster.intent.as_ref().ok()?.size;
    (0..size).find_map(|ordinal| {
        let name = observed.member_name(ordinal);
        let member = observed.member_of(ordinal);
        let pod = observed.pods.get(&ordinal);
        // Told by the rule for objects that cannot be written; nothing else need wait for it.
        if member.is_none() && observed.is_withheld(ordinal) {
            return None;
        }
        if let Some(member) = member.filter(|member| !member.learner)
            && observed.is_healthy(member)
        {
            // It still answers, but it is about to go.
            return pod.filter(|pod| pod.terminating).map(|_| {
                let why = format!("{name} serves, but its pod is being deleted");
                Decision::wait(Reason::MemberUnhealthy, why, LATER)
            });
        }
        if let Some(held) = left_behind(observed, list, ordinal) {
            return Some(held);
        }
        let what = pod.map_or_else(|| "has no pod".to_owned(), describe);
        let reason = match (member, pod) {
            (Some(member), _) if !member.learner => Reason::MemberUnhealthy,
            (Some(_), _) => Reason::StartingMember,
            (None, Some(_)) if observed.blank(ordinal).is_some() => Reason::AddingMember,
            (None, _) => Reason::StartingPods,
        };
        Some(Decision::wait(
            reason,
            format!("{name} {what}"),
            patience(observed, ordinal),
        ))
    })
}

/// A volume that was kept by an earlier object holds data of a member that was removed since: it is never read again,
/// and nobody wrote down that it may be set aside.
fn left_behind(observed: &Observed, list: &MemberList, ordinal: u32) -> Option<Decision> {
    let report = observed.pods.get(&ordinal)?.held()?;
    let data = report.data.as_ref()?;
    let ours = parse_id(&data.cluster_id) == Some(list.cluster_id);
    let id = parse_id(&data.member_id)?;
    let listed = list.members.iter().any(|member| member.id == id);
    (ours && !listed && observed.member_of(ordinal).is_none()).then(|| {
        let why = format!(
            "{} holds data of member {id:x}, which was removed: delete the claim {} and the pod, and it joins anew",
            observed.member_name(ordinal),
            api::names::claim(&observed.cluster.name, ordinal)
        );
        Decision::wait(Reason::VolumeHeld, why, LATER)
    })
}

/// The container for debugging joins a running pod; it is no reason to restart one.
fn debug(observed: &Observed, _: &MemberList) -> Option<Decision> {
    let intent = observed.cluster.intent.as_ref().ok();
    intent.filter(|intent| intent.debug.is_some())?;
    let lacks = |pod: &Pod| !pod.debug && !pod.terminating && pod.serving().is_some();
    let (ordinal, pod) = observed.pods.iter().find(|(_, pod)| lacks(pod))?;
    let step = Step::AddDebug {
        ordinal: *ordinal,
        uid: pod.uid.clone(),
    };
    let why = format!(
        "{} gets the container for debugging",
        observed.member_name(*ordinal)
    );
    Some(Decision::act(step, Reason::ApplyingObjects, why))
}

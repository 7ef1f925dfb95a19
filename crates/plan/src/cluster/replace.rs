//! Members that cannot come back: a node or a volume that is gone for good. With a quorum of the others the member is
//! removed, its claim and pod go, and a new member takes its place, wherever there is room for it. What is wrong is
//! recorded before, and nothing is done about a member that is well or may return.

use api::intent::DEFAULT_JOIN_PATIENCE;
use api::v1alpha1::status::RetireIntent;

use crate::cluster::answers::{record_leaving, starting};
use crate::cluster::{corrupt, hang};
use crate::decision::{Decision, Step};
use crate::observed::{
    Leaving, MAX_LAG, Member, MemberList, NO_MEMBER, NodeState, Observed, Pod, Process, format_id,
    parse_id, quorum,
};
use crate::why::Repair;

pub(super) fn decide(observed: &Observed, list: &MemberList) -> Option<Decision> {
    // First: what is recorded ends before another is recorded; without two members at once there may be no quorum.
    let rules = [
        go_on,
        // Before `abandon`: a missing member weighs more than a claim that no member uses.
        begin, abandon,
    ];
    observed.first_awake(rules.into_iter().filter_map(|rule| rule(observed, list)))
}

/// Why a member can never come back; `None` while it serves, may return, or nothing is known.
pub(crate) fn diagnose(observed: &Observed, ordinal: u32, member: &Member) -> Option<String> {
    if let Some(differs) = corrupt::diagnose(observed, member) {
        return Some(differs);
    }
    if let Some(late) = late(observed, member) {
        return Some(late);
    }
    if let Some(hangs) = hang::diagnose(observed, ordinal, member) {
        return Some(hangs);
    }
    if observed.serving_as(member.id).is_some() {
        return None;
    }
    why_dead(observed, ordinal)
}

/// A learner that gets no further. While it is listed it may keep others from joining, so it is not waited for without end;
/// as long as data comes, or it comes closer to the leader, it has the time that it takes.
fn late(observed: &Observed, member: &Member) -> Option<String> {
    let known = observed.cluster.latched.learners.get(&member.id)?;
    // Without a leader there is no member to receive anything from.
    observed.leader().and_then(|id| observed.serving_as(id))?;
    let intent = observed.cluster.intent.as_ref();
    let patience = intent.map_or(DEFAULT_JOIN_PATIENCE, |intent| intent.join_patience);
    let waited = observed.now.duration_since(known.since).as_secs();
    let now = observed.joining(member);
    let moves = known.is_passed_by(&now) || observed.awaits_grant(member);
    if !member.learner || waited < patience || moves {
        return None;
    }
    let since = known.since;
    match now.behind {
        None => {
            let received = now.received.or(known.received);
            let received = received.map_or_else(String::new, |bytes| {
                format!(", with {} MiB received", bytes >> 20)
            });
            Some(format!(
                "it was added, does not serve, and has made no progress since {since}{received}"
            ))
        }
        Some(lag) => (lag > MAX_LAG).then(|| {
            format!("it was added, is {lag} entries behind, and has not caught up since {since}")
        }),
    }
}

/// A learner runs and has not announced itself yet.
pub fn is_awaited(observed: &Observed) -> bool {
    let mut learners = observed.etcd.members.iter().flat_map(MemberList::learners);
    learners.any(|learner| {
        let pod = observed
            .ordinal_of(learner)
            .and_then(|n| observed.pods.get(&n));
        learner.is_unstarted() && pod.is_some_and(|pod| pod.process == Process::Starting)
    })
}

/// Why nothing can come up for an ordinal on the claim that it has.
pub(super) fn why_dead(observed: &Observed, ordinal: u32) -> Option<String> {
    let answers = |pod: &Pod| pod.process != Process::Unknown;
    if observed.pods.get(&ordinal).is_some_and(answers) {
        return None;
    }
    let lost = observed.claims.get(&ordinal)?.lost.as_ref();
    if let Some(why) = lost {
        return Some(format!("its volume is gone: {why}"));
    }
    if let Some(why) = broken(observed, ordinal) {
        return Some(format!("its data cannot be used: {why}"));
    }
    let binding = observed.node_bindings.get(&ordinal)?;
    let node = &binding.node;
    match binding.state {
        NodeState::Ready => None,
        NodeState::Deleted | NodeState::OutOfService if !binding.took_volume() => {
            let patience = observed.cluster.intent.as_ref().ok()?.node_patience;
            let since = binding.keeps_volume(observed.now, patience)?;
            Some(format!(
                "its node {node} is gone, and no pod has been able to use its volume on another one since {since}"
            ))
        }
        NodeState::Deleted => Some(format!("its node {node} does not exist any more")),
        NodeState::OutOfService => Some(format!("its node {node} is out of service")),
        NodeState::NotReady(since) => {
            let patience = observed.cluster.intent.as_ref().ok()?.node_patience;
            let silent = observed.now.duration_since(since).as_secs();
            (silent >= patience).then(|| format!("its node {node} has been NotReady since {since}"))
        }
    }
}

/// What etcd says of its data while it ends again and again, in the release that the others serve: another one that is
/// tried may well be to blame for it.
fn broken(observed: &Observed, ordinal: u32) -> Option<&String> {
    let pod = observed.pods.get(&ordinal)?;
    let proven = observed.cluster.latched.proven.as_ref()?;
    let target = observed.cluster.target.as_ref();
    let same_release = target.is_some_and(|target| {
        pod.template == target.template && target.intent.version == proven.version
    });
    let why = pod.broken.as_ref();
    why.filter(|_| (pod.template == proven.template || same_release) && !pod.terminating)
}

/// It was recorded that this member is to be replaced, and that still holds.
pub(crate) fn is_due(observed: &Observed, leaving: &Leaving<'_>) -> bool {
    let member = observed.member_of(leaving.ordinal);
    let same = member.filter(|member| parse_id(&leaving.intent.member_id) == Some(member.id));
    leaving.intent.replaced.is_some()
        && same.is_some_and(|member| diagnose(observed, leaving.ordinal, member).is_some())
}

/// One after the other: who was removed is freed of its pod, who was recorded is removed.
fn go_on(observed: &Observed, list: &MemberList) -> Option<Decision> {
    let next = observed.leaving().filter_map(|leaving| {
        if leaving.listed == Some(false) {
            return free(observed, &leaving);
        }
        let why = leaving.intent.replaced.as_ref()?;
        // A member that the spec no longer asks for leaves by the rules for scaling in.
        let size = observed.cluster.intent.as_ref().ok()?.size;
        let member = observed
            .member_of(leaving.ordinal)
            .filter(|_| leaving.ordinal < size)?;
        if !is_due(observed, &leaving) || !observed.can_lose(list, member) {
            return None;
        }
        if let Some(open) = other_grant(observed, leaving.ordinal) {
            return Some(starting(observed, open));
        }
        if let Some(first) = corrupt::hand_over(observed, list, (leaving.ordinal, member)) {
            return Some(first);
        }
        let step = Step::RetireMember {
            id: member.id,
            ordinal: leaving.ordinal,
        };
        let why = Repair::Replacing(leaving.intent.member.clone(), why.clone());
        Some(Decision::act(step, why))
    });
    observed.first_awake(next)
}

/// Another member was granted its start and is starting. That this one was is no reason to keep it.
fn other_grant(observed: &Observed, ordinal: u32) -> Option<u32> {
    observed.open_grant().filter(|open| *open != ordinal)
}

/// The claim stays until its pod is gone, and no new pod can use it: so the pod goes once the claim is going.
fn free(observed: &Observed, leaving: &Leaving<'_>) -> Option<Decision> {
    leaving.claim.filter(|claim| claim.terminating)?;
    let pod = observed.pods.get(&leaving.ordinal)?;
    // A member that is listed by now came later.
    if observed.member_of(leaving.ordinal).is_some() {
        return None;
    }
    let binding = observed.node_bindings.get(&leaving.ordinal);
    let force = binding.is_some_and(|binding| binding.state != NodeState::Ready);
    // One that merely leaves goes with the StatefulSet's replicas, as long as its node lets it.
    if leaving.intent.replaced.is_none()
        && !(force && why_dead(observed, leaving.ordinal).is_some())
    {
        return None;
    }
    // A process that its disk does not let end may take for ever, and nothing else waits for it (`shrink::departing` tells).
    if pod.terminating && !force {
        return None;
    }
    let step = Step::StopPod {
        ordinal: leaving.ordinal,
        uid: pod.uid.clone(),
        force,
    };
    let why = Repair::StoppingPod(leaving.intent.member.clone());
    Some(Decision::act(step, why))
}

/// A claim without a member: the one that was to join on it, or had it in an incarnation that was given up, cannot start on it.
fn abandon(observed: &Observed, list: &MemberList) -> Option<Decision> {
    if observed.healthy_voters() < quorum(list.voters().count()) {
        return None;
    }
    let size = observed.cluster.intent.as_ref().ok()?.size;
    (0..size).find_map(|ordinal| {
        let claim = observed.claims.get(&ordinal)?;
        // What an earlier object kept is its owner's to give up.
        let free = observed.member_of(ordinal).is_none() && claim.ours && !claim.terminating;
        let mut leaving = observed.leaving();
        let written = leaving.any(|leaving| leaving.claim.is_some_and(|c| c.uid == claim.uid));
        let replaced = why_dead(observed, ordinal).filter(|_| free && !written)?;
        let intent = RetireIntent {
            member: observed.member_name(ordinal),
            member_id: NO_MEMBER.to_owned(),
            claim_uid: claim.uid.clone(),
            replaced: Some(replaced.clone()),
        };
        let why = Repair::NewVolume(intent.member.clone(), replaced);
        Some(record_leaving(observed, intent, why))
    })
}

/// Its member is removed, and neither its claim nor its pod can be deleted: no other member waits for that.
fn is_stuck(observed: &Observed, leaving: &Leaving<'_>) -> bool {
    let failed = observed.failed.iter();
    let mut failed = failed.filter(|failed| failed.lasts(observed.now));
    let fails = failed.any(|failed| match &failed.step {
        Step::DeleteClaim { ordinal, .. } | Step::StopPod { ordinal, .. } => {
            *ordinal == leaving.ordinal
        }
        _other => false,
    });
    fails && leaving.listed == Some(false)
}

/// A member that cannot come back is recorded, one at a time, while the others are a quorum without it.
fn begin(observed: &Observed, list: &MemberList) -> Option<Decision> {
    let mut leaving = observed.leaving();
    let busy = leaving.any(|leaving| {
        let ends = leaving.claim.is_some() && !is_stuck(observed, &leaving);
        leaving.intent.replaced.is_some() && (ends || is_due(observed, &leaving))
    });
    if busy {
        return None;
    }
    let size = observed.cluster.intent.as_ref().ok()?.size;
    list.members.iter().find_map(|member| {
        let ordinal = observed
            .ordinal_of(member)
            .filter(|ordinal| *ordinal < size)?;
        let replaced = diagnose(observed, ordinal, member)?;
        // A learner has nothing to lose, and goes also where its claim can never be made.
        let claim = observed.claims.get(&ordinal);
        if claim.is_none() && !member.learner {
            return None;
        }
        let free = other_grant(observed, ordinal).is_none();
        (free && observed.can_lose(list, member)).then(|| {
            let intent = RetireIntent {
                member: observed.member_name(ordinal),
                member_id: format_id(member.id),
                claim_uid: claim.map(|claim| claim.uid.clone()).unwrap_or_default(),
                replaced: Some(replaced.clone()),
            };
            let why = Repair::Recorded(intent.member.clone(), replaced);
            record_leaving(observed, intent, why)
        })
    })
}

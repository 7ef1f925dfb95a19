//! The four conditions.

use api::Reason;
use api::conditions::{ConditionType, Verdict};
use gate::State;

use crate::cluster::{auth, certificates, corrupt, hang, maintain, rollout, rotation};
use crate::decision::{Decision, Step};
use crate::observed::{
    Alarm, AlarmKind, MemberList, Observed, Pod, Process, describe, format_id, quorum,
};
use crate::status::{Outcome, refusals};
use crate::why::{Space, Why};

/// A pod that is younger is just starting, in seconds.
const YOUNG: i64 = 10;

pub(super) fn decide(observed: &Observed, decision: &Decision, outcome: &Outcome) -> Vec<Verdict> {
    let available = available(observed);
    let refusals = refusals::after(observed, decision, outcome);
    let progressing = progressing(decision, outcome, &refusals);
    let degraded = degraded(observed, decision, outcome, &refusals);
    let ready = ready(observed, decision, &degraded);
    vec![available, progressing, degraded, ready]
}

fn verdict(kind: ConditionType, status: Option<bool>, reason: Reason, message: String) -> Verdict {
    Verdict {
        kind,
        status,
        reason,
        message,
    }
}

fn available(observed: &Observed) -> Verdict {
    let say = |status, reason, message: String| {
        verdict(ConditionType::Available, status, reason, message)
    };
    if observed
        .cluster
        .intent
        .as_ref()
        .is_ok_and(|intent| intent.size == 0)
    {
        return say(
            Some(false),
            Reason::Stopped,
            "spec.size is 0: no member runs".to_owned(),
        );
    }
    let Some(list) = &observed.etcd.members else {
        if observed.objects.predecessor {
            let message = "the cluster of a previous operator does not respond".to_owned();
            return say(None, Reason::EtcdUnreachable, message);
        }
        if observed.cluster.latched.cluster_id.is_none() {
            let message = "the cluster has not been bootstrapped yet".to_owned();
            return say(Some(false), Reason::NotFormed, message);
        }
        // A member that could not be asked may be serving all the same.
        let silent = observed
            .pods
            .values()
            .filter(|pod| matches!(pod.process, Process::Unknown | Process::Refusing(_)))
            .count();
        return if silent >= quorum(observed.pods.len()) {
            say(
                None,
                Reason::EtcdUnreachable,
                "no member responds to the operator".to_owned(),
            )
        } else {
            say(
                Some(false),
                Reason::QuorumLost,
                "no quorum of voters serves".to_owned(),
            )
        };
    };
    serves(observed, list)
}

/// Clients are served where a quorum is healthy and etcd refuses nothing.
fn serves(observed: &Observed, list: &MemberList) -> Verdict {
    let say = |status, reason, message: String| {
        verdict(ConditionType::Available, Some(status), reason, message)
    };
    let (healthy, voters) = (observed.healthy_voters(), list.voters().count());
    let message = format!("{healthy} of {voters} voters are healthy");
    let alarms = observed.alarms();
    let stands = |kind| alarms.iter().any(|alarm| alarm.kind == kind);
    if healthy < quorum(voters) {
        say(false, Reason::QuorumLost, message)
    } else if stands(AlarmKind::Corrupt) {
        let message = format!("{message}, but etcd rejects reads and writes: alarm CORRUPT");
        say(false, Reason::DataInconsistent, message)
    } else if stands(AlarmKind::NoSpace) {
        let message = format!("{message}, but etcd rejects writes: alarm NOSPACE");
        say(false, Reason::NoSpace, message)
    } else {
        say(true, Reason::QuorumHealthy, message)
    }
}

/// A step that waits may wait for what cannot be written, so that is said along.
fn progressing(decision: &Decision, outcome: &Outcome, refusals: &[(Reason, String)]) -> Verdict {
    let (status, reason, mut message) = match (outcome, &decision.step) {
        (Outcome::Failed(what), _) => (true, Reason::StepFailed, what.clone()),
        (Outcome::NotNow(what), _) => {
            (true, decision.reason(), format!("{}: {what}", decision.why))
        }
        (Outcome::Done | Outcome::Applied(_), Step::Nothing | Step::Refuse) => {
            (false, decision.reason(), decision.why.to_string())
        }
        (Outcome::Done | Outcome::Applied(_), _) => {
            (true, decision.reason(), decision.why.to_string())
        }
    };
    for (_, text) in refusals {
        if !message.contains(text) {
            message = format!("{message}; {text}");
        }
    }
    verdict(ConditionType::Progressing, Some(status), reason, message)
}

fn degraded(
    observed: &Observed,
    decision: &Decision,
    outcome: &Outcome,
    refusals: &[(Reason, String)],
) -> Verdict {
    let complaints = complaints(observed, decision, outcome, refusals);
    let first = complaints.first().map(|(reason, _)| *reason);
    let texts: Vec<String> = complaints.into_iter().map(|(_, text)| text).collect();
    verdict(
        ConditionType::Degraded,
        Some(first.is_some()),
        first.unwrap_or(Reason::AsExpected),
        if texts.is_empty() {
            "no problem found".to_owned()
        } else {
            texts.join("; ")
        },
    )
}

/// Everything that is wrong, the worst first.
fn complaints(
    observed: &Observed,
    decision: &Decision,
    outcome: &Outcome,
    refusals: &[(Reason, String)],
) -> Vec<(Reason, String)> {
    let mut all = Vec::new();
    // That nothing is left to be done about a full database is said along with it.
    let exhausted = matches!(decision.why, Why::Space(Space::Exhausted(..)));
    if is_trouble(decision) && !exhausted {
        all.push((decision.reason(), decision.why.to_string()));
    }
    if let Some(full) = no_space(observed, decision) {
        all.push((Reason::NoSpace, full));
    }
    let grown_up = observed.pods.values().any(|pod| is_old(observed, pod));
    // A cluster that is to be taken over and cannot be asked is no better off than one of ours.
    let silent = decision.reason() == Reason::Adopting && decision.step == Step::Wait;
    if (decision.reason() == Reason::EtcdUnreachable || silent) && grown_up {
        all.push((decision.reason(), decision.why.to_string()));
    }
    if grown_up && is_dark_and_paused(observed, decision) {
        let text = "no quorum responds, and nothing is done while reconciliation is paused";
        all.push((Reason::EtcdUnreachable, text.to_owned()));
    }
    if let Outcome::Failed(what) = outcome {
        all.push((Reason::StepFailed, what.clone()));
    }
    if let Some(forbidden) = &decision.forbidden {
        all.push((Reason::StepFailed, forbidden.tell()));
    }
    all.extend(invalid_spec(observed, decision));
    let said = |text: &str| all.iter().any(|(_, known)| known.contains(text));
    let unsaid = refusals.iter().filter(|(_, text)| !said(text)).cloned();
    all.extend(unsaid.collect::<Vec<_>>());
    all.extend(certificates::complaints(observed));
    all.extend(rotation::complaints(observed, decision));
    all.extend(auth::complaints(observed));
    all.extend(called_off(observed, decision));
    all.extend(hang::complaints(observed));
    all.extend(corrupt::complaints(observed));
    let intent = observed.cluster.intent.as_ref();
    let size = intent.map_or(u32::MAX, |intent| intent.size);
    for (ordinal, pod) in &observed.pods {
        // How the pod of a member that has left ends does not matter.
        let left = *ordinal >= size && observed.member_of(*ordinal).is_none();
        if pod.terminating || (left && observed.etcd.members.is_some()) {
            continue;
        }
        let name = observed.member_name(*ordinal);
        if let Some(complaint) = complaint_of(observed, decision, pod) {
            all.push((complaint.0, format!("{name} {}", complaint.1)));
        }
    }
    let voters = observed.etcd.members.iter().flat_map(MemberList::voters);
    for voter in voters.filter(|v| !observed.is_healthy(v) && observed.hangs(v).is_none()) {
        let Some(ordinal) = observed.ordinal_of(voter) else {
            continue;
        };
        let pod = observed.pods.get(&ordinal);
        let what = pod.map_or_else(|| "has no pod".to_owned(), describe);
        let text = format!("{} {what}", observed.member_name(ordinal));
        if !all.iter().any(|(_, known)| *known == text) {
            all.push((Reason::MemberUnhealthy, text));
        }
    }
    all.extend(strangers(observed));
    all
}

/// A database that is full, and what is done or to be done about it.
fn no_space(observed: &Observed, decision: &Decision) -> Option<String> {
    let full = maintain::complaint(observed)?;
    let helped = decision.reason() == Reason::NoSpace && decision.step != Step::Refuse;
    let next = if helped {
        "space is being freed".to_owned()
    } else {
        maintain::advice(observed).to_string()
    };
    Some(format!("{full}: {next}"))
}

/// It is reported whatever else is being done.
fn invalid_spec(observed: &Observed, decision: &Decision) -> Option<(Reason, String)> {
    let target = observed.cluster.target.as_ref()?;
    target.invalid.as_ref()?;
    let said = decision.reason() == Reason::InvalidSpec;
    target
        .refused
        .clone()
        .filter(|_| !said)
        .map(|why| (Reason::InvalidSpec, why.to_string()))
}

/// It is reported whatever else is being done.
fn called_off(observed: &Observed, decision: &Decision) -> Option<(Reason, String)> {
    let why = Why::from(rollout::complaint(observed)?);
    (decision.why != why).then(|| (why.reason(), why.to_string()))
}

/// What the operator does, or waits for, is itself a sign that something is wrong.
fn is_trouble(decision: &Decision) -> bool {
    match decision.reason() {
        Reason::QuorumLost
        | Reason::RolloutHalted
        | Reason::Recovering
        | Reason::RestoreBlocked => true,
        Reason::DataInconsistent if decision.step == Step::Wait => true,
        _other => decision.step == Step::Refuse,
    }
}

fn is_dark_and_paused(observed: &Observed, decision: &Decision) -> bool {
    let formed = observed.cluster.latched.cluster_id.is_some();
    decision.reason() == Reason::Paused && formed && observed.etcd.members.is_none()
}

/// Members that were added by other means. They vote, or will, so they can cost the quorum.
fn strangers(observed: &Observed) -> impl Iterator<Item = (Reason, String)> {
    let list = observed.etcd.members.iter();
    let all = list.flat_map(|list| &list.members);
    let strange = all.filter(|member| observed.ordinal_of(member).is_none());
    strange.map(|member| {
        let (id, urls) = (format_id(member.id), member.peer_urls.join(","));
        let text = format!(
            "member {id} ({urls}) was not added by the operator: it is left alone and not counted; if it is not needed: etcdctl member remove {id}"
        );
        (Reason::UnmanagedMember, text)
    })
}

fn is_old(observed: &Observed, pod: &Pod) -> bool {
    observed.now.duration_since(pod.created).as_secs() >= YOUNG
}

fn complaint_of(observed: &Observed, decision: &Decision, pod: &Pod) -> Option<(Reason, String)> {
    if let Some(problem) = pod.problem.as_ref().filter(|_| is_old(observed, pod)) {
        return Some((Reason::PodNotStarting, format!("cannot start: {problem}")));
    }
    if let Process::Refusing(_) = &pod.process {
        return Some((Reason::CertificateRejected, describe(pod)));
    }
    if let Some(report) = pod.held() {
        let resuming = observed.cluster.latched.cluster_id.is_none()
            || decision.reason() == Reason::Resuming
            || (observed.cluster.latched.resumed && pod.is_granted());
        let held = match report.state {
            State::Empty => false,
            State::OtherObject | State::Unidentified => !resuming,
            State::Mismatch | State::Damaged | State::Fenced | State::RolledBack => true,
        };
        return held.then(|| (Reason::VolumeRejected, describe(pod)));
    }
    let full = |text: &&String| Alarm::parse(text).is_some_and(|a| a.kind == AlarmKind::NoSpace);
    // Of a database that is full more is said than that.
    let errors = pod.serving()?.errors.iter().filter(|text| !full(text));
    let errors: Vec<&str> = errors.map(|text| text.trim()).collect();
    let differs = errors.iter().any(|text| Alarm::parse(text).is_some());
    let reason = if differs {
        Reason::DataInconsistent
    } else {
        Reason::MemberUnhealthy
    };
    (!errors.is_empty()).then(|| (reason, format!("reports {}", errors.join(", "))))
}

fn ready(observed: &Observed, decision: &Decision, degraded: &Verdict) -> Verdict {
    let size = observed
        .cluster
        .intent
        .as_ref()
        .map_or(0, |intent| intent.size);
    let healthy = observed.healthy_voters();
    let settled = decision.step == Step::Nothing && decision.reason() == Reason::AsExpected;
    // The operator never waits for the kubelet's word, but clients do: c-client leads to ready pods only.
    let unready = observed
        .pods
        .iter()
        .find(|(ordinal, pod)| !pod.ready && observed.member_of(**ordinal).is_some());
    let (status, reason, message) = match (settled, degraded.status, unready) {
        (true, Some(false), None) => (
            true,
            Reason::AsExpected,
            format!("{healthy} of {size} members are healthy"),
        ),
        (true, Some(false), Some((ordinal, _))) => {
            let name = observed.member_name(*ordinal);
            let message = format!(
                "{healthy} of {size} members are healthy, and {name} is not in the client Service yet"
            );
            (false, Reason::StartingPods, message)
        }
        (true, _, _) => (false, degraded.reason, degraded.message.clone()),
        (false, _, _) if degraded.reason == Reason::ForeignObject => {
            (false, degraded.reason, degraded.message.clone())
        }
        (false, _, _) => {
            let message = format!("{healthy} of {size} members are healthy: {}", decision.why);
            (false, decision.reason(), message)
        }
    };
    verdict(ConditionType::Ready, Some(status), reason, message)
}

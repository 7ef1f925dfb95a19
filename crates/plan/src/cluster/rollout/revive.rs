//! Rollouts without a quorum to ask: only pods that run nothing are touched, and a process that comes up is proof enough, for
//! more cannot be had before there is a quorum again. The same shape: a stage, and one answer for each.

use api::EtcdVersion;
use api::v1alpha1::status::TrialIntent;

use super::answer::{before, call_off, end, halt, latch, prove, recreate_stray};
use super::order::stray;
use super::pod_of;
use super::trial::{Blame, Ended, ended, not_created};
use crate::decision::{Decision, LATER, Step};
use crate::observed::{Doing, Observed, Pod, Process, Proven};
use crate::why::Revive;

/// Where a rollout is that has no quorum to ask.
enum Stage<'a> {
    /// The trial is over.
    TrialEnded(Ended),
    /// The quorum was lost while this pod tried a template that does not start.
    TrialCostsQuorum(&'a Pod),
    /// No pod can be created for the member that tries.
    TrialNotCreated(Blame),
    /// This pod got the target too early and runs nothing.
    StrayPod(u32, &'a Pod),
    /// The only pod tries a template that does not start.
    TrialFails,
    /// The target is proven, and this pod runs nothing on another template.
    PodFollows(u32, &'a Pod),
    /// The target is older than what is proven, for which a quorum is needed, and this pod runs nothing.
    NoDowngrade(u32, &'a Pod),
    /// A process comes up on the target.
    TargetStarts,
    /// This pod runs nothing and tries the target.
    PodTries(u32, &'a Pod),
    /// That is recorded and the StatefulSet holds the target: this pod is recreated.
    TrialDue(u32, &'a Pod),
}

/// The answer without a quorum; `None` where nothing is to be done, or nothing can be done now.
pub(in crate::cluster) fn revive(observed: &Observed) -> Option<Decision> {
    next(observed).map(|decision| rest(observed, decision))
}

/// A pod that starts on no template is not recreated again and again. No template is put into the StatefulSet for it
/// meanwhile either.
fn rest(observed: &Observed, decision: Decision) -> Decision {
    let latched = &observed.cluster.latched;
    let ordinal = match &decision.step {
        Step::RestartPod { ordinal, .. } => Some(*ordinal),
        Step::Latch(new) if new.trial() != latched.trial() => {
            let name = &observed.cluster.name;
            new.trial()
                .and_then(|trial| api::names::ordinal(name, &trial.member))
        }
        _other => None,
    };
    let left = ordinal.and_then(|n| Some((n, observed.left_alone_until(n)?)));
    let Some((ordinal, until)) = left else {
        return decision;
    };
    let why = Revive::StartsOnNone {
        member: observed.member_name(ordinal),
        doing: observed.doing(ordinal),
        until,
    };
    Decision::wait(why, LATER)
}

fn next(observed: &Observed) -> Option<Decision> {
    let (proven, target) = observed.goal()?;
    let version = observed.cluster.target.as_ref()?.intent.version;
    let stage = stage(observed, proven, (target, version))?;
    Some(answer(observed, proven, (target, version), stage))
}

fn stage<'a>(
    observed: &'a Observed,
    proven: &Proven,
    (target, version): (&str, EtcdVersion),
) -> Option<Stage<'a>> {
    // A member follows a leader: there is a quorum, and it is this operator that could not ask it.
    if observed.is_led() {
        return None;
    }
    if let Some(ended) = ended(observed, proven, target) {
        return Some(Stage::TrialEnded(ended));
    }
    if let Some(blame) = not_created(observed, proven) {
        return Some(Stage::TrialNotCreated(blame));
    }
    if let Some(pod) = costs_quorum(observed, proven) {
        return Some(Stage::TrialCostsQuorum(pod));
    }
    if let Some((ordinal, pod)) = stray(observed, proven, target) {
        return Some(Stage::StrayPod(ordinal, pod));
    }
    let Some((ordinal, pod)) = stuck(observed, target) else {
        return fails_alone(observed).then_some(Stage::TrialFails);
    };
    if proven.template == target {
        return Some(Stage::PodFollows(ordinal, pod));
    }
    // Whether the others would find a member that listens otherwise, only a quorum can tell.
    if !observed.may_listen() && observed.pods.len() > 1 {
        return None;
    }
    if version.minor < proven.version.minor {
        return Some(Stage::NoDowngrade(ordinal, pod));
    }
    if starts(observed, target) {
        return Some(Stage::TargetStarts);
    }
    match observed.cluster.latched.trial() {
        // The API server does not take it, or no pod of it.
        None if observed.is_refused_template(target) || observed.is_called_off(target) => None,
        None => Some(Stage::PodTries(ordinal, pod)),
        Some(trial) => {
            let written = observed.objects.template.as_ref() == Some(&trial.template);
            let chosen = trial.pod_uid == pod.uid && written;
            chosen.then_some(Stage::TrialDue(ordinal, pod))
        }
    }
}

fn answer(
    observed: &Observed,
    proven: &Proven,
    (target, version): (&str, EtcdVersion),
    stage: Stage<'_>,
) -> Decision {
    let restart = |ordinal: u32, pod: &Pod, why: fn(String) -> Revive| {
        let uid = pod.uid.clone();
        let why = why(observed.member_name(ordinal));
        Decision::act(Step::RestartPod { ordinal, uid }, why)
    };
    match stage {
        Stage::TrialEnded(ended) => end(observed, &ended),
        Stage::TrialCostsQuorum(pod) => {
            let trial = observed.cluster.latched.trial();
            let member = trial.map_or_else(String::new, |trial| trial.member.clone());
            let why = Revive::CostsQuorum(member, Doing::of(Some(pod)));
            latch(observed, None, None, why)
        }
        Stage::TrialNotCreated(blame) => call_off(observed, blame),
        Stage::StrayPod(ordinal, pod) => recreate_stray(observed, ordinal, pod),
        Stage::TrialFails => halt(observed),
        Stage::PodFollows(ordinal, pod) => restart(ordinal, pod, Revive::Follows),
        Stage::NoDowngrade(ordinal, pod) => {
            let why = Revive::NoDowngrade {
                member: observed.member_name(ordinal),
                doing: Doing::of(Some(pod)),
                to: version,
                from: proven.version,
            };
            Decision::wait(why, LATER)
        }
        Stage::TargetStarts => {
            let releases = (version, before(proven, version));
            prove(observed, target, releases, Revive::Starts)
        }
        Stage::PodTries(ordinal, pod) => {
            let member = observed.member_name(ordinal);
            let why = Revive::Tries(member.clone());
            let trial = TrialIntent {
                member,
                template: target.to_owned(),
                pod_uid: pod.uid.clone(),
            };
            latch(observed, None, Some(trial), why)
        }
        Stage::TrialDue(ordinal, pod) => restart(ordinal, pod, Revive::Recreated),
    }
}

/// A pod that runs nothing, on something else than is asked for.
fn stuck<'a>(observed: &'a Observed, target: &str) -> Option<(u32, &'a Pod)> {
    let mut pods = observed.pods.iter().map(|(ordinal, pod)| (*ordinal, pod));
    pods.find(|(ordinal, pod)| {
        let reachable = !pod.terminating && observed.is_on_a_live_node(*ordinal);
        pod.runs_nothing() && pod.template != target && reachable
    })
}

/// A process comes up on this template.
fn starts(observed: &Observed, template: &str) -> bool {
    observed.pods.values().any(|pod| {
        pod.template == template && pod.problem.is_none() && pod.process != Process::Unknown
    })
}

/// The pod of the trial, if what it tries does not start.
fn vain(observed: &Observed) -> Option<(u32, &Pod)> {
    let trial = observed.cluster.latched.trial()?;
    let (ordinal, pod) = pod_of(observed, trial)?;
    (pod.runs_nothing() && pod.template == trial.template).then_some((ordinal, pod))
}

/// A quorum was lost while a member tried a change that does not start: it is missed, and comes back as it was. Where others
/// run nothing either, the change may be what corrects them; and a single member is not tried twice in a row.
fn costs_quorum<'a>(observed: &'a Observed, proven: &Proven) -> Option<&'a Pod> {
    let (ordinal, pod) = vain(observed)?;
    let mut others = observed.pods.iter().filter(|(other, _)| **other != ordinal);
    let missed = others.clone().next().is_some() && !others.any(|(_, pod)| pod.runs_nothing());
    let untried = pod.template != proven.template;
    (missed && untried && observed.is_no_election()).then_some(pod)
}

/// The change that is tried took the only member.
fn fails_alone(observed: &Observed) -> bool {
    vain(observed).is_some_and(|(ordinal, _)| {
        let mut others = observed.pods.keys().filter(|other| **other != ordinal);
        others.next().is_none()
    })
}

//! Rollouts without a quorum to ask: only pods that run nothing are touched.

use api::Reason;
use api::v1alpha1::status::TrialIntent;

use super::{before, give_up, goal, heal, latch, tried};
use crate::cluster::{describe, recover};
use crate::decision::{Decision, LATER, Step};
use crate::observed::{Observed, Pod, Process, Proven};

/// The same without a quorum to ask: only pods that run nothing are touched, and a process that comes up is proof
/// enough, for more cannot be had before there is a quorum again.
pub(in crate::cluster) fn revive(observed: &Observed) -> Option<Decision> {
    let (proven, target) = goal(observed)?;
    // Somebody follows a leader: there is a quorum, and it is we who could not ask it.
    if observed.is_led() {
        return None;
    }
    let begun = give_up(observed, proven, target)
        .or_else(|| call_off(observed, proven))
        .or_else(|| heal(observed, proven, target));
    if begun.is_some() {
        return begun;
    }
    let Some((ordinal, uid)) = stuck(observed, target) else {
        return halted(observed);
    };
    let name = observed.member_name(ordinal);
    if proven.template == target {
        let why = format!("{name} runs nothing and is made anew as asked for");
        let step = Step::RestartPod { ordinal, uid };
        return Some(Decision::act(step, Reason::RollingOut, why));
    }
    let version = observed.cluster.target.as_ref()?.intent.version;
    if version.minor < proven.version.minor {
        let what = observed.pods.get(&ordinal).map(describe);
        let why = format!(
            "{name} {}, and without a quorum nobody goes down to v{version}: ask for v{} again first",
            what.unwrap_or_default(),
            proven.version
        );
        return Some(Decision::wait(Reason::RolloutHalted, why, LATER));
    }
    let comes_up = observed.pods.values().any(|pod| {
        pod.template == target && pod.problem.is_none() && pod.process != Process::Unknown
    });
    if comes_up {
        let why = "what is asked for comes up; the others follow";
        let new = Proven {
            template: target.to_owned(),
            version,
            everywhere: false,
            before: Some(before(proven, version)),
        };
        return Some(latch(observed, Some(new), None, why));
    }
    let Some(trial) = &observed.cluster.latched.trial else {
        return try_first(observed, name, uid, target);
    };
    let written = observed.objects.template.as_ref() == Some(&trial.template);
    let chosen = trial.pod_uid == uid && written;
    chosen.then(|| {
        let why = format!("{name} is made anew to try the change");
        let step = Step::RestartPod { ordinal, uid };
        Decision::act(step, Reason::RollingOut, why)
    })
}

/// A pod that runs nothing tries the change, unless the API server does not take it.
fn try_first(observed: &Observed, name: String, uid: String, target: &str) -> Option<Decision> {
    if observed.is_refused_template(target) {
        return None;
    }
    let why = format!("{name} runs nothing and is to try the change first");
    let trial = TrialIntent {
        member: name,
        template: target.to_owned(),
        pod_uid: uid,
    };
    Some(latch(observed, None, Some(trial), &why))
}

/// A pod that runs nothing, on something else than is asked for.
fn stuck(observed: &Observed, target: &str) -> Option<(u32, String)> {
    let stuck = |(ordinal, pod): (&u32, &Pod)| {
        let reachable = !pod.terminating && observed.is_on_a_live_node(*ordinal);
        (pod.runs_nothing() && pod.template != target && reachable)
            .then(|| (*ordinal, pod.uid.clone()))
    };
    observed.pods.iter().find_map(stuck)
}

/// A quorum was lost while a member tried a change that does not start: it is missed, and comes back as it was. Where others
/// run nothing either, the change may be what mends them; and a single member is not tried twice in a row.
fn call_off(observed: &Observed, proven: &Proven) -> Option<Decision> {
    let trial = observed.cluster.latched.trial.as_ref()?;
    let ordinal = api::names::ordinal(&observed.cluster.name, &trial.member)?;
    let pod = observed.pods.get(&ordinal)?;
    let vain = pod.runs_nothing() && pod.template == trial.template;
    let mut others = observed.pods.iter().filter(|(other, _)| **other != ordinal);
    let missed = others.clone().next().is_some() && !others.any(|(_, pod)| pod.runs_nothing());
    let untried = trial.template != proven.template;
    (vain && missed && untried && recover::is_no_election(observed)).then(|| {
        let why = format!(
            "no quorum answers, and {} {}: it does not try the change any more",
            trial.member,
            describe(pod)
        );
        latch(observed, None, None, &why)
    })
}

/// The change that is tried took the quorum with it, or the only member.
fn halted(observed: &Observed) -> Option<Decision> {
    let trial = observed.cluster.latched.trial.as_ref()?;
    let ordinal = api::names::ordinal(&observed.cluster.name, &trial.member)?;
    let pod = observed.pods.get(&ordinal)?;
    let mut others = observed.pods.keys().filter(|other| **other != ordinal);
    let vain = pod.runs_nothing() && pod.template == trial.template && others.next().is_none();
    vain.then(|| tried(observed, trial))
}

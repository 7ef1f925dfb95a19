//! Rollouts without a quorum to ask: only pods that run nothing are touched.

use api::Reason;
use api::v1alpha1::status::TrialIntent;

use super::{before, give_up, goal, heal, latch};
use crate::decision::{Decision, Step};
use crate::observed::{Observed, Pod, Process, Proven};

/// The same without a quorum to ask: only pods that run nothing are touched, and a process that comes up is proof
/// enough, for more cannot be had before there is a quorum again.
pub(in crate::cluster) fn revive(observed: &Observed) -> Option<Decision> {
    let (proven, target) = goal(observed)?;
    // Somebody follows a leader: there is a quorum, and it is we who could not ask it.
    if observed.is_led() {
        return None;
    }
    if let Some(decision) = give_up(observed, proven, target) {
        return Some(decision);
    }
    if let Some(decision) = heal(observed, proven, target) {
        return Some(decision);
    }
    let stuck = |(ordinal, pod): (&u32, &Pod)| {
        (pod.runs_nothing() && pod.template != target && !pod.terminating)
            .then(|| (*ordinal, pod.uid.clone()))
    };
    let (ordinal, uid) = observed.pods.iter().find_map(stuck)?;
    let name = observed.member_name(ordinal);
    if proven.template == target {
        let why = format!("{name} runs nothing and is made anew as asked for");
        let step = Step::RestartPod { ordinal, uid };
        return Some(Decision::act(step, Reason::RollingOut, why));
    }
    let version = observed.cluster.target.as_ref()?.intent.version;
    if version.minor < proven.version.minor {
        return None;
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
        let why = format!("{name} runs nothing and is to try the change first");
        let trial = TrialIntent {
            member: name,
            template: target.to_owned(),
            pod_uid: uid,
        };
        return Some(latch(observed, None, Some(trial), &why));
    };
    let written = observed.objects.template.as_ref() == Some(&trial.template);
    let chosen = trial.pod_uid == uid && written;
    chosen.then(|| {
        let why = format!("{name} is made anew to try the change");
        let step = Step::RestartPod { ordinal, uid };
        Decision::act(step, Reason::RollingOut, why)
    })
}

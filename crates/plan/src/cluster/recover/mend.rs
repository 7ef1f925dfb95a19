//! A changed image or resources reach the pods of a recovery that run nothing, one of them first: it may be the change
//! that lets them show their data, or go on with it. A recovery whose pods are all well goes on as it is, and the change
//! is rolled out after it.

use api::v1alpha1::status::TrialIntent;

use crate::cluster::rollout;
use crate::decision::{Decision, Step};
use crate::observed::{Observed, Pod};
use crate::why::{Recovery, Rollout, Survivor, Trial};

/// A change that is no longer asked for is not tried any more, and the proven template comes back.
pub(super) fn call_off(observed: &Observed) -> Option<Decision> {
    let trial = observed.cluster.latched.trial()?;
    let target = observed.cluster.target.as_ref();
    let asked = target.is_some_and(|target| target.template == trial.template);
    (!asked).then(|| {
        let why = Rollout::Trial(trial.member.clone(), Trial::Reverted);
        let why = Recovery::OnTheWay(Box::new(why.into()));
        latch(observed, None, why)
    })
}

/// While a pod is waited for that shows nothing.
pub(super) fn revive(observed: &Observed, wait: Decision) -> Decision {
    if !is_same_line(observed) {
        return wait;
    }
    let repaired = rollout::revive(observed)
        .filter(|decision| decision.step != Step::Wait && !observed.rests(&decision.step));
    repaired.map_or(wait, |repaired| Decision {
        why: Recovery::OnTheWay(Box::new(repaired.why)).into(),
        ..repaired
    })
}

/// The survivor failed, and was made before the last change. Nothing of etcd runs in it while it waits.
pub(super) fn restart(observed: &Observed, ordinal: u32, pod: &Pod) -> Option<Decision> {
    let target = observed
        .cluster
        .target
        .as_ref()
        .map(|target| &target.template)?;
    let latched = &observed.cluster.latched;
    let failed = pod.held().is_some_and(|report| report.failed.is_some());
    let idle = failed && !pod.is_granted() && !pod.terminating;
    if !idle || pod.template == *target || !is_same_line(observed) {
        return None;
    }
    let name = observed.member_name(ordinal);
    let proven = latched
        .proven
        .as_ref()
        .is_some_and(|proven| proven.template == *target);
    let announced = latched
        .trial()
        .is_some_and(|trial| trial.pod_uid == pod.uid);
    // No pod can be created from it.
    if observed.is_called_off(target) {
        return None;
    }
    if !proven && !announced {
        let why = Survivor::TriesTemplate(name.clone());
        let trial = TrialIntent {
            member: name,
            template: target.clone(),
            pod_uid: pod.uid.clone(),
        };
        return Some(latch(observed, Some(trial), Recovery::Survivor(why)));
    }
    // The template is written first, by the rule for objects.
    (observed.objects.template.as_ref() == Some(target)).then(|| {
        let why = Recovery::Survivor(Survivor::Recreated(name));
        let step = Step::RestartPod {
            ordinal,
            uid: pod.uid.clone(),
        };
        Decision::act(step, why)
    })
}

/// Data that is recovered stays on its minor version: no other one was ever tried on it.
fn is_same_line(observed: &Observed) -> bool {
    let target = observed.cluster.target.as_ref();
    let proven = observed.cluster.latched.proven.as_ref();
    target.zip(proven).is_some_and(|(target, proven)| {
        target.refused.is_none() && target.intent.version.minor == proven.version.minor
    })
}

fn latch(observed: &Observed, trial: Option<TrialIntent>, why: Recovery) -> Decision {
    let latched = observed.cluster.latched.clone().with_trial(trial);
    Decision::act(Step::Latch(latched), why)
}

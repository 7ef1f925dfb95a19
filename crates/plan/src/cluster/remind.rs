//! A pod that was granted its start and still waits is annotated again: any change of its pod makes the kubelet look at
//! it again. Left alone, the kubelet does that once a minute.

use std::time::Duration;

use api::Reason;

use crate::decision::{Decision, LATER, Step};
use crate::observed::{Observed, Pod, Told};

/// Seconds in which a kubelet, as a rule, carries an annotation into a pod.
const USUAL: i64 = 3;
/// How often a pod is annotated again. If it still waits then, something else is the cause.
const ENOUGH: u32 = 10;

/// Only where nothing is to be done but to wait; reason and words stay, for nothing else has changed.
pub(super) fn remind(observed: &Observed, decision: Decision) -> Decision {
    let untouched = matches!(
        decision.reason(),
        Reason::Adopting | Reason::DataInconsistent
    );
    if decision.step != Step::Wait || untouched {
        return decision;
    }
    let mut waiting = observed.pods.iter().filter_map(|(ordinal, pod)| {
        let told = may_be_told(pod)?;
        let since = observed.now.duration_since(told.at).as_secs();
        Some((since, *ordinal, pod, told))
    });
    let late = waiting.clone().filter(|(since, ..)| *since >= USUAL);
    let mut late = late.map(|(_, ordinal, pod, told)| Step::RepeatGrant {
        ordinal,
        uid: pod.uid.clone(),
        told: told.once_more(observed.now),
    });
    match late.find(|step| !observed.rests(step)) {
        Some(step) => Decision {
            step,
            requeue: Duration::ZERO,
            ..decision
        },
        // No watch tells when it becomes late.
        None if waiting.next().is_some() => Decision {
            requeue: decision.requeue.min(LATER),
            ..decision
        },
        None => decision,
    }
}

/// What it was told, if telling it again can help.
fn may_be_told(pod: &Pod) -> Option<Told> {
    let told = pod.told.filter(|told| told.again < ENOUGH)?;
    (pod.is_granted() && !pod.terminating).then_some(told)
}

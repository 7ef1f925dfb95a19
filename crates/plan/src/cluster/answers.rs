//! Answers that several rules give. What they rest on is in [`crate::observed`]; this file imports no rule.

use std::time::Duration;

use api::v1alpha1::status::RetireIntent;

use crate::decision::{Decision, LATER, SETTLED, SOON, Step};
use crate::observed::{Latched, Observed};
use crate::why::{Join, Why};

/// How soon to look at a pod again that says nothing yet: often while it is young, for no watch tells
/// when its agent begins to wait.
pub(super) fn requeue_by_pod_age(observed: &Observed, ordinal: u32) -> Duration {
    let age = observed
        .pods
        .get(&ordinal)
        .map(|pod| observed.now.duration_since(pod.created));
    match age {
        Some(age) if age.as_secs() < 30 => SOON,
        Some(_) => LATER,
        // The watch tells when a pod appears.
        None => SETTLED,
    }
}

/// Nothing else may touch the member list while a member that was granted a start is not heard of.
pub(super) fn starting(observed: &Observed, ordinal: u32) -> Decision {
    let name = observed.member_name(ordinal);
    let why = Join::Starting(name, observed.doing(ordinal));
    Decision::wait(why, requeue_by_pod_age(observed, ordinal))
}

/// Records which member leaves, in place of what was written of it before.
pub(super) fn record_leaving(
    observed: &Observed,
    intent: RetireIntent,
    why: impl Into<Why>,
) -> Decision {
    let mut retiring = observed.cluster.latched.retiring.clone();
    retiring.retain(|other| other.member != intent.member);
    let old = observed.cluster.latched.clone();
    let old = match &intent.replaced {
        Some(_) => old.for_repair(),
        None => old,
    };
    retiring.push(intent);
    let latched = Latched { retiring, ..old };
    Decision::act(Step::Latch(latched), why)
}

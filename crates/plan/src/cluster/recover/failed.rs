//! A survivor that was chosen, and whose data etcd cannot go on with. It has bootstrapped nothing, so it can be tried
//! again; but no other is chosen in its place before a user gives it up, for it has the longest log.

use std::time::Duration;

use gate::{Failed, Report};

use super::give_up;
use crate::decision::{Decision, LATER};
use crate::observed::{Observed, Pod};
use crate::why::{Recovery, Survivor};

/// Seconds after which it is tried again: each time the whole database is copied.
const AGAIN: i64 = 30;

/// What is waited for after a failure: for a while, or for the next attempt.
pub(super) fn wait(observed: &Observed, ordinal: u32, pod: &Pod) -> Option<Decision> {
    let report = pod.held()?;
    let left = left(observed, report.failed.as_ref()?);
    let why = tell(observed, ordinal, report)?;
    (pod.is_granted() || left.is_some()).then(|| {
        let after = left.map_or(LATER, |left| left.min(LATER));
        Decision::wait(Recovery::Survivor(why), after)
    })
}

/// What failed, and how to give the survivor up.
pub(super) fn tell(observed: &Observed, ordinal: u32, report: &Report) -> Option<Survivor> {
    let failed = &report.failed.as_ref()?.why;
    Some(Survivor::Failed(give_up(observed, ordinal), failed.clone()))
}

/// Until the next attempt. A clock that runs ahead of ours does not prolong the wait.
fn left(observed: &Observed, failed: &Failed) -> Option<Duration> {
    let passed = observed.now.as_second().saturating_sub(failed.time);
    let left = AGAIN.saturating_sub(passed);
    let waits = (0..AGAIN).contains(&passed);
    waits.then(|| Duration::from_secs(left.unsigned_abs()))
}

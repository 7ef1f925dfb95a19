//! Carries out a step, unless the same was tried again and again of late and nothing came of it: then it is held back, for
//! longer each time. The look goes on as ever, so that every other step is taken as soon as it is due; where a step is held
//! back for longer than a moment, the rules pass over it by themselves (`plan/src/observed/failed.rs`).

use std::time::{Duration, Instant};

use api::EtcdCluster;
use plan::observed::may_rest;
use plan::status::Outcome;
use plan::{Decision, Observed, Step};

use super::act;
use crate::backoff::Pace;
use crate::context::Context;

/// What is recorded, and is due again at once, because something undoes it.
const UNDONE: Pace = Pace {
    free: 3,
    first: Duration::from_secs(1),
    longest: Duration::from_mins(5),
};
/// What was refused for now: members catch up within seconds, a stale cache within minutes.
const NOT_NOW: Pace = Pace {
    free: 12,
    first: Duration::from_millis(500),
    longest: Duration::from_secs(5),
};
/// What failed and no rule may be passed over for: it is recorded or rendered.
const FAILED: Pace = Pace {
    free: 0,
    first: Duration::from_secs(5),
    longest: Duration::from_mins(1),
};
/// What came of a step.
pub(super) struct Tried {
    pub(super) outcome: Outcome,
    /// For how long it is held back, where it was not even tried.
    pub(super) held: Duration,
}

pub(super) async fn attempt(
    cluster: &EtcdCluster,
    observed: &Observed,
    decision: &Decision,
    ctx: &Context,
) -> Tried {
    let now = Instant::now();
    let uid = &observed.cluster.uid;
    if let Some(known) = observed.held_back(&decision.step) {
        return Tried {
            outcome: known.outcome(),
            held: known.left(observed.now),
        };
    }
    let what = match &decision.step {
        // Of objects, each has a memory of its own.
        Step::Nothing | Step::Wait | Step::Refuse | Step::ApplyObjects(_) => None,
        // The next look knows of it.
        step if may_rest(step) => None,
        step => Some((observed.cluster.generation, format!("{step:?}"))),
    };
    if let Some(what) = &what
        && let Some((held, outcome)) = ctx.attempts.held(uid, what, now)
    {
        return Tried { outcome, held };
    }
    let outcome = act::act(cluster, observed, decision, ctx).await;
    ctx.refused.note(observed, decision, &outcome);
    if let Some(what) = &what {
        let kept = match &outcome {
            Outcome::Done | Outcome::Applied(_) => (in_vain(), UNDONE),
            Outcome::NotNow(_) => (outcome.clone(), NOT_NOW),
            Outcome::Failed(_) => (outcome.clone(), FAILED),
        };
        ctx.attempts.note(uid, what, kept, Instant::now());
    }
    Tried {
        outcome,
        held: Duration::ZERO,
    }
}

/// What is reported while a step that succeeded is held back: no event repeats it.
fn in_vain() -> Outcome {
    let why = "this step was repeated several times in a row, because something reverts it; it is retried after pauses of up to 5 min";
    Outcome::NotNow(why.to_owned())
}

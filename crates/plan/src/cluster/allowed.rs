//! A rule that proposes what the invariants forbid has a bug. It is reported, and holds up nothing: the next rule answers. So
//! it does where the step of a rule is tried in vain and may not be tried yet.

use crate::decision::{Decision, Forbidden, SETTLED};
use crate::invariants;
use crate::observed::Observed;
use crate::why::Vain;

/// The first answer whose step is allowed and does not rest, with the first step that is not allowed. Passing over a step
/// makes no other one possible: each is judged by the invariants on what is there.
pub fn first_allowed(
    observed: &Observed,
    answers: impl IntoIterator<Item = Decision>,
) -> Option<Decision> {
    let (mut forbidden, mut passed) = (None, None);
    for decision in answers {
        let checked = invariants::check(observed, &decision.step);
        if checked.is_ok() && observed.rests(&decision.step) {
            passed = passed.or_else(|| Some(hold(observed, decision)));
            continue;
        }
        forbidden = forbidden.or(decision.forbidden);
        match checked {
            Ok(()) => {
                return Some(Decision {
                    forbidden,
                    ..decision
                });
            }
            Err(violation) => {
                let step = decision.step;
                forbidden = forbidden.or_else(|| Some(Box::new(Forbidden { step, violation })));
            }
        }
    }
    // Nothing else is to be done, but this is not how it should be.
    let told = forbidden.map(|forbidden| Decision {
        forbidden: Some(forbidden.clone()),
        ..Decision::wait(Vain::Forbidden(forbidden), SETTLED)
    });
    told.or(passed)
}

/// For a rule that all below rest on: while its step rests, nothing else is done.
pub(super) fn hold(observed: &Observed, decision: Decision) -> Decision {
    match observed.resting(&decision.step) {
        Some(failed) => {
            let why = Vain::Rests {
                failed: Box::new(failed.clone()),
                due: Box::new(decision.why),
            };

            let requeue = failed.left(observed.now).min(SETTLED);
            Decision {
                forbidden: decision.forbidden,
                ..Decision::wait(why, requeue)
            }
        }
        None => decision,
    }
}

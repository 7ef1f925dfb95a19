//! A rule that proposes what the invariants forbid has a bug. It is told, and holds up nothing: the next rule answers.

use api::Reason;

use crate::decision::{Decision, Forbidden, SETTLED};
use crate::invariants;
use crate::observed::Observed;

/// The first answer whose step is allowed, with the first step that was not.
pub fn first_allowed(
    observed: &Observed,
    answers: impl IntoIterator<Item = Decision>,
) -> Option<Decision> {
    let mut forbidden = None;
    for decision in answers {
        let checked = invariants::check(observed, &decision.step);
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
    forbidden.map(|forbidden| Decision {
        forbidden: Some(forbidden.clone()),
        ..Decision::wait(Reason::StepFailed, forbidden.tell(), SETTLED)
    })
}

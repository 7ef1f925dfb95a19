//! Operators that are wrong in one way each.

use api::Reason;
use plan::{Decision, Observed, Step, decide};

/// What is done instead of the right thing; `None` where it is right.
pub type Mutant = fn(&Observed) -> Option<Step>;

/// Decides as the mutant says, and otherwise as it should.
pub fn decide_as(mutant: Mutant, observed: &Observed) -> Decision {
    mutant(observed).map_or_else(
        || decide(observed),
        |step| Decision::act(step, Reason::AsExpected, "a mutant"),
    )
}

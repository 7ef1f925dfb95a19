//! Operators that are wrong in one way each, and what became of them.
#![expect(
    clippy::missing_panics_doc,
    reason = "test code: a failure is the point"
)]

use std::collections::BTreeSet;

use plan::invariants::Violation;
use plan::why::Object;
use plan::{Decision, Observed, Step, decide};

use crate::Run;

/// What is done instead of the right thing; `None` where it is right.
pub type Mutant = fn(&Observed) -> Option<Step>;

/// Decides as the mutant says, and otherwise as it should.
pub fn decide_as(mutant: Mutant, observed: &Observed) -> Decision {
    mutant(observed).map_or_else(
        || decide(observed),
        |step| Decision::act(step, Object::Settled(0, "")),
    )
}

/// What was refused in the stories of a mutant, and what harm was done.
#[derive(Debug, Default)]
pub struct Caught {
    refused: BTreeSet<String>,
    harm: BTreeSet<String>,
}

impl Caught {
    /// Takes note of how one story ended.
    pub fn note(&mut self, run: &Run<'_>) {
        let refused = run.refused.iter().map(|(what, _)| format!("{what:?}"));
        self.refused.extend(refused);
        self.harm.extend(run.world.violations.iter().cloned());
    }

    /// It was refused for this, and so did no harm.
    pub fn assert_refused(&self, violation: &Violation) {
        assert!(self.refused.contains(&format!("{violation:?}")), "{self:?}");
        assert!(self.harm.is_empty(), "harm though it was refused: {self:?}");
    }

    /// Where no check refused, the world saw this.
    pub fn assert_harm(&self, what: &str) {
        assert!(self.harm.iter().any(|seen| seen.contains(what)), "{self:?}");
    }

    /// Nothing was refused and no harm done: that is how the right one ends.
    pub fn assert_nothing(&self) {
        assert!(self.refused.is_empty() && self.harm.is_empty(), "{self:?}");
    }
}

//! Every small world of schemes, trust and accounts: how up to three members may speak, which authorities they trust and which
//! callers etcd knows, in every combination that is safe as it stands. What a step makes of it is found out here from what
//! etcd does, never by the invariants: whichever pod is recreated next, all members still hear each other, show what all of
//! them trust, and know the operator; or a person is told the command.

mod accounts;
mod schemes;
mod trust;

use plan::{Observed, Step, decide};

/// A wrong operator: what it does instead, if anything.
type Wrong = fn(&Observed) -> Option<Step>;

fn right(_observed: &Observed) -> Option<Step> {
    None
}

/// What is done; what is right is also what the invariants allow.
fn done(observed: &Observed, wrong: Wrong) -> Step {
    wrong(observed).unwrap_or_else(|| {
        let decision = decide(observed);
        assert_eq!(decision.forbidden, None, "{decision:?} on {observed:#?}");
        assert!(!decision.why.to_string().is_empty(), "{decision:?}");
        decision.step
    })
}

/// How many worlds were safe, and in how many of them a step was taken that makes them unsafe.
#[derive(Debug, Default)]
struct Tally {
    safe: usize,
    acted: usize,
    harmed: usize,
    first: Option<String>,
}

impl Tally {
    fn note(&mut self, step: &Step, holds: bool, world: impl Fn() -> String) {
        self.safe += 1;
        let idle = matches!(step, Step::Wait | Step::Nothing | Step::Refuse);
        self.acted += usize::from(!idle);
        if !holds {
            self.harmed += 1;
            self.first
                .get_or_insert_with(|| format!("{step:?} on {}", world()));
        }
    }
}

/// One or three of them; the first is one of its own, and in which order the others come does not matter.
fn groups<T: Copy>(all: &[T]) -> Vec<Vec<T>> {
    let mut groups: Vec<Vec<T>> = all.iter().map(|one| vec![*one]).collect();
    for first in all {
        for (at, second) in all.iter().enumerate() {
            let thirds = all.iter().skip(at);
            groups.extend(thirds.map(|third| vec![*first, *second, *third]));
        }
    }
    groups
}

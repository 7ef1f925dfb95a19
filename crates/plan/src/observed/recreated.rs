//! Pods that were recreated without a quorum and still run nothing. What can start on no template is not recreated again
//! and again: the pauses grow. Kept in memory between two looks; losing it costs one more try. Pure.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};

use crate::decision::{Decision, Step};
use crate::observed::Observed;
use crate::status::Outcome;

/// Once onto the new template and once back: both have been tried then.
const FREE: u32 = 2;
/// First pause, in seconds; each later one is twice as long.
const FIRST: i64 = 30;
/// Longest pause, in seconds.
const LONGEST: i64 = 600;

/// A pod that was not recreated for so long after it could have been is not the one that was.
const REMEMBERED: SignedDuration = SignedDuration::from_mins(10);

/// A pod that was recreated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Recreated {
    /// How often in a row.
    pub times: u32,
    /// The last time.
    pub last: Timestamp,
    /// Generation of the spec: an edit is tried at once.
    pub generation: i64,
}

impl Recreated {
    /// When it may be recreated again.
    fn until(&self) -> Timestamp {
        let doublings = self.times.checked_sub(FREE);
        let pause = doublings.map_or(0, |doublings| {
            let times = 2_i64.saturating_pow(doublings);
            FIRST.saturating_mul(times).min(LONGEST)
        });
        let pause = SignedDuration::from_secs(pause);
        self.last.checked_add(pause).unwrap_or(self.last)
    }
}

/// What was recreated, by ordinal: the operator's memory of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Restarts(BTreeMap<u32, Recreated>);

impl Restarts {
    /// Takes note of how a step went.
    pub(crate) fn note(&mut self, observed: &Observed, decision: &Decision, outcome: &Outcome) {
        let done = *outcome == Outcome::Done && observed.etcd.members.is_none();
        let Step::RestartPod { ordinal, .. } = &decision.step else {
            return;
        };
        if done {
            let before = self.0.get(ordinal).map_or(0, |known| known.times);
            let known = Recreated {
                times: before.saturating_add(1),
                last: observed.now,
                generation: observed.cluster.generation,
            };
            self.0.insert(*ordinal, known);
        }
    }

    /// The wall clock was set by so much.
    pub(crate) fn shift(&mut self, by: SignedDuration) {
        for known in self.0.values_mut() {
            if let Ok(moved) = known.last.checked_add(by) {
                known.last = moved;
            }
        }
    }

    /// Puts it into the picture. What serves is forgotten, what was left alone for long enough, and what was tried for another
    /// spec. A process that merely runs may end in the next moment, as the one before did.
    pub(crate) fn sort(&mut self, observed: &mut Observed) {
        let (pods, generation) = (&observed.pods, observed.cluster.generation);
        let now = observed.now;
        self.0.retain(|ordinal, known| {
            let pod = pods.get(ordinal);
            let serves = pod.is_some_and(|pod| pod.serving().is_some());
            let fresh = now.duration_since(known.until()) < REMEMBERED;
            !serves && fresh && known.generation == generation
        });
        observed.recreated.clone_from(&self.0);
    }
}

impl Observed {
    /// Until when the pod of an ordinal is left alone, because it was recreated again and again and runs nothing.
    pub(crate) fn left_alone_until(&self, ordinal: u32) -> Option<Timestamp> {
        let until = self.recreated.get(&ordinal)?.until();
        (until > self.now).then_some(until)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_recreated_on_both_templates_and_then_after_growing_pauses() {
        for (times, seconds) in [
            (1, 0),
            (2, 30),
            (3, 60),
            (4, 120),
            (7, 600),
            (u32::MAX, 600),
        ] {
            let known = Recreated {
                times,
                last: Timestamp::UNIX_EPOCH,
                generation: 1,
            };
            assert_eq!(known.until().as_second(), seconds, "{times}");
        }
    }
}

//! The only place that asks what time it is.

use std::time::Instant;

use jiff::{SignedDuration, Timestamp};

/// Now.
pub fn now() -> Timestamp {
    Timestamp::now()
}

/// A moment by both clocks. The one on the wall may be set, the other one only goes on.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    wall: Timestamp,
    steady: Instant,
}

/// What the two clocks may differ by without one of them having been set.
const NOISE: SignedDuration = SignedDuration::from_secs(1);

impl Moment {
    /// This one.
    pub fn now() -> Self {
        Self {
            wall: now(),
            steady: Instant::now(),
        }
    }

    /// By how much the clock on the wall was set since an earlier moment.
    pub fn set_since(&self, earlier: &Self) -> SignedDuration {
        let passed = self.steady.saturating_duration_since(earlier.steady);
        let passed = SignedDuration::try_from(passed).unwrap_or(SignedDuration::MAX);
        let by = self.wall.duration_since(earlier.wall);
        let by = by.saturating_sub(passed);
        if by.abs() < NOISE {
            SignedDuration::ZERO
        } else {
            by
        }
    }

    /// So much later, with the clock on the wall set meanwhile.
    #[cfg(test)]
    pub(crate) fn later(&self, passed: std::time::Duration, set: SignedDuration) -> Self {
        let moved = SignedDuration::try_from(passed).unwrap() + set;
        Self {
            wall: self.wall + moved,
            steady: self.steady + passed,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_clock_that_was_set_is_told_from_one_that_went_on() {
        let start = Moment::now();
        let hour = SignedDuration::from_hours(1);
        for set in [SignedDuration::ZERO, hour, -hour] {
            let later = start.later(Duration::from_secs(7), set);
            assert_eq!(later.set_since(&start), set);
        }
        let adjusted = start.later(Duration::from_secs(7), SignedDuration::from_millis(300));
        assert_eq!(adjusted.set_since(&start), SignedDuration::ZERO);
    }
}

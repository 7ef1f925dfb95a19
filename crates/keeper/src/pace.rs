//! How fast the store takes a snapshot. A member reuses no page of its file while its snapshot is open, so a store that is
//! too slow makes the database grow: it is better to break off. Pure: durations are values.

use std::time::Duration;

/// Bytes a second that a store must take of a snapshot, on the average of a window.
const LEAST: u64 = 5_000_000;
/// Time spent waiting for the store after which it is judged.
const WINDOW: Duration = Duration::from_mins(1);

/// How long a store may take to make one object of so many bytes that it has in parts, which some do by copying all of them.
pub(crate) fn joining(bytes: u64) -> Duration {
    WINDOW.saturating_add(Duration::from_secs(bytes / LEAST))
}

/// The store is too slow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the store took {bytes} bytes of the snapshot in {seconds} s of waiting for it, and must take 5 MB/s: a longer snapshot would make the member's database grow"
)]
pub(crate) struct TooSlow {
    bytes: u64,
    seconds: u64,
}

/// What passed in the present window. Time in which the member was waited for does not count.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    bytes: u64,
    waited: Duration,
}

impl Pace {
    /// So many bytes of the snapshot were taken over.
    pub(crate) fn moved(&mut self, bytes: u64) {
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// How much longer the store may be waited for before it is judged.
    pub(crate) fn patience(&self) -> Duration {
        WINDOW.saturating_sub(self.waited)
    }

    /// The store was waited for. At the end of a window it is judged, and the next one begins.
    pub(crate) fn waited(&mut self, time: Duration) -> Result<(), TooSlow> {
        self.waited = self.waited.saturating_add(time);
        if self.waited < WINDOW {
            return Ok(());
        }
        let (bytes, seconds) = (self.bytes, self.waited.as_secs());
        *self = Self::default();
        if bytes < LEAST.saturating_mul(seconds) {
            return Err(TooSlow { bytes, seconds });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_store_is_found_after_a_minute_and_not_before() {
        let mut pace = Pace::default();
        for _ in 0..59 {
            pace.moved(4_000_000);
            assert_eq!(pace.waited(Duration::from_secs(1)), Ok(()));
        }
        pace.moved(4_000_000);
        assert!(pace.waited(Duration::from_secs(1)).is_err());
    }

    #[test]
    fn parts_may_be_joined_as_slowly_as_they_may_be_taken() {
        assert_eq!(joining(0), WINDOW);
        assert_eq!(joining(8 << 30), Duration::from_secs(60 + 1717));
        assert!(joining(u64::MAX) > WINDOW);
    }

    #[test]
    fn a_fast_minute_does_not_excuse_a_slow_one() {
        let mut pace = Pace::default();
        pace.moved(100_000_000_000);
        assert_eq!(pace.waited(Duration::from_mins(1)), Ok(()));
        pace.moved(1);
        assert_eq!(pace.patience(), WINDOW);
        assert!(pace.waited(Duration::from_mins(1)).is_err());
    }

    #[test]
    fn a_store_that_is_not_waited_for_is_fast_enough() {
        let mut pace = Pace::default();
        for _ in 0..1000 {
            pace.moved(1);
            assert_eq!(pace.waited(Duration::from_millis(59)), Ok(()));
        }
    }
}

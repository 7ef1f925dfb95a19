//! How long no quorum has served.

use super::Observed;

/// Seconds after which it is no election where no voter is proved to be gone: an annotation that was set long ago must not
/// turn one into a recovery.
const BLINK: i64 = 15;

impl Observed {
    /// No quorum has served for longer than any election takes.
    pub(crate) fn is_no_election(&self) -> bool {
        self.is_unavailable_for(BLINK)
    }

    /// No quorum has served for so many seconds.
    pub(crate) fn is_unavailable_for(&self, seconds: i64) -> bool {
        let since = self.cluster.unavailable_since;
        since.is_some_and(|since| self.now.duration_since(since).as_secs() >= seconds)
    }
}

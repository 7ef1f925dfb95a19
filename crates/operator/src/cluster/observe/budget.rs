//! How long a look may take. Every question has a deadline of its own; a look in which they were used up asks no further
//! questions, and what they would have told is unknown. Nothing is asked with less time than it needs: a member that
//! was given none would seem to be silent.

use std::time::{Duration, Instant};

/// Questions that would begin after this are left for the next look.
const LOOK: Duration = Duration::from_secs(4);

/// The time of one look.
pub(super) struct Budget(Instant);

impl Budget {
    pub(super) fn begin() -> Self {
        Self(Instant::now())
    }

    pub(super) fn is_spent(&self) -> bool {
        self.0.elapsed() >= LOOK
    }
}

//! The only place that asks what time it is.

use jiff::Timestamp;

/// Now.
pub fn now() -> Timestamp {
    Timestamp::now()
}

//! Defragmentation and compaction.

use super::{CelRule, always};

pub(super) const RULES: &[CelRule] = &[
    always(
        &["spec", "maintenance", "window", "start"],
        "self.matches('^([01][0-9]|2[0-3]):[0-5][0-9]$')",
        "not a time of day: write hours and minutes in UTC, such as 02:00",
    ),
    always(
        &["spec", "maintenance", "window", "hours"],
        "self >= 1 && self <= 24",
        "a window lasts from 1 to 24 hours",
    ),
    always(
        &["spec", "maintenance", "keepRevisions"],
        "self >= 1 && self <= 1000000000",
        "write how many revisions are kept, 1 to 1000000000, or leave it out for 1000; to compact nothing write compact: Never",
    ),
];

//! How long failed nodes and joining members are waited for.

use super::{CelRule, always};

pub(super) const RULES: &[CelRule] = &[
    always(
        &["spec", "recovery", "nodePatienceSeconds"],
        "self >= 10 && self <= 604800",
        "a node may be NotReady for a short time without being lost: write 10 to 604800 seconds (a week), or leave it out for 300",
    ),
    always(
        &["spec", "recovery", "joinPatienceSeconds"],
        "self >= 60 && self <= 604800",
        "a member that joins may pause for a moment, to load what it received: write 60 to 604800 seconds (a week), or leave it out for 600",
    ),
];

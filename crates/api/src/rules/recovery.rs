//! How long members that are gone are waited for.

use super::{CelRule, always};

pub(super) const RULES: &[CelRule] = &[always(
    &["spec", "recovery", "nodePatienceSeconds"],
    "self >= 10 && self <= 604800",
    "a node may be silent for a moment without being gone: write 10 to 604800 seconds (a week), or leave it out for 300",
)];

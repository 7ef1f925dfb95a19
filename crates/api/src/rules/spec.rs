//! Names, sizes, versions and resources.

use super::{CelRule, QUANTITY, QUANTITY_MESSAGE, always};

pub(super) const RULES: &[CelRule] = &[
    always(
        &[],
        "self.metadata.name.size() <= 52 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        "metadata.name cannot be used: Services and labels are derived from it, so write at most 52 characters, lower-case letters, digits and dashes only, beginning with a letter (no dots)",
    ),
    always(
        &["spec", "size"],
        "self == 0 || (self > 0 && self <= 9 && self % 2 == 1)",
        "write 1, 3, 5, 7 or 9 (or 0 to stop): an even size adds a member that can fail and tolerates no more failures than the odd size below it, and more than 9 members only slow each other down",
    ),
    always(
        &["spec", "version"],
        "self.matches('^v?3[.](5|6|7)[.][0-9]{1,4}$')",
        "not a release this operator runs: write one of etcd 3.5, 3.6 or 3.7, such as v3.6.16",
    ),
    always(
        &["spec", "version"],
        "!self.matches('^v?3[.]5[.][0-2]$')",
        "this release can lose data (inconsistent revisions after a crash): write v3.5.35",
    ),
    always(
        &["spec", "resources", "requests", "*"],
        QUANTITY,
        QUANTITY_MESSAGE,
    ),
    always(
        &["spec", "resources", "limits", "*"],
        QUANTITY,
        QUANTITY_MESSAGE,
    ),
];

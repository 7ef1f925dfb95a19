//! The way from one release to another, as [`EtcdVersion::next_hop`](crate::EtcdVersion::next_hop) has it. Before a
//! cluster has formed there is nothing to carry over, and a mistake can be corrected.

use super::{CelRule, always};

/// `way` is minor version and patch of the old release, then of the new one.
macro_rules! with_way {
    ($say:expr) => {
        concat!(
            "[(oldSelf.spec.version + '.' + self.spec.version).replace('v', '').split('.').map(part, int(part))].all(way, ",
            $say,
            ")"
        )
    };
}

/// Parts: 0 is 3, 1 the minor version, 2 the patch; 3 is 3 again, 4 and 5 the same of the new release.
macro_rules! at_once {
    () => {
        "way[1] == way[4] || way[4] == way[1] - 1 || (way[4] == way[1] + 1 && way[2] >= (way[1] == 5 ? 32 : way[1] == 6 ? 11 : 0))"
    };
}

macro_rules! has_formed {
    () => {
        "has(self.status) && has(self.status.clusterID) && oldSelf.spec.version.matches('^v?3[.][0-9]{1,4}[.][0-9]{1,4}$') && self.spec.version.matches('^v?3[.][0-9]{1,4}[.][0-9]{1,4}$')"
    };
}

/// The minor version in between is 3.6 in both directions.
macro_rules! first {
    () => {
        "(oldSelf.spec.version.matches('^v?3[.]5[.]([0-9]|[12][0-9]|3[01])$') && !self.spec.version.matches('^v?3[.]5[.]') ? 'v3.5.35' : 'v3.6.16')"
    };
}

macro_rules! is_pinned {
    () => {
        "(self.spec.?image.?tag.hasValue() || self.spec.?image.?digest.hasValue())"
    };
}

pub(super) const RULES: &[CelRule] = &[
    always(
        &[],
        concat!(
            "!(",
            has_formed!(),
            ") || self.spec.?upgrade.?allowIntermediate.orValue(false) || ",
            with_way!(at_once!())
        ),
        "spec.version is too far away: etcd is upgraded one minor version at a time; go to an intermediate release first, or set spec.upgrade.allowIntermediate: true",
    )
    .telling(concat!(
        "'spec.version: etcd cannot go from ' + oldSelf.spec.version + ' to ' + self.spec.version + ' at once: first go to ' + ",
        first!(),
        " + ', or set spec.upgrade.allowIntermediate: true'"
    )),
    always(
        &[],
        concat!(
            "!(",
            has_formed!(),
            ") || !",
            is_pinned!(),
            " || !self.spec.?upgrade.?allowIntermediate.orValue(false) || ",
            with_way!(at_once!())
        ),
        "spec.version is too far away for a pinned image: remove spec.image.tag and spec.image.digest, or go through the intermediate releases",
    )
    .telling(concat!(
        "'spec.version: the way from ' + oldSelf.spec.version + ' to ' + self.spec.version + ' needs other images than the one that spec.image pins: first go to ' + ",
        first!(),
        " + ', or remove spec.image.tag and spec.image.digest'"
    )),
];

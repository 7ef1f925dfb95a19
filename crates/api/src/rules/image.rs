//! Repositories, tags and digests.

use super::{CelRule, always};

pub(super) const RULES: &[CelRule] = &[
    always(
        &["spec", "repository"],
        "self.matches('^[a-z0-9][-._a-z0-9]*(:[0-9]+)?(/[a-z0-9][-._a-z0-9]*)*$') && !self.matches('^[^/]*:[^/]*$')",
        "not an image repository: write one without a tag, such as quay.io/coreos/etcd; the tag follows from spec.version, or from spec.image.tag",
    ),
    always(
        &["spec", "image", "tag"],
        "self.matches('^[A-Za-z0-9_][-._A-Za-z0-9]*$')",
        "not a tag: write the part behind the colon of an image reference, such as v3.6.16",
    ),
    always(
        &["spec", "image", "digest"],
        "self.matches('^sha256:[a-f0-9]{64}$')",
        "not a digest: write sha256: and 64 hexadecimal digits",
    ),
    always(
        &["spec"],
        "!has(self.repository) || !self.repository.startsWith('registry.k8s.io/') || self.?image.?tag.hasValue() || self.?image.?digest.hasValue()",
        "the tags of this repository do not follow from spec.version: write spec.image.tag, such as 3.6.16-0, or spec.image.digest",
    )
    .at(".repository"),
    // The part of a tag before the first dash is a release, or something that we do not understand.
    always(
        &["spec"],
        "!has(self.version) || !self.?image.?tag.hasValue() || !self.image.tag.matches('^v?3[.][0-9]+[.][0-9]+(-.*)?$') || (self.image.tag.replace('v', '') + '-').startsWith(self.version.replace('v', '') + '-')",
        "names another release than spec.version: write the same in both",
    )
    .at(".image.tag"),
];

//! The CEL rules of the CRD, in one table: where, what, and the sentence a user gets. They are put
//! into the generated schema by [`crate::crd`] and tried against a real API server.

/// One rule.
pub struct CelRule {
    /// Path of property names below the root of the schema; `*` is the value of a map.
    pub path: &'static [&'static str],
    /// The expression that must hold.
    pub rule: &'static str,
    /// What the user reads.
    pub message: &'static str,
    /// The rule also runs on create, with `oldSelf` as an optional.
    pub optional_old_self: bool,
}

const fn always(
    path: &'static [&'static str],
    rule: &'static str,
    message: &'static str,
) -> CelRule {
    CelRule {
        path,
        rule,
        message,
        optional_old_self: false,
    }
}

const QUANTITY: &str = "type(self) == int ? self >= 0 : isQuantity(self) && quantity(self).compareTo(quantity('0')) >= 0";
const QUANTITY_MESSAGE: &str =
    "not a quantity: write a number with a unit, such as 10Gi, 512Mi or 100m";
const UNCHANGED: &str = "self == oldSelf";
const STORAGE_UNCHANGED: &str =
    "cannot be changed yet: this release does not resize or move volumes (claimPolicy may change)";

/// All rules. The API server puts the path and the value in front of each message.
pub const RULES: &[CelRule] = &[
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
        &["spec", "repository"],
        "self.matches('^[a-z0-9][-._a-z0-9]*(:[0-9]+)?(/[a-z0-9][-._a-z0-9]*)*$') && !self.matches('^[^/]*:[^/]*$')",
        "not an image repository: write one without a tag, such as quay.io/coreos/etcd; the tag follows from spec.version",
    ),
    always(
        &["spec", "repository"],
        "!self.contains('bitnami') && !self.startsWith('registry.k8s.io/')",
        "this image is laid out or tagged in a way this release does not know: write quay.io/coreos/etcd, gcr.io/etcd-development/etcd or a mirror of one of them",
    ),
    always(&["spec", "storage", "size"], QUANTITY, QUANTITY_MESSAGE),
    always(&["spec", "storage", "size"], UNCHANGED, STORAGE_UNCHANGED),
    always(
        &["spec", "storage", "storageClassName"],
        UNCHANGED,
        STORAGE_UNCHANGED,
    ),
    always(
        &["spec", "storage", "volumeClaimTemplate"],
        UNCHANGED,
        STORAGE_UNCHANGED,
    ),
    always(
        &["spec", "storage"],
        "has(self.storageClassName) == has(oldSelf.storageClassName) && has(self.volumeClaimTemplate) == has(oldSelf.volumeClaimTemplate)",
        STORAGE_UNCHANGED,
    ),
    always(
        &["spec"],
        "has(self.storage) == has(oldSelf.storage) || (has(self.storage) ? self.storage.size == '10Gi' && !has(self.storage.storageClassName) && !has(self.storage.volumeClaimTemplate) : oldSelf.storage.size == '10Gi' && !has(oldSelf.storage.storageClassName) && !has(oldSelf.storage.volumeClaimTemplate))",
        "spec.storage cannot be changed yet: this release does not resize or move volumes (claimPolicy may change)",
    ),
    always(
        &["spec", "storage"],
        "!has(self.volumeClaimTemplate) || !has(self.volumeClaimTemplate.spec.storageClassName) || !has(self.storageClassName) || self.storageClassName == self.volumeClaimTemplate.spec.storageClassName",
        "storageClassName and volumeClaimTemplate.spec.storageClassName differ: write one of them",
    ),
    always(
        &["spec", "storage"],
        "!has(self.volumeClaimTemplate) || !has(self.volumeClaimTemplate.spec.resources) || !has(self.volumeClaimTemplate.spec.resources.requests) || !('storage' in self.volumeClaimTemplate.spec.resources.requests) || !has(self.size) || self.size == '0' || self.size == '10Gi' || self.size == self.volumeClaimTemplate.spec.resources.requests['storage']",
        "size and the storage request of volumeClaimTemplate differ: write one of them",
    ),
    always(
        &[
            "spec",
            "storage",
            "volumeClaimTemplate",
            "spec",
            "volumeMode",
        ],
        "self == 'Filesystem'",
        "etcd needs a file system: write Filesystem, or leave it out",
    ),
    always(
        &[
            "spec",
            "storage",
            "volumeClaimTemplate",
            "spec",
            "resources",
            "requests",
            "*",
        ],
        QUANTITY,
        QUANTITY_MESSAGE,
    ),
    always(
        &[
            "spec",
            "storage",
            "volumeClaimTemplate",
            "spec",
            "resources",
            "limits",
            "*",
        ],
        QUANTITY,
        QUANTITY_MESSAGE,
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
    CelRule {
        path: &["spec"],
        rule: "!has(self.security) || !has(self.security.tls) || (has(self.security.tls.enabled) && !self.security.tls.enabled) || (oldSelf.hasValue() && has(oldSelf.value().security) && has(oldSelf.value().security.tls) && (!has(oldSelf.value().security.tls.enabled) || oldSelf.value().security.tls.enabled))",
        message: "security.tls asks for TLS, which this release does not run yet: leave security out, or write security.tls.enabled: false, for a plaintext cluster",
        optional_old_self: true,
    },
    // What a release cannot roll out to running members it refuses, rather than accept and ignore. Before a cluster
    // has formed there is nothing to roll out, and a mistake can be mended.
    always(
        &[],
        "(has(self.status) && has(self.status.clusterID)) ? self.spec.version == oldSelf.spec.version && self.spec.repository == oldSelf.spec.repository : true",
        "spec.version and spec.repository cannot be changed yet once the cluster has formed: this release does not restart members on another image",
    ),
    always(
        &[],
        "(has(self.status) && has(self.status.clusterID)) ? has(self.spec.resources) == has(oldSelf.spec.resources) && (!has(self.spec.resources) || self.spec.resources == oldSelf.spec.resources) : true",
        "spec.resources cannot be changed yet once the cluster has formed: this release does not restart members with other resources",
    ),
];

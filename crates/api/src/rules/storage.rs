//! Volumes: what a claim can be, and what of it can change later. A field that is absent counts as what it means, so that
//! writing a default out is no change. Paths are written out: the API server only trusts the cost of what it can follow.

use super::{CelRule, QUANTITY, QUANTITY_MESSAGE, always};

/// The size that counts, if it can be read; `0` is what the predecessor stored for the default.
macro_rules! size {
    ($of:literal) => {
        concat!(
            "(",
            concat!(
                $of,
                ".?storage.?volumeClaimTemplate.?spec.?resources.?requests[?'storage'].hasValue()"
            ),
            " ? (isQuantity(string(",
            $of,
            ".storage.volumeClaimTemplate.spec.resources.requests['storage']))",
            " ? quantity(string(",
            $of,
            ".storage.volumeClaimTemplate.spec.resources.requests['storage'])) : quantity('0'))",
            " : ",
            $of,
            ".?storage.?size.hasValue()",
            " ? (isQuantity(string(",
            $of,
            ".storage.size)) ? quantity(string(",
            $of,
            ".storage.size)) : quantity('0'))",
            " : quantity('0'))"
        )
    };
}

pub(super) use size;

/// One of the two places that name a class.
macro_rules! class_at {
    ($of:literal, $place:literal, $then:expr, $else:expr) => {
        concat!(
            "(",
            $of,
            ".?storage.",
            $place,
            ".hasValue() ? ",
            $then,
            " : ",
            $else,
            ")"
        )
    };
}

/// The class that counts is the one at `$path`, which exists, in the old object as well.
macro_rules! same_class_as {
    ($path:literal) => {
        class_at!(
            "oldSelf",
            "?volumeClaimTemplate.?spec.?storageClassName",
            concat!(
                "oldSelf.storage.volumeClaimTemplate.spec.storageClassName == ",
                $path
            ),
            class_at!(
                "oldSelf",
                "?storageClassName",
                concat!("oldSelf.storage.storageClassName == ", $path),
                "false"
            )
        )
    };
}

/// No class is named, so it is the default one.
macro_rules! no_class {
    ($of:literal) => {
        concat!(
            "!",
            $of,
            ".?storage.?volumeClaimTemplate.?spec.?storageClassName.hasValue() && !",
            $of,
            ".?storage.?storageClassName.hasValue()"
        )
    };
}

/// Beside size and class the claim template says nothing that would not be so without it.
macro_rules! says_no_more {
    ($of:literal) => {
        concat!(
            "(!",
            $of,
            ".?storage.?volumeClaimTemplate.hasValue() || (",
            "!has(",
            $of,
            ".storage.volumeClaimTemplate.metadata)",
            " && !has(",
            $of,
            ".storage.volumeClaimTemplate.spec.selector)",
            " && !has(",
            $of,
            ".storage.volumeClaimTemplate.spec.volumeAttributesClassName)",
            " && !",
            $of,
            ".storage.volumeClaimTemplate.spec.?resources.?limits.hasValue()",
            " && (!has(",
            $of,
            ".storage.volumeClaimTemplate.spec.accessModes) || ",
            $of,
            ".storage.volumeClaimTemplate.spec.accessModes == ['ReadWriteOnce'])))"
        )
    };
}

/// A field is there or not, and says the same.
macro_rules! unchanged {
    ($field:literal) => {
        concat!(
            "has(self.",
            $field,
            ") == has(oldSelf.",
            $field,
            ") && (!has(self.",
            $field,
            ") || self.",
            $field,
            " == oldSelf.",
            $field,
            ")"
        )
    };
}

const TEMPLATE: &[&str] = &["spec", "storage", "volumeClaimTemplate"];
const TEMPLATE_SPEC: &[&str] = &["spec", "storage", "volumeClaimTemplate", "spec"];
pub(crate) const TEMPLATE_REQUESTS: &[&str] = &[
    "spec",
    "storage",
    "volumeClaimTemplate",
    "spec",
    "resources",
    "requests",
];
pub(crate) const TEMPLATE_LIMITS: &[&str] = &[
    "spec",
    "storage",
    "volumeClaimTemplate",
    "spec",
    "resources",
    "limits",
];
const ONLY_STORAGE: &str = "self.all(name, name == 'storage')";
const ONLY_STORAGE_MESSAGE: &str =
    "a PersistentVolumeClaim has no other resource: write only storage";
const CHANGED: &str = "is immutable except for its storage request, which may be increased: create a new cluster and copy the data into it";

pub(super) const RULES: &[CelRule] = &[
    always(&["spec", "storage", "size"], QUANTITY, QUANTITY_MESSAGE),
    // An expansion that no volume has reached, because their class cannot expand them, may be reverted.
    always(
        &[],
        concat!(
            "[[", size!("oldSelf.spec"), ", ", size!("self.spec"),
            "].map(size, sign(size) == 0 ? quantity('10Gi') : size)].all(sizes, sizes[1].compareTo(sizes[0]) >= 0",
            " || (self.?status.?memory.?proven.?storageBytes.hasValue() && sizes[1].isInteger() && sizes[1].asInteger() >= self.status.memory.proven.storageBytes)",
            " || (self.?status.?storageBytes.hasValue() && sizes[1].isInteger() && sizes[1].asInteger() >= self.status.storageBytes))"
        ),
        "cannot be reduced: volumes can only be expanded; write at least the previous size",
    )
    .at(".spec.storage.size"),
    always(
        &["spec"],
        class_at!("self", "?volumeClaimTemplate.?spec.?storageClassName",
            same_class_as!("self.storage.volumeClaimTemplate.spec.storageClassName"),
            class_at!("self", "?storageClassName",
                same_class_as!("self.storage.storageClassName"), no_class!("oldSelf"))),
        "the StorageClass of a volume cannot change: create a new cluster and copy the data into it",
    )
    .at(".storage.storageClassName"),
    always(
        &["spec"],
        concat!(
            "self.?storage.?volumeClaimTemplate.hasValue() == oldSelf.?storage.?volumeClaimTemplate.hasValue() || (",
            says_no_more!("self"), " && ", says_no_more!("oldSelf"), ")"
        ),
        CHANGED,
    )
    .at(".storage.volumeClaimTemplate"),
    always(TEMPLATE, unchanged!("metadata"), CHANGED).at(".metadata"),
    always(TEMPLATE_SPEC, unchanged!("selector"), CHANGED).at(".selector"),
    always(
        TEMPLATE_SPEC,
        unchanged!("volumeAttributesClassName"),
        CHANGED,
    )
    .at(".volumeAttributesClassName"),
    always(
        TEMPLATE_SPEC,
        "(has(self.accessModes) ? self.accessModes : ['ReadWriteOnce']) == (has(oldSelf.accessModes) ? oldSelf.accessModes : ['ReadWriteOnce'])",
        CHANGED,
    )
    .at(".accessModes"),
    always(
        TEMPLATE_SPEC,
        "self.?resources.?limits.hasValue() == oldSelf.?resources.?limits.hasValue() && (!self.?resources.?limits.hasValue() || self.resources.limits == oldSelf.resources.limits)",
        CHANGED,
    )
    .at(".resources.limits"),
    always(TEMPLATE_REQUESTS, ONLY_STORAGE, ONLY_STORAGE_MESSAGE),
    always(TEMPLATE_LIMITS, ONLY_STORAGE, ONLY_STORAGE_MESSAGE),
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
];

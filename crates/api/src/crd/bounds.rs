//! How large things can be. CEL needs to know before it lets a rule run over them.

use serde_json::{Value, json};

use crate::rules::storage::{TEMPLATE_LIMITS, TEMPLATE_REQUESTS};

/// A path and what its schema is told.
pub(super) type Bound = (&'static [&'static str], &'static str, Value);

const TEXT: u64 = 512;
const LABEL: u64 = 63;

/// Of names of users, roles and the objects that they name.
pub(super) const NAME: u64 = 253;
/// Of keys in permissions.
pub(super) const KEY: u64 = 1024;
/// Of roles of a user, or permissions of a role.
pub(super) const GRANTS: u64 = 64;

/// All bounds.
pub(super) fn all() -> Vec<Bound> {
    let mut all: Vec<Bound> = Vec::new();
    all.extend(TEXTS.iter().map(|path| (*path, "maxLength", json!(TEXT))));
    all.extend(NAMES.iter().map(|path| (*path, "maxLength", json!(LABEL))));
    all.extend(
        MAPS.iter()
            .map(|(path, most)| (*path, "maxProperties", json!(most))),
    );
    all.extend(SAID.iter().map(|path| (*path, "minLength", json!(1))));
    for (path, most, key) in LISTS {
        all.push((*path, "maxItems", json!(most)));
        if let Some(key) = key {
            all.push((*path, "x-kubernetes-list-type", json!("map")));
            all.push((*path, "x-kubernetes-list-map-keys", json!([key])));
        }
    }
    all.extend(
        AT_LEAST
            .iter()
            .map(|(path, least)| (*path, "minimum", json!(least))),
    );
    all
}

const TEXTS: &[&[&str]] = &[
    &["spec", "version"],
    &["spec", "repository"],
    &["spec", "image", "tag"],
    &["spec", "image", "digest"],
    &["spec", "storage", "storageClassName"],
    &[
        "spec",
        "storage",
        "volumeClaimTemplate",
        "spec",
        "storageClassName",
    ],
    &[
        "spec",
        "storage",
        "volumeClaimTemplate",
        "spec",
        "volumeMode",
    ],
    &["spec", "etcd", "flags", "*"],
    &["spec", "etcd", "autoCompaction", "retention"],
    &["spec", "pod", "labels", "*"],
    &["spec", "pod", "nodeSelector", "*"],
    &["spec", "pod", "env", "*", "name"],
    &["spec", "pod", "volumeMounts", "*", "mountPath"],
    &["spec", "access", "loadBalancerClass"],
    &["spec", "access", "loadBalancerSourceRanges", "*"],
    &["spec", "debug", "image"],
    &["spec", "maintenance", "window", "start"],
    &["spec", "security", "tls", "certificateSecret"],
    &["spec", "security", "tls", "caSecret"],
    &["spec", "security", "auth", "rootPasswordSecret"],
    &[
        "spec",
        "security",
        "tls",
        "certManager",
        "issuerRef",
        "name",
    ],
    &[
        "spec",
        "security",
        "tls",
        "certManager",
        "issuerRef",
        "kind",
    ],
    &[
        "spec",
        "security",
        "tls",
        "certManager",
        "issuerRef",
        "group",
    ],
    &["spec", "security", "tls", "extraNames", "*"],
    &[
        "spec",
        "security",
        "networkPolicy",
        "clients",
        "*",
        "ipBlock",
        "cidr",
    ],
    &[
        "spec",
        "security",
        "networkPolicy",
        "metrics",
        "*",
        "ipBlock",
        "cidr",
    ],
    &["spec", "security", "tls", "cipherSuites", "*"],
    &["spec", "bootstrap", "restore", "backupName"],
    &["spec", "bootstrap", "restore", "backup"],
    &["spec", "bootstrap", "restore", "identitySecret"],
    &["spec", "bootstrap", "restore", "backupNamespace"],
    &["spec", "bootstrap", "restore", "credentialsSecret"],
    &["spec", "bootstrap", "restore", "serviceAccountName"],
];

/// An empty text would not be nothing.
const SAID: &[&[&str]] = &[
    &["spec", "pod", "serviceAccountName"],
    &["spec", "access", "loadBalancerClass"],
    &["spec", "debug", "image"],
    &["spec", "security", "tls", "certificateSecret"],
    &["spec", "security", "tls", "caSecret"],
    &["spec", "security", "auth", "rootPasswordSecret"],
    &[
        "spec",
        "security",
        "tls",
        "certManager",
        "issuerRef",
        "name",
    ],
    &[
        "spec",
        "security",
        "tls",
        "certManager",
        "issuerRef",
        "kind",
    ],
    &[
        "spec",
        "security",
        "tls",
        "certManager",
        "issuerRef",
        "group",
    ],
    &["spec", "bootstrap", "restore", "backupName"],
    &["spec", "bootstrap", "restore", "backup"],
    &["spec", "bootstrap", "restore", "identitySecret"],
    &["spec", "bootstrap", "restore", "backupNamespace"],
    &["spec", "bootstrap", "restore", "credentialsSecret"],
    &["spec", "bootstrap", "restore", "serviceAccountName"],
];

const NAMES: &[&[&str]] = &[
    &["spec", "pod", "volumes", "*", "name"],
    &["spec", "pod", "volumeMounts", "*", "name"],
    &["spec", "pod", "containers", "*", "name"],
];

const MAPS: &[(&[&str], u64)] = &[
    (&["spec", "resources", "requests"], 8),
    (&["spec", "resources", "limits"], 8),
    (TEMPLATE_REQUESTS, 8),
    (TEMPLATE_LIMITS, 8),
    (&["spec", "etcd", "flags"], 64),
    (&["spec", "pod", "labels"], 64),
    (&["spec", "pod", "annotations"], 64),
    (&["spec", "pod", "nodeSelector"], 64),
    (&["spec", "access", "annotations"], 64),
];

/// With the key that no two items share.
const LISTS: &[(&[&str], u64, Option<&str>)] = &[
    (&["spec", "pod", "env"], 128, Some("name")),
    (&["spec", "pod", "volumes"], 32, Some("name")),
    (&["spec", "pod", "volumeMounts"], 64, Some("mountPath")),
    (&["spec", "pod", "containers"], 16, Some("name")),
    (&["spec", "access", "loadBalancerSourceRanges"], 64, None),
    (&["spec", "security", "tls", "extraNames"], 32, None),
    (&["spec", "security", "networkPolicy", "clients"], 32, None),
    (&["spec", "security", "networkPolicy", "metrics"], 32, None),
    (&["spec", "security", "tls", "cipherSuites"], 32, None),
];

const AT_LEAST: &[(&[&str], u64)] = &[
    (&["spec", "bootstrap", "restore", "target", "revision"], 1),
    (
        &["spec", "pod", "probes", "startup", "initialDelaySeconds"],
        0,
    ),
    (&["spec", "pod", "probes", "startup", "periodSeconds"], 1),
    (&["spec", "pod", "probes", "startup", "timeoutSeconds"], 1),
    (&["spec", "pod", "probes", "startup", "failureThreshold"], 1),
    (
        &["spec", "pod", "probes", "liveness", "initialDelaySeconds"],
        0,
    ),
    (&["spec", "pod", "probes", "liveness", "periodSeconds"], 1),
    (&["spec", "pod", "probes", "liveness", "timeoutSeconds"], 1),
    (
        &["spec", "pod", "probes", "liveness", "failureThreshold"],
        1,
    ),
    (
        &["spec", "pod", "probes", "readiness", "initialDelaySeconds"],
        0,
    ),
    (&["spec", "pod", "probes", "readiness", "periodSeconds"], 1),
    (&["spec", "pod", "probes", "readiness", "timeoutSeconds"], 1),
    (
        &["spec", "pod", "probes", "readiness", "failureThreshold"],
        1,
    ),
];

/// Texts of an `EtcdBackup`, and how long they may be.
pub(super) const BACKUP_TEXTS: &[(&[&str], u64)] = &[
    (&["spec", "clusterName"], NAME),
    (&["spec", "clusterNamespace"], NAME),
    (&["spec", "schedule"], 128),
    (&["spec", "timeZone"], 64),
    (&["spec", "serviceAccountName"], NAME),
    (&["spec", "etcdUser"], NAME),
    (&["spec", "s3", "bucket"], NAME),
    (&["spec", "s3", "region"], 64),
    (&["spec", "s3", "endpoint"], 512),
    (&["spec", "s3", "accessKeySecret"], NAME),
    (&["spec", "s3", "secretKeySecret"], NAME),
    (&["spec", "s3", "caSecret"], NAME),
    (&["spec", "s3", "path"], 512),
    (&["spec", "gcs", "bucket"], NAME),
    (&["spec", "gcs", "path"], 512),
    (&["spec", "gcs", "credentialsSecret"], NAME),
    (&["spec", "azure", "account"], NAME),
    (&["spec", "azure", "container"], NAME),
    (&["spec", "azure", "path"], 512),
    (&["spec", "azure", "credentialsSecret"], NAME),
    (&["spec", "local", "claimName"], NAME),
    (&["spec", "local", "path"], 512),
    (&["spec", "retentionPolicy", "maxAge"], 16),
    (&["spec", "encryption", "recipients", "*"], 100),
    (&["spec", "allowedNamespaces", "*"], LABEL),
    (&["spec", "verify", "schedule"], 128),
    (&["spec", "verify", "identitySecret"], NAME),
];

/// Texts of a place where backups are.
pub(super) const LOCATION_TEXTS: &[(&[&str], u64)] = &[
    (&["clusterName"], NAME),
    (&["clusterNamespace"], NAME),
    (&["clusterID"], 16),
    (&["snapshot", "key"], 1024),
    (&["snapshot", "sha256"], 64),
    (&["serviceAccountName"], NAME),
    (&["s3", "bucket"], NAME),
    (&["s3", "region"], 64),
    (&["s3", "endpoint"], 512),
    (&["s3", "accessKeySecret"], NAME),
    (&["s3", "secretKeySecret"], NAME),
    (&["s3", "caSecret"], NAME),
    (&["s3", "path"], 512),
    (&["gcs", "bucket"], NAME),
    (&["gcs", "path"], 512),
    (&["gcs", "credentialsSecret"], NAME),
    (&["azure", "account"], NAME),
    (&["azure", "container"], NAME),
    (&["azure", "path"], 512),
    (&["azure", "credentialsSecret"], NAME),
    (&["local", "claimName"], NAME),
    (&["local", "path"], 512),
];

/// Texts of an `EtcdRestore`.
pub(super) const RESTORE_TEXTS: &[(&[&str], u64)] = &[
    (&["spec", "backupName"], NAME),
    (&["spec", "backupNamespace"], NAME),
    (&["spec", "backup"], 128),
    (&["spec", "clusterName"], NAME),
    (&["spec", "replaces"], 16),
    (&["spec", "identitySecret"], NAME),
    (&["spec", "credentialsSecret"], NAME),
    (&["spec", "serviceAccountName"], NAME),
    (&["spec", "dataDir"], 512),
    (&["spec", "walDir"], 512),
];

/// Numbers of an `EtcdBackup` that are not negative.
pub(super) const BACKUP_NUMBERS: &[&[&str]] = &[
    &["spec", "retentionPolicy", "maxBackups"],
    &["spec", "retentionPolicy", "keep", "daily"],
    &["spec", "retentionPolicy", "keep", "weekly"],
    &["spec", "retentionPolicy", "keep", "monthly"],
];

//! Restores: one source, of ours or of others, and a store that can be named. What an EtcdCluster begins with is settled once it has begun.

use super::{CelRule, always};

const ONE_SOURCE: &str = "has(self.backupName) != has(self.source)";
const ONE_SOURCE_MESSAGE: &str =
    "write either backupName (an EtcdBackup) or source (a store), and not both";
/// A store names what it needs itself.
const OWN: &str = "!has(self.source) || (!has(self.backupNamespace) && !has(self.credentialsSecret) && !has(self.serviceAccountName))";
const OWN_MESSAGE: &str = "backupNamespace, credentialsSecret and serviceAccountName go with backupName: write what the store needs into source";
/// A file of others has no ID.
const NO_ID: &str = "!has(self.source) || !has(self.source.snapshot) || !has(self.backup)";
const NO_ID_MESSAGE: &str =
    "backup is the ID of a backup that an EtcdBackup made: leave it out beside source.snapshot";
/// What is as of now needs no target.
const TARGET: &str = "has(self.revision)";
const TARGET_MESSAGE: &str = "write target.revision, or leave target out: then the newest revision of the backup is restored";
/// The history of a file of others is not looked into.
const NO_TARGET: &str = "!has(self.source) || !has(self.source.snapshot) || !has(self.target)";
const NO_TARGET_MESSAGE: &str =
    "target goes with backups that an EtcdBackup made: leave it out beside source.snapshot";
/// IDs are what backups are called in the store.
const ID: &str = "self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')";
const ID_MESSAGE: &str = "the ID of a backup has lower-case letters, digits and hyphens only, as status.backups of an EtcdBackup lists them";

/// What an `EtcdCluster` begins with.
pub(super) const BOOTSTRAP: &[CelRule] = &[
    always(
        &["spec", "bootstrap", "restore"],
        ONE_SOURCE,
        ONE_SOURCE_MESSAGE,
    ),
    always(&["spec", "bootstrap", "restore"], OWN, OWN_MESSAGE),
    always(&["spec", "bootstrap", "restore"], NO_ID, NO_ID_MESSAGE),
    always(
        &["spec", "bootstrap", "restore"],
        NO_TARGET,
        NO_TARGET_MESSAGE,
    ),
    always(
        &["spec", "bootstrap", "restore", "target"],
        TARGET,
        TARGET_MESSAGE,
    ),
    always(&["spec", "bootstrap", "restore", "backup"], ID, ID_MESSAGE),
    always(
        &[],
        "!has(self.spec.bootstrap) || !(has(self.status) && has(self.status.clusterID)) || (has(oldSelf.spec.bootstrap) && self.spec.bootstrap == oldSelf.spec.bootstrap)",
        "spec.bootstrap says what a cluster begins with, and this one has begun: leave it as it was, or leave it out; to bring a backup back create another EtcdCluster",
    ),
];

/// A store, wherever it is named.
pub(crate) const LOCATION: &[CelRule] = &[
    always(
        &[],
        "[has(self.s3), has(self.gcs), has(self.azure), has(self.local)].filter(block, block).size() == 1 && (self.storageType == 'S3' ? has(self.s3) : self.storageType == 'GCS' ? has(self.gcs) : self.storageType == 'Azure' ? has(self.azure) : has(self.local))",
        "write the one block that storageType names: s3, gcs, azure or local",
    ),
    always(
        &[],
        "has(self.clusterName) != has(self.snapshot)",
        "write either clusterName (backups that an EtcdBackup made) or snapshot (a file that something else made), and not both",
    ),
    always(
        &[],
        "!has(self.snapshot) || (!has(self.clusterNamespace) && !has(self.clusterID))",
        "clusterNamespace and clusterID go with clusterName: leave them out beside snapshot",
    ),
    always(
        &["snapshot", "key"],
        "self.matches('^[^/.][^/]*(/[^/.][^/]*)*$')",
        "a key is a name below path, such as 2026-11-19/etcd.db: no part of it may be empty or begin with a dot",
    ),
    always(
        &["snapshot", "sha256"],
        "self.matches('^[0-9a-f]{64}$')",
        "a SHA-256 has 64 lower-case hexadecimal digits, as sha256sum prints it",
    ),
    always(
        &["clusterID"],
        "self.matches('^[0-9a-f]{1,16}$')",
        "a cluster ID has 1 to 16 lower-case hexadecimal digits, as status.clusterID of an EtcdCluster has it",
    ),
    always(
        &["s3"],
        "!has(self.endpoint) || self.endpoint.matches('^https?://[^/]+/?$')",
        "an endpoint is a URL without a path, such as https://s3.example.org; the bucket is written as bucket",
    ),
    always(
        &["s3"],
        "!has(self.endpoint) || !self.endpoint.startsWith('http://') || (has(self.allowHTTP) && self.allowHTTP)",
        "an endpoint without TLS shows the data to everyone on the way: write https://, or allowHTTP: true",
    ),
    always(
        &["s3"],
        "has(self.accessKeySecret) == has(self.secretKeySecret)",
        "accessKeySecret and secretKeySecret go together, and may name the same Secret",
    ),
];

/// An `EtcdRestore`.
pub(crate) const ALL: &[CelRule] = &[
    always(&["spec"], ONE_SOURCE, ONE_SOURCE_MESSAGE),
    always(&["spec"], OWN, OWN_MESSAGE),
    always(&["spec"], NO_ID, NO_ID_MESSAGE),
    always(&["spec"], NO_TARGET, NO_TARGET_MESSAGE),
    always(&["spec", "target"], TARGET, TARGET_MESSAGE),
    always(&["spec", "backup"], ID, ID_MESSAGE),
    always(
        &["spec"],
        "self.clusterName == oldSelf.clusterName",
        "clusterName cannot be changed: create another EtcdRestore",
    ),
    always(
        &["spec"],
        "!has(self.restoreType) || self.restoreType != 'Replace' || !has(self.clusterTemplate)",
        "clusterTemplate is for restoreType New: with Replace the EtcdCluster exists and has a spec of its own",
    ),
    always(
        &["spec", "replaces"],
        "self.matches('^[0-9a-f]{1,16}$')",
        "replaces has the 1 to 16 lower-case hexadecimal digits of a cluster ID, as status.clusterID of the EtcdCluster has it",
    ),
    always(
        &["spec"],
        "(has(self.restoreType) ? self.restoreType : 'New') == (has(oldSelf.restoreType) ? oldSelf.restoreType : 'New')",
        "restoreType cannot be changed: create another EtcdRestore",
    ),
    always(
        &["spec"],
        "!has(oldSelf.replaces) || (has(self.replaces) && self.replaces == oldSelf.replaces)",
        "replaces cannot be changed once it is written, so that one EtcdRestore replaces data once: create another EtcdRestore",
    ),
    always(
        &["spec", "dataDir"],
        "self in ['/data', '/var/lib/etcd', '/var/lib/etcd/data']",
        "dataDir cannot be chosen: leave it out, or write /var/lib/etcd/data, where every member has its data",
    ),
    always(
        &["spec", "walDir"],
        "self in ['/data/member/wal', '/var/lib/etcd/data/member/wal']",
        "walDir cannot be chosen: leave it out, or write /var/lib/etcd/data/member/wal",
    ),
];

//! `EtcdRestore`: brings a backup back as an EtcdCluster; and what an EtcdCluster itself says of the backup that it begins
//! with.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::backup::{Azure, EtcdBackupSpec, Gcs, Local, S3, StorageType};
use super::cluster::EtcdClusterSpec;

/// What an EtcdCluster begins with, where it does not begin empty.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Bootstrap {
    /// A backup that the first member begins with. It is brought once, before the cluster has formed; without effect where the
    /// volumes hold data already.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore: Option<Box<RestoreFrom>>,
}

/// Which backup, and where it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestoreFrom {
    /// The EtcdBackup that made it. Either this or `source`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup_name: Option<String>,
    /// Namespace of the EtcdBackup; that of this object when absent. The EtcdBackup of another one must
    /// list this one in `allowedNamespaces`, and only the place of the backup is taken from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup_namespace: Option<String>,
    /// Secret in the namespace of this object with the credentials of the store, and its `ca.crt`, under the keys that an
    /// EtcdBackup wants; instead of those that the EtcdBackup names. For one of another namespace this or `serviceAccountName` is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_secret: Option<String>,
    /// Service account of the Job that brings the backup, instead of that of the EtcdBackup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// Where it is, when there is no EtcdBackup. Either this or `backupName`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<BackupLocation>,
    /// ID of a backup, as `status.backups` of the EtcdBackup lists them. When absent the newest one that did not fail its
    /// verification, or with `target` one that holds what that names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<String>,
    /// As of when. When absent, the newest revision of the backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<RestoreTarget>,
    /// Secret whose values are private keys of age (`AGE-SECRET-KEY-…`), for a backup that is encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_secret: Option<String>,
    /// The hash that etcd itself puts at the end of a snapshot is not compared; a `source.snapshot` may be without one. The
    /// checksums of a backup are compared when it is brought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_hash_check: Option<bool>,
}

/// A moment in the history that a backup holds: each revision since the last compaction before it was made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RestoreTarget {
    /// The newest revision that is brought back; what was written after it is not. As etcd counts them: `etcdctl get --write-out=json`
    /// says the one of now, and `mod_revision` that of a key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<i64>,
}

/// A store, and the cluster whose backups are meant, or a file that something else made. Secrets are read in the namespace of
/// the object that says this.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupLocation {
    /// Which of `s3`, `gcs`, `azure` and `local` says where backups are.
    pub storage_type: StorageType,
    /// S3, and what speaks its protocol.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub s3: Option<S3>,
    /// Google Cloud Storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gcs: Option<Gcs>,
    /// Azure Blob Storage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub azure: Option<Azure>,
    /// A claim in the namespace of this object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<Local>,
    /// Service account of the Job that brings the backup, for stores that know it (workload identity).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// Name that the EtcdCluster had when it was backed up. Either this or `snapshot`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_name: Option<String>,
    /// A snapshot of etcd that something else made. Either this or `clusterName`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<SnapshotFile>,
    /// Namespace that it was in; that of this object when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_namespace: Option<String>,
    /// ID of the etcd cluster, in hexadecimal digits: the directory below its name. Needed where the store has backups of
    /// several clusters of that name.
    #[serde(rename = "clusterID", default, skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
}

/// A snapshot that something else made: by `etcdctl snapshot save`, or the file `member/snap/db` of a member that was stopped. It
/// may be compressed with gzip or zstd and encrypted with age, which is told by its content.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SnapshotFile {
    /// Its name in the store, below `path`.
    pub key: String,
    /// SHA-256 of the file as it is in the store, in hexadecimal digits, as `sha256sum` prints it; not compared when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sha256: Option<String>,
}

impl BackupLocation {
    /// The store, as an EtcdBackup would name it.
    pub fn as_backup(&self) -> EtcdBackupSpec {
        EtcdBackupSpec {
            cluster_name: self.cluster_name.clone().unwrap_or_default(),
            storage_type: self.storage_type,
            s3: self.s3.clone(),
            gcs: self.gcs.clone(),
            azure: self.azure.clone(),
            local: self.local.clone(),
            service_account_name: self.service_account_name.clone(),
            ..EtcdBackupSpec::default()
        }
    }
}

/// Which backup is brought back, and as which EtcdCluster.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "etcd.etcd.io",
    version = "v1alpha1",
    kind = "EtcdRestore",
    plural = "etcdrestores",
    singular = "etcdrestore",
    shortname = "etcdrestore",
    namespaced,
    derive = "Default",
    derive = "PartialEq",
    status = "EtcdRestoreStatus",
    doc = "A backup that is brought back as an EtcdCluster, or takes the place of the data of one. Deleting this object deletes no cluster.",
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}"#,
    printcolumn = r#"{"name": "Backup", "type": "string", "jsonPath": ".spec.backupName"}"#,
    printcolumn = r#"{"name": "Cluster", "type": "string", "jsonPath": ".spec.clusterName"}"#,
    printcolumn = r#"{"name": "Type", "type": "string", "jsonPath": ".spec.restoreType"}"#,
    printcolumn = r#"{"name": "Revision", "type": "integer", "jsonPath": ".status.etcdRevision", "priority": 1}"#,
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct EtcdRestoreSpec {
    /// The EtcdBackup that made the backup. Either this or `source`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup_name: Option<String>,
    /// Namespace of the EtcdBackup; that of this object when absent. The EtcdBackup of another one must
    /// list this one in `allowedNamespaces`, and only the place of the backup is taken from there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup_namespace: Option<String>,
    /// Secret in this namespace with the credentials of the store, and its `ca.crt`, under the keys that an EtcdBackup wants;
    /// instead of those that the EtcdBackup names. For one of another namespace this or `serviceAccountName` is needed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_secret: Option<String>,
    /// Service account of the Job that brings the backup, instead of that of the EtcdBackup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// Where the backup is, when there is no EtcdBackup. Either this or `backupName`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<BackupLocation>,
    /// ID of a backup, as `status.backups` of the EtcdBackup lists them. When absent the newest one that did not fail its
    /// verification, or with `target` one that holds what that names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<String>,
    /// As of when. When absent, the newest revision of the backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<RestoreTarget>,
    /// Name of the EtcdCluster that the backup is brought back as, or whose data it replaces.
    pub cluster_name: String,
    /// Its spec. When absent, that of the EtcdCluster that was backed up, if that still exists in this namespace, but without
    /// `access`, and with the default size where that is 0; otherwise all defaults.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_template: Option<EtcdClusterSpec>,
    /// What becomes of an EtcdCluster of that name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore_type: Option<RestoreType>,
    /// With `restoreType: Replace`: ID of the etcd cluster whose data makes way, as `status.clusterID` of the EtcdCluster has it.
    /// Nothing is done before it is written, and it is written once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub replaces: Option<String>,
    /// Secret whose values are private keys of age (`AGE-SECRET-KEY-…`), for a backup that is encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_secret: Option<String>,
    /// Only the directory that members have anyway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_dir: Option<String>,
    /// Only the directory that members have anyway.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub wal_dir: Option<String>,
    /// The hash that etcd itself puts at the end of a snapshot is not compared; a `source.snapshot` may be without one. The
    /// checksums of a backup are compared when it is brought.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub skip_hash_check: Option<bool>,
}

/// What becomes of an EtcdCluster of that name. `New`, the default, makes another EtcdCluster, and touches none that exists.
/// `Replace` gives an existing one the data of the backup, once `replaces` names the data that makes way.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum RestoreType {
    /// Make another EtcdCluster.
    #[default]
    New,
    /// Give an existing one the data of the backup.
    Replace,
}

/// What became of an `EtcdRestore`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdRestoreStatus {
    /// One word for people; programs read the condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<RestorePhase>,
    /// `Ready`: the cluster serves, with the data of the backup.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// When it was begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When the cluster served for the first time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// Name of the EtcdCluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored_cluster: Option<String>,
    /// Bytes of the snapshot that it began with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restored_size: Option<i64>,
    /// ID of the backup; the key of a file that something else made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup: Option<String>,
    /// Revision of etcd that was brought back: the newest that the backup holds, or the one that `target` names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd_revision: Option<i64>,
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// UID of the EtcdCluster that was made; written once it is known to have been made by this object.
    #[serde(
        rename = "clusterUID",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub cluster_uid: Option<String>,
}

/// One word for what a restore is doing.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum RestorePhase {
    /// The cluster is being made, or something is waited for.
    Running,
    /// The cluster serves, with the data of the backup.
    Completed,
    /// It cannot be carried out; the condition says what to change.
    Failed,
}

/// What a cluster began with, for people: `status.restored` of an EtcdCluster.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Restored {
    /// ID of the backup; the key of a file that something else made.
    pub backup: String,
    /// Revision of etcd that was brought back: the newest that it holds, or the one that `target` names.
    pub revision: i64,
    /// When it was complete; when a file that something else made was last written.
    pub time: Time,
    /// Bytes of its snapshot.
    pub bytes: i64,
    /// Where it is.
    pub url: String,
    /// Leases that ended between the revision that `target` names and the backup, and on which keys hang.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leases: Option<RemadeLeases>,
}

/// Leases that were made again because the backup does not have them any more, nor their time to live.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RemadeLeases {
    /// How many.
    pub count: i64,
    /// Time to live that each was given, in seconds.
    pub ttl_seconds: i64,
    /// IDs of the first ten, in hexadecimal digits, as etcdctl takes them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub some: Vec<String>,
}

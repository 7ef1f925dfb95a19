//! `EtcdBackup`: backups of a cluster in an object store or on a claim, once or by a schedule.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Where backups of a cluster go, when they are made, and which of them are kept.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "etcd.etcd.io",
    version = "v1alpha1",
    kind = "EtcdBackup",
    plural = "etcdbackups",
    singular = "etcdbackup",
    shortname = "etcdbackup",
    namespaced,
    derive = "Default",
    derive = "PartialEq",
    status = "EtcdBackupStatus",
    doc = "Backups of an EtcdCluster: one, or one after the other by a schedule. Deleting this object deletes no backup.",
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}"#,
    printcolumn = r#"{"name": "Cluster", "type": "string", "jsonPath": ".spec.clusterName"}"#,
    printcolumn = r#"{"name": "Storage", "type": "string", "jsonPath": ".spec.storageType"}"#,
    printcolumn = r#"{"name": "Size", "type": "string", "jsonPath": ".status.backupSize"}"#,
    printcolumn = r#"{"name": "Last", "type": "date", "jsonPath": ".status.completionTime", "priority": 1}"#,
    printcolumn = r#"{"name": "Revision", "type": "integer", "jsonPath": ".status.etcdRevision", "priority": 1}"#,
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct EtcdBackupSpec {
    /// The EtcdCluster that is backed up. Cannot be changed.
    pub cluster_name: String,
    /// Namespace of the EtcdCluster; that of this object when absent, and no other is possible in this release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cluster_namespace: Option<String>,
    /// Which of `s3`, `gcs`, `azure` and `local` says where backups go.
    pub storage_type: StorageType,
    /// When backups are made, in the five fields of cron, such as `0 2 * * *`. Absent: one, now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// Time zone of the schedule, such as `Europe/Berlin`; UTC when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// No backup is begun while this is true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suspend: Option<bool>,
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
    /// Which backups are kept; all of them when absent. The newest one always is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention_policy: Option<RetentionPolicy>,
    /// Backups are compressed with zstd, unless this is false.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub compression: Option<bool>,
    /// Backups are encrypted before they leave the Job that makes them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption: Option<Encryption>,
    /// Service account of the Jobs, for stores that know it (workload identity). No token of the Kubernetes API is mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// An EtcdUser with `certificate: true` and the role `root`, whose certificate the Jobs show. Needed where the cluster
    /// has `security.auth.enabled`, because etcd gives a snapshot only to root.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd_user: Option<String>,
    /// Namespaces in which an EtcdRestore or EtcdCluster may use this object to find its backups. They bring credentials of their
    /// own; no Secret of this namespace is read for them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub allowed_namespaces: Vec<String>,
}

/// Where backups go.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum StorageType {
    /// `spec.s3`.
    #[default]
    S3,
    /// `spec.gcs`.
    #[serde(rename = "GCS")]
    Gcs,
    /// `spec.azure`.
    Azure,
    /// `spec.local`.
    Local,
}

/// A bucket of S3, or of a store that speaks its protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct S3 {
    /// Name of the bucket.
    pub bucket: String,
    /// Region of the bucket; `us-east-1` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// URL of a store other than that of AWS. One that begins with `http://` needs `allowHTTP: true`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Secret whose key `access-key` or `AWS_ACCESS_KEY_ID` is the ID of the access key. Without it and `secretKeySecret`
    /// the service account of the Jobs must be known to the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access_key_secret: Option<String>,
    /// Secret whose key `secret-key` or `AWS_SECRET_ACCESS_KEY` is the secret access key; may be the same Secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret_key_secret: Option<String>,
    /// Secret whose key `ca.crt` has the certificate authorities of the endpoint, where they are not public ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_secret: Option<String>,
    /// Prefix of every name in the bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// The bucket is in the path of a URL and not in its host name; true when absent and `endpoint` is there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path_style: Option<bool>,
    /// An endpoint without TLS is wanted.
    #[serde(rename = "allowHTTP", default, skip_serializing_if = "Option::is_none")]
    pub allow_http: Option<bool>,
    /// `SHA256`: every object is sent with its checksum, which buckets with object lock demand.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub checksum: Option<Checksum>,
}

/// Which checksum is sent.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Checksum {
    /// SHA-256.
    #[serde(rename = "SHA256")]
    Sha256,
}

/// A bucket of Google Cloud Storage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Gcs {
    /// Name of the bucket.
    pub bucket: String,
    /// Prefix of every name in the bucket.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Secret whose key `service-account.json` is the key of a service account. Without it the service account of the Jobs
    /// must be known to the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_secret: Option<String>,
}

/// A container of Azure Blob Storage.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Azure {
    /// Name of the storage account.
    pub account: String,
    /// Name of the container.
    pub container: String,
    /// Prefix of every name in the container.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Secret whose key `account-key` is the key of the account. Without it the service account of the Jobs must be known to
    /// the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credentials_secret: Option<String>,
}

/// A claim.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Local {
    /// Name of the PersistentVolumeClaim.
    pub claim_name: String,
    /// Directory below which everything is written.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
}

/// Which backups are kept: what any of these keeps. The newest one, and the newest that was verified, always are. Only backups
/// of this object are deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RetentionPolicy {
    /// So many of the newest; 0 or absent: no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_backups: Option<i32>,
    /// All that are younger: a number and one of `s`, `m`, `h`, `d`, `w`, such as `30d`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_age: Option<String>,
    /// Beyond these, some of the older ones.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<Keep>,
}

/// Some of the older backups: the newest of each day, week or month, of UTC.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Keep {
    /// Of so many days.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub daily: Option<i32>,
    /// Of so many weeks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weekly: Option<i32>,
    /// Of so many months.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub monthly: Option<i32>,
}

/// Encryption with age.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Encryption {
    /// Public keys (`age1…`). Each of the private keys that belong to them decrypts a backup; none is needed to make one.
    pub recipients: Vec<String>,
}

/// What became of an `EtcdBackup`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdBackupStatus {
    /// One word for people; programs read the condition.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<BackupPhase>,
    /// `Ready`: the last backup that was due was stored, or the first one is not due yet, and nothing has failed or waited
    /// since.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Bytes of the newest backup in the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup_size: Option<i64>,
    /// When the newest attempt began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub start_time: Option<Time>,
    /// When the newest backup was complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completion_time: Option<Time>,
    /// Where the newest backup is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_path: Option<String>,
    /// Release of etcd that the newest backup is from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd_version: Option<String>,
    /// Revision of etcd that the newest backup holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd_revision: Option<i64>,
    /// When the next backup is due.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next_backup_time: Option<Time>,
    /// The newest ten backups of this cluster in the store, newest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backups: Vec<BackupEntry>,
    /// Attempts that failed since the last backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failures: Option<i32>,
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// What the operator remembers; not for people to write, and of no use to programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory: Option<BackupMemory>,
}

/// One word for what a backup is doing.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum BackupPhase {
    /// A backup is being made, or is due and waits for something.
    Running,
    /// The one backup that was asked for is in the store.
    Completed,
    /// The last attempt failed; it is tried again.
    Failed,
    /// The next backup is not due yet.
    Scheduled,
    /// `suspend` is true.
    Suspended,
}

/// A backup in the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupEntry {
    /// Its ID.
    pub id: String,
    /// When it was complete.
    pub time: Time,
    /// Revision of etcd that it holds.
    pub revision: i64,
    /// Bytes in the store.
    pub bytes: i64,
}

/// What the operator remembers of an EtcdBackup. Wiped, the same backups are due again, under the same IDs, and found in the
/// store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupMemory {
    /// UID of the object that this is the memory of.
    #[serde(rename = "objectUID", default)]
    pub object_uid: String,
    /// ID of the backup that is being made; written before its Job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub run: Option<BackupRun>,
    /// ID of the last backup that is in the store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub done: Option<String>,
    /// The newest time of the schedule that was seen to, in the store or given up for a later one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled: Option<Time>,
    /// Value of the annotation `etcd.etcd.io/backup-now` that was seen to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
}

/// A backup that is being made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupRun {
    /// Its ID.
    pub id: String,
    /// Why it is made.
    pub why: BackupCause,
    /// How many attempts failed.
    #[serde(default)]
    pub attempt: i32,
    /// When the last one failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed_at: Option<Time>,
    /// What it said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
}

/// Why a backup is made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupCause {
    /// The time of the schedule.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled: Option<Time>,
    /// The value of the annotation `etcd.etcd.io/backup-now`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub asked: Option<String>,
}

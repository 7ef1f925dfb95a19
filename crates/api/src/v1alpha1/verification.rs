//! Verification of backups: what an `EtcdBackup` asks for, and what came of it.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Quantity;

/// When backups are tried, and with what.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Verification {
    /// When the newest backup is tried, in the five fields of cron and in `spec.timeZone`. Absent: after each backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedule: Option<String>,
    /// Secret whose values are private keys of age (`AGE-SECRET-KEY-…`), for backups that are encrypted. Without it they are not
    /// restored: only the checksums of what is in the store are compared (`ChecksumOnly`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub identity_secret: Option<String>,
    /// Most that the scratch volume of the Job (an `emptyDir`) may hold. When absent three times the snapshot, and 1Gi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scratch_size: Option<Quantity>,
    /// Memory limit of the Job. When absent half of the snapshot, and 512Mi.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_limit: Option<Quantity>,
}

/// A backup that was found good.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LastVerified {
    /// Its ID.
    pub id: String,
    /// When it was tried.
    pub time: Time,
    /// When the backup was complete, if that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backup_time: Option<Time>,
    /// Revision of etcd that it holds.
    pub revision: i64,
    /// What was compared.
    pub compared: Compared,
}

/// What was compared.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Compared {
    /// etcd runs on it, and its hash of all keys and revisions (`HashKV`) is the one that the member told when the backup was
    /// made.
    #[serde(rename = "HashKV")]
    HashKv,
    /// etcd runs on it, and has its revision. The member had told no hash: one that is alone, or leads, is not asked while it
    /// serves.
    Revision,
    /// The bytes in the store are those that were written. No etcd ran on them, because they are encrypted and no identity was
    /// given.
    ChecksumOnly,
}

/// The newest backup in the store.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NewestBackup {
    /// Its ID.
    pub id: String,
    /// ID of the etcd cluster that it is of, in hexadecimal digits.
    #[serde(rename = "clusterID")]
    pub cluster_id: String,
    /// When it was complete.
    pub time: Time,
    /// Bytes of the snapshot.
    pub raw_bytes: i64,
}

/// A verification that is under way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VerifyRun {
    /// Its ID.
    pub id: String,
    /// ID of the backup that is tried.
    pub backup: String,
    /// The time of the schedule; absent where it follows a backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scheduled: Option<Time>,
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

/// A backup that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupDamage {
    /// Its ID.
    pub id: String,
    /// When that was found.
    pub time: Time,
    /// What is wrong with it.
    pub message: String,
}

//! The part of the spec that is about etcd itself. Field docs are for users, as in [`super::cluster`].

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Quantity;

/// Settings of etcd. A change restarts the members one at a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Etcd {
    /// Database size at which etcd stops accepting writes. Two fifths of the volume when absent, at most 8 GiB:
    /// defragmentation and an incoming snapshot each need space for a second copy of the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_backend_bytes: Option<Quantity>,
    /// Automatic compaction by etcd; revisions older than one hour when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_compaction: Option<AutoCompaction>,
    /// Interval of the leader's heartbeats; 100 when absent. About the round-trip time between members. Set it together
    /// with `electionTimeoutMilliseconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat_interval_milliseconds: Option<i32>,
    /// Time without a heartbeat after which a follower starts an election; 1000 when absent. At least five times the
    /// heartbeat interval, at most 50000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub election_timeout_milliseconds: Option<i32>,
    /// Number of applied entries after which etcd writes a snapshot; the default of etcd when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_count: Option<i64>,
    /// Log level of etcd; `info` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_level: Option<LogLevel>,
    /// Largest request that a client may send; 1536Ki when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_request_bytes: Option<Quantity>,
    /// Any other flag of etcd by its name, without dashes in front. What the operator sets itself is refused, and so
    /// is what has a field of its own. Whether etcd knows the flag shows when a member starts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub flags: BTreeMap<String, String>,
}

/// Automatic compaction by etcd.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutoCompaction {
    /// `Periodic` keeps revisions younger than `retention`, `Revision` keeps the last `retention` revisions.
    #[serde(default)]
    pub mode: CompactionMode,
    /// A duration such as `1h` or `30m`, or a number of revisions; `1h` when absent, required with `Revision`.
    /// `0` disables automatic compaction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<String>,
}

/// Unit of `retention`.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum CompactionMode {
    /// Time.
    #[default]
    Periodic,
    /// Revisions.
    Revision,
}

/// Log level of etcd; `info` when absent.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Everything.
    Debug,
    /// Normal operation.
    Info,
    /// Warnings.
    Warn,
    /// Errors.
    Error,
    /// Panics.
    Panic,
    /// Fatal errors.
    Fatal,
}

impl LogLevel {
    /// As etcd spells it.
    pub fn as_flag(self) -> &'static str {
        match self {
            Self::Debug => "debug",
            Self::Info => "info",
            Self::Warn => "warn",
            Self::Error => "error",
            Self::Panic => "panic",
            Self::Fatal => "fatal",
        }
    }
}

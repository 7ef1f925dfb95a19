//! The part of the spec that is about etcd itself. Field docs are for users, as in [`super::cluster`].

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Quantity;

/// Settings of etcd. A change restarts the members one after another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Etcd {
    /// How large the database may become before etcd refuses writes. Without it two fifths of the volume, at most
    /// 8 GiB: a defragmentation and an incoming snapshot each need a second copy beside the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota_backend_bytes: Option<Quantity>,
    /// How old revisions are forgotten; what is older than an hour when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auto_compaction: Option<AutoCompaction>,
    /// How often a leader says that it lives; 100 in etcd. About the time a message takes between members. Goes
    /// together with `electionTimeoutMilliseconds`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heartbeat_interval_milliseconds: Option<i32>,
    /// How long a follower waits for a leader before it stands for election; 1000 in etcd. At least five times the
    /// heartbeat, at most 50000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub election_timeout_milliseconds: Option<i32>,
    /// Entries after which a snapshot of the log is written; etcd's own when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot_count: Option<i64>,
    /// How much etcd logs; `info` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub log_level: Option<LogLevel>,
    /// Largest request of a client, 1536Ki in etcd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_request_bytes: Option<Quantity>,
    /// Any other flag of etcd by its name, without dashes in front. What the operator sets itself is refused, and so
    /// is what has a field of its own. Whether etcd knows the flag shows when a member starts.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub flags: BTreeMap<String, String>,
}

/// How old revisions are forgotten.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AutoCompaction {
    /// `Periodic` keeps what is younger than `retention`, `Revision` keeps the last `retention` revisions.
    #[serde(default)]
    pub mode: CompactionMode,
    /// A duration such as `1h` or `30m`, or a number of revisions; `1h` when absent, and needed with `Revision`.
    /// `0` turns compaction off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retention: Option<String>,
}

/// What `retention` counts.
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

/// How much etcd logs; `info` when absent.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum LogLevel {
    /// Everything.
    Debug,
    /// What happens.
    Info,
    /// What should not happen.
    Warn,
    /// What went wrong.
    Error,
    /// What ends in a panic.
    Panic,
    /// What ends the process.
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

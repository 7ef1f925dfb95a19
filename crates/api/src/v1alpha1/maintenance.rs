//! The part of the spec that is about defragmentation and compaction. Field docs are for users, as in
//! [`super::cluster`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Defragmentation and compaction by the operator. A database at its quota is always defragmented and its NOSPACE alarm
/// disarmed, because etcd accepts no writes until then.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Maintenance {
    /// `Auto` defragments a member whose database file has at least 100 MiB and is less than half used, one member at a
    /// time and the leader last; `Never` does not.
    #[serde(default)]
    pub defragment: Defragment,
    /// When a defragmentation may start; at any time when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    /// `Auto` compacts the revisions of a database that uses 90 % of its quota, down to `keepRevisions`. With `Never` the
    /// operator compacts nothing: once the quota is reached, etcd accepts no writes until space is freed manually.
    #[serde(default)]
    pub compact: Compact,
    /// Number of latest revisions that the operator keeps when it compacts to free space; 1000 when absent. Does not
    /// affect `spec.etcd.autoCompaction`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_revisions: Option<i64>,
}

/// Whether the operator compacts a database that is nearly full.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Compact {
    /// It does.
    #[default]
    Auto,
    /// It does not.
    Never,
}

/// Whether the operator defragments.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Defragment {
    /// It does.
    #[default]
    Auto,
    /// It does not.
    Never,
}

/// A daily time window, in UTC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Window {
    /// Start of the window, such as `02:00`, in UTC.
    pub start: String,
    /// Length in hours, from 1 to 24; the window may extend past midnight.
    pub hours: i32,
}

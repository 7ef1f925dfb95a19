//! The part of the spec that is about keeping the database in shape. Field docs are for users, as in
//! [`super::cluster`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How the database is kept in shape. A database at its quota is defragmented and its alarm disarmed whatever is written
/// here: without it etcd takes no writes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Maintenance {
    /// `Auto` defragments a member whose file is at least 100 MiB of which less than half is used, one member at a time
    /// and the leader last; `Never` leaves that to somebody else.
    #[serde(default)]
    pub defragment: Defragment,
    /// When that may begin; at any time when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<Window>,
    /// `Auto` compacts the history of a database that has used 90 % of its quota, down to `keepRevisions`; `Never` lets
    /// the operator compact nothing: etcd takes no writes once the quota is reached, until room is made by hand.
    #[serde(default)]
    pub compact: Compact,
    /// How many of the latest revisions are kept when history is compacted to make room; 1000 when absent. Without
    /// influence on `spec.etcd.autoCompaction`, which etcd does by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep_revisions: Option<i64>,
}

/// Who compacts the history of a database that is nearly full.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Compact {
    /// The operator.
    #[default]
    Auto,
    /// Not the operator.
    Never,
}

/// Who defragments.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Defragment {
    /// The operator.
    #[default]
    Auto,
    /// Somebody else.
    Never,
}

/// Some hours of every day, in UTC.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Window {
    /// When it begins, such as `02:00`, in UTC.
    pub start: String,
    /// How many hours it lasts, from 1 to 24; it may go past midnight.
    pub hours: i32,
}

//! What a member said of the rows up to a revision: a restore to that revision or a later one is compared with it.

use serde::{Deserialize, Serialize};

use crate::manifest::HashKv;
use crate::work::Timeline;

/// `seal/<revision>.json`, as [`crate::manifest::seal`] writes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct SealRecord {
    /// ID of the etcd cluster, in hexadecimal digits.
    pub cluster_id: String,
    /// Its object, and how often its data had started over.
    pub timeline: Timeline,
    /// What the member said.
    pub hash_kv: HashKv,
    /// Which member, in hexadecimal digits.
    pub member: String,
    /// When it was asked.
    pub time: jiff::Timestamp,
}

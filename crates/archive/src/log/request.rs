//! What a keeper that captures is told, as JSON in its environment ([`crate::work::REQUEST`]). As in every request there is no secret in it.

use serde::{Deserialize, Serialize};

use crate::work::{MadeBy, Member, Place, Store, Timeline};

/// Directory in which segments wait for the store.
pub const SPOOL: &str = "/var/lib/etcd-keeper/spool";

/// Capture every change of a cluster into a store, until the process is asked to end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Request {
    /// Where backups are.
    pub store: Store,
    /// Which data.
    pub place: Place,
    /// What the timeline is of.
    pub timeline: Timeline,
    /// The members that may be asked. A follower is preferred.
    pub members: Vec<Member>,
    /// zstd; otherwise as it is.
    pub compress: bool,
    /// Public keys of age; none: not encrypted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub recipients: Vec<String>,
    /// The object that asks. Bases that capture needs are made in this name.
    pub made_by: MadeBy,
    /// An object is written so often, where something was written to etcd meanwhile.
    pub interval_milliseconds: u64,
    /// So many bytes may wait for the store.
    pub spool_bytes: u64,
    /// A follower is asked for its hash so often.
    pub seal_seconds: u64,
}

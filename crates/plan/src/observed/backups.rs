//! What EtcdBackups and their Jobs say of a cluster.

use std::collections::BTreeSet;

use jiff::Timestamp;

/// What is known of backups.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Backups {
    /// Members that a keeper reads at this moment, by ordinal. A defragmentation would stall them until it has ended.
    pub read: BTreeSet<u32>,
    /// When the newest one was complete, of those that did not fail their verification.
    pub newest: Option<Timestamp>,
    /// When those were complete that did.
    pub damaged: BTreeSet<Timestamp>,
}

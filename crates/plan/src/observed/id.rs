//! IDs of clusters and members, as etcd and our status write them.

use super::Observed;

/// An ID as etcd and our status write it.
pub fn format_id(id: u64) -> String {
    format!("{id:x}")
}

/// Reads an ID back.
pub fn parse_id(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

impl Observed {
    /// Object and incarnation are in the token, and through it in every ID.
    pub(crate) fn token(&self) -> String {
        format!("{}-{}", self.cluster.uid, self.cluster.latched.incarnation)
    }
}

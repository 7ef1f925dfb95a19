//! IDs of clusters and members, as etcd and our status write them.

/// An ID as etcd and our status write it.
pub fn format_id(id: u64) -> String {
    format!("{id:x}")
}

/// Reads an ID back.
pub fn parse_id(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

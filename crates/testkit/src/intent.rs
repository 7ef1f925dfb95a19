//! Specs that make sense, short to write.

use api::{ClusterIntent, EtcdClusterSpec, EtcdVersion};

/// A spec of so many members on a line of etcd (5, 6 or 7), with every default.
pub fn intent(size: u32, minor: u8) -> ClusterIntent {
    let defaults = ClusterIntent::parse(&EtcdClusterSpec::default());
    let Ok(defaults) = defaults else {
        unreachable!("an empty spec has every default")
    };
    ClusterIntent {
        size,
        version: newest(minor),
        ..defaults
    }
}

/// The newest release of a line.
pub fn newest(minor: u8) -> EtcdVersion {
    EtcdVersion::newest(minor).unwrap_or(EtcdVersion::DEFAULT)
}

//! Specs that make sense, short to write.

use std::sync::LazyLock;

use api::{ClusterIntent, EtcdClusterSpec, EtcdVersion};

/// Parsed once: worlds and scenes ask for it millions of times.
static DEFAULTS: LazyLock<ClusterIntent> = LazyLock::new(|| {
    let Ok(defaults) = ClusterIntent::parse(&EtcdClusterSpec::default()) else {
        unreachable!("an empty spec has every default")
    };
    defaults
});

/// A spec of so many members on a minor version of etcd (5, 6 or 7), with every default.
pub fn intent(size: u32, minor: u8) -> ClusterIntent {
    ClusterIntent {
        size,
        version: newest(minor),
        ..DEFAULTS.clone()
    }
}

/// The newest release of a minor version.
pub fn newest(minor: u8) -> EtcdVersion {
    EtcdVersion::newest(minor).unwrap_or(EtcdVersion::DEFAULT)
}

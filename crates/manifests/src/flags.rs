//! etcd's command line. What depends on the moment of a start (`--initial-cluster*`) is added by the
//! agent; everything here is the same for every start.

use api::{ClusterIntent, names};

use crate::Owner;

/// Where the volume is mounted; etcd's own directory is below it.
pub(crate) const VOLUME: &str = "/var/lib/etcd";
/// Learners that may catch up at once (3.6 and later); equal on all members, and enough for 1 → 9.
const MAX_LEARNERS: u32 = 8;

/// The binary and its flags. `$(POD_NAME)` is expanded by the kubelet.
pub(crate) fn build(owner: &Owner, intent: &ClusterIntent) -> Vec<String> {
    let host = format!(
        "$(POD_NAME).{}.{}.svc",
        names::peer_service(&owner.name),
        owner.namespace
    );
    let (client, peer) = (names::CLIENT_PORT, names::PEER_PORT);
    let mut command = vec![
        intent.image.flavour.layout().binary.to_owned(),
        "--name=$(POD_NAME)".to_owned(),
        format!("--data-dir={VOLUME}/data"),
        // `[::]` takes IPv4 as well, on single-stack and dual-stack clusters alike.
        format!("--listen-client-urls=http://[::]:{client}"),
        format!("--advertise-client-urls=http://{host}:{client}"),
        format!("--listen-peer-urls=http://[::]:{peer}"),
        format!("--initial-advertise-peer-urls=http://{host}:{peer}"),
        format!("--listen-metrics-urls=http://[::]:{}", names::METRICS_PORT),
        format!("--quota-backend-bytes={}", intent.quota()),
        "--auto-compaction-mode=periodic".to_owned(),
        "--auto-compaction-retention=1h".to_owned(),
        "--strict-reconfig-check=true".to_owned(),
        "--logger=zap".to_owned(),
    ];
    // Corruption is looked for at compactions. The check at start is left off: it asks every peer first, and members
    // that start at the same time wait up to 7 s for each other, each for each: 49 s for five of them.
    if intent.version.allows_many_learners() {
        command.push(format!("--max-learners={MAX_LEARNERS}"));
        command.push("--feature-gates=CompactHashCheck=true".to_owned());
    } else {
        command.push("--experimental-compact-hash-check-enabled=true".to_owned());
    }
    command
}

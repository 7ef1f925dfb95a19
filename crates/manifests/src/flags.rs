//! etcd's command line. What depends on the moment of a start (`--initial-cluster*`) is added by the
//! agent; everything here is the same for every start.

use api::v1alpha1::etcd::{AutoCompaction, CompactionMode};
use api::{ClusterIntent, Plane, Quantity, names};

use crate::{Owner, tls};

/// Where the volume is mounted; etcd's own directory is below it.
pub(crate) const VOLUME: &str = "/var/lib/etcd";
/// Learners that may catch up at once (3.6 and later); equal on all members, and enough for 1 → 9.
const MAX_LEARNERS: u32 = 8;
const FEATURE_GATES: &str = "feature-gates";
const CORRUPTION_CHECK: &str = "CompactHashCheck";

/// The binary and its flags. `$(POD_NAME)` is expanded by the kubelet.
pub(crate) fn build(owner: &Owner, intent: &ClusterIntent) -> Vec<String> {
    let host = format!(
        "$(POD_NAME).{}.{}.svc",
        names::peer_service(&owner.name),
        owner.namespace
    );
    let (client, peer) = (names::CLIENT_PORT, names::PEER_PORT);
    let transport = intent.tls.transport;
    let (to_clients, to_peers) = (transport.client.scheme(), transport.peer.scheme());
    // etcd tells the schemes apart where both URLs name one port.
    let served = transport.client.served().iter();
    let served: Vec<String> = served.map(|of| format!("{of}://[::]:{client}")).collect();
    let mut command = vec![
        intent.image.flavour.layout().binary.to_owned(),
        "--name=$(POD_NAME)".to_owned(),
        format!("--data-dir={VOLUME}/data"),
        // `[::]` takes IPv4 as well, on single-stack and dual-stack clusters alike.
        format!("--listen-client-urls={}", served.join(",")),
        format!("--advertise-client-urls={to_clients}://{host}:{client}"),
        format!("--listen-peer-urls={to_peers}://[::]:{peer}"),
        format!("--initial-advertise-peer-urls={to_peers}://{host}:{peer}"),
        metrics(transport.client),
        format!("--quota-backend-bytes={}", intent.quota()),
    ];
    command.extend(tls::build(owner, intent));
    command.extend(compaction(intent.etcd.auto_compaction.as_ref()));
    command.push("--strict-reconfig-check=true".to_owned());
    command.push("--logger=zap".to_owned());
    command.extend(settings(intent));
    // Corruption is looked for at compactions. The check at start is left off: it asks every peer first, and members
    // that start at the same time wait up to 7 s for each other, each for each: 49 s for five of them.
    if intent.version.allows_many_learners() {
        command.push(format!("--max-learners={MAX_LEARNERS}"));
        command.push(format!("--{FEATURE_GATES}={}", feature_gates(intent)));
    } else if intent.version.compares_hashes_at_compactions() {
        command.push("--experimental-compact-hash-check-enabled=true".to_owned());
    }
    // The last word on a flag counts, so what a user adds comes last.
    let others = intent.etcd.flags.iter();
    let others = others.filter(|(name, _)| name.as_str() != FEATURE_GATES);
    command.extend(others.map(|(name, value)| format!("--{name}={value}")));
    command
}

/// Plain for the kubelet and for Prometheus; where clients use TLS, a second port proves who answers.
fn metrics(client: Plane) -> String {
    let plain = format!("http://[::]:{}", names::METRICS_PORT);
    match client {
        Plane::Plain => format!("--listen-metrics-urls={plain}"),
        Plane::Both | Plane::Tls => {
            let secure = names::SECURE_PORT;
            format!("--listen-metrics-urls={plain},https://[::]:{secure}")
        }
    }
}

fn compaction(written: Option<&AutoCompaction>) -> [String; 2] {
    let AutoCompaction { mode, retention } = written.cloned().unwrap_or_default();
    let mode = match mode {
        CompactionMode::Periodic => "periodic",
        CompactionMode::Revision => "revision",
    };
    let retention = retention.unwrap_or_else(|| "1h".to_owned());
    [
        format!("--auto-compaction-mode={mode}"),
        format!("--auto-compaction-retention={retention}"),
    ]
}

/// What is left to etcd unless something is said.
fn settings(intent: &ClusterIntent) -> Vec<String> {
    let etcd = &intent.etcd;
    let number = |number: i32| number.to_string();
    let settings = [
        (
            "heartbeat-interval",
            etcd.heartbeat_interval_milliseconds.map(number),
        ),
        (
            "election-timeout",
            etcd.election_timeout_milliseconds.map(number),
        ),
        (
            "snapshot-count",
            etcd.snapshot_count.map(|count| count.to_string()),
        ),
        (
            "log-level",
            etcd.log_level.map(|level| level.as_flag().to_owned()),
        ),
        (
            "max-request-bytes",
            etcd.max_request_bytes
                .as_ref()
                .and_then(Quantity::value)
                .map(|bytes| bytes.to_string()),
        ),
    ];
    let said = settings.into_iter();
    said.filter_map(|(name, value)| Some(format!("--{name}={}", value?)))
        .collect()
}

/// Ours and theirs in one flag, because a second one would replace the first. What they say about ours counts.
fn feature_gates(intent: &ClusterIntent) -> String {
    let ours = format!("{CORRUPTION_CHECK}=true");
    match intent.etcd.flags.get(FEATURE_GATES) {
        None => ours,
        Some(theirs) if theirs.contains(CORRUPTION_CHECK) => theirs.clone(),
        Some(theirs) => format!("{ours},{theirs}"),
    }
}

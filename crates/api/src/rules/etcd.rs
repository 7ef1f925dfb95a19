//! Settings of etcd. Flags that have a field, or that are reserved for the operator, are rejected by name.

use super::{CelRule, QUANTITY, QUANTITY_MESSAGE, always};

const ETCD: &[&str] = &["spec", "etcd"];
const FLAGS: &[&str] = &["spec", "etcd", "flags"];

/// A flag that has a field of its own.
macro_rules! has_field {
    ($flag:literal, $field:literal) => {
        always(
            FLAGS,
            concat!("!('", $flag, "' in self)"),
            concat!(
                "the flag ",
                $flag,
                " has a field of its own: write spec.etcd.",
                $field
            ),
        )
    };
}

/// Flags that are reserved for the operator. The API server does not report which one it found, so each rule is about a few.
macro_rules! is_ours {
    ($test:literal, $why:literal) => {
        always(FLAGS, concat!("!self.exists(flag, ", $test, ")"), $why)
    };
}

pub(super) const RULES: &[CelRule] = &[
    always(
        &["spec", "etcd", "quotaBackendBytes"],
        QUANTITY,
        QUANTITY_MESSAGE,
    ),
    always(
        &["spec"],
        "!self.?etcd.?quotaBackendBytes.hasValue() || !isQuantity(string(self.etcd.quotaBackendBytes)) || quantity(string(self.etcd.quotaBackendBytes)).compareTo(quantity('16Mi')) >= 0",
        "too small for a database: write at least 16Mi, or leave it out",
    )
    .at(".etcd.quotaBackendBytes"),
    always(
        &["spec"],
        concat!(
            "!self.?etcd.?quotaBackendBytes.hasValue() || !isQuantity(string(self.etcd.quotaBackendBytes)) || [",
            super::storage::size!("self"),
            "].all(size, quantity(string(self.etcd.quotaBackendBytes)).compareTo(sign(size) == 0 ? quantity('10Gi') : size) <= 0)"
        ),
        "larger than the volume: write at most the size of the volume, preferably two fifths of it, or increase spec.storage.size as well",
    )
    .at(".etcd.quotaBackendBytes"),
    always(
        &["spec", "etcd", "maxRequestBytes"],
        QUANTITY,
        QUANTITY_MESSAGE,
    ),
    always(
        &["spec", "etcd", "maxRequestBytes"],
        "!isQuantity(string(self)) || (quantity(string(self)).compareTo(quantity('1Ki')) >= 0 && quantity(string(self)).compareTo(quantity('1Gi')) <= 0)",
        "out of range: write between 1Ki and 1Gi; etcd is made for values up to 10Mi",
    ),
    always(
        &["spec", "etcd", "autoCompaction"],
        "!has(self.retention) || (self.mode == 'Revision' ? self.retention.matches('^[0-9]+$') : self.retention.matches('^([0-9]+|([0-9]+([.][0-9]+)?(h|m|s|ms))+)$'))",
        "retention does not fit the mode: write a duration such as 1h or 30m with Periodic, a number such as 1000 with Revision",
    ),
    always(
        &["spec", "etcd", "autoCompaction"],
        "self.mode != 'Revision' || has(self.retention)",
        "the mode Revision needs a retention: write how many revisions to keep, such as 1000",
    ),
    always(
        ETCD,
        "has(self.heartbeatIntervalMilliseconds) == has(self.electionTimeoutMilliseconds)",
        "heartbeatIntervalMilliseconds and electionTimeoutMilliseconds depend on each other: write both, or neither",
    ),
    always(
        ETCD,
        "!has(self.heartbeatIntervalMilliseconds) || !has(self.electionTimeoutMilliseconds) || (self.heartbeatIntervalMilliseconds >= 1 && self.heartbeatIntervalMilliseconds <= 10000 && self.electionTimeoutMilliseconds >= 5 * self.heartbeatIntervalMilliseconds && self.electionTimeoutMilliseconds <= 50000)",
        "electionTimeoutMilliseconds must be at least five times heartbeatIntervalMilliseconds (at least 1), and at most 50000: write, for instance, 100 and 1000",
    ),
    always(
        &["spec", "etcd", "snapshotCount"],
        "self >= 1",
        "write a number of entries, such as 10000",
    ),
    always(
        FLAGS,
        "self.all(flag, flag.matches('^[a-z0-9][-a-z0-9]*$'))",
        "not the name of a flag: write it without dashes in front, such as max-txn-ops",
    ),
    has_field!("quota-backend-bytes", "quotaBackendBytes"),
    has_field!("auto-compaction-mode", "autoCompaction.mode"),
    has_field!("auto-compaction-retention", "autoCompaction.retention"),
    has_field!("heartbeat-interval", "heartbeatIntervalMilliseconds"),
    has_field!("election-timeout", "electionTimeoutMilliseconds"),
    has_field!("snapshot-count", "snapshotCount"),
    has_field!("log-level", "logLevel"),
    has_field!("max-request-bytes", "maxRequestBytes"),
    is_ours!(
        "flag in ['name', 'data-dir', 'wal-dir', 'config-file', 'version', 'help', 'h']",
        "name, data-dir, wal-dir, config-file, version and help are reserved for the operator, which could not find the data or start the member otherwise: leave them out"
    ),
    is_ours!(
        "flag.matches('^(listen|advertise|initial|discovery|proxy)(-|$)')",
        "listen-…, advertise-…, initial-…, discovery… and proxy… are reserved for the operator, because members find each other by them: leave them out; spec.access is for clients outside"
    ),
    is_ours!(
        "flag.matches('^(peer|client|trusted|tls|experimental-peer)-') || flag in ['cert-file', 'key-file', 'auto-tls', 'cipher-suites', 'self-signed-cert-validity']",
        "certificates, keys and related flags (cert-file, peer-…, client-…, tls-…, auto-tls, …) are reserved for the operator: write spec.security instead"
    ),
    is_ours!(
        "flag in ['force-new-cluster', 'unsafe-no-fsync', 'strict-reconfig-check']",
        "force-new-cluster, unsafe-no-fsync and strict-reconfig-check can lose data and are reserved for the operator: leave them out"
    ),
    is_ours!(
        "flag in ['max-learners', 'experimental-max-learners', 'experimental-compact-hash-check-enabled', 'logger', 'enable-v2', 'experimental-enable-v2v3', 'v2-deprecation']",
        "max-learners, compact-hash-check-enabled, logger, enable-v2 and v2-deprecation are reserved for the operator: leave them out"
    ),
    always(
        &["spec"],
        "!has(self.version) || !self.version.matches('^v?3[.]7[.]') || !self.?etcd.?flags.hasValue() || !self.etcd.flags.exists(flag, flag.startsWith('experimental-'))",
        "etcd 3.7 has no flags that begin with experimental- and would not start: write the name without it, or the feature gate",
    )
    .at(".etcd.flags"),
    always(
        &["spec"],
        "!has(self.version) || !self.version.matches('^v?3[.]5[.]') || !self.?etcd.?flags.hasValue() || !('feature-gates' in self.etcd.flags)",
        "etcd 3.5 has no feature-gates and would not start: write the experimental- flag",
    )
    .at(".etcd.flags"),
];

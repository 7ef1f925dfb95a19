//! Of every EtcdCluster. At most 17 series each, whatever state it is in: `lag_entries` has none while
//! `unavailable_since_seconds` has one.

/// Series of one cluster, at most.
pub const MOST: usize = 17;

super::metrics! {
    SIZE = Gauge "etcd_cluster_size" ["namespace", "cluster"]
        "Members that the spec asks for.";
    VOTERS = Gauge "etcd_cluster_voters" ["namespace", "cluster"]
        "Voting members of etcd, as last known; absent while the cluster is stopped or has not formed.";
    HEALTHY_VOTERS = Gauge "etcd_cluster_healthy_voters" ["namespace", "cluster"]
        "Voters that are healthy.";
    HEALTH = Gauge "etcd_cluster_health" ["namespace", "cluster"]
        "1 where a quorum is known to serve, 0 where none is; absent while the cluster is stopped or has not formed. An alarm of etcd (NOSPACE, CORRUPT) leaves it at 1.";
    PHASE = Gauge "etcd_cluster_phase" ["namespace", "cluster", "phase"]
        "1 for the phase that the cluster is in.";
    CONDITION = Gauge "etcd_cluster_condition" ["namespace", "cluster", "condition", "reason"]
        "1 where a condition is True, 0 where it is False, -1 where it is Unknown. While reconciliation is paused, Progressing has the reason Paused.";
    UNAVAILABLE = Gauge "etcd_cluster_unavailable_since_seconds" ["namespace", "cluster"]
        "Since when no quorum is known to serve, in seconds since 1970; absent while one does.";
    INFO = Gauge "etcd_cluster_info" ["namespace", "cluster", "version", "wanted"]
        "1; with the lowest release of etcd that a member runs and the one that is asked for, each empty where it is not known.";
    DB_SIZE = Gauge "etcd_cluster_db_size_bytes" ["namespace", "cluster"]
        "Size of the largest database file of a member; absent while no member tells.";
    DB_IN_USE = Gauge "etcd_cluster_db_in_use_bytes" ["namespace", "cluster"]
        "Bytes in use of the database of that member.";
    DB_QUOTA = Gauge "etcd_cluster_db_quota_bytes" ["namespace", "cluster"]
        "Quota of the database of that member; absent where it is not known.";
    LAG = Gauge "etcd_cluster_lag_entries" ["namespace", "cluster"]
        "Entries of the log that the member which is furthest behind the leader has not applied; absent while no quorum is known to serve.";
    LOOKED = Gauge "etcd_cluster_looked_timestamp_seconds" ["namespace", "cluster"]
        "When this operator last looked at the cluster, in seconds since 1970; absent before its first look.";
    CERTIFICATE_EXPIRES = Gauge "etcd_cluster_certificate_expires_seconds" ["namespace", "cluster"]
        "When the first certificate of members and clients, or the authority of the operator's that issued it, expires, in seconds since 1970; absent without TLS.";
    CERTIFICATE_RENEWAL = Gauge "etcd_cluster_certificate_renewal_seconds" ["namespace", "cluster"]
        "When certificates are due to be renewed, in seconds since 1970; absent without TLS.";
}

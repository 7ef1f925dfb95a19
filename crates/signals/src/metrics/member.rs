//! What is kept of the page of each member: what the alerts and panels ask for, and little more. An idle member has 1,366
//! series; these are fewer than 180 of them.

super::metrics! {
    HAS_LEADER = Gauge "etcd_server_has_leader" []
        "1 where the member has a leader.";
    IS_LEADER = Gauge "etcd_server_is_leader" []
        "1 where the member leads.";
    IS_LEARNER = Gauge "etcd_server_is_learner" []
        "1 where the member does not vote yet.";
    LEADER_CHANGES = Counter "etcd_server_leader_changes_seen_total" []
        "Changes of the leader that the member saw.";
    PROPOSALS_COMMITTED = Counter "etcd_server_proposals_committed_total" []
        "Proposals that were committed.";
    PROPOSALS_APPLIED = Counter "etcd_server_proposals_applied_total" []
        "Proposals that the member applied.";
    PROPOSALS_PENDING = Gauge "etcd_server_proposals_pending" []
        "Proposals that wait to be committed.";
    PROPOSALS_FAILED = Counter "etcd_server_proposals_failed_total" []
        "Proposals that failed.";
    SLOW_APPLIES = Counter "etcd_server_slow_apply_total" []
        "Applies that took longer than etcd expects.";
    VERSION = Gauge "etcd_server_version" ["server_version"]
        "1; with the release of etcd.";
    DB_TOTAL = Gauge "etcd_mvcc_db_total_size_in_bytes" []
        "Size of the database file.";
    DB_USED = Gauge "etcd_mvcc_db_total_size_in_use_in_bytes" []
        "Bytes of the database file that are in use.";
    QUOTA = Gauge "etcd_server_quota_backend_bytes" []
        "Quota of the database.";
    FSYNC = Histogram "etcd_disk_wal_fsync_duration_seconds" []
        "How long the log took to reach the disk.";
    COMMIT = Histogram "etcd_disk_backend_commit_duration_seconds" []
        "How long a commit of the database took.";
    ROUND_TRIP = Histogram "etcd_network_peer_round_trip_time_seconds" ["To"]
        "Round trips to another member.";
    PEER_SENT_FAILURES = Counter "etcd_network_peer_sent_failures_total" ["To"]
        "Messages to another member that failed.";
    CLIENT_IN = Counter "etcd_network_client_grpc_received_bytes_total" []
        "Bytes that clients sent.";
    CLIENT_OUT = Counter "etcd_network_client_grpc_sent_bytes_total" []
        "Bytes that clients were sent.";
    HANDLED = Counter "grpc_server_handled_total" ["grpc_service", "grpc_method", "grpc_code"]
        "Calls of clients, by how they ended; kept of etcdserverpb.KV, where they ended well or etcd failed.";
    HANDLING = Histogram "grpc_server_handling_seconds" ["grpc_service", "grpc_method"]
        "How long calls of clients took; only with spec.etcd.flags.metrics: extensive.";
    KEYS = Counter "etcd_debugging_mvcc_keys_total" []
        "Keys that there are. It falls as well; the name is etcd's.";
}

//! Members, as they tell of themselves.

use super::{Dashboard, Look, POD, panel};

pub(in crate::dashboards) const MEMBER: Dashboard = Dashboard {
    name: "etcd-member",
    title: "etcd / Member",
    choices: &[
        ("namespace", "etcd_server_has_leader"),
        ("@cluster", "etcd_server_has_leader"),
        ("pod", "etcd_server_has_leader"),
    ],
    panels: &[
        panel(
            "Has a leader",
            Look::Lines,
            (8, "short"),
            &[(pods!("etcd_server_has_leader"), POD)],
            "0 is a member that is cut off, or a cluster without a quorum.",
        ),
        panel(
            "Leads",
            Look::Lines,
            (8, "short"),
            &[(pods!("etcd_server_is_leader"), POD)],
            "1 for the leader.",
        ),
        panel(
            "Changes of the leader",
            Look::Lines,
            (8, "short"),
            &[(
                concat!(
                    "increase(",
                    m!("etcd_server_leader_changes_seen_total"),
                    "[15m])"
                ),
                POD,
            )],
            "Within a quarter of an hour.",
        ),
        panel(
            "Log to disk",
            Look::Lines,
            (12, "s"),
            &[(
                slowest!("etcd_disk_wal_fsync_duration_seconds_bucket", ""),
                POD,
            )],
            "99th percentile; etcd wants 10 ms.",
        ),
        panel(
            "Commits of the database",
            Look::Lines,
            (12, "s"),
            &[(
                slowest!("etcd_disk_backend_commit_duration_seconds_bucket", ""),
                POD,
            )],
            "99th percentile; etcd wants 25 ms.",
        ),
        panel(
            "Round trips",
            Look::Lines,
            (12, "s"),
            &[(
                slowest!("etcd_network_peer_round_trip_time_seconds_bucket", "To, "),
                "{{pod}} to {{To}}",
            )],
            "Between members, 99th percentile.",
        ),
        panel(
            "Messages that failed",
            Look::Lines,
            (12, "ops"),
            &[(rate!("etcd_network_peer_sent_failures_total"), POD)],
            "To other members.",
        ),
        panel(
            "Proposals",
            Look::Lines,
            (12, "ops"),
            &[
                (
                    rate!("etcd_server_proposals_applied_total"),
                    "{{pod}} applied",
                ),
                (
                    rate!("etcd_server_proposals_failed_total"),
                    "{{pod}} failed",
                ),
            ],
            "What goes through the log.",
        ),
        panel(
            "Waiting proposals",
            Look::Lines,
            (12, "short"),
            &[(pods!("etcd_server_proposals_pending"), POD)],
            "More than a handful for long: the disk or the network is too slow.",
        ),
        panel(
            "Calls",
            Look::Lines,
            (12, "reqps"),
            &[(
                concat!(
                    "sum by (grpc_method, grpc_code) (rate(",
                    m!("grpc_server_handled_total"),
                    "[$__rate_interval]))"
                ),
                "{{grpc_method}} {{grpc_code}}",
            )],
            "Of clients, by how they ended.",
        ),
        panel(
            "Slow applies",
            Look::Lines,
            (12, "ops"),
            &[(rate!("etcd_server_slow_apply_total"), POD)],
            "Those that took longer than etcd expects.",
        ),
        panel(
            "Traffic of clients",
            Look::Lines,
            (12, "Bps"),
            &[
                (
                    rate!("etcd_network_client_grpc_received_bytes_total"),
                    "{{pod}} in",
                ),
                (
                    rate!("etcd_network_client_grpc_sent_bytes_total"),
                    "{{pod}} out",
                ),
            ],
            "Bytes from and to clients.",
        ),
        panel(
            "Database",
            Look::Lines,
            (12, "bytes"),
            &[
                (pods!("etcd_mvcc_db_total_size_in_bytes"), "{{pod}} file"),
                (
                    pods!("etcd_mvcc_db_total_size_in_use_in_bytes"),
                    "{{pod}} in use",
                ),
                (pods!("etcd_server_quota_backend_bytes"), "{{pod}} quota"),
            ],
            "The file, what is in use of it, and what it may grow to.",
        ),
        panel(
            "Keys",
            Look::Lines,
            (12, "short"),
            &[(pods!("etcd_debugging_mvcc_keys_total"), POD)],
            "Keys that there are.",
        ),
    ],
};

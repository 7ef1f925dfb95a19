//! Alerts about members.

use super::{CLUSTER, Case, POD, case};

pub(super) const CASES: &[Case] = &[
    case(
        "EtcdQuorumMissing",
        "critical",
        CLUSTER,
        &[
            &[
                (c!("etcd_cluster_voters"), "3x100"),
                (m!("etcd_server_has_leader", "db-0"), "1x100"),
                (m!("etcd_server_has_leader", "db-1"), "0x100"),
            ],
            // All pods are gone, and with them the targets.
            &[(c!("etcd_cluster_voters"), "3x100")],
        ],
        &[
            &[
                (c!("etcd_cluster_voters"), "3x100"),
                (m!("etcd_server_has_leader", "db-0"), "1x100"),
                (m!("etcd_server_has_leader", "db-1"), "1x100"),
            ],
            // Stopped.
            &[(c!("etcd_cluster_size"), "0x100")],
        ],
    ),
    case(
        "etcdMembersDown",
        "warning",
        CLUSTER,
        &[
            &[
                (c!("etcd_cluster_voters"), "3x100"),
                (m!("up", "db-0"), "1x100"),
                (m!("up", "db-1"), "1x100"),
                (m!("up", "db-2"), "0x100"),
            ],
            &[
                (c!("etcd_cluster_voters"), "3x100"),
                (m!("up", "db-0"), "1x100"),
            ],
        ],
        &[
            &[
                (c!("etcd_cluster_voters"), "3x100"),
                (m!("up", "db-0"), "1x100"),
                (m!("up", "db-1"), "1x100"),
                (m!("up", "db-2"), "1x100"),
            ],
            // One that joins does not vote yet.
            &[
                (c!("etcd_cluster_voters"), "1x100"),
                (m!("up", "db-0"), "1x100"),
                (m!("up", "db-1"), "1x100"),
            ],
        ],
    ),
    case(
        "etcdNoLeader",
        "critical",
        POD,
        &[&[(m!("etcd_server_has_leader", "db-0"), "0x100")]],
        &[&[(m!("etcd_server_has_leader", "db-0"), "1x100")]],
    ),
    case(
        "etcdHighNumberOfLeaderChanges",
        "warning",
        CLUSTER,
        &[&[(
            m!("etcd_server_leader_changes_seen_total", "db-0"),
            "0+1x100",
        )]],
        &[&[(
            m!("etcd_server_leader_changes_seen_total", "db-0"),
            "7x10 8x10 9x100",
        )]],
    )
    .from(4),
    case(
        "etcdHighNumberOfFailedProposals",
        "warning",
        POD,
        &[&[(m!("etcd_server_proposals_failed_total", "db-0"), "0+60x100")]],
        &[&[(
            m!("etcd_server_proposals_failed_total", "db-0"),
            "0x10 2x100",
        )]],
    )
    .from(1),
    case(
        "etcdHighNumberOfFailedGRPCRequests",
        "critical",
        r#"{"namespace":"ns","cluster":"db","grpc_method":"Put"}"#,
        &[&[
            (
                m!(
                    "grpc_server_handled_total",
                    "db-0",
                    "grpc_method=\"Put\",grpc_code=\"Unavailable\""
                ),
                "0+60x100",
            ),
            (
                m!(
                    "grpc_server_handled_total",
                    "db-0",
                    "grpc_method=\"Put\",grpc_code=\"OK\""
                ),
                "0+600x100",
            ),
        ]],
        &[&[
            (
                m!(
                    "grpc_server_handled_total",
                    "db-0",
                    "grpc_method=\"Put\",grpc_code=\"Unavailable\""
                ),
                "0+20x100",
            ),
            (
                m!(
                    "grpc_server_handled_total",
                    "db-0",
                    "grpc_method=\"Put\",grpc_code=\"OK\""
                ),
                "0+600x100",
            ),
        ]],
    )
    .from(1),
    case(
        "etcdHighNumberOfFailedGRPCRequests",
        "warning",
        r#"{"namespace":"ns","cluster":"db","grpc_method":"Put"}"#,
        &[&[
            (
                m!(
                    "grpc_server_handled_total",
                    "db-0",
                    "grpc_method=\"Put\",grpc_code=\"Internal\""
                ),
                "0+12x100",
            ),
            (
                m!(
                    "grpc_server_handled_total",
                    "db-0",
                    "grpc_method=\"Put\",grpc_code=\"OK\""
                ),
                "0+600x100",
            ),
        ]],
        &[&[
            // That a client asked for what is not there is no failure of etcd.
            (
                m!(
                    "grpc_server_handled_total",
                    "db-0",
                    "grpc_method=\"Put\",grpc_code=\"NotFound\""
                ),
                "0+300x100",
            ),
            (
                m!(
                    "grpc_server_handled_total",
                    "db-0",
                    "grpc_method=\"Put\",grpc_code=\"Internal\""
                ),
                "0+3x100",
            ),
            (
                m!(
                    "grpc_server_handled_total",
                    "db-0",
                    "grpc_method=\"Put\",grpc_code=\"OK\""
                ),
                "0+600x100",
            ),
        ]],
    )
    .from(1),
    case(
        "etcdDatabaseQuotaLowSpace",
        "critical",
        POD,
        &[&[
            (m!("etcd_mvcc_db_total_size_in_bytes", "db-0"), "96x100"),
            (m!("etcd_server_quota_backend_bytes", "db-0"), "100x100"),
        ]],
        &[&[
            (m!("etcd_mvcc_db_total_size_in_bytes", "db-0"), "94x100"),
            (m!("etcd_server_quota_backend_bytes", "db-0"), "100x100"),
        ]],
    ),
    case(
        "etcdExcessiveDatabaseGrowth",
        "warning",
        r#"{"namespace":"ns","cluster":"db","pod":"db-0","job":"etcd"}"#,
        &[&[
            (m!("etcd_mvcc_db_total_size_in_bytes", "db-0"), "0+1000x100"),
            (m!("etcd_server_quota_backend_bytes", "db-0"), "200000x100"),
        ]],
        &[
            &[
                (m!("etcd_mvcc_db_total_size_in_bytes", "db-0"), "150000x100"),
                (m!("etcd_server_quota_backend_bytes", "db-0"), "200000x100"),
            ],
            &[
                (m!("etcd_mvcc_db_total_size_in_bytes", "db-0"), "0+100x100"),
                (m!("etcd_server_quota_backend_bytes", "db-0"), "200000x100"),
            ],
        ],
    )
    .from(1),
    case(
        "etcdDatabaseHighFragmentationRatio",
        "info",
        r#"{"namespace":"ns","cluster":"db","pod":"db-0","job":"etcd"}"#,
        &[&[
            (
                m!("etcd_mvcc_db_total_size_in_use_in_bytes", "db-0"),
                "110000000x100",
            ),
            (
                m!("etcd_mvcc_db_total_size_in_bytes", "db-0"),
                "300000000x100",
            ),
        ]],
        &[
            &[
                (
                    m!("etcd_mvcc_db_total_size_in_use_in_bytes", "db-0"),
                    "160000000x100",
                ),
                (
                    m!("etcd_mvcc_db_total_size_in_bytes", "db-0"),
                    "300000000x100",
                ),
            ],
            // Too small to matter.
            &[
                (
                    m!("etcd_mvcc_db_total_size_in_use_in_bytes", "db-0"),
                    "10000000x100",
                ),
                (
                    m!("etcd_mvcc_db_total_size_in_bytes", "db-0"),
                    "300000000x100",
                ),
            ],
        ],
    ),
];

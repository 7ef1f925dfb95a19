//! Alerts about clusters.

use super::{CLUSTER, Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "EtcdClusterDown",
        "critical",
        CLUSTER,
        &[&[(c!("etcd_cluster_health"), "0x100")]],
        &[
            &[(c!("etcd_cluster_health"), "1x100")],
            // Stopped.
            &[(c!("etcd_cluster_size"), "0x100")],
            // The operator before saw it dark, and the one that follows sees it serve.
            &[
                (c!("etcd_cluster_health"), "0x3 stale"),
                (
                    "etcd_cluster_health{namespace=\"ns\",cluster=\"db\",pod=\"op-2\"}",
                    "_x2 1x100",
                ),
            ],
            // An election.
            &[(c!("etcd_cluster_health"), "1x10 0x2 1x100")],
        ],
    ),
    case(
        "EtcdClusterFailed",
        "critical",
        CLUSTER,
        &[&[(c!("etcd_cluster_phase", "phase=\"Failed\""), "1x100")]],
        &[&[(c!("etcd_cluster_phase", "phase=\"Running\""), "1x100")]],
    ),
    case(
        "EtcdDataDiffers",
        "critical",
        CLUSTER,
        &[
            &[(
                c!(
                    "etcd_cluster_condition",
                    "condition=\"Degraded\",reason=\"DataInconsistent\""
                ),
                "1x100",
            )],
            &[(
                c!(
                    "etcd_cluster_condition",
                    "condition=\"Available\",reason=\"DataInconsistent\""
                ),
                "0x100",
            )],
        ],
        &[
            &[(
                c!(
                    "etcd_cluster_condition",
                    "condition=\"Degraded\",reason=\"AsExpected\""
                ),
                "0x100",
            )],
            // A member is being replaced.
            &[(
                c!(
                    "etcd_cluster_condition",
                    "condition=\"Progressing\",reason=\"DataInconsistent\""
                ),
                "1x100",
            )],
        ],
    ),
    case(
        "EtcdDatabaseFull",
        "critical",
        CLUSTER,
        &[&[
            (c!("etcd_cluster_db_size_bytes"), "96x100"),
            (c!("etcd_cluster_db_quota_bytes"), "100x100"),
        ]],
        &[&[
            (c!("etcd_cluster_db_size_bytes"), "90x100"),
            (c!("etcd_cluster_db_quota_bytes"), "100x100"),
        ]],
    ),
    case(
        "EtcdDatabaseFull",
        "warning",
        CLUSTER,
        &[&[
            (c!("etcd_cluster_db_size_bytes"), "81x100"),
            (c!("etcd_cluster_db_quota_bytes"), "100x100"),
        ]],
        &[
            &[
                (c!("etcd_cluster_db_size_bytes"), "79x100"),
                (c!("etcd_cluster_db_quota_bytes"), "100x100"),
            ],
            // It is being defragmented.
            &[
                (c!("etcd_cluster_db_size_bytes"), "90x5 20x100"),
                (c!("etcd_cluster_db_quota_bytes"), "100x105"),
            ],
        ],
    ),
    case(
        "EtcdNoTolerance",
        "warning",
        CLUSTER,
        &[
            &[
                (c!("etcd_cluster_healthy_voters"), "2x100"),
                (c!("etcd_cluster_voters"), "3x100"),
            ],
            &[
                (c!("etcd_cluster_healthy_voters"), "3x100"),
                (c!("etcd_cluster_voters"), "5x100"),
            ],
        ],
        &[
            &[
                (c!("etcd_cluster_healthy_voters"), "3x100"),
                (c!("etcd_cluster_voters"), "3x100"),
            ],
            &[
                (c!("etcd_cluster_healthy_voters"), "4x100"),
                (c!("etcd_cluster_voters"), "5x100"),
            ],
            // Of one, none can ever be lost.
            &[
                (c!("etcd_cluster_healthy_voters"), "1x100"),
                (c!("etcd_cluster_voters"), "1x100"),
            ],
            // Down is another alert.
            &[
                (c!("etcd_cluster_healthy_voters"), "1x100"),
                (c!("etcd_cluster_voters"), "3x100"),
            ],
        ],
    ),
    case(
        "EtcdClusterDegraded",
        "warning",
        CLUSTER,
        &[
            &[(
                c!(
                    "etcd_cluster_condition",
                    "condition=\"Degraded\",reason=\"PodNotStarting\""
                ),
                "1x100",
            )],
            // Another reason is no end of it.
            &[
                (
                    c!(
                        "etcd_cluster_condition",
                        "condition=\"Degraded\",reason=\"PodNotStarting\""
                    ),
                    "1x7 stale",
                ),
                (
                    c!(
                        "etcd_cluster_condition",
                        "condition=\"Degraded\",reason=\"MemberUnhealthy\""
                    ),
                    "_x7 1x100",
                ),
            ],
        ],
        &[
            &[(
                c!(
                    "etcd_cluster_condition",
                    "condition=\"Degraded\",reason=\"AsExpected\""
                ),
                "0x100",
            )],
            &[(
                c!(
                    "etcd_cluster_condition",
                    "condition=\"Progressing\",reason=\"RollingOut\""
                ),
                "1x100",
            )],
        ],
    ),
    case(
        "EtcdClusterStuck",
        "warning",
        r#"{"namespace":"ns","cluster":"db","reason":"AddingMember"}"#,
        &[&[(
            c!(
                "etcd_cluster_condition",
                "condition=\"Progressing\",reason=\"AddingMember\""
            ),
            "1x100",
        )]],
        &[
            // It comes from one step to the next.
            &[
                (
                    c!(
                        "etcd_cluster_condition",
                        "condition=\"Progressing\",reason=\"AddingMember\""
                    ),
                    "1x20 stale",
                ),
                (
                    c!(
                        "etcd_cluster_condition",
                        "condition=\"Progressing\",reason=\"PromotingMember\""
                    ),
                    "_x20 1x20 stale",
                ),
            ],
            &[(
                c!(
                    "etcd_cluster_condition",
                    "condition=\"Progressing\",reason=\"Paused\""
                ),
                "1x100",
            )],
            &[(
                c!(
                    "etcd_cluster_condition",
                    "condition=\"Progressing\",reason=\"AsExpected\""
                ),
                "0x100",
            )],
        ],
    ),
    case(
        "EtcdRolloutHalted",
        "warning",
        CLUSTER,
        &[
            &[(
                c!(
                    "etcd_cluster_condition",
                    "condition=\"Degraded\",reason=\"RolloutHalted\""
                ),
                "1x100",
            )],
            &[(
                c!(
                    "etcd_cluster_condition",
                    "condition=\"Progressing\",reason=\"RolloutHalted\""
                ),
                "1x100",
            )],
        ],
        &[&[(
            c!(
                "etcd_cluster_condition",
                "condition=\"Progressing\",reason=\"RollingOut\""
            ),
            "1x100",
        )]],
    ),
    case(
        "EtcdMemberHangs",
        "warning",
        CLUSTER,
        &[&[(
            c!(
                "etcd_cluster_condition",
                "condition=\"Degraded\",reason=\"MemberStalled\""
            ),
            "1x100",
        )]],
        &[&[(
            c!(
                "etcd_cluster_condition",
                "condition=\"Degraded\",reason=\"MemberUnhealthy\""
            ),
            "1x100",
        )]],
    ),
    case(
        "EtcdClusterPaused",
        "info",
        CLUSTER,
        &[&[(
            c!(
                "etcd_cluster_condition",
                "condition=\"Progressing\",reason=\"Paused\""
            ),
            "0x100",
        )]],
        &[&[(
            c!(
                "etcd_cluster_condition",
                "condition=\"Progressing\",reason=\"AsExpected\""
            ),
            "0x100",
        )]],
    )
    .step(60),
];

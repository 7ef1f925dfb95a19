//! One cluster, as the operator tells of it.

use super::{Dashboard, Look, NAME, panel};

pub(in crate::dashboards) const CLUSTER: Dashboard = Dashboard {
    name: "etcd-cluster",
    title: "etcd / Cluster",
    choices: &[
        ("namespace", "etcd_cluster_size"),
        ("@cluster", "etcd_cluster_size"),
    ],
    panels: &[
        panel(
            "Serves",
            Look::Number(None),
            (4, "short"),
            &[(max!("etcd_cluster_health"), NAME)],
            "1 where a quorum is known to serve.",
        ),
        panel(
            "Members asked for",
            Look::Number(None),
            (4, "short"),
            &[(max!("etcd_cluster_size"), NAME)],
            "The size in the spec.",
        ),
        panel(
            "Healthy voters",
            Look::Number(None),
            (4, "short"),
            &[(max!("etcd_cluster_healthy_voters"), NAME)],
            "Voters that respond and follow a leader.",
        ),
        panel(
            "Quota used",
            Look::Number(None),
            (4, "percentunit"),
            &[(
                concat!(
                    max!("etcd_cluster_db_size_bytes"),
                    " / ",
                    max!("etcd_cluster_db_quota_bytes")
                ),
                NAME,
            )],
            "Size of the largest member's database against its quota.",
        ),
        panel(
            "Last backup",
            Look::Number(None),
            (4, "s"),
            &[(
                concat!("time() - ", max!("etcd_backup_newest_seconds")),
                NAME,
            )],
            "How long ago the newest backup was complete.",
        ),
        panel(
            "Certificates",
            Look::Number(None),
            (4, "s"),
            &[(
                concat!(
                    max!("etcd_cluster_certificate_expires_seconds"),
                    " - time()"
                ),
                NAME,
            )],
            "Until the first certificate, or the authority, expires.",
        ),
        panel(
            "Conditions",
            Look::Table,
            (16, "short"),
            &[(
                concat!(
                    "max by (namespace, @cluster, condition, reason) (",
                    c!("etcd_cluster_condition"),
                    ")"
                ),
                "",
            )],
            "1 is True, 0 is False, -1 is Unknown.",
        ),
        panel(
            "Release",
            Look::Table,
            (8, "short"),
            &[(
                concat!(
                    "max by (namespace, @cluster, version, wanted) (",
                    c!("etcd_cluster_info"),
                    ")"
                ),
                "",
            )],
            "What runs, and what is asked for.",
        ),
        panel(
            "Voters",
            Look::Lines,
            (12, "short"),
            &[
                (max!("etcd_cluster_size"), "asked for"),
                (max!("etcd_cluster_voters"), "voters"),
                (max!("etcd_cluster_healthy_voters"), "healthy"),
            ],
            "Members that are asked for, that vote, and that are well.",
        ),
        panel(
            "Database",
            Look::Lines,
            (12, "bytes"),
            &[
                (max!("etcd_cluster_db_size_bytes"), "file"),
                (max!("etcd_cluster_db_in_use_bytes"), "in use"),
                (max!("etcd_cluster_db_quota_bytes"), "quota"),
            ],
            "The largest member's database. What is not in use is used again, or freed by a defragmentation.",
        ),
        panel(
            "Lag",
            Look::Lines,
            (12, "short"),
            &[(max!("etcd_cluster_lag_entries"), NAME)],
            "Entries that the member furthest behind the leader has not applied.",
        ),
        panel(
            "Phase",
            Look::Lines,
            (12, "short"),
            &[(
                concat!(
                    "max by (namespace, @cluster, phase) (",
                    c!("etcd_cluster_phase"),
                    ")"
                ),
                "{{phase}}",
            )],
            "What the cluster was doing.",
        ),
        panel(
            "Backups",
            Look::Lines,
            (12, "s"),
            &[
                (
                    concat!(
                        "time() - max by (namespace, @cluster, backup) (",
                        c!("etcd_backup_newest_seconds"),
                        ")"
                    ),
                    "{{backup}} newest",
                ),
                (
                    concat!(
                        "time() - max by (namespace, @cluster, backup) (",
                        c!("etcd_backup_verified_backup_seconds"),
                        ")"
                    ),
                    "{{backup}} verified",
                ),
            ],
            "How old the newest backup is, and the newest one that was verified.",
        ),
        panel(
            "Size of backups",
            Look::Lines,
            (12, "bytes"),
            &[(
                concat!(
                    "max by (namespace, @cluster, backup) (",
                    c!("etcd_backup_size_bytes"),
                    ")"
                ),
                "{{backup}}",
            )],
            "Of the newest one, as it is stored.",
        ),
    ],
};

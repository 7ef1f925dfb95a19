//! Alerts about certificates and backups.

use super::{BACKUP, CLUSTER, Case, case};

pub(super) const CASES: &[Case] = &[
    case(
        "EtcdCertificateExpires",
        "warning",
        CLUSTER,
        &[&[
            (c!("etcd_cluster_certificate_renewal_seconds"), "600x100"),
            (c!("etcd_cluster_certificate_expires_seconds"), "1800x100"),
        ]],
        &[
            &[
                (c!("etcd_cluster_certificate_renewal_seconds"), "6000x100"),
                (c!("etcd_cluster_certificate_expires_seconds"), "9000x100"),
            ],
            // One that lives for minutes, and is renewed in time.
            &[
                (c!("etcd_cluster_certificate_renewal_seconds"), "120+60x100"),
                (c!("etcd_cluster_certificate_expires_seconds"), "180+60x100"),
            ],
        ],
    )
    .from(20),
    case(
        "EtcdBackupOld",
        "warning",
        BACKUP,
        &[&[(b!("etcd_backup_next_seconds"), "0x100")]],
        &[&[(b!("etcd_backup_next_seconds"), "600+60x100")]],
    )
    .from(60),
    case(
        "EtcdBackupOld",
        "warning",
        BACKUP,
        &[
            &[
                (b!("etcd_backup_ready"), "0x100"),
                (b!("etcd_backup_failures"), "2x100"),
            ],
            // Each attempt is told as under way.
            &[
                (b!("etcd_backup_ready"), "1x100"),
                (b!("etcd_backup_failures"), "2x100"),
            ],
            // It waits for a member that can be read.
            &[
                (b!("etcd_backup_ready"), "0x100"),
                (b!("etcd_backup_failures"), "0x100"),
                (b!("etcd_backup_next_seconds"), "90000x100"),
            ],
        ],
        &[
            &[
                (b!("etcd_backup_ready"), "1x100"),
                (b!("etcd_backup_failures"), "0x100"),
                (b!("etcd_backup_next_seconds"), "90000x100"),
            ],
            // Suspended: there is no next one.
            &[
                (b!("etcd_backup_ready"), "0x100"),
                (b!("etcd_backup_failures"), "0x100"),
            ],
        ],
    )
    .second(),
    case(
        "EtcdBackupUnverified",
        "critical",
        BACKUP,
        &[&[(b!("etcd_backup_damaged"), "1x100")]],
        &[&[(b!("etcd_backup_damaged"), "0x100")]],
    ),
    case(
        "EtcdBackupUnverified",
        "warning",
        BACKUP,
        &[&[
            (b!("etcd_backup_newest_seconds"), "800000x100"),
            (b!("etcd_backup_verified_backup_seconds"), "0x100"),
        ]],
        &[
            &[
                (b!("etcd_backup_newest_seconds"), "600000x100"),
                (b!("etcd_backup_verified_backup_seconds"), "0x100"),
            ],
            // None is verified, because none is to be.
            &[(b!("etcd_backup_newest_seconds"), "800000x100")],
        ],
    ),
];

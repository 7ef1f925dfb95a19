//! Of every EtcdBackup. The newest backup of a cluster is the largest `etcd_backup_newest_seconds` of its EtcdBackups.

/// Series of one EtcdBackup, at most.
pub const MOST: usize = 10;

super::metrics! {
    READY = Gauge "etcd_backup_ready" ["namespace", "cluster", "backup"]
        "1 where the condition Ready of an EtcdBackup is True, 0 where it is not.";
    NEWEST = Gauge "etcd_backup_newest_seconds" ["namespace", "cluster", "backup"]
        "When the newest backup was complete that did not fail its verification, in seconds since 1970; absent where there is none.";
    SIZE = Gauge "etcd_backup_size_bytes" ["namespace", "cluster", "backup"]
        "Bytes of the newest backup in the store.";
    DURATION = Gauge "etcd_backup_duration_seconds" ["namespace", "cluster", "backup"]
        "How long the newest backup took.";
    FAILURES = Gauge "etcd_backup_failures" ["namespace", "cluster", "backup"]
        "Attempts that failed since the last backup.";
    NEXT = Gauge "etcd_backup_next_seconds" ["namespace", "cluster", "backup"]
        "When the next backup is due, in seconds since 1970; absent without a schedule.";
    VERIFIED = Gauge "etcd_backup_verified_seconds" ["namespace", "cluster", "backup"]
        "When etcd last ran on a backup and found it good, in seconds since 1970; absent without one.";
    VERIFIED_BACKUP = Gauge "etcd_backup_verified_backup_seconds" ["namespace", "cluster", "backup"]
        "When the backup was complete on which that was, in seconds since 1970.";
    DAMAGED = Gauge "etcd_backup_damaged" ["namespace", "cluster", "backup"]
        "Backups that failed their last verification, of the newest ten.";
}

//! How every EtcdBackup is: nine numbers, read from its status.

use api::v1alpha1::backup::{BackupEntry, Compared, EtcdBackup, EtcdBackupStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use kube::runtime::reflector::Store;

use super::{head, line};
use crate::backup::Guarded;

/// A gauge of every EtcdBackup.
struct Family {
    name: &'static str,
    help: &'static str,
    number: fn(&EtcdBackupStatus) -> Option<i64>,
}

const FAMILIES: [Family; 9] = [
    Family {
        name: "etcd_backup_ready",
        help: "1 where the condition Ready of an EtcdBackup is True, 0 where it is not.",
        number: |status| {
            let mut conditions = status.conditions.iter();
            let ready = conditions.find(|it| it.type_ == "Ready")?;
            Some(i64::from(ready.status == "True"))
        },
    },
    Family {
        name: "etcd_backup_newest_seconds",
        help: "When the newest backup was complete that did not fail its verification, in seconds since 1970; absent where there is none.",
        number: |status| newest(status).map(Timestamp::as_second),
    },
    Family {
        name: "etcd_backup_size_bytes",
        help: "Bytes of the newest backup in the store.",
        number: |status| status.backup_size,
    },
    Family {
        name: "etcd_backup_duration_seconds",
        help: "How long the newest backup took.",
        number: |status| status.backup_seconds,
    },
    Family {
        name: "etcd_backup_failures",
        help: "Attempts that failed since the last backup.",
        number: |status| {
            status.phase?;
            Some(i64::from(status.failures.unwrap_or(0)))
        },
    },
    Family {
        name: "etcd_backup_next_seconds",
        help: "When the next backup is due, in seconds since 1970; absent without a schedule.",
        number: |status| second(status.next_backup_time.as_ref()),
    },
    Family {
        name: "etcd_backup_verified_seconds",
        help: "When etcd last ran on a backup and found it good, in seconds since 1970; absent without one.",
        number: |status| second(verified(status).map(|it| &it.time)),
    },
    Family {
        name: "etcd_backup_verified_backup_seconds",
        help: "When the backup was complete on which that was, in seconds since 1970.",
        number: |status| second(verified(status)?.backup_time.as_ref()),
    },
    Family {
        name: "etcd_backup_damaged",
        help: "Backups that failed their last verification, of the newest ten.",
        number: |status| {
            status.phase?;
            let damaged = status.backups.iter().filter(|entry| entry.damaged);
            i64::try_from(damaged.count()).ok()
        },
    },
];

/// Those on which no etcd ran are left out.
fn verified(status: &EtcdBackupStatus) -> Option<&api::v1alpha1::backup::LastVerified> {
    let last = status.last_verified.as_ref();
    last.filter(|last| last.compared != Compared::ChecksumOnly)
}

/// Where the store could not be listed, what was told of the newest is all there is.
fn newest(status: &EtcdBackupStatus) -> Option<Timestamp> {
    let counts = |entry: &&BackupEntry| !entry.damaged;
    let listed = status.backups.iter().filter(counts);
    let listed = listed.map(|entry| entry.time.0).max();
    let told = status.completion_time.as_ref().map(|time| time.0);
    let known = |time: &Timestamp| status.backups.iter().any(|entry| entry.time.0 == *time);
    listed.max(told.filter(|time| !known(time)))
}

fn second(time: Option<&Time>) -> Option<i64> {
    time.map(|time| time.0.as_second())
}

/// All of them.
pub(super) fn tell(text: &mut String, stores: &[Store<Guarded>]) {
    let all = stores.iter().flat_map(Store::state);
    let mut backups: Vec<_> = all.collect();
    backups.sort_by_key(|backup| backup.0.as_ref().map(place).unwrap_or_default());
    for family in FAMILIES {
        head(text, family.name, "gauge", family.help);
        for backup in backups.iter().filter_map(|backup| backup.0.as_ref().ok()) {
            let status = backup.status.as_ref();
            if let Some(number) = status.and_then(family.number) {
                line(text, family.name, &place(backup), number);
            }
        }
    }
}

fn place(backup: &EtcdBackup) -> String {
    let (namespace, name) = (backup.namespace().unwrap_or_default(), backup.name_any());
    format!("namespace=\"{namespace}\",name=\"{name}\"")
}

#[cfg(test)]
mod tests {
    use kube::core::DeserializeGuard;
    use kube::runtime::{reflector, watcher};
    use serde_json::json;

    use super::*;

    fn text(status: &serde_json::Value) -> String {
        let backup = json!({
            "apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdBackup",
            "metadata": {"namespace": "prod", "name": "nightly"},
            "spec": {"clusterName": "db", "storageType": "S3"}, "status": status,
        });
        let mut writer = reflector::store::Writer::<Guarded>::default();
        let backup: Guarded = DeserializeGuard(Ok(serde_json::from_value(backup).unwrap()));
        writer.apply_watcher_event(&watcher::Event::Apply(backup));
        let mut text = String::new();
        tell(&mut text, &[writer.as_reader()]);
        text
    }

    #[test]
    fn what_an_alert_needs_is_there() {
        let text = text(&json!({
            "phase": "Failed", "failures": 2, "backupSize": 10, "backupSeconds": 4,
            "completionTime": "1970-01-01T00:00:09Z", "nextBackupTime": "1970-01-01T00:00:20Z",
            "lastVerified": {"id": "a", "time": "1970-01-01T00:00:08Z", "backupTime": "1970-01-01T00:00:05Z",
                             "revision": 1, "compared": "HashKV"},
            "backups": [
                {"id": "b", "time": "1970-01-01T00:00:09Z", "revision": 2, "bytes": 10, "damaged": true},
                {"id": "a", "time": "1970-01-01T00:00:05Z", "revision": 1, "bytes": 9}],
            "conditions": [{"type": "Ready", "status": "False", "reason": "BackupDamaged",
                            "message": "", "lastTransitionTime": "1970-01-01T00:00:00Z"}],
        }));
        let place = "{namespace=\"prod\",name=\"nightly\"}";
        for (name, number) in [
            ("ready", 0),
            // The damaged one does not count.
            ("newest_seconds", 5),
            ("size_bytes", 10),
            ("duration_seconds", 4),
            ("failures", 2),
            ("next_seconds", 20),
            ("verified_seconds", 8),
            ("verified_backup_seconds", 5),
            ("damaged", 1),
        ] {
            let line = format!("etcd_backup_{name}{place} {number}");
            assert!(text.lines().any(|it| it == line), "{line}\n{text}");
        }
        let series = text.lines().filter(|line| !line.starts_with('#'));
        assert!(series.count() <= 10);
    }

    #[test]
    fn checksums_alone_are_no_verification() {
        let text = text(&json!({
            "lastVerified": {"id": "a", "time": "1970-01-01T00:00:08Z", "revision": 1, "compared": "ChecksumOnly"},
        }));
        assert!(!text.contains("etcd_backup_verified_seconds{"), "{text}");
    }
}

//! Backups that a restore under way needs: retention leaves them, whatever else it is told.

use api::EtcdCluster;
use api::v1alpha1::backup::{BackupEntry, EtcdBackup, EtcdBackupStatus};
use api::v1alpha1::memory::ReplaceStage;
use api::v1alpha1::restore::{EtcdRestore, RestoreFrom, RestorePhase};
use jiff::Timestamp;

use super::elsewhere::namespace_of;
use crate::restore::from;

/// IDs of backups of this EtcdBackup that a restore names, or that one takes which names none.
pub fn spared(
    backup: &EtcdBackup,
    restores: &[EtcdRestore],
    clusters: &[EtcdCluster],
) -> Vec<String> {
    let mut spared = Vec::new();
    for restore in restores.iter().filter(|it| is_under_way(it)) {
        let namespace = restore.metadata.namespace.as_deref().unwrap_or_default();
        let since = restore.metadata.creation_timestamp.as_ref();
        let since = since.map(|since| since.0);
        spared.extend(of(backup, &from(&restore.spec), (namespace, since)));
    }
    for cluster in clusters {
        let namespace = cluster.metadata.namespace.as_deref().unwrap_or_default();
        let status = cluster.status.as_ref();
        let memory = status.and_then(|status| status.memory.as_ref());
        let replace = memory.and_then(|memory| memory.replace.as_ref());
        let replace = replace.filter(|replace| replace.stage != ReplaceStage::Ended);
        // What was read is what is brought, whichever was asked for.
        let read = replace.and_then(|replace| replace.checked.as_ref());
        spared.extend(read.map(|read| read.restored.backup.clone()));
        let formed = status.is_some_and(|status| status.cluster_id.is_some());
        let bootstrap = cluster.spec.bootstrap.as_ref();
        let asked = bootstrap.and_then(|it| it.restore.as_deref());
        if let Some(asked) = asked.filter(|_| !formed) {
            let since = cluster.metadata.creation_timestamp.as_ref();
            let since = since.map(|since| since.0);
            spared.extend(of(backup, asked, (namespace, since)));
        }
    }
    spared.sort();
    spared.dedup();
    spared
}

/// It may still bring a backup. What a cluster was made for is told by that cluster from then on, too.
fn is_under_way(restore: &EtcdRestore) -> bool {
    let phase = restore.status.as_ref().and_then(|status| status.phase);
    let over = phase == Some(RestorePhase::Completed);
    !over && restore.metadata.deletion_timestamp.is_none()
}

/// What a restore takes of the backups of this EtcdBackup.
fn of(
    backup: &EtcdBackup,
    from: &RestoreFrom,
    (namespace, since): (&str, Option<Timestamp>),
) -> Vec<String> {
    if let Some(id) = &from.backup {
        // An ID is of one backup, whatever names the store.
        return vec![id.clone()];
    }
    let metadata = &backup.metadata;
    let there = namespace_of(from.backup_namespace.as_deref(), namespace);
    let by_name = from.backup_name.is_some() && from.backup_name == metadata.name;
    let by_name = by_name && metadata.namespace.as_deref() == Some(there);
    let source = from.source.as_ref();
    let by_store = source.is_some_and(|source| {
        let of = source.cluster_namespace.as_deref().unwrap_or(namespace);
        source.cluster_name.as_ref() == Some(&backup.spec.cluster_name)
            && metadata.namespace.as_deref() == Some(of)
    });
    let status = backup.status.as_ref();
    match (by_name || by_store, status) {
        // Any that reaches that far may be the one that is taken.
        (true, Some(status)) if from.target.is_some() => {
            status.backups.iter().map(|it| it.id.clone()).collect()
        }
        (true, Some(status)) => newest_since(status, since),
        (true, None) | (false, _) => Vec::new(),
    }
}

/// The one that was the newest when it was asked for, and all that came since: which of them was taken is known once it was read.
fn newest_since(status: &EtcdBackupStatus, since: Option<Timestamp>) -> Vec<String> {
    let counts = status.backups.iter().filter(|entry| !entry.damaged);
    let (later, before): (Vec<&BackupEntry>, Vec<&BackupEntry>) =
        counts.partition(|entry| since.is_some_and(|since| entry.time.0 >= since));
    let newest = before.into_iter().max_by_key(|entry| entry.time.0);
    later
        .into_iter()
        .chain(newest)
        .map(|entry| entry.id.clone())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::EtcdClusterSpec;
    use api::v1alpha1::backup::EtcdBackupSpec;
    use api::v1alpha1::memory::{FetchedMemory, Memory, ReplaceMemory};
    use api::v1alpha1::restore::{
        BackupLocation, Bootstrap, EtcdRestoreSpec, EtcdRestoreStatus, RestoreTarget, Restored,
    };
    use api::v1alpha1::status::EtcdClusterStatus;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    fn at(hour: i64) -> Time {
        Time(Timestamp::from_second(hour * 3600).unwrap())
    }

    fn backup() -> EtcdBackup {
        let mut backup = EtcdBackup::new(
            "nightly",
            EtcdBackupSpec {
                cluster_name: "db".to_owned(),
                ..EtcdBackupSpec::default()
            },
        );
        backup.metadata.namespace = Some("shop".to_owned());
        let entry = |(id, hour): (&str, i64)| BackupEntry {
            id: id.to_owned(),
            time: at(hour),
            revision: 1,
            bytes: 1,
            verified: None,
            damaged: false,
        };
        backup.status = Some(EtcdBackupStatus {
            backups: [("d", 9), ("c", 7), ("b", 5), ("a", 3)].map(entry).into(),
            ..EtcdBackupStatus::default()
        });
        backup
    }

    fn restore(namespace: &str, spec: EtcdRestoreSpec) -> EtcdRestore {
        let mut restore = EtcdRestore::new("back", spec);
        restore.metadata.namespace = Some(namespace.to_owned());
        restore.metadata.creation_timestamp = Some(at(8));
        restore
    }

    fn named(id: Option<&str>) -> EtcdRestoreSpec {
        EtcdRestoreSpec {
            backup_name: Some("nightly".to_owned()),
            backup: id.map(str::to_owned),
            ..EtcdRestoreSpec::default()
        }
    }

    #[test]
    fn what_is_named_stays_until_the_restore_is_over() {
        let mut asked = restore("shop", named(Some("a")));
        assert_eq!(spared(&backup(), &[asked.clone()], &[]), ["a"]);
        asked.status = Some(EtcdRestoreStatus {
            phase: Some(RestorePhase::Completed),
            ..EtcdRestoreStatus::default()
        });
        assert!(spared(&backup(), &[asked], &[]).is_empty());
    }

    #[test]
    fn without_a_name_it_is_the_newest_of_then_and_what_came_since() {
        let asked = restore("shop", named(None));
        assert_eq!(spared(&backup(), &[asked], &[]), ["c", "d"]);
        let elsewhere = restore("staging", named(None));
        assert!(spared(&backup(), &[elsewhere], &[]).is_empty());
        let there = EtcdRestoreSpec {
            backup_namespace: Some("shop".to_owned()),
            ..named(None)
        };
        assert_eq!(
            spared(&backup(), &[restore("staging", there)], &[]),
            ["c", "d"]
        );
        let source = EtcdRestoreSpec {
            source: Some(BackupLocation {
                cluster_name: Some("db".to_owned()),
                cluster_namespace: Some("shop".to_owned()),
                ..BackupLocation::default()
            }),
            ..EtcdRestoreSpec::default()
        };
        assert_eq!(
            spared(&backup(), &[restore("staging", source)], &[]),
            ["c", "d"]
        );
    }

    #[test]
    fn as_of_a_revision_it_may_be_any_of_them() {
        let asked = EtcdRestoreSpec {
            target: Some(RestoreTarget { revision: Some(7) }),
            ..named(None)
        };
        let all = spared(&backup(), &[restore("shop", asked)], &[]);
        assert_eq!(all, ["a", "b", "c", "d"]);
    }

    #[test]
    fn what_a_cluster_begins_with_or_read_stays_until_it_has_it() {
        let mut cluster = EtcdCluster::new(
            "second",
            EtcdClusterSpec {
                bootstrap: Some(Bootstrap {
                    restore: Some(Box::new(from(&named(Some("b"))))),
                }),
                ..EtcdClusterSpec::default()
            },
        );
        cluster.metadata.namespace = Some("shop".to_owned());
        assert_eq!(spared(&backup(), &[], &[cluster.clone()]), ["b"]);
        let read = FetchedMemory {
            restored: Restored {
                backup: "a".to_owned(),
                revision: 1,
                time: at(3),
                bytes: 1,
                url: String::new(),
                leases: None,
            },
            trailer: String::new(),
            base_trailer: None,
            etcd_version: String::new(),
            auth: None,
        };
        let mut replace = ReplaceMemory {
            stage: ReplaceStage::Fetching,
            checked: Some(read),
            ..ReplaceMemory::default()
        };
        let told = |replace: &ReplaceMemory| EtcdClusterStatus {
            cluster_id: Some("c0ffee".to_owned()),
            memory: Some(Memory {
                replace: Some(Box::new(replace.clone())),
                ..Memory::default()
            }),
            ..EtcdClusterStatus::default()
        };
        cluster.status = Some(told(&replace));
        assert_eq!(spared(&backup(), &[], &[cluster.clone()]), ["a"]);
        replace.stage = ReplaceStage::Ended;
        cluster.status = Some(told(&replace));
        assert!(spared(&backup(), &[], &[cluster]).is_empty());
    }
}

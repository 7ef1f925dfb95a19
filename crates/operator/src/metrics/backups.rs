//! How every EtcdBackup is: nine numbers, read from its status.

use std::fmt;

use api::v1alpha1::backup::{BackupEntry, Compared, EtcdBackup, EtcdBackupStatus};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::runtime::reflector::Store;
use prometheus_client::encoding::DescriptorEncoder;
use signals::Metric;
use signals::metrics::backup;

use super::page::begin;
use crate::backup::Guarded;

/// A number of an EtcdBackup, where it is known.
type Number = fn(&EtcdBackupStatus) -> Option<i64>;

const FAMILIES: [(&Metric, Number); 9] = [
    (&backup::READY, |status| {
        let mut conditions = status.conditions.iter();
        let ready = conditions.find(|it| it.type_ == "Ready")?;
        Some(i64::from(ready.status == "True"))
    }),
    (&backup::NEWEST, |status| {
        newest(status).map(Timestamp::as_second)
    }),
    (&backup::SIZE, |status| status.backup_size),
    (&backup::DURATION, |status| status.backup_seconds),
    (&backup::FAILURES, |status| {
        status.phase?;
        Some(i64::from(status.failures.unwrap_or(0)))
    }),
    (&backup::NEXT, |status| {
        second(status.next_backup_time.as_ref())
    }),
    (&backup::VERIFIED, |status| {
        second(verified(status).map(|it| &it.time))
    }),
    (&backup::VERIFIED_BACKUP, |status| {
        second(verified(status)?.backup_time.as_ref())
    }),
    (&backup::DAMAGED, |status| {
        status.phase?;
        let damaged = status.backups.iter().filter(|entry| entry.damaged);
        i64::try_from(damaged.count()).ok()
    }),
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
pub(super) fn tell(encoder: &mut DescriptorEncoder<'_>, stores: &[Store<Guarded>]) -> fmt::Result {
    let all = stores.iter().flat_map(Store::state);
    let mut backups: Vec<_> = all.collect();
    backups.sort_by(|one, other| {
        let place = |backup: &Guarded| {
            backup
                .0
                .as_ref()
                .ok()
                .map(|it| labels(it).map(str::to_owned))
        };
        place(one).cmp(&place(other))
    });
    for (metric, number) in FAMILIES {
        let mut lines = begin(encoder, metric)?;
        for backup in backups.iter().filter_map(|backup| backup.0.as_ref().ok()) {
            if let Some(number) = backup.status.as_ref().and_then(number) {
                lines.gauge(&labels(backup), number)?;
            }
        }
    }
    Ok(())
}

fn labels(backup: &EtcdBackup) -> [&str; 3] {
    let meta = &backup.metadata;
    let [namespace, name] =
        [&meta.namespace, &meta.name].map(|it| it.as_deref().unwrap_or_default());
    [namespace, &backup.spec.cluster_name, name]
}

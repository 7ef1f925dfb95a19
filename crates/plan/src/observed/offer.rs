//! The backup with which a cluster could begin that has lost everything, among those that EtcdBackups list.

use api::v1alpha1::backup::{BackupEntry, EtcdBackup};
use api::v1alpha1::memory::ReplaceMemory;
use api::v1alpha1::restore::RestoreFrom;
use jiff::Timestamp;

use super::restore::timeline_of;
use super::{ReplaceRequest, RestoreWish, parse_id};

/// A backup, and what stands for the EtcdRestore that would ask for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The EtcdBackup that lists it.
    pub by: String,
    /// Its ID.
    pub id: String,
    /// When it was complete.
    pub time: Timestamp,
    /// A verification found it good.
    pub verified: bool,
    /// A newer one of which no verification said so: its ID, and when it was complete.
    pub newer: Option<(String, Timestamp)>,
    /// It is encrypted, and no Secret is known that decrypts it.
    pub locked: bool,
    /// Secret that decrypts it.
    pub identity: Option<String>,
    /// What stands for an EtcdRestore. It names the cluster only where the backup is of that very one.
    pub request: ReplaceRequest,
}

/// One that could be used, and the etcd cluster that it is of.
struct Listed<'a> {
    backup: &'a EtcdBackup,
    entry: &'a BackupEntry,
    of: Option<u64>,
}

impl Offer {
    /// Of those that did not fail their verification: one of this very etcd cluster before one of an earlier one, one that was
    /// verified before one that was not, and then the newest.
    pub fn best_of(backups: &[EtcdBackup], namespace: &str, lost: u64) -> Option<Self> {
        let listed = || backups.iter().flat_map(listed);
        let rank = |it: &Listed<'_>| {
            let verified = it.entry.verified.is_some();
            (it.of == Some(lost), verified, it.entry.time.0)
        };
        let best = listed().max_by_key(rank)?;
        let newer = listed().filter(|it| (it.of == Some(lost)) == (best.of == Some(lost)));
        let newer = newer.filter(|it| it.entry.time.0 > best.entry.time.0);
        let newer = newer.max_by_key(|it| it.entry.time.0);
        let spec = &best.backup.spec;
        let identity = spec.verify.as_ref();
        let identity = identity.and_then(|verify| verify.identity_secret.clone());
        let locked = spec.encryption.is_some() && identity.is_none();
        let by = best.backup.metadata.name.clone().unwrap_or_default();
        let from = RestoreFrom {
            backup_name: Some(by.clone()),
            backup: Some(best.entry.id.clone()),
            identity_secret: identity.clone(),
            ..RestoreFrom::default()
        };
        let wish = if locked {
            Err(format!(
                "the backups of EtcdBackup {by} are encrypted, and its spec.verify.identitySecret names no Secret that decrypts them"
            ))
        } else {
            RestoreWish::resolve(&from, namespace, Some(best.backup))
        };
        Some(Self {
            id: best.entry.id.clone(),
            time: best.entry.time.0,
            verified: best.entry.verified.is_some(),
            newer: newer.map(|it| (it.entry.id.clone(), it.entry.time.0)),
            locked,
            identity,
            request: ReplaceRequest {
                uid: ReplaceMemory::by_loss_of(lost),
                name: by.clone(),
                replaces: best.of.filter(|of| *of == lost),
                wish: wish.map(Box::new),
            },
            by,
        })
    }
}

/// What an EtcdBackup lists, but what failed its verification.
fn listed(backup: &EtcdBackup) -> impl Iterator<Item = Listed<'_>> {
    let status = backup.status.as_ref();
    let url = status.and_then(|status| status.storage_path.as_deref());
    let of = url.and_then(timeline_of).and_then(parse_id);
    let entries = status.into_iter().flat_map(|status| &status.backups);
    let entries = entries.filter(move |entry| !entry.damaged && of.is_some());
    entries.map(move |entry| Listed { backup, entry, of })
}

#[cfg(test)]
mod tests {
    use super::*;
    use api::v1alpha1::backup::{Encryption, EtcdBackupSpec, EtcdBackupStatus, S3, Verification};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    const LOST: u64 = 0x00c0_ffee;

    fn entry(id: &str, hour: i64, found: &str) -> BackupEntry {
        let at = |hour: i64| Time(Timestamp::from_second(hour * 3600).unwrap());
        BackupEntry {
            id: id.to_owned(),
            time: at(hour),
            revision: hour,
            bytes: 1,
            verified: (found == "good").then(|| at(hour + 1)),
            damaged: found == "damaged",
        }
    }

    fn backup(name: &str, cluster: &str, entries: Vec<BackupEntry>) -> EtcdBackup {
        let mut backup = EtcdBackup::new(
            name,
            EtcdBackupSpec {
                cluster_name: "db".to_owned(),
                s3: Some(S3 {
                    bucket: "b".to_owned(),
                    ..S3::default()
                }),
                ..EtcdBackupSpec::default()
            },
        );
        backup.status = Some(EtcdBackupStatus {
            storage_path: Some(format!("s3://b/ns/db/{cluster}/base/1-x.db.zst")),
            backups: entries,
            ..EtcdBackupStatus::default()
        });
        backup
    }

    fn find(backups: &[EtcdBackup]) -> Offer {
        Offer::best_of(backups, "ns", LOST).unwrap()
    }

    const OURS: &str = "0000000000c0ffee";
    const OTHER: &str = "000000000000beef";

    #[test]
    fn the_newest_that_was_verified_comes_first_and_a_newer_one_is_told() {
        let all = vec![
            entry("c", 9, "untried"),
            entry("b", 8, "good"),
            entry("a", 7, "good"),
        ];
        let offer = find(&[backup("nightly", OURS, all)]);
        assert_eq!((offer.by.as_str(), offer.id.as_str()), ("nightly", "b"));
        assert!(offer.verified);
        assert_eq!(offer.newer.unwrap().0, "c");
        assert_eq!(offer.request.replaces, Some(LOST));
        assert_eq!(offer.request.uid, "lost-c0ffee");
        assert_eq!(offer.request.wish.unwrap().id().unwrap(), "b");
    }

    #[test]
    fn where_none_was_verified_it_is_the_newest_that_is_not_damaged() {
        let all = vec![entry("c", 9, "damaged"), entry("b", 8, "untried")];
        let offer = find(&[backup("nightly", OURS, all)]);
        assert_eq!((offer.id.as_str(), offer.newer), ("b", None));
        let damaged = vec![entry("c", 9, "damaged")];
        assert_eq!(
            Offer::best_of(&[backup("n", OURS, damaged)], "ns", LOST),
            None
        );
    }

    #[test]
    fn one_of_another_etcd_cluster_is_told_and_asks_for_nothing() {
        let other = backup("other", OTHER, vec![entry("z", 99, "good")]);
        let ours = backup("ours", OURS, vec![entry("a", 1, "untried")]);
        let offer = find(&[other.clone(), ours]);
        assert_eq!((offer.id.as_str(), offer.newer), ("a", None));
        let offer = find(&[other]);
        assert_eq!((offer.id.as_str(), offer.request.replaces), ("z", None));
    }

    #[test]
    fn one_that_is_encrypted_needs_the_secret_of_its_verification() {
        let mut backup = backup("nightly", OURS, vec![entry("a", 1, "untried")]);
        backup.spec.encryption = Some(Encryption {
            recipients: vec!["age1".to_owned()],
        });
        let offer = find(std::slice::from_ref(&backup));
        let why = offer.request.wish.unwrap_err();
        assert!(offer.locked && why.contains("identitySecret"), "{why}");
        backup.spec.verify = Some(Verification {
            identity_secret: Some("keys".to_owned()),
            ..Verification::default()
        });
        let offer = find(&[backup]);
        assert!(!offer.locked);
        let wish = offer.request.wish.unwrap();
        assert_eq!(wish.identity.as_deref(), Some("keys"));
    }
}

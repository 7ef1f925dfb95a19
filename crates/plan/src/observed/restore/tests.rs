use super::*;
use api::v1alpha1::backup::{EtcdBackupStatus, S3, StorageType};
use api::v1alpha1::restore::{EtcdRestoreSpec, EtcdRestoreStatus, RestoreTarget, SnapshotFile};

fn backup(path: Option<&str>) -> EtcdBackup {
    let spec = EtcdBackupSpec {
        cluster_name: "db".to_owned(),
        s3: Some(S3 {
            bucket: "b".to_owned(),
            ..S3::default()
        }),
        ..EtcdBackupSpec::default()
    };
    let mut backup = EtcdBackup::new("nightly", spec);
    backup.status = Some(EtcdBackupStatus {
        storage_path: path.map(str::to_owned),
        ..EtcdBackupStatus::default()
    });
    backup
}

fn named() -> RestoreFrom {
    RestoreFrom {
        backup_name: Some("nightly".to_owned()),
        ..RestoreFrom::default()
    }
}

#[test]
fn the_timeline_of_an_object_is_that_of_its_newest_backup() {
    let made = backup(Some("s3://b/path/ns/db/1f/base/x.db.zst"));
    let wish = RestoreWish::resolve(&named(), "ns", Some(&made)).unwrap();
    let Wanted::Backup { place, .. } = &wish.wanted else {
        panic!("a backup")
    };
    assert_eq!(
        (place.cluster_id.as_str(), place.cluster.as_str()),
        ("1f", "db")
    );
    let Task::Fetch(task) = wish.request().task else {
        panic!("a fetch")
    };
    let into = task.into.unwrap();
    assert!(into.ends_with(&format!("restore-{}", wish.hash)));
}

#[test]
fn what_cannot_be_brought_says_why() {
    let why = |from: &RestoreFrom, made: Option<&EtcdBackup>| {
        RestoreWish::resolve(from, "ns", made).unwrap_err()
    };
    assert!(why(&named(), None).contains("there is no EtcdBackup nightly"));
    assert!(why(&named(), Some(&backup(None))).contains("no backup in its store yet"));
    let odd = backup(Some("s3://b/elsewhere"));
    assert!(why(&named(), Some(&odd)).contains("names no backup"));
    assert!(why(&RestoreFrom::default(), None).contains("either"));
}

#[test]
fn another_wish_has_another_hash() {
    let source = BackupLocation {
        storage_type: StorageType::S3,
        s3: Some(S3 {
            bucket: "b".to_owned(),
            ..S3::default()
        }),
        cluster_name: Some("db".to_owned()),
        ..BackupLocation::default()
    };
    let from = RestoreFrom {
        source: Some(source),
        ..RestoreFrom::default()
    };
    let other = RestoreFrom {
        backup: Some("20261118-010203-abc".to_owned()),
        ..from.clone()
    };
    let hash = |from: &RestoreFrom| RestoreWish::resolve(from, "ns", None).unwrap().hash;
    assert_eq!(hash(&from), hash(&from));
    assert_ne!(hash(&from), hash(&other));
    assert_eq!(hash(&from).len(), 16);
}

fn file(sha256: Option<&str>) -> RestoreFrom {
    let snapshot = SnapshotFile {
        key: "2026/etcd.db".to_owned(),
        sha256: sha256.map(str::to_owned),
    };
    let source = BackupLocation {
        s3: Some(S3 {
            bucket: "b".to_owned(),
            ..S3::default()
        }),
        snapshot: Some(snapshot),
        ..BackupLocation::default()
    };
    RestoreFrom {
        source: Some(source),
        ..RestoreFrom::default()
    }
}

#[test]
fn a_file_of_others_is_asked_for_by_its_key() {
    let skipping = RestoreFrom {
        skip_hash_check: Some(true),
        ..file(None)
    };
    let resolve = |from: &RestoreFrom| RestoreWish::resolve(from, "ns", None).unwrap();
    let all = [
        resolve(&file(None)),
        resolve(&file(Some("ab"))),
        resolve(&skipping),
    ];
    for wish in &all {
        let Task::Import(task) = wish.request().task else {
            panic!("an import")
        };
        assert_eq!(task.name, "2026/etcd.db");
        assert_eq!(task.skip_hash_check, wish.skip_hash_check);
        let same = |it: &&RestoreWish| it.hash == wish.hash;
        assert_eq!(
            all.iter().filter(same).count(),
            1,
            "each has its own directory"
        );
    }
}

#[test]
fn what_the_keeper_wrote_is_always_compared() {
    let skipping = |from: RestoreFrom| RestoreFrom {
        skip_hash_check: Some(true),
        ..from
    };
    assert!(skips_hash(&skipping(named())) && !skips_hash(&named()));
    assert!(!skips_hash(&skipping(file(None))) && !skips_hash(&file(None)));
}

#[test]
fn one_thing_is_asked_for() {
    let why = |edit: fn(&mut RestoreFrom)| {
        let mut from = file(None);
        edit(&mut from);
        RestoreWish::resolve(&from, "ns", None).unwrap_err()
    };
    let named = |from: &mut RestoreFrom| {
        let source = from.source.get_or_insert_default();
        source.cluster_name = Some("db".to_owned());
    };
    assert!(why(named).contains("either clusterName"));
    let none = |from: &mut RestoreFrom| from.source.get_or_insert_default().snapshot = None;
    assert!(why(none).contains("either clusterName"));
    let with_id = |from: &mut RestoreFrom| from.backup = Some("a".to_owned());
    assert!(why(with_id).contains("leave it out beside source.snapshot"));
}

#[test]
fn one_that_ended_asks_for_nothing_and_one_that_can_be_corrected_does() {
    let asks = |phase: Option<RestorePhase>, cluster: Option<&str>| {
        let spec = EtcdRestoreSpec {
            restore_type: Some(RestoreType::Replace),
            ..EtcdRestoreSpec::default()
        };
        let mut restore = EtcdRestore::new("back", spec);
        restore.status = Some(EtcdRestoreStatus {
            phase,
            cluster_uid: cluster.map(str::to_owned),
            ..EtcdRestoreStatus::default()
        });
        ReplaceRequest::is_one(&restore)
    };
    let carried_out = Some("cluster-1");
    assert!(asks(None, None) && asks(Some(RestorePhase::Running), carried_out));
    assert!(asks(Some(RestorePhase::Failed), None));
    assert!(!asks(Some(RestorePhase::Failed), carried_out));
    assert!(!asks(Some(RestorePhase::Completed), carried_out));
}

#[test]
fn a_revision_is_asked_for_and_has_a_directory_of_its_own() {
    let at = |target: Option<RestoreTarget>, from: RestoreFrom| RestoreFrom { target, ..from };
    let revision = |revision| Some(RestoreTarget { revision });
    let made = backup(Some("s3://b/path/ns/db/1f/base/x.db.zst"));
    let resolve = |from: &RestoreFrom| RestoreWish::resolve(from, "ns", Some(&made));
    let whole = resolve(&named()).unwrap();
    let wish = resolve(&at(revision(Some(5)), named())).unwrap();
    assert_ne!(whole.hash, wish.hash);
    for request in [wish.request(), wish.check()] {
        let Task::Fetch(task) = request.task else {
            panic!("a fetch")
        };
        assert_eq!((task.revision, task.id), (Some(5), None));
    }
    for missing in [None, Some(0), Some(-7)] {
        let why = resolve(&at(revision(missing), named())).unwrap_err();
        assert!(why.starts_with("target: write a revision"), "{why}");
    }
    let why = resolve(&at(revision(Some(5)), file(None))).unwrap_err();
    assert!(why.contains("leave it out beside source.snapshot"), "{why}");
}

use api::v1alpha1::backup::{Azure, Gcs, Local, S3};

use super::*;

/// All blocks at once, with Secrets of that namespace.
fn backup(kind: StorageType) -> EtcdBackup {
    let spec = EtcdBackupSpec {
        cluster_name: "db".to_owned(),
        storage_type: kind,
        s3: Some(S3 {
            bucket: "b".to_owned(),
            access_key_secret: Some("theirs".to_owned()),
            secret_key_secret: Some("theirs".to_owned()),
            ca_secret: Some("theirs-ca".to_owned()),
            ..S3::default()
        }),
        gcs: Some(Gcs {
            credentials_secret: Some("theirs".to_owned()),
            ..Gcs::default()
        }),
        azure: Some(Azure {
            credentials_secret: Some("theirs".to_owned()),
            ..Azure::default()
        }),
        local: Some(Local::default()),
        service_account_name: Some("theirs".to_owned()),
        allowed_namespaces: vec!["staging".to_owned()],
        ..EtcdBackupSpec::default()
    };
    EtcdBackup::new("nightly", spec)
}

fn from(secret: Option<&str>, account: Option<&str>) -> RestoreFrom {
    RestoreFrom {
        backup_name: Some("nightly".to_owned()),
        backup_namespace: Some("shop".to_owned()),
        credentials_secret: secret.map(str::to_owned),
        service_account_name: account.map(str::to_owned),
        ..RestoreFrom::default()
    }
}

#[test]
fn only_an_object_that_lists_the_namespace_is_used_and_no_other_is_told_of() {
    let listed = backup(StorageType::S3);
    assert!(usable("nightly", "shop", "staging", Some(&listed)).is_ok());
    for own in ["stag", "staging-2", "shop2", ""] {
        let unlisted = usable("nightly", "shop", own, Some(&listed)).unwrap_err();
        // Whether there is one is not for those to know that it does not list.
        assert_eq!(unlisted, usable("nightly", "shop", own, None).unwrap_err());
        assert!(unlisted.contains("allowedNamespaces") && unlisted.contains("write source"));
    }
    // In its own namespace it needs no list.
    let mut own = listed.clone();
    own.spec.allowed_namespaces.clear();
    assert!(usable("nightly", "shop", "shop", Some(&own)).is_ok());
    assert!(usable("nightly", "shop", "shop", None).is_err());
    assert_eq!(namespace_of(Some(""), "shop"), "shop");
    assert_eq!(namespace_of(None, "shop"), "shop");
    assert_eq!(namespace_of(Some("other"), "shop"), "other");
    assert!(unwatched("other").contains("does not watch namespace other"));
}

#[test]
fn no_name_of_a_secret_or_an_account_is_taken_from_another_namespace() {
    for kind in [StorageType::S3, StorageType::Gcs, StorageType::Azure] {
        for (secret, account) in [(Some("ours"), None), (Some("ours"), Some("ours"))] {
            let from = from(secret, account);
            let place = location(&from, "shop", "staging", &backup(kind)).unwrap();
            assert!(!format!("{place:?}").contains("theirs"), "{place:?}");
            assert_eq!(place.service_account_name.as_deref(), account);
            assert_eq!(
                place.s3.as_ref().unwrap().ca_secret.as_deref(),
                Some("ours")
            );
            assert_eq!(place.s3.unwrap().bucket, "b");
        }
        let why = location(&from(None, None), "shop", "staging", &backup(kind)).unwrap_err();
        assert!(why.contains("write credentialsSecret"), "{why}");
    }
    let mut public = backup(StorageType::S3);
    let account = from(None, Some("ours"));
    let why = location(&account, "shop", "staging", &public).unwrap_err();
    assert!(why.contains("ca.crt"), "{why}");
    public.spec.s3.as_mut().unwrap().ca_secret = None;
    let place = location(&account, "shop", "staging", &public).unwrap();
    assert!(!format!("{place:?}").contains("theirs"), "{place:?}");
}

#[test]
fn a_claim_of_another_namespace_cannot_be_mounted() {
    let local = backup(StorageType::Local);
    let why = location(&from(Some("ours"), None), "shop", "staging", &local).unwrap_err();
    assert!(
        why.contains("PersistentVolumeClaim of namespace shop"),
        "{why}"
    );
    assert!(location(&from(Some("ours"), None), "shop", "shop", &local).is_ok());
}

#[test]
fn in_its_own_namespace_an_object_brings_its_own_credentials_unless_others_are_named() {
    let kept = location(&from(None, None), "shop", "shop", &backup(StorageType::S3)).unwrap();
    assert_eq!(kept, backup(StorageType::S3).spec);
    let other = location(
        &from(Some("ours"), None),
        "shop",
        "shop",
        &backup(StorageType::S3),
    );
    let other = other.unwrap();
    assert_eq!(other.service_account_name.as_deref(), Some("theirs"));
    assert_eq!(other.s3.unwrap().secret_key_secret.as_deref(), Some("ours"));
    let other = location(
        &from(None, Some("ours")),
        "shop",
        "shop",
        &backup(StorageType::S3),
    );
    let other = other.unwrap();
    assert_eq!(other.service_account_name.as_deref(), Some("ours"));
    assert_eq!(
        other.s3.unwrap().secret_key_secret.as_deref(),
        Some("theirs")
    );
}

#[test]
fn an_object_of_another_namespace_cannot_have_credentials_sent_in_clear() {
    let mut backup = backup(StorageType::S3);
    let wish = from(Some("ours"), None);
    assert!(location(&wish, "shop", "staging", &backup).is_ok());
    backup.spec.s3.as_mut().unwrap().allow_http = Some(true);
    let why = location(&wish, "shop", "staging", &backup).unwrap_err();
    assert!(why.contains("allowHTTP"), "{why}");
    assert!(location(&wish, "shop", "shop", &backup).is_ok());
}

//! What users can write into a spec, and what others can write into annotations and URLs, is answered and never a panic.

use api::v1alpha1::backup::EtcdBackupSpec;
use api::v1alpha1::restore::{BackupLocation, EtcdRestoreSpec};
use api::v1alpha1::role::{EtcdRoleSpec, Permission};
use api::v1alpha1::user::EtcdUserSpec;
use api::{ClusterIntent, EtcdClusterSpec, EtcdVersion, Lineage, Quantity, names};
use hostile::{never_panics, never_panics_on_text};

#[test]
fn specs() {
    let samples = [
        "{}",
        r#"{"size":3,"version":"3.6.16","image":{"repository":"quay.io/coreos/etcd","tag":"v3.6.16"},"resources":{"limits":{"cpu":"1","memory":"1Gi"}}}"#,
        r#"{"size":5,"storage":{"size":"10Gi","className":"fast","persistentVolumeClaimRetentionPolicy":{"whenScaled":"Delete","whenStopped":"Retain"}}}"#,
        r#"{"version":"v3.5.35","etcd":{"quotaBackendBytes":2147483648,"snapshotCount":10000,"extraEnv":[{"name":"A","value":"b"}]}}"#,
        r#"{"maintenance":{"defragmentation":{"window":{"start":"02:00","duration":"2h","timeZone":"UTC"}},"keepRevisions":1000,"compact":"Allowed"}}"#,
        r#"{"recovery":{"mode":"Ask","nodePatienceSeconds":300,"joinPatienceSeconds":600},"upgrade":{"walk":true}}"#,
        r#"{"security":{"tls":{"certManager":{"issuerRef":{"name":"i","kind":"ClusterIssuer"}},"extraNames":["a","10.0.0.1"],"minVersion":"TLS1.3","plaintextClients":"Accept","liveSwitch":true},"auth":{"enabled":true,"rootPasswordSecret":"root"},"networkPolicy":{"clients":[{"podSelector":{"matchLabels":{"a":"b"}}},{"ipBlock":{"cidr":"10.0.0.0/8","except":["10.1.0.0/16"]}}]}}}"#,
        r#"{"security":{"tls":{"enabled":true,"autoTLS":true}},"access":{"nodePort":{"enabled":true,"port":30379}}}"#,
    ];
    never_panics(&samples, |input| {
        let spec = serde_json::from_slice::<EtcdClusterSpec>(input).ok()?;
        let intent = ClusterIntent::parse(&spec).ok()?;
        Some(intent.image.reference(intent.version))
    });
}

#[test]
fn users_and_roles() {
    let user = r#"{"clusterName":"db","userName":"report","roles":["reader","root"],"passwordSecret":"report-password"}"#;
    let role = r#"{"clusterName":"db","roleName":"reader","permissions":[{"type":"Read","key":"/a"},{"type":"ReadWrite","prefix":"/b/"},{"type":"Write","range":{"from":"a","to":"b"}}]}"#;
    assert!(serde_json::from_str::<EtcdUserSpec>(user).is_ok());
    assert!(serde_json::from_str::<EtcdRoleSpec>(role).is_ok());
    let samples = [
        user,
        role,
        r#"{"clusterName":"db","roles":[],"certificate":true}"#,
        r#"{"clusterName":"db","permissions":[{"type":"Read","prefix":""},{"type":"Read"},{"type":"Read","range":{"from":"z"}}]}"#,
    ];
    never_panics(&samples, |input| {
        drop(serde_json::from_slice::<EtcdUserSpec>(input));
        let role = serde_json::from_slice::<EtcdRoleSpec>(input).ok()?;
        Some(role.permissions.iter().filter_map(Permission::keys).count())
    });
}

#[test]
fn backups_and_restores() {
    let backup = r#"{"clusterName":"db","schedule":"*/5 * * * *","storageType":"S3","s3":{"bucket":"b"},"retentionPolicy":{"maxBackups":3,"keep":{"daily":7}}}"#;
    let restore =
        r#"{"backupName":"nightly","clusterName":"other","restoreType":"New","backup":"20260101"}"#;
    let place = r#"{"storageType":"Azure","clusterName":"db","clusterID":"1f2e"}"#;
    assert!(serde_json::from_str::<EtcdBackupSpec>(backup).is_ok());
    assert!(serde_json::from_str::<EtcdRestoreSpec>(restore).is_ok());
    assert!(serde_json::from_str::<BackupLocation>(place).is_ok());
    never_panics(&[backup, restore, place], |input| {
        drop(serde_json::from_slice::<EtcdBackupSpec>(input));
        drop(serde_json::from_slice::<EtcdRestoreSpec>(input));
        let from = serde_json::from_slice::<BackupLocation>(input).ok()?;
        Some(from.as_backup())
    });
}

#[test]
fn versions_quantities_and_names() {
    let samples = [
        "3.6.16",
        "v3.5.0",
        "10Gi",
        "0.5",
        "1e3",
        "100m",
        "db-1",
        "https://db-1.db-peer.ns.svc.cluster.local:2380",
        "http://[fd00::1]:2380",
    ];
    never_panics_on_text(&samples, |text| {
        let version = EtcdVersion::parse(text);
        let newest = version.and_then(|version| EtcdVersion::newest(version.minor));
        let hop = version
            .zip(newest)
            .map(|(from, to)| from.next_hop(to, true));
        let quantity = Quantity(text.to_owned());
        let same = quantity.is_same(&Quantity("1Gi".to_owned()));
        let ordinal = names::ordinal("db", text);
        let of_url = names::ordinal_of_url("db", "ns", text);
        (hop, quantity.value(), same, ordinal, of_url)
    });
}

#[test]
fn lineages() {
    let samples = [
        r#"{"incarnation":1,"clusterID":"1f2e"}"#,
        r#"{"incarnation":2,"fence":2,"recovery":{"clusterID":"a","survivor":{"member":"db-0","claimUID":"u"},"excused":["db-1"]}}"#,
        r#"{"incarnation":1,"bootstrap":{"member":"db-0","podUID":"p","claimUID":"c","nonce":"n"}}"#,
    ];
    never_panics_on_text(&samples, |text| {
        if let Some(lineage) = Lineage::parse(text) {
            assert_eq!(Lineage::parse(&lineage.to_text()), Some(lineage));
        }
    });
}

#[test]
fn records_of_certificates_and_transports() {
    let record = r#"{"authorities":"a","asked":"x","issuedAt":"2026-01-01T00:00:00Z","renewAt":"2026-02-01T00:00:00Z","notAfter":"2026-03-01T00:00:00Z","data":"d"}"#;
    assert!(api::certificates::Record::parse(record).is_some());
    never_panics_on_text(&[record, "client=Tls,peer=Plain"], |text| {
        let record = api::certificates::Record::parse(text);
        if let Some(record) = record {
            assert_eq!(
                api::certificates::Record::parse(&record.to_text()),
                Some(record)
            );
        }
        api::Transport::parse(text)
    });
}

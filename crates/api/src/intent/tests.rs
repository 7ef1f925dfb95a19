//! Specs and what is made of them.

use super::*;

fn parse(json: &str) -> Result<ClusterIntent, InvalidSpec> {
    ClusterIntent::parse(&serde_json::from_str(json).unwrap())
}

#[test]
fn an_empty_spec_gets_every_default() {
    let intent = parse("{}").unwrap();
    assert_eq!(intent.size, 3);
    assert_eq!(intent.image_reference(), "quay.io/coreos/etcd:v3.5.35");
    assert_eq!(intent.storage.size.0, "10Gi");
    assert_eq!(intent.quota(), 4 * 1024 * 1024 * 1024);
    assert_eq!(intent.requests()["memory"].0, "128Mi");
}

#[test]
fn both_spellings_of_a_version_give_the_tag_with_a_v() {
    assert_eq!(
        parse(r#"{"version":"3.5.21"}"#).unwrap().image_reference(),
        "quay.io/coreos/etcd:v3.5.21"
    );
    assert_eq!(
        parse(r#"{"version":"v3.5.21"}"#).unwrap().image_reference(),
        "quay.io/coreos/etcd:v3.5.21"
    );
}

#[test]
fn a_stored_storage_size_of_zero_means_the_default() {
    assert_eq!(
        parse(r#"{"storage":{"size":"0"}}"#).unwrap().storage.size.0,
        "10Gi"
    );
}

#[test]
fn what_the_claim_template_says_wins() {
    let intent = parse(
        r#"{"storage":{"size":"10Gi","volumeClaimTemplate":{"spec":
            {"storageClassName":"fast","resources":{"requests":{"storage":"2Gi"}}}}}}"#,
    )
    .unwrap();
    assert_eq!(
        (
            intent.storage.size.0.as_str(),
            intent.storage.class.as_deref()
        ),
        ("2Gi", Some("fast"))
    );
}

#[test]
fn nonsense_is_named() {
    assert_eq!(parse(r#"{"size":4}"#), Err(InvalidSpec::Size(4)));
    assert_eq!(parse(r#"{"size":-1}"#), Err(InvalidSpec::Size(-1)));
    assert_eq!(parse(r#"{"size":11}"#), Err(InvalidSpec::Size(11)));
    assert_eq!(
        parse(r#"{"version":"3.4.1"}"#),
        Err(InvalidSpec::Version("3.4.1".into()))
    );
    assert_eq!(
        parse(r#"{"storage":{"size":"lots"}}"#),
        Err(InvalidSpec::StorageSize("lots".into()))
    );
}

#[test]
fn every_claim_policy_has_its_own_default_also_beside_others() {
    use crate::v1alpha1::cluster::Retention::{Delete, Retain};
    for (policy, expected) in [
        ("{}", (Retain, Delete, Retain)),
        (r#"{"whenDeleted":"Delete"}"#, (Retain, Delete, Delete)),
        (r#"{"whenScaled":"Retain"}"#, (Retain, Retain, Retain)),
        (r#"{"whenStopped":"Delete"}"#, (Delete, Delete, Retain)),
    ] {
        let spec = format!(r#"{{"storage":{{"claimPolicy":{policy}}}}}"#);
        let storage = parse(&spec).unwrap().storage;
        let read = (
            storage.when_stopped,
            storage.when_scaled,
            storage.when_deleted,
        );
        assert_eq!(read, expected, "{policy}");
    }
    assert_eq!(parse("{}").unwrap().storage.when_scaled, Delete);
}

#[test]
fn the_quota_follows_the_size_that_volumes_really_have() {
    const GIB: u64 = 1024 * 1024 * 1024;
    let mut intent = parse(r#"{"storage":{"size":"15Gi"}}"#).unwrap();
    assert_eq!(intent.quota(), 6 * GIB);
    intent.storage.size_in_force = Some(10 * GIB);
    assert_eq!(intent.quota(), 4 * GIB);
    assert_eq!(intent.quota_for(5 * GIB), 2 * GIB);
    assert_eq!(intent.quota_for(100 * GIB), 8 * GIB, "etcd warns above it");
}

#[test]
fn the_same_intent_on_another_release_exists_unless_an_image_is_pinned() {
    let other = EtcdVersion::parse("3.6.16").unwrap();
    let intent = parse("{}").unwrap().at_version(other).unwrap();
    assert_eq!(intent.image_reference(), "quay.io/coreos/etcd:v3.6.16");
    let pinned = parse(r#"{"image":{"tag":"v3.5.35"}}"#).unwrap();
    assert_eq!(pinned.at_version(other), None);
    assert_eq!(pinned.at_version(pinned.version), Some(pinned.clone()));
}

#[test]
fn a_quota_that_was_written_wins_over_the_volume() {
    let mut intent = parse(r#"{"etcd":{"quotaBackendBytes":"1Gi"}}"#).unwrap();
    assert_eq!(intent.quota(), 1024 * 1024 * 1024);
    intent.storage.size_in_force = Some(1);
    assert_eq!(intent.quota(), 1024 * 1024 * 1024);
    assert_eq!(
        parse(r#"{"etcd":{"maxRequestBytes":"much"}}"#)
            .unwrap_err()
            .to_string(),
        "spec.etcd.maxRequestBytes is \"much\": write a quantity such as 2Gi"
    );
}

#[test]
fn tools_are_there_only_when_they_are_switched_on() {
    assert!(parse(r#"{"debug":{"image":"a"}}"#).unwrap().debug.is_none());
    assert!(
        parse(r#"{"debug":{"enabled":true}}"#)
            .unwrap()
            .debug
            .is_some()
    );
}

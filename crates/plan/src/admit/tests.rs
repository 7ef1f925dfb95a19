use api::v1alpha1::cluster::EtcdClusterStatus;

use super::*;

fn cluster(spec: &str) -> EtcdCluster {
    let mut cluster = EtcdCluster::new("db", serde_json::from_str(spec).unwrap());
    cluster.metadata.uid = Some("u".to_owned());
    cluster
}

/// The same, formed and running this release everywhere.
fn running(spec: &str, version: &str) -> EtcdCluster {
    let status = format!(
        r#"{{"memory":{{"objectUID":"u","lineage":{{"incarnation":1,"clusterID":"1f"}},
            "proven":{{"template":"t","version":"{version}","everywhere":true}}}}}}"#
    );
    let status: EtcdClusterStatus = serde_json::from_str(&status).unwrap();
    EtcdCluster {
        status: Some(status),
        ..cluster(spec)
    }
}

fn claim(expandable: Option<bool>) -> Facts {
    Facts {
        claims: vec![Claim {
            name: "data-db-0".to_owned(),
            class: Some("fast".to_owned()),
            requested: 1 << 30,
            expandable,
        }],
        ..Facts::default()
    }
}

#[test]
fn a_spec_that_makes_no_sense_is_refused_with_the_sentence_of_the_condition() {
    let verdict = judge(None, &cluster(r#"{"size":2}"#), &Facts::default());
    assert_eq!(
        verdict.refused,
        ["spec.size is 2: write 0 (stopped) or an odd number from 1 to 9"]
    );
    assert_eq!(
        judge(None, &cluster("{}"), &Facts::default()),
        Verdict::default()
    );
}

#[test]
fn volumes_grow_only_where_their_class_can() {
    let (old, new) = (
        cluster(r#"{"storage":{"size":"1Gi"}}"#),
        cluster(r#"{"storage":{"size":"2Gi"}}"#),
    );
    let judged = |expandable| judge(Some(&old), &new, &claim(expandable));
    assert_eq!(judged(Some(true)), Verdict::default());
    let refused = judged(Some(false)).refused;
    assert!(
        refused[0].contains("fast, the StorageClass of data-db-0, does not allow volume expansion")
    );
    let missing = judged(None);
    assert_eq!(missing.refused, Vec::<String>::new());
    assert!(
        missing.warnings[0].contains("does not exist"),
        "{missing:?}"
    );
}

#[test]
fn what_the_spec_before_got_wrong_as_well_keeps_no_other_field_from_being_corrected() {
    let old = cluster(r#"{"storage":{"size":"2Gi"},"size":3}"#);
    let new = cluster(r#"{"storage":{"size":"2Gi"},"size":5}"#);
    let verdict = judge(Some(&old), &new, &claim(Some(false)));
    assert_eq!(verdict.refused, Vec::<String>::new());
    assert_eq!(verdict.warnings.len(), 1, "{verdict:?}");
    // Even smaller steps towards what is right are taken; further away is another mistake.
    let more = cluster(r#"{"storage":{"size":"3Gi"},"size":3}"#);
    assert_eq!(
        judge(Some(&old), &more, &claim(Some(false))).refused.len(),
        1
    );
}

/// CEL compares two specs. What runs may be behind the older one of them.
#[test]
fn a_release_must_be_within_reach_of_the_one_that_runs() {
    let asked = |from: &str, to: &str, runs: &str| {
        let old = running(&format!(r#"{{"version":"{from}"}}"#), runs);
        let new = running(&format!(r#"{{"version":"{to}"}}"#), runs);
        judge(Some(&old), &new, &Facts::default()).refused
    };
    assert_eq!(asked("v3.6.16", "v3.7.3", "3.6.16"), Vec::<String>::new());
    let refused = asked("v3.6.16", "v3.7.3", "3.5.35");
    assert!(refused[0].contains("from v3.5.35 to v3.7.3"), "{refused:?}");
    // A status that was restored from another object proves nothing.
    let mut other = running(r#"{"version":"v3.6.16"}"#, "3.5.35");
    other.metadata.uid = Some("another".to_owned());
    let new = cluster(r#"{"version":"v3.7.3"}"#);
    assert_eq!(
        judge(Some(&other), &new, &Facts::default()),
        Verdict::default()
    );
}

#[test]
fn a_class_that_is_not_there_yet_is_a_warning() {
    let named = cluster(r#"{"storage":{"storageClassName":"fast"}}"#);
    let facts = |class_exists| Facts {
        class_exists,
        ..Facts::default()
    };
    let verdict = judge(None, &named, &facts(Some(false)));
    assert_eq!(verdict.refused, Vec::<String>::new());
    assert!(verdict.warnings[0].contains("no StorageClass fast"));
    assert_eq!(
        judge(None, &named, &facts(Some(true))),
        judge(None, &named, &facts(None))
    );
}

#[test]
fn what_could_not_be_read_is_told_and_refuses_nothing() {
    let facts = Facts {
        unread: vec!["the claims could not be read".to_owned()],
        ..Facts::default()
    };
    let verdict = judge(None, &cluster("{}"), &facts);
    assert_eq!(
        (verdict.refused.len(), verdict.warnings),
        (0, facts.unread.clone())
    );
}

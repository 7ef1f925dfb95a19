use plan::admit::Facts;
use serde_json::json;

use super::*;

/// Without other objects.
fn answer_alone(asked: Asked, body: &[u8]) -> (StatusCode, String) {
    let answer = match read(asked, body) {
        Read::Answered(answer) => answer,
        Read::Judge(request, pair) => {
            let verdict = judge(pair.0.as_ref(), &pair.1, &Facts::default());
            Answer::to(&request, &verdict, &[])
        }
    };
    (answer.status, answer.text)
}

fn review(operation: &str, object: &Value, old: &Value) -> Value {
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "7f3", "operation": operation, "namespace": "prod", "name": "db",
        "kind": {"group": "etcd.etcd.io", "version": "v1alpha1", "kind": "EtcdCluster"},
        "resource": {"group": "etcd.etcd.io", "version": "v1alpha1", "resource": "etcdclusters"},
        "object": object, "oldObject": old, "dryRun": false, "userInfo": {"username": "ada"}}})
}

fn object(spec: &Value) -> Value {
    json!({"apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdCluster",
        "metadata": {"name": "db", "namespace": "prod", "uid": "u"}, "spec": spec})
}

fn answer(asked: Asked, review: &Value) -> Value {
    let (status, text) = answer_alone(asked, review.to_string().as_bytes());
    assert_eq!(status, StatusCode::OK, "{text}");
    let answer: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(answer["response"]["uid"], review["request"]["uid"]);
    answer["response"].clone()
}

#[test]
fn a_wrong_spec_is_refused_with_our_sentence_and_a_right_one_is_not() {
    let create = |spec| {
        answer(
            Asked::Validate,
            &review("CREATE", &object(&spec), &json!(null)),
        )
    };
    assert_eq!(create(json!({"size": 3}))["allowed"], true);
    let refused = create(json!({"size": 2}));
    assert_eq!(refused["allowed"], false);
    assert_eq!(refused["status"]["code"], 422);
    let why = refused["status"]["message"].as_str().unwrap();
    assert!(why.contains("spec.size is 2"), "{why}");
    let unreadable = create(json!({"version": 36}));
    let why = unreadable["status"]["message"].as_str().unwrap();
    assert!(why.contains("cannot be read"), "{why}");
}

#[test]
fn what_is_deleted_or_no_spec_or_no_cluster_passes() {
    let wrong = object(&json!({"size": 2}));
    let passes = |review: &Value| answer(Asked::Validate, review)["allowed"] == true;
    assert!(passes(&review("DELETE", &json!(null), &wrong)));
    let mut going = wrong.clone();
    going["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    assert!(passes(&review("UPDATE", &going, &wrong)));
    let mut status = review("UPDATE", &wrong, &json!(null));
    status["request"]["subResource"] = json!("status");
    assert!(passes(&status));
    let mut other = review("CREATE", &wrong, &json!(null));
    other["request"]["kind"]["kind"] = json!("Pod");
    let told = answer(Asked::Validate, &other);
    assert_eq!(told["allowed"], true);
    assert!(
        told["warnings"][0]
            .as_str()
            .unwrap()
            .contains("of kind Pod")
    );
}

#[test]
fn only_a_new_object_gets_what_it_lacks() {
    let bare = object(&json!({}));
    let added = answer(Asked::Mutate, &review("CREATE", &bare, &json!(null)));
    assert_eq!(added["patchType"], "JSONPatch");
    let patch: k8s_openapi::ByteString = serde_json::from_value(added["patch"].clone()).unwrap();
    let patch: Value = serde_json::from_slice(&patch.0).unwrap();
    assert_eq!(
        (&patch[0]["op"], &patch[0]["path"]),
        (&json!("add"), &json!("/spec/storage"))
    );
    let update = answer(Asked::Mutate, &review("UPDATE", &bare, &bare));
    assert_eq!(update, json!({"uid": "7f3", "allowed": true}));
}

#[test]
fn what_is_no_review_is_answered_with_400() {
    let mut other = review("CREATE", &json!({}), &json!(null));
    other["kind"] = json!("Pod");
    let mut empty = review("CREATE", &json!({}), &json!(null));
    empty["request"] = json!(null);
    let mut nameless = review("CREATE", &json!({}), &json!(null));
    nameless["request"]["uid"] = json!("");
    for (body, said) in [
        ("", "not an AdmissionReview"),
        ("\0\u{1f4a3}", "not an AdmissionReview"),
        ("{}", "not an AdmissionReview"),
        (&"[".repeat(100_000), "not an AdmissionReview"),
        (&other.to_string(), "\"Pod\""),
        (&empty.to_string(), "no request"),
        (&nameless.to_string(), "no request"),
    ] {
        for asked in [Asked::Mutate, Asked::Validate] {
            let (status, text) = answer_alone(asked, body.as_bytes());
            assert_eq!(status, StatusCode::BAD_REQUEST, "{text}");
            assert!(text.contains(said), "{text}");
        }
    }
}

/// Whatever comes, there is an answer, and it is one of the two.
#[test]
fn damaged_reviews_are_answered() {
    let whole = object(
        &json!({"size": 3, "version": "v3.6.16", "storage": {"size": "1Gi"},
        "security": {"tls": {"enabled": true}},
        "pod": {"volumes": [{"name": "v", "emptyDir": {}}], "env": [{"name": "A", "value": "b"}]}}),
    );
    let mut running = whole.clone();
    running["status"] = json!({"clusterID": "1f", "replicas": 3, "memory": {"objectUID": "u",
        "lineage": {"incarnation": 1, "clusterID": "1f"},
        "proven": {"template": "t", "version": "3.5.35", "everywhere": true, "storageBytes": 1}}});
    let samples = [
        review("CREATE", &whole, &json!(null)).to_string(),
        review("UPDATE", &running, &running).to_string(),
        review("DELETE", &json!(null), &running).to_string(),
    ];
    let samples: Vec<&str> = samples.iter().map(String::as_str).collect();
    hostile::never_panics(&samples, |body| {
        for asked in [Asked::Mutate, Asked::Validate] {
            let (status, text) = answer_alone(asked, body);
            match status {
                StatusCode::OK => {
                    let answer: Value = serde_json::from_str(&text).unwrap();
                    assert!(answer["response"]["allowed"].is_boolean(), "{text}");
                }
                StatusCode::BAD_REQUEST => assert!(text.starts_with("this "), "{text}"),
                other => panic!("{other}: {text}"),
            }
        }
    });
}

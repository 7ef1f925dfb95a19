//! cert-manager as the source: what it is asked for, by which requests, and what is told where nothing comes of it.

use operator::cluster::observe::observe;
use plan::observed::{Offered, Request};

use super::sources::{BOTH, authority, given, names, pair, theirs};
use super::*;

const CERTIFICATES: &str = "/apis/cert-manager.io/v1/namespaces/prod/certificates";

fn asks() -> Value {
    json!({"certManager": {"issuerRef": {"name": "house", "kind": "ClusterIssuer"}}, "extraNames": ["etcd.example.com", "10.1.2.3"]})
}

fn no_such(name: &str) -> (u16, Value) {
    let details = json!({"name": name, "kind": "certificates"});
    let status = json!({"kind": "Status", "code": 404, "reason": "NotFound", "details": details});
    (404, status)
}

/// As an API server says it that does not know the kind.
fn no_kind() -> (u16, Value) {
    (404, json!("404 page not found"))
}

/// Every name that this spec asks for.
fn all_names() -> Vec<String> {
    let mut all = names();
    all.extend(["etcd.example.com", "10.1.2.3"].map(str::to_owned));
    all
}

async fn look(answers: Vec<(u16, Value)>) -> (Offered, Request, Vec<Recorded>) {
    let (client, asked) = recorded(answers);
    let ctx = context(&client, vec![]);
    let observed = Box::pin(observe(&theirs(&asks()), &ctx)).await.unwrap();
    let asked = asked.lock().unwrap().clone();
    let certificates = observed.certificates;
    (certificates.offered, certificates.request, asked)
}

/// What is written where this is there.
async fn write(live: (u16, Value), answer: (u16, Value)) -> (Outcome, Vec<Recorded>) {
    let cluster = theirs(&asks());
    let (client, _) = recorded(vec![no_such("db-issued"), no_such("db-issued")]);
    let ctx = context(&client, vec![]);
    let observed = Box::pin(observe(&cluster, &ctx)).await.unwrap();
    let (client, asked) = recorded(vec![live, answer]);
    let step = decision(Step::RequestCertificate);
    let ctx = context(&client, vec![]);
    let outcome = Box::pin(act::act(&cluster, &observed, &step, &ctx)).await;
    let asked = asked.lock().unwrap().clone();
    (outcome, asked)
}

/// The Certificate, as it is written first.
async fn wanted() -> Value {
    let (outcome, asked) = write(no_such("db-issued"), (201, json!({}))).await;
    assert_eq!(outcome, Outcome::Done);
    let (method, path, body) = asked.get(1).unwrap().clone();
    assert_eq!(method, "POST");
    assert_eq!(path, format!("{CERTIFICATES}?&fieldManager=etcd-operator"));
    body
}

#[tokio::test]
async fn a_certificate_is_asked_for_with_every_name_and_no_other() {
    let body = wanted().await;
    let spec = &body["spec"];
    let hosts: Vec<&str> = spec["dnsNames"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    // Nine members and two Services, each with the domain and without; localhost, and the one of the user's.
    assert_eq!(hosts.len(), 24, "{hosts:?}");
    for host in [
        "db-0.db-peer.prod.svc",
        "db-8.db-peer.prod.svc",
        "db-client.prod.svc",
        "db-peer.prod.svc",
        "etcd.example.com",
    ] {
        assert!(hosts.contains(&host), "{host}");
    }
    assert_eq!(spec["ipAddresses"], json!(["127.0.0.1", "::1", "10.1.2.3"]));
    assert_eq!(spec["secretName"], "db-issued");
    assert_eq!(
        spec["issuerRef"],
        json!({"name": "house", "kind": "ClusterIssuer", "group": "cert-manager.io"})
    );
    assert_eq!(
        body["metadata"]["ownerReferences"][0]["kind"],
        "EtcdCluster"
    );
}

#[tokio::test]
async fn one_that_asks_for_something_else_is_applied_as_it_was_seen_and_that_of_another_is_left_alone()
 {
    let mut live = wanted().await;
    live["metadata"]["uid"] = "u".into();
    live["metadata"]["resourceVersion"] = "7".into();
    live["spec"]["issuerRef"]["name"] = "other".into();
    let (outcome, asked) = write((200, live.clone()), (200, live.clone())).await;
    assert_eq!(outcome, Outcome::Done);
    let (method, path, body) = &asked[1];
    assert_eq!(method, "PATCH");
    assert_eq!(
        path,
        &format!("{CERTIFICATES}/db-issued?&force=true&fieldManager=etcd-operator")
    );
    assert_eq!(
        (
            &body["metadata"]["uid"],
            &body["metadata"]["resourceVersion"]
        ),
        (&json!("u"), &json!("7"))
    );
    assert_eq!(body["spec"]["issuerRef"]["name"], "house");
    live["metadata"]["ownerReferences"] = json!([]);
    let (outcome, asked) = write((200, live.clone()), (200, json!({}))).await;
    assert!(matches!(outcome, Outcome::NotNow(_)), "{outcome:?}");
    assert_eq!(asked.len(), 1, "nothing is written");
    let (offered, request, asked) = look(vec![(200, live)]).await;
    let Offered::Unusable(why) = offered else {
        unreachable!("it is another's");
    };
    assert!(why.contains("another owner"), "{why}");
    assert!(
        !request.due && asked.len() == 1,
        "nor is what came of it read"
    );
}

#[tokio::test]
async fn without_cert_manager_nothing_is_asked_and_the_condition_says_what_to_do() {
    let (offered, request, _) = look(vec![no_kind(), no_such("db-issued")]).await;
    let Offered::Unusable(why) = offered else {
        unreachable!("there is nothing");
    };
    assert!(why.contains("cert-manager is not installed"), "{why}");
    assert_eq!(request, Request::default(), "a request would be in vain");
    // It was removed after it had issued: what there is stays in use.
    let ours = authority();
    let good = given(&pair(&ours, all_names(), BOTH, 24), ours.certificate());
    let (offered, request, _) = look(vec![no_kind(), (200, good.clone())]).await;
    assert!(matches!(offered, Offered::Usable(_)), "{offered:?}");
    assert!(!request.due && request.trouble.unwrap().contains("not installed"));
    // It is there, and was asked for nothing yet.
    let (offered, request, _) = look(vec![no_such("db-issued"), (200, good)]).await;
    assert!(matches!(offered, Offered::Usable(_)), "{offered:?}");
    assert!(request.due && request.trouble.is_none());
}

#[tokio::test]
async fn what_cert_manager_says_is_told_in_its_own_words() {
    let condition = |kind: &str, status: &str, reason: &str, message: &str| json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": "2024-01-01T00:00:00Z"});
    let mut live = wanted().await;
    live["metadata"]["ownerReferences"][0]["uid"] = theirs(&asks()).metadata.uid.unwrap().into();
    live["status"] = json!({"revision": 4, "conditions": [condition("Ready", "False", "DoesNotExist", "no such Secret"), condition("Issuing", "True", "DoesNotExist", "issuing it")]});
    let pending = condition("Ready", "False", "Pending", "Referenced issuer not found");
    let request = json!({"metadata": {"name": "db-issued-5"}, "status": {"conditions": [pending]}});
    let (offered, _, asked) = look(vec![
        (200, live.clone()),
        (200, request.clone()),
        no_such("db-issued"),
    ])
    .await;
    let Offered::Unusable(why) = offered else {
        unreachable!("there is nothing");
    };
    assert!(
        asked[1].1.ends_with("/certificaterequests/db-issued-5"),
        "{asked:?}"
    );
    for words in [
        "Secret db-issued does not exist",
        "\"Referenced issuer not found\"",
        "See to the ClusterIssuer house",
    ] {
        assert!(why.contains(words), "{words}: {why}");
    }
    // What was issued before can be used, and its renewal fails.
    let ours = authority();
    let good = given(&pair(&ours, all_names(), BOTH, 24), ours.certificate());
    let failed = condition("Issuing", "False", "Failed", "it was denied");
    let ready = condition("Ready", "True", "Ready", "up to date");
    live["status"]["conditions"] = json!([ready, failed]);
    let (offered, request, _) = look(vec![(200, live.clone()), (200, good.clone())]).await;
    assert!(matches!(offered, Offered::Usable(_)), "{offered:?}");
    assert!(request.trouble.unwrap().contains("\"it was denied\""));
    live["status"]["conditions"] = json!([ready]);
    let (_, request, _) = look(vec![(200, live), (200, good)]).await;
    assert_eq!(request, Request::default(), "all is well");
}

/// Asked once where another source is named; what is this cluster's is deleted as it was seen, and the Secret is left.
#[tokio::test]
async fn a_certificate_is_deleted_once_another_source_is_named() {
    let live = {
        let mut live = wanted().await;
        live["metadata"]["uid"] = "u".into();
        live
    };
    let cluster = theirs(&json!({"autoTLS": true}));
    let (client, asked) = recorded(vec![(200, live.clone())]);
    let ctx = context(&client, vec![]);
    let observed = Box::pin(observe(&cluster, &ctx)).await.unwrap();
    assert!(observed.certificates.request.due, "{:?}", asked.lock());
    let decided = plan::decide(&observed);
    assert_eq!(decided.step, Step::RequestCertificate);
    let (client, asked) = recorded(vec![(200, live.clone()), (200, json!({}))]);
    let ctx = context(&client, vec![]);
    let outcome = Box::pin(act::act(&cluster, &observed, &decided, &ctx)).await;
    assert_eq!(outcome, Outcome::Done);
    let asked = asked.lock().unwrap().clone();
    let (method, path, body) = &asked[1];
    assert_eq!((method.as_str(), asked.len()), ("DELETE", 2));
    assert_eq!(path, &format!("{CERTIFICATES}/db-issued?"));
    assert_eq!(body["preconditions"]["uid"], "u");
    // That of another stays, and so does what cannot be there; neither is asked for twice.
    let mut foreign = live;
    foreign["metadata"]["ownerReferences"] = json!([]);
    for answer in [(200, foreign), no_such("db-issued"), no_kind()] {
        let (client, asked) = recorded(vec![answer]);
        let ctx = context(&client, vec![]);
        for _ in 0..2 {
            let observed = Box::pin(observe(&cluster, &ctx)).await.unwrap();
            assert!(!observed.certificates.request.due);
        }
        assert_eq!(asked.lock().unwrap().len(), 1);
    }
}

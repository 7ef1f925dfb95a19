//! Certificates: created, or replaced exactly as they were seen a moment ago; never those of another owner.

use k8s_openapi::api::core::v1::Secret;
use plan::decision::Issue;
use plan::observed::Issued;

use super::*;

const SECRETS: &str = "/api/v1/namespaces/prod/secrets";

fn now() -> jiff::Timestamp {
    "2026-01-01T00:00:00Z".parse().unwrap()
}

/// A cluster with TLS that has no certificates yet.
fn locked() -> (EtcdCluster, Observed) {
    let mut cluster = cluster();
    let spec = json!({"size": 1, "security": {"tls": {"leafLifetimeSeconds": 3600}}});
    cluster.spec = serde_json::from_value(spec).unwrap();
    let mut observed = observed();
    observed.now = now();
    let intent = ClusterIntent::parse(&cluster.spec);
    observed.cluster.latched.bootstrap = None;
    let latched = &observed.cluster.latched;
    let target = intent.as_ref().ok();
    observed.cluster.target = target.map(|it| plan::target::decide_target(it, latched));
    observed.cluster.intent = intent;
    observed.pods.clear();
    (cluster, observed)
}

/// What is recorded of an authority.
fn of_authority(identity: &str, now: jiff::Timestamp) -> api::certificates::Record {
    let time = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now);
    api::certificates::Record {
        authorities: identity.into(),
        asked: String::new(),
        issued_at: time.clone(),
        renew_at: time.clone(),
        not_after: time,
        data: String::new(),
        copied: None,
        trust: None,
        rotation: None,
    }
}

async fn issue(issue: Issue, answers: Vec<(u16, Value)>) -> (Outcome, Vec<Recorded>) {
    let (client, asked) = recorded(answers);
    let (cluster, mut observed) = locked();
    observed.certificates.authority = Issued::Missing;
    if !issue.authority {
        observed.certificates.authority = Issued::Recorded(of_authority("a", observed.now));
    }
    let step = decision(Step::IssueCertificates(issue));
    let ctx = context(&client, vec![]);
    let outcome = Box::pin(act::act(&cluster, &observed, &step, &ctx)).await;
    let asked = asked.lock().unwrap().clone();
    (outcome, asked)
}

pub(super) fn absent() -> (u16, Value) {
    (
        404,
        json!({"kind": "Status", "code": 404, "reason": "NotFound"}),
    )
}

pub(super) fn made() -> (u16, Value) {
    (201, json!({"metadata": {"name": "db-ca"}}))
}

fn object() -> (u16, Value) {
    let (cluster, _) = locked();
    (200, serde_json::to_value(cluster).unwrap())
}

const ALL: Issue = Issue {
    authority: true,
    members: true,
    clients: true,
    by: plan::decision::Issuer::Newest,
};

pub(super) fn text(body: &Value, key: &str) -> String {
    let secret: Secret = serde_json::from_value(body.clone()).unwrap();
    let data = secret.data.unwrap().remove(key).unwrap();
    String::from_utf8(data.0).unwrap()
}

#[tokio::test]
async fn a_new_cluster_gets_its_three_secrets_and_each_says_what_is_in_it() {
    let answers = vec![
        object(),
        absent(),
        absent(),
        made(),
        absent(),
        made(),
        absent(),
        made(),
    ];
    let (outcome, asked) = issue(ALL, answers).await;
    assert_eq!(outcome, Outcome::Done);
    let posts: Vec<&Value> = asked
        .iter()
        .filter(|(method, path, _)| method == "POST" && path.starts_with(SECRETS))
        .map(|(_, _, body)| body)
        .collect();
    let names: Vec<&str> = posts
        .iter()
        .map(|body| body["metadata"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["db-ca", "db-tls", "db-client-tls"]);
    for body in &posts {
        assert_eq!(body["metadata"]["ownerReferences"][0]["uid"], "u");
        let labels = &body["metadata"]["labels"];
        assert_eq!(labels["app.kubernetes.io/managed-by"], "etcd-operator");
        let record = &body["metadata"]["annotations"]["etcd.etcd.io/certificates"];
        let record = api::certificates::Record::parse(record.as_str().unwrap()).unwrap();
        assert_eq!(record.data.len(), 64);
        assert!(record.renew_at.0 < record.not_after.0);
        // What stands in the annotation is public.
        assert!(!format!("{record:?}").contains("KEY"));
    }
    assert_eq!(posts[2]["type"], "kubernetes.io/tls");
    // What is published is accepted by what the members trust, and the other way round.
    assert_eq!(text(posts[2], "ca.crt"), text(posts[1], "client-ca.crt"));
    let names = ["db-0.db-peer.prod.svc".to_owned(), "localhost".to_owned()];
    let pair = pki::Pair {
        chain: text(posts[1], "db-0.server.crt"),
        key: pki::PrivateKey::from_pem(text(posts[1], "db-0.server.key")),
    };
    let wanted = pki::Wanted {
        names: &names,
        usages: &[pki::Usage::Server, pki::Usage::Client],
        now: now(),
    };
    assert!(pki::check(&pair, &text(posts[2], "ca.crt"), &wanted).is_ok());
    // Of the other plane it is worth nothing.
    assert!(pki::check(&pair, &text(posts[1], "peer-ca.crt"), &wanted).is_err());
}

#[tokio::test]
async fn an_authority_that_can_be_read_is_never_replaced() {
    let (_, asked) = issue(
        ALL,
        vec![
            object(),
            absent(),
            absent(),
            made(),
            absent(),
            made(),
            absent(),
            made(),
        ],
    )
    .await;
    let mut authority = asked[3].2.clone();
    authority["metadata"]["resourceVersion"] = json!("5");
    let answers = vec![
        object(),
        (200, authority.clone()),
        (200, authority.clone()),
        made(),
        absent(),
        made(),
        absent(),
        made(),
    ];
    let (outcome, asked) = issue(ALL, answers).await;
    assert_eq!(outcome, Outcome::Done);
    let (method, _, body) = &asked[3];
    assert_eq!(method, "PUT");
    assert_eq!(body["data"], authority["data"], "the same authority");
    assert_eq!(body["metadata"]["resourceVersion"], "5");
    // Nor is one issued where the object has changed since it was looked at.
    let mut later = object();
    later.1["metadata"]["resourceVersion"] = json!("8");
    let (outcome, asked) = issue(ALL, vec![later]).await;
    assert!(matches!(outcome, Outcome::NotNow(_)), "{outcome:?}");
    assert_eq!(asked.len(), 1);
}

#[tokio::test]
async fn a_secret_of_another_owner_is_left_alone() {
    let foreign = json!({"metadata": {"name": "db-ca", "resourceVersion": "3"}, "data": {}});
    let (outcome, asked) = issue(ALL, vec![object(), (200, foreign.clone()), (200, foreign)]).await;
    let Outcome::Failed(why) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(why.contains("Secret db-ca has another owner"), "{why}");
    assert!(
        asked.iter().all(|(method, ..)| method == "GET"),
        "{asked:?}"
    );
}

/// A cluster with authentication, and the user kim, who is to have a certificate.
fn with_user() -> (EtcdCluster, Observed, api::v1alpha1::user::EtcdUser) {
    let (mut cluster, mut observed) = locked();
    let spec = json!({"size": 1, "security": {"tls": {}, "auth": {"enabled": true}}});
    cluster.spec = serde_json::from_value(spec).unwrap();
    observed.cluster.intent = ClusterIntent::parse(&cluster.spec);
    observed.etcd.auth.accounts = Some(plan::observed::Accounts::default());
    observed.etcd.auth.declared = Some(plan::observed::Declared::default());
    let made = &mut observed.cluster.latched.made;
    made.users.insert("kim".to_owned());
    let user = json!({"apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdUser",
        "metadata": {"name": "kim", "namespace": "prod", "uid": "user-uid"},
        "spec": {"clusterName": "db", "certificate": true}});
    (cluster, observed, serde_json::from_value(user).unwrap())
}

#[tokio::test]
async fn the_certificate_of_a_user_has_its_name_and_goes_with_its_object() {
    let answers = vec![object(), absent(), absent(), made(), absent(), made()];
    let (_, asked) = issue(
        Issue {
            members: false,
            ..ALL
        },
        answers,
    )
    .await;
    let authority = asked[3].2.clone();
    let once = (200, authority.clone());
    let (client, asked) = recorded(vec![once.clone(), once, absent(), made()]);
    let (cluster, mut observed, user) = with_user();
    let mut ctx = context(&client, vec![]);
    ctx.caches.users = store(vec![kube::core::DeserializeGuard(Ok(user))]);
    let step = decision(Step::ChangeAuth(plan::observed::AuthChange::Certify {
        object: "kim".into(),
        user: "kim".into(),
        by: plan::decision::Issuer::Newest,
    }));
    // Nothing is issued by an authority that another operator made meanwhile.
    observed.certificates.authority = Issued::Recorded(of_authority("another", now()));
    let outcome = Box::pin(act::act(&cluster, &observed, &step, &ctx)).await;
    assert!(matches!(outcome, Outcome::NotNow(_)), "{outcome:?}");
    let written = &authority["metadata"]["annotations"][api::labels::CERTIFICATES_ANNOTATION];
    let written = api::certificates::Record::parse(written.as_str().unwrap());
    observed.certificates.authority = Issued::Recorded(written.unwrap());
    let outcome = Box::pin(act::act(&cluster, &observed, &step, &ctx)).await;
    assert_eq!(outcome, Outcome::Done);
    let asked = asked.lock().unwrap().clone();
    let (method, path, body) = &asked[3];
    assert_eq!((method.as_str(), path.starts_with(SECRETS)), ("POST", true));
    assert_eq!(body["metadata"]["name"], "db-user-kim-tls");
    let owner = &body["metadata"]["ownerReferences"][0];
    assert_eq!(
        (&owner["kind"], &owner["uid"]),
        (&json!("EtcdUser"), &json!("user-uid"))
    );
    let facts = pki::Facts::of_first(&text(body, "tls.crt")).unwrap();
    assert_eq!(facts.common_name, "kim");
    assert_eq!(text(body, "ca.crt"), text(&authority, "client.crt"));
    // One of another owner is left alone.
    let foreign = json!({"metadata": {"name": "db-user-kim-tls", "resourceVersion": "3"}});
    let (client, asked) = recorded(vec![(200, authority), (200, foreign)]);
    ctx.client = client;
    let outcome = Box::pin(act::act(&cluster, &observed, &step, &ctx)).await;
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    assert_eq!(asked.lock().unwrap().len(), 2);
}

//! Certificates of another source: read by name, checked before they are copied, and read again at a calm pace only.

use k8s_openapi::api::core::v1::Secret;
use operator::cluster::observe::observe;
use pki::{Authority, Leaf, Pair, Usage, Validity};
use plan::decision::Issue;
use plan::observed::{Issued, Offered};

use super::certificates::{absent, made, text};
use super::*;

const SECRETS: &str = "/api/v1/namespaces/prod/secrets";
pub(super) const BOTH: &[Usage] = &[Usage::Server, Usage::Client];

fn validity(hours: i64) -> Validity {
    let now = jiff::Timestamp::now();
    Validity {
        from: now - jiff::SignedDuration::from_hours(48),
        until: now + jiff::SignedDuration::from_hours(hours),
    }
}

pub(super) fn authority() -> Authority {
    Authority::new("theirs", validity(1000)).unwrap()
}

/// Every name that is demanded, most of them by a wildcard.
pub(super) fn names() -> Vec<String> {
    let all = [
        "*.db-peer.prod.svc",
        "db-peer.prod.svc",
        "db-client.prod.svc",
        "localhost",
        "127.0.0.1",
    ];
    all.map(str::to_owned).into()
}

pub(super) fn pair(
    authority: &Authority,
    names: Vec<String>,
    usages: &[Usage],
    hours: i64,
) -> Pair {
    let leaf = Leaf {
        common_name: "etcd".to_owned(),
        names,
        usages: usages.to_vec(),
        validity: validity(hours),
    };
    authority.issue(&leaf).unwrap()
}

fn secret(entries: &[(&str, &str)]) -> Value {
    let data = entries.iter().map(|(key, text)| {
        let bytes = k8s_openapi::ByteString(text.as_bytes().to_vec());
        ((*key).to_owned(), bytes)
    });
    let secret = Secret {
        data: Some(data.collect()),
        ..Secret::default()
    };
    serde_json::to_value(secret).unwrap()
}

pub(super) fn given(pair: &Pair, trust: &str) -> Value {
    let key = pair.key.expose();
    secret(&[
        ("tls.crt", &pair.chain),
        ("tls.key", key),
        ("ca.crt", trust),
    ])
}

pub(super) fn theirs(tls: &Value) -> EtcdCluster {
    let mut cluster = cluster();
    cluster.spec = serde_json::from_value(json!({"size": 1, "security": {"tls": tls}})).unwrap();
    cluster.metadata.finalizers = None;
    cluster
}

/// What is made of these answers, and what was asked for.
async fn look(tls: &Value, mut answers: Vec<(u16, Value)>) -> (Offered, Vec<Recorded>) {
    // cert-manager is asked first whether it has a request of before.
    answers.insert(0, absent());
    let (client, asked) = recorded(answers);
    let ctx = context(&client, vec![]);
    let observed = Box::pin(observe(&theirs(tls), &ctx)).await.unwrap();
    // At the next look nothing is read.
    let again = Box::pin(observe(&theirs(tls), &ctx)).await.unwrap();
    assert_eq!(observed.certificates, again.certificates);
    let mut asked = asked.lock().unwrap().clone();
    let (_, path, _) = asked.remove(0);
    assert!(path.ends_with("/certificates/db-issued"), "{path}");
    (observed.certificates.offered, asked)
}

#[tokio::test]
async fn what_can_be_used_is_read_by_name_and_once() {
    let tls = json!({"certificateSecret": "mine"});
    let ours = authority();
    let good = pair(&ours, names(), BOTH, 24);
    let (offered, asked) = look(&tls, vec![(200, given(&good, ours.certificate()))]).await;
    assert!(matches!(offered, Offered::Usable(_)), "{offered:?}");
    let paths: Vec<&str> = asked.iter().map(|(_, path, _)| path.as_str()).collect();
    assert_eq!(paths, [format!("{SECRETS}/mine")]);
}

/// Secrets that cannot be used, each with what is said of it.
fn flawed() -> Vec<(Value, &'static str)> {
    let (ours, other) = (authority(), authority());
    let trust = ours.certificate();
    let good = pair(&ours, names(), BOTH, 24);
    let mismatched = Pair {
        chain: good.chain.clone(),
        key: pair(&ours, names(), BOTH, 24).key.clone(),
    };
    let mut fewer = names();
    fewer.retain(|name| name != "db-peer.prod.svc" && !name.starts_with('*'));
    let nameless = pair(&ours, fewer, BOTH, 24);
    let expired = pair(&ours, names(), BOTH, -1);
    let server = pair(&ours, names(), &[Usage::Server], 24);
    let key = good.key.expose();
    let large = "x".repeat(40_000);
    vec![
        (
            given(&mismatched, trust),
            "key tls.key: its private key belongs to another",
        ),
        (
            given(&expired, trust),
            "key tls.crt: its certificate \"etcd\" expired at",
        ),
        (
            given(&server, trust),
            "key tls.crt: its certificate may not be used for client",
        ),
        (
            given(&good, other.certificate()),
            "key tls.crt: its certificate, issued by",
        ),
        (
            given(&nameless, trust),
            "lacks the names db-0.db-peer.prod.svc, db-1.db-peer",
        ),
        (
            given(&good, &good.chain),
            "key ca.crt: \"etcd\" is no certificate authority",
        ),
        (
            secret(&[("tls.crt", &good.chain), ("ca.crt", trust)]),
            "key tls.key: it is missing",
        ),
        (
            secret(&[("tls.crt", &good.chain), ("tls.key", key)]),
            "key ca.crt: it is missing",
        ),
        (
            secret(&[("tls.crt", "x"), ("tls.key", key), ("ca.crt", trust)]),
            "key tls.crt: it holds no",
        ),
        (
            secret(&[("tls.crt", &large)]),
            "key tls.crt: it is larger than 32 KiB",
        ),
        (secret(&[]), "key tls.crt: it is missing"),
    ]
}

#[tokio::test]
async fn what_cannot_be_used_is_told_by_secret_and_key() {
    let tls = json!({"certificateSecret": "mine"});
    for (secret, words) in flawed() {
        let (offered, _) = look(&tls, vec![(200, secret)]).await;
        let Offered::Unusable(why) = offered else {
            unreachable!("{words}");
        };
        assert!(
            why.starts_with("Secret mine, ") && why.contains(words),
            "{why}"
        );
        assert!(!why.contains("PRIVATE"), "{why}");
    }
    let (offered, _) = look(&tls, vec![absent()]).await;
    let words = "Secret mine does not exist in the namespace prod";
    assert_eq!(offered, Offered::Unusable(words.to_owned()));
    let denied = json!({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "no"});
    let (offered, _) = look(&tls, vec![(403, denied)]).await;
    assert_eq!(
        offered,
        Offered::Unusable("Secret mine cannot be read: no".to_owned())
    );
    // A name that is none leads nowhere else.
    let tls = json!({"certificateSecret": "../../kube-system/secrets/x"});
    let (offered, asked) = look(&tls, vec![]).await;
    assert!(
        matches!(offered, Offered::Unusable(_)) && asked.is_empty(),
        "{asked:?}"
    );
}

#[tokio::test]
async fn authorities_may_come_from_another_secret_and_peers_may_have_their_own() {
    let tls = json!({"certificateSecret": "mine", "caSecret": "roots"});
    let (clients, peers) = (authority(), authority());
    let (server, peer) = (
        pair(&clients, names(), BOTH, 24),
        pair(&peers, names(), BOTH, 24),
    );
    let pairs = secret(&[
        ("tls.crt", &server.chain),
        ("tls.key", server.key.expose()),
        ("peer.crt", &peer.chain),
        ("peer.key", peer.key.expose()),
    ]);
    let roots = secret(&[
        ("ca.crt", clients.certificate()),
        ("peer-ca.crt", peers.certificate()),
    ]);
    let (offered, asked) = look(&tls, vec![(200, pairs.clone()), (200, roots)]).await;
    assert!(matches!(offered, Offered::Usable(_)), "{offered:?}");
    assert_eq!(asked[1].1, format!("{SECRETS}/roots"));
    let roots = secret(&[("ca.crt", clients.certificate())]);
    let (offered, _) = look(&tls, vec![(200, pairs), (200, roots)]).await;
    let Offered::Unusable(why) = offered else {
        unreachable!("the peers' authority is missing");
    };
    assert!(why.starts_with("Secret mine, key peer.crt: "), "{why}");
}

/// The copy is of what is there at that moment, and only of authorities that members trust.
#[tokio::test]
async fn what_is_copied_serves_every_member_and_knows_the_operators_own_clients() {
    let (ours, other) = (authority(), authority());
    let good = given(&pair(&ours, names(), BOTH, 24), ours.certificate());
    let cluster = theirs(&json!({"certificateSecret": "mine"}));
    let (client, asked) = recorded(vec![absent(), (200, good.clone())]);
    let mut observed = Box::pin(observe(&cluster, &context(&client, vec![])))
        .await
        .unwrap();
    assert_eq!(asked.lock().unwrap().len(), 2);
    observed.certificates.authority = Issued::Missing;
    let issue = decision(Step::IssueCertificates(Issue {
        authority: true,
        members: true,
        clients: true,
        ..Issue::default()
    }));
    let object = serde_json::to_value(&cluster).unwrap();
    let begin = vec![(200, object), absent(), absent(), made()];
    let mut answers = begin.clone();
    answers.extend([(200, good.clone()), absent(), made()]);
    let copied = written(&cluster, &observed, &issue, &answers).await;
    let members = copied
        .iter()
        .find(|body| body["metadata"]["name"] == "db-tls");
    let members = members.unwrap();
    for member in ["db-0", "db-8"] {
        for plane in ["server", "peer"] {
            let pair = Pair {
                chain: text(members, &format!("{member}.{plane}.crt")),
                key: pki::PrivateKey::from_pem(text(members, &format!("{member}.{plane}.key"))),
            };
            let wanted = pki::Wanted {
                names: &[format!("{member}.db-peer.prod.svc")],
                usages: BOTH,
                now: jiff::Timestamp::now(),
            };
            assert!(pki::check(&pair, ours.certificate(), &wanted).is_ok());
        }
    }
    let own = text(&copied[0], "client.crt");
    let trusted = text(members, "client-ca.crt");
    assert!(trusted.contains(ours.certificate().trim()) && trusted.contains(own.trim()));
    assert!(
        !text(members, "peer-ca.crt").contains(own.trim()),
        "no client is a peer"
    );
    // Another authority than was seen is not copied.
    let changed = given(&pair(&other, names(), BOTH, 24), other.certificate());
    let mut answers = begin;
    answers.push((200, changed));
    let copied = written(&cluster, &observed, &issue, &answers).await;
    assert_eq!(
        copied.len(),
        1,
        "the operator's own authority, and nothing else"
    );
}

/// The Secrets that are created, up to the first request that is not answered.
async fn written(
    cluster: &EtcdCluster,
    observed: &Observed,
    issue: &Decision,
    answers: &[(u16, Value)],
) -> Vec<Value> {
    let mut answers = answers.to_vec();
    answers.push(absent());
    let (client, asked) = recorded(answers);
    let ctx = context(&client, vec![]);
    let outcome = Box::pin(act::act(cluster, observed, issue, &ctx)).await;
    assert!(matches!(outcome, Outcome::NotNow(_)), "{outcome:?}");
    let asked = asked.lock().unwrap();
    let posts = asked.iter().filter(|(method, ..)| method == "POST");
    posts.map(|(_, _, body)| body.clone()).collect()
}

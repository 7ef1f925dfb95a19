//! The webhook, over real TLS on the loopback interface, and what is asked and written for it.

use std::net::SocketAddr;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use operator::webhook::{Answers, serve_on, server_config};
use pki::{Authority, Leaf, Pair, Usage, Validity};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;

const HOST: &str = "hook.system.svc";

/// An authority and a certificate of it.
fn issue() -> (String, Pair) {
    let validity = Validity::starting(Timestamp::now(), SignedDuration::from_hours(1));
    let authority = Authority::new("test", validity).unwrap();
    let pair = authority
        .issue(&Leaf {
            common_name: HOST.to_owned(),
            names: vec![HOST.to_owned()],
            usages: vec![Usage::Server],
            validity,
        })
        .unwrap();
    (authority.certificate().to_owned(), pair)
}

/// A webhook that runs, and what to trust of it.
struct Hook {
    address: SocketAddr,
    trust: String,
    offer: watch::Sender<Option<Arc<ServerConfig>>>,
}

impl Hook {
    async fn start(client: Client) -> Self {
        let (trust, pair) = issue();
        let (offer, offered) = watch::channel(server_config(&pair));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let metrics = Arc::default();
        tokio::spawn(serve_on(
            listener,
            offered,
            Arc::new(Answers { client, metrics }),
        ));
        Self {
            address,
            trust,
            offer,
        }
    }

    async fn dial(&self, trust: &str) -> std::io::Result<TlsStream<TcpStream>> {
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(trust.as_bytes()) {
            roots.add(authority.unwrap()).unwrap();
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots)
            .with_no_client_auth();
        let stream = TcpStream::connect(self.address).await?;
        let name = ServerName::try_from(HOST).unwrap();
        TlsConnector::from(Arc::new(config))
            .connect(name, stream)
            .await
    }

    /// Sends this as it is; the whole answer.
    async fn say(&self, text: &str) -> String {
        let mut stream = self.dial(&self.trust.clone()).await.unwrap();
        stream.write_all(text.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // A server that closes in the middle of a body need not say farewell.
        let _end = stream.read_to_end(&mut answer).await;
        String::from_utf8(answer).unwrap()
    }

    async fn post(&self, path: &str, body: &str) -> String {
        let length = body.len();
        self.say(&format!("POST {path} HTTP/1.1\r\nHost: hook\r\nConnection: close\r\nContent-Length: {length}\r\n\r\n{body}"))
            .await
    }

    async fn review(&self, path: &str, review: &Value) -> Value {
        let answer = self.post(path, &review.to_string()).await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        let (_, body) = answer.split_once("\r\n\r\n").unwrap();
        let answer: Value = serde_json::from_str(body).unwrap();
        answer.get("response").unwrap().clone()
    }
}

fn review(spec: Value, old: Option<Value>) -> Value {
    let object = |spec: Value| {
        json!({"apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdCluster",
        "metadata": {"name": "db", "namespace": "prod", "uid": "u"}, "spec": spec})
    };
    let operation = if old.is_some() { "UPDATE" } else { "CREATE" };
    json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": {
        "uid": "1", "operation": operation, "namespace": "prod",
        "kind": {"group": "etcd.etcd.io", "version": "v1alpha1", "kind": "EtcdCluster"},
        "object": object(spec), "oldObject": old.map(object)}})
}

fn claims() -> (u16, Value) {
    let claim = |name| {
        json!({"metadata": {"name": name}, "spec": {
        "storageClassName": "fixed", "resources": {"requests": {"storage": "1Gi"}}}})
    };
    let list = json!({"apiVersion": "v1", "kind": "PersistentVolumeClaimList", "metadata": {},
        "items": [claim("data-db-0"), claim("data-db-1")]});
    (200, list)
}

fn class(expands: bool) -> (u16, Value) {
    let class = json!({"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
        "metadata": {"name": "fixed"}, "provisioner": "p", "allowVolumeExpansion": expands});
    (200, class)
}

#[tokio::test]
async fn a_volume_that_cannot_grow_is_refused_by_what_its_claims_say() {
    let grown = || {
        review(
            json!({"storage": {"size": "2Gi"}}),
            Some(json!({"storage": {"size": "1Gi"}})),
        )
    };
    let (client, asked) = recorded(vec![claims(), class(false), claims(), class(true)]);
    let hook = Hook::start(client).await;
    let refused = hook.review("/validate", &grown()).await;
    assert_eq!(refused["allowed"], false, "{refused}");
    let why = refused["status"]["message"].as_str().unwrap();
    assert!(
        why.contains("fixed, the StorageClass of data-db-0"),
        "{why}"
    );
    assert_eq!(hook.review("/validate", &grown()).await["allowed"], true);
    let asked = asked.lock().unwrap().clone();
    let paths: Vec<&str> = asked.iter().map(|(_, path, _)| path.as_str()).collect();
    assert!(
        paths[0].starts_with("/api/v1/namespaces/prod/persistentvolumeclaims?"),
        "{paths:?}"
    );
    assert!(
        paths[0].contains("etcd.etcd.io%2Fcluster%3Ddb"),
        "{paths:?}"
    );
    // Two claims of one class are one question.
    assert_eq!(
        paths[1],
        "/apis/storage.k8s.io/v1/storageclasses/fixed".to_owned()
    );
    assert_eq!(paths.len(), 4, "{paths:?}");
}

#[tokio::test]
async fn a_missing_class_warns_and_most_specs_ask_nothing() {
    let (client, asked) = recorded(vec![refusal(404, "NotFound"), refusal(500, "broken")]);
    let hook = Hook::start(client).await;
    let plain = hook
        .review("/validate", &review(json!({"size": 3}), None))
        .await;
    assert_eq!(plain, json!({"uid": "1", "allowed": true}));
    assert_eq!(asked.lock().unwrap().len(), 0);
    let named = review(json!({"storage": {"storageClassName": "fast"}}), None);
    for said in ["there is no StorageClass fast", "could not be checked"] {
        let answer = hook.review("/validate", &named).await;
        assert_eq!(answer["allowed"], true, "{answer}");
        let warning = answer["warnings"][0].as_str().unwrap();
        assert!(warning.contains(said), "{warning}");
    }
    let added = hook.review("/mutate", &review(json!({}), None)).await;
    assert_eq!(added["patchType"], "JSONPatch");
}

#[tokio::test]
async fn what_is_no_review_is_told_apart() {
    let hook = Hook::start(recorded(vec![]).0).await;
    let garbage = hook.post("/validate", "garbage").await;
    assert!(garbage.starts_with("HTTP/1.1 400"), "{garbage}");
    assert!(garbage.contains("not an AdmissionReview"), "{garbage}");
    for (text, status) in [
        (
            "POST /validate HTTP/1.1\r\nHost: hook\r\nConnection: close\r\nContent-Length: 9999999999\r\n\r\n",
            "413",
        ),
        (
            "POST /validate HTTP/1.1\r\nHost: hook\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            "411",
        ),
        (
            "GET /validate HTTP/1.1\r\nHost: hook\r\nConnection: close\r\n\r\n",
            "405",
        ),
        (
            "POST /other HTTP/1.1\r\nHost: hook\r\nConnection: close\r\nContent-Length: 0\r\n\r\n",
            "404",
        ),
        ("\0\0\0\r\n\r\n", "400"),
    ] {
        let answer = hook.say(text).await;
        assert!(
            answer.starts_with(&format!("HTTP/1.1 {status}")),
            "{text}: {answer}"
        );
    }
    // A connection serves one review after another.
    let body = review(json!({}), None).to_string();
    let length = body.len();
    let one =
        format!("POST /validate HTTP/1.1\r\nHost: hook\r\nContent-Length: {length}\r\n\r\n{body}");
    let last = one.replace("Host: hook", "Host: hook\r\nConnection: close");
    let answers = hook.say(&format!("{one}{last}")).await;
    assert_eq!(answers.matches("HTTP/1.1 200").count(), 2, "{answers}");
}

/// A caller that says nothing, one that never ends its body, and one that speaks no TLS: each is over by its deadline, and
/// meanwhile others are answered.
#[tokio::test]
async fn slow_callers_are_closed_and_keep_no_other_waiting() {
    let hook = Hook::start(recorded(vec![]).0).await;
    let mut silent = TcpStream::connect(hook.address).await.unwrap();
    let mut other = TcpStream::connect(hook.address).await.unwrap();
    other
        .write_all(b"POST /validate HTTP/1.1\r\n\r\n")
        .await
        .unwrap();
    let endless = "POST /validate HTTP/1.1\r\nHost: hook\r\nContent-Length: 100\r\n\r\nbegun";
    let late = tokio::time::timeout(Duration::from_mins(1), hook.say(endless));
    let (mut first, mut second) = (Vec::new(), Vec::new());
    let plain = review(json!({}), None);
    let (late, _, _, quick) = tokio::join!(
        late,
        silent.read_to_end(&mut first),
        other.read_to_end(&mut second),
        hook.review("/validate", &plain),
    );
    assert_eq!(quick["allowed"], true);
    let late = late.unwrap();
    assert!(late.starts_with("HTTP/1.1 408"), "{late}");
    assert_eq!(first, b"");
}

#[tokio::test]
async fn the_next_connection_sees_the_renewed_certificate() {
    let hook = Hook::start(recorded(vec![]).0).await;
    assert!(hook.dial(&hook.trust).await.is_ok());
    let (trust, pair) = issue();
    hook.offer.send_replace(server_config(&pair));
    assert!(hook.dial(&hook.trust).await.is_err());
    assert!(hook.dial(&trust).await.is_ok());
}

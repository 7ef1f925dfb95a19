//! What the replica that holds the lease writes for the webhook.

use std::time::Duration;

use operator::health::Health;
use operator::webhook::{self, Keeper, Place, Told};

use super::*;

const NAME: &str = "etcd-operator-webhook";

fn list(kind: &str, version: &str, items: &[Value]) -> Value {
    json!({"apiVersion": version, "kind": format!("{kind}List"), "metadata": {"resourceVersion": "5"}, "items": items})
}

fn configuration(trusted: Option<&Value>) -> Value {
    json!({"metadata": {"name": NAME, "resourceVersion": "9"}, "webhooks": [{"name": "one",
        "clientConfig": {"caBundle": trusted, "service": {"name": NAME, "namespace": "system"}},
        "admissionReviewVersions": ["v1"], "sideEffects": "None"}]})
}

/// Keeps what is there until something is written, or nothing is for a while; what was written, and whether the replica is
/// ready.
async fn keep(
    secret: Option<&Value>,
    configured: Option<&Value>,
    writes: usize,
) -> (Vec<Recorded>, bool) {
    let written = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&written);
    let secrets: Vec<Value> = secret.cloned().into_iter().collect();
    let configured: Vec<Value> = configured.cloned().into_iter().collect();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (log, secrets, configured) = (Arc::clone(&log), secrets.clone(), configured.clone());
        async move {
            let (parts, body) = request.into_parts();
            let path = parts.uri.to_string();
            let body = body.collect().await.unwrap().to_bytes();
            let body: Value = serde_json::from_slice(&body).unwrap_or_default();
            let registration = "admissionregistration.k8s.io/v1";
            let answer = match parts.method.as_str() {
                "GET" if path.contains("watch=true") => std::future::pending().await,
                "GET" if path.contains("/secrets?") => list("Secret", "v1", &secrets),
                "GET" if path.contains("/validating") => {
                    list("ValidatingWebhookConfiguration", registration, &configured)
                }
                "GET" => list("MutatingWebhookConfiguration", registration, &configured),
                method => {
                    log.lock()
                        .unwrap()
                        .push((method.to_owned(), path, body.clone()));
                    body
                }
            };
            let answer = serde_json::to_vec(&answer).unwrap();
            Ok::<_, std::convert::Infallible>(Response::new(Body::from(answer)))
        }
    });
    let place = Place {
        client: Client::new(service, "default"),
        name: NAME.to_owned(),
        namespace: "system".to_owned(),
    };
    let health = Arc::<Health>::default();
    health.answered();
    let told = Told {
        health: Arc::clone(&health),
        metrics: Arc::default(),
    };
    let (seen, serving) = webhook::start(&place, "127.0.0.1:0".parse().unwrap(), &told);
    let serving = tokio::spawn(serving);
    let keeping = tokio::spawn(Keeper::new(place, told, seen).keep());
    assert!(health.ready().is_err());
    for _ in 0..500 {
        if written.lock().unwrap().len() >= writes.max(1) || health.ready().is_ok() {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    keeping.abort();
    serving.abort();
    let written = written.lock().unwrap().clone();
    (written, health.ready().is_ok())
}

#[tokio::test]
async fn the_certificate_is_made_trusted_and_then_left_alone() {
    let (written, ready) = keep(None, Some(&configuration(None)), 1).await;
    let [(method, path, secret)] = written.as_slice() else {
        panic!("{written:?}")
    };
    assert_eq!(method, "POST");
    assert!(
        path.starts_with("/api/v1/namespaces/system/secrets?"),
        "{path}"
    );
    assert!(!ready, "the API server does not trust it yet");

    let mut secret = secret.clone();
    secret["metadata"] = json!({"name": NAME, "namespace": "system", "resourceVersion": "3"});
    let trust = secret["data"]["ca.crt"].clone();
    let wrong = json!("bm90aGluZw==");
    for before in [None, Some(&wrong)] {
        let (written, _) = keep(Some(&secret), Some(&configuration(before)), 2).await;
        assert_eq!(written.len(), 2, "{written:?}");
        for (method, path, body) in &written {
            assert_eq!(method, "PATCH");
            assert!(path.contains(&format!("configurations/{NAME}?")), "{path}");
            let wanted = json!({"metadata": {"resourceVersion": "9"},
                "webhooks": [{"name": "one", "clientConfig": {"caBundle": trust}}]});
            assert_eq!(*body, wanted);
        }
    }
    let (written, ready) = keep(Some(&secret), Some(&configuration(Some(&trust))), 0).await;
    assert_eq!((written.len(), ready), (0, true));
}

/// Something else installed the operator, and left them out: clusters are run all the same.
#[tokio::test]
async fn configurations_that_are_missing_keep_no_replica_from_being_ready() {
    let (written, _) = keep(None, None, 1).await;
    let mut secret = written[0].2.clone();
    secret["metadata"] = json!({"name": NAME, "namespace": "system", "resourceVersion": "3"});
    let (written, ready) = keep(Some(&secret), None, 0).await;
    assert_eq!((written.len(), ready), (0, true));
}

#[tokio::test]
async fn a_secret_that_was_damaged_is_replaced_as_it_was_seen() {
    let damaged = json!({"apiVersion": "v1", "kind": "Secret", "data": {"tls.crt": "bm90aGluZw=="},
        "metadata": {"name": NAME, "namespace": "system", "resourceVersion": "3", "labels": {"kept": "yes"}}});
    let (written, _) = keep(Some(&damaged), Some(&configuration(None)), 1).await;
    let (method, _, body) = &written[0];
    assert_eq!(method, "PUT");
    assert_eq!(body["metadata"]["resourceVersion"], "3");
    assert_eq!(body["metadata"]["labels"]["kept"], "yes");
    assert!(body["data"]["ca.crt"].is_string());
}

//! The operator can neither be stalled nor spun: by an API server that is silent, by what undoes its writes, by a cache
//! that is outdated, by its own writes, or by what it was never told.

use std::convert::Infallible;
use std::time::{Duration, Instant};

use etcd::{Security, Target};
use futures::StreamExt;
use http_body_util::StreamBody;
use hyper::body::Frame;
use k8s_openapi::api::core::v1::Pod as ApiPod;
use kube::core::DeserializeGuard;
use kube::core::error_boundary::InvalidObject;
use kube::runtime::controller::Action;
use operator::cluster::observe::observe;
use operator::cluster::{farewell, reconcile};
use operator::deadline::{DeadlineLayer, Patience};
use plan::decision::{SETTLED, SOON};
use tower::Layer;

use super::*;

const MILLI: Duration = Duration::from_millis(1);

fn patience() -> Patience {
    Patience {
        answer: MILLI * 100,
        list: MILLI * 300,
        watch: MILLI * 200,
    }
}

/// An API server that begins its answers or not, sends a byte every 50 ms for as long as it is told to, and never ends.
fn endless(begins: bool, bytes: usize) -> Client {
    let service = tower::service_fn(move |_: Request<Body>| async move {
        if !begins {
            std::future::pending::<()>().await;
        }
        let some = futures::stream::iter(0..bytes).then(|_| async {
            tokio::time::sleep(MILLI * 50).await;
            Ok::<_, Infallible>(Frame::data(Bytes::from_static(b" ")))
        });
        let body = StreamBody::new(some.chain(futures::stream::pending()).boxed());
        Ok::<_, Infallible>(Response::new(body))
    });
    Client::new(DeadlineLayer(patience()).layer(service), "default")
}

async fn takes<T>(what: impl Future<Output = T>) -> Duration {
    let start = Instant::now();
    let ended = tokio::time::timeout(MILLI * 5000, what).await;
    assert!(ended.is_ok(), "it never ends");
    start.elapsed()
}

#[tokio::test]
async fn every_question_to_the_api_server_ends() {
    for client in [endless(false, 0), endless(true, 0), endless(true, 1000)] {
        let pods: kube::Api<ApiPod> = kube::Api::namespaced(client, "prod");
        let get = takes(async { assert!(pods.get("db-0").await.is_err()) }).await;
        assert!(get < MILLI * 250, "{get:?}");
        let page = kube::api::ListParams::default().limit(500);
        let list = takes(async { assert!(pods.list(&page).await.is_err()) }).await;
        assert!(list < MILLI * 600, "{list:?}");
    }
}

/// A watch goes on for as long as something comes, and not for longer.
#[tokio::test]
async fn a_watch_ends_when_nothing_comes_any_more() {
    let watch = |client| {
        let pods: kube::Api<ApiPod> = kube::Api::namespaced(client, "prod");
        takes(async move {
            let params = kube::api::WatchParams::default();
            if let Ok(events) = pods.watch(&params, "1").await {
                let events: Vec<_> = events.collect().await;
                assert!(events.iter().any(Result::is_err), "{events:?}");
            }
        })
    };
    assert!(watch(endless(false, 0)).await < MILLI * 250);
    assert!(watch(endless(true, 0)).await < MILLI * 500);
    assert!(watch(endless(true, 10)).await >= MILLI * 500);
}

/// Answers every request with this, a thousand times.
fn always(code: u16, body: Value) -> (Client, Arc<Mutex<Vec<Recorded>>>) {
    recorded(std::iter::repeat_n((code, body), 1000).collect())
}

#[tokio::test]
async fn a_status_that_is_refused_as_outdated_is_not_written_over_and_over() {
    let (code, body) = refusal(409, "Conflict");
    let (client, asked) = always(code, body);
    let ctx = context(&client, vec![]);
    let waiting = Decision::wait(Bootstrap::NoPod, Duration::ZERO);
    let mut cluster = cluster();
    let report = async |cluster: &EtcdCluster| {
        let written = report::report(cluster, &observed(), &waiting, &Outcome::Done, &ctx).await;
        written.is_err()
    };
    let mut refused = 0;
    for _ in 0..50 {
        refused += u32::from(Box::pin(report(&cluster)).await);
    }
    assert!(refused <= 4, "{refused}");
    assert_eq!(
        asked.lock().unwrap().len(),
        usize::try_from(refused).unwrap()
    );
    // The watch brought another one: at once.
    cluster.metadata.resource_version = Some("8".into());
    assert!(Box::pin(report(&cluster)).await);
}

fn unreadable() -> InvalidObject {
    let object = json!({"apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdCluster",
        "metadata": {"name": "db", "namespace": "prod", "generation": 3}, "spec": {"size": "many"}});
    let guarded: operator::caches::Guarded = serde_json::from_value(object).unwrap();
    guarded.0.unwrap_err()
}

#[tokio::test]
async fn an_object_that_cannot_be_read_is_told_so_once() {
    let invalid = unreadable();
    let mut live = json!({"apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdCluster",
        "metadata": {"name": "db", "namespace": "prod", "generation": 3}, "spec": {"size": "many"}});
    let (client, asked) = recorded(vec![(200, live.clone()), (200, live.clone())]);
    let ctx = context(&client, vec![]);
    report::malformed(&ctx, &invalid).await;
    let patched = asked.lock().unwrap()[1].clone();
    assert_eq!(patched.0, "PATCH");
    live["status"] = patched.2["status"].clone();
    // The write wakes us: nothing is new, so nothing is written.
    let (client, asked) = recorded(vec![(200, live.clone())]);
    report::malformed(&context(&client, vec![]), &invalid).await;
    assert_eq!(asked.lock().unwrap().len(), 1);
    // It was edited, and still cannot be read.
    live["metadata"]["generation"] = json!(4);
    let (client, asked) = recorded(vec![(200, live.clone()), (200, live)]);
    report::malformed(&context(&client, vec![]), &invalid).await;
    assert_eq!(asked.lock().unwrap()[1].0, "PATCH");
}

#[tokio::test]
async fn what_belongs_to_no_cluster_any_more_is_forgotten() {
    let (client, _) = recorded(vec![]);
    let pod = |name: &str| -> ApiPod {
        serde_json::from_value(json!({"metadata": {"name": name, "namespace": "prod"},
                                      "status": {"podIP": "10.0.0.1"}}))
        .unwrap()
    };
    let ctx = Context {
        caches: Caches {
            clusters: store(vec![DeserializeGuard(Ok(cluster()))]),
            pods: store(vec![pod("db-0"), pod("db-1")]),
            ..context(&client, vec![]).caches
        },
        ..context(&client, vec![])
    };
    let pace = operator::backoff::Pace {
        free: 0,
        first: MILLI,
        longest: MILLI,
    };
    for uid in ["u", "gone"] {
        ctx.found_right.remember(uid, Some("stamp".into()));
        ctx.attempts
            .note(uid, &"apply", (Outcome::Done, pace), Instant::now());
    }
    for (pod, address) in [
        ("db-0", "10.0.0.1"),
        ("db-1", "10.0.0.9"),
        ("db-2", "10.0.0.3"),
    ] {
        let target = Target {
            namespace: "prod".into(),
            pod: pod.into(),
            address: address.into(),
        };
        let _member = ctx.pool.member(&target, &Security::Plain);
    }
    farewell::sweep(&ctx);
    assert!(ctx.found_right.knows("u", "stamp") && !ctx.found_right.knows("gone", "stamp"));
    assert_eq!((ctx.attempts.len(), ctx.pool.len()), (1, 1));
}

/// Twenty looks, whatever woke them, at a cluster for which every write is refused: what was asked.
async fn refused(cluster: EtcdCluster) -> Vec<Recorded> {
    let (code, body) = refusal(403, "exceeded quota");
    let (client, asked) = always(code, body);
    let ctx = Arc::new(context(&client, vec![]));
    ctx.caches.filled.set(()).unwrap();
    let cluster: Arc<operator::caches::Guarded> = Arc::new(DeserializeGuard(Ok(cluster)));
    for _ in 0..20 {
        // The status cannot be written either.
        let _refused = reconcile(Arc::clone(&cluster), Arc::clone(&ctx)).await;
    }
    let asked = asked.lock().unwrap();
    let told = |path: &str| path.contains("/events") || path.contains("/status");
    asked
        .iter()
        .filter(|(_, path, _)| !told(path))
        .cloned()
        .collect()
}

#[tokio::test]
async fn objects_that_are_refused_are_not_created_whenever_something_wakes_us() {
    let asked = refused(cluster()).await;
    let mut kinds: Vec<&String> = asked.iter().map(|(_, path, _)| path).collect();
    assert_eq!(kinds.len(), 5, "{kinds:?}");
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds.len(), 5, "{kinds:?}");
}

#[tokio::test]
async fn a_step_that_fails_is_not_repeated_whenever_something_wakes_us() {
    let mut cluster = cluster();
    let time = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
    cluster.metadata.deletion_timestamp = Some(time);
    let asked = refused(cluster).await;
    let methods: Vec<&str> = asked.iter().map(|(method, _, _)| method.as_str()).collect();
    assert_eq!(methods, ["PATCH"], "{asked:?}");
}

#[tokio::test]
async fn what_is_waited_for_in_vain_is_looked_for_less_and_less_often() {
    let (client, _) = always(200, serde_json::to_value(cluster()).unwrap());
    let former = former::pod("db-0", "former", &former::controller());
    let ctx = Context {
        caches: Caches {
            pods: store(vec![former]),
            ..context(&client, vec![]).caches
        },
        ..context(&client, vec![])
    };
    ctx.caches.filled.set(()).unwrap();
    let ctx = Arc::new(ctx);
    let observed = observe(&cluster(), &ctx).await.unwrap();
    let decision = plan::decide(&observed);
    assert_eq!(decision.reason(), Reason::PreviousOwnerTerminating);
    let cluster: Arc<operator::caches::Guarded> = Arc::new(DeserializeGuard(Ok(cluster())));
    let look = || reconcile(Arc::clone(&cluster), Arc::clone(&ctx));
    assert_eq!(look().await.unwrap(), Action::requeue(SOON));
    // The same for ten minutes.
    ctx.waits.retain(|_| false);
    let before = Instant::now().checked_sub(Duration::from_mins(10)).unwrap();
    ctx.waits.note("u", 1, &decision, before);
    assert_eq!(look().await.unwrap(), Action::requeue(SETTLED));
}

/// What a clock that is set must not do to a pause: end it, or stretch it.
#[test]
fn a_clock_that_is_set_leaves_every_pause_as_long_as_it_was() {
    let wish = plan::observed::Wish {
        kind: manifests::Kind::Service,
        name: "db-client".into(),
        field: None,
        body: 1,
        template: None,
    };
    let attempt = plan::observed::Attempt {
        wish: wish.clone(),
        answer: plan::observed::Answer::Refused("no".into()),
        manager: None,
    };
    let hour = jiff::SignedDuration::from_hours(1);
    for set in [hour, -hour] {
        let mut memory = plan::observed::Refusals::default();
        let start = observed().now.checked_add(hour).unwrap();
        memory.note(start, std::slice::from_ref(&attempt));
        memory.shift(set);
        for (seconds, held) in [(4, 1), (6, 0)] {
            let mut observed = observed();
            let passed = jiff::SignedDuration::from_secs(seconds);
            observed.now = start.checked_add(set + passed).unwrap();
            memory.sort(&mut observed, vec![wish.clone()]);
            assert_eq!(observed.objects.held.len(), held, "{set} {seconds}");
        }
    }
}

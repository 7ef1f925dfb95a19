//! Calls that take long, against a member that says it is enormous and never ends a defragmentation.

use std::convert::Infallible;
use std::io;
use std::time::{Duration, Instant};

use etcd::{BoxFuture, BoxStream, Connect, Target};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::Pod as ApiPod;
use plan::decide;
use plan::observed::UpkeepTask;
use testkit::scene::{Alarmed, Fill, HEAD, Scene, Slot};
use testkit::world::{NAME, NAMESPACE};

use super::*;

/// A status of gRPC: header with the member's ID, and the leader's.
fn status(id: u64, leader: u64) -> Bytes {
    fn varint(mut value: u64, into: &mut Vec<u8>) {
        while value >= 0x80 {
            into.push(u8::try_from(value & 0x7f).unwrap() | 0x80);
            value >>= 7;
        }
        into.push(u8::try_from(value).unwrap());
    }
    let mut header = vec![0x10];
    varint(id, &mut header);
    let mut message = vec![0x0a, u8::try_from(header.len()).unwrap()];
    message.extend(header);
    message.push(0x20);
    varint(leader, &mut message);
    let mut framed = vec![0, 0, 0, 0, u8::try_from(message.len()).unwrap()];
    framed.extend(message);
    framed.into()
}

/// Answers for its status, and for nothing else.
struct Endless {
    status: Bytes,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Connect for Endless {
    fn connect<'a>(&'a self, target: &'a Target, _: u16) -> BoxFuture<'a, io::Result<BoxStream>> {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let (asked, status, pod) = (
            Arc::clone(&self.asked),
            self.status.clone(),
            target.pod.clone(),
        );
        let serve = service_fn(move |request: Request<Incoming>| {
            let call = request.uri().path().rsplit('/').next().unwrap().to_owned();
            asked.lock().unwrap().push(format!("{pod} {call}"));
            let status = status.clone();
            async move {
                if call != "Status" {
                    std::future::pending::<()>().await;
                }
                let answer = Response::builder()
                    .header("content-type", "application/grpc")
                    .header("grpc-status", 0)
                    .body(Full::new(status));
                Ok::<_, Infallible>(answer.unwrap())
            }
        });
        let server = http2::Builder::new(TokioExecutor::new());
        tokio::spawn(server.serve_connection(TokioIo::new(far), serve));
        let near: BoxStream = Box::new(near);
        Box::pin(async move { Ok(near) })
    }
}

#[tokio::test]
async fn a_defragmentation_without_an_end_holds_up_no_look() {
    let slot = Slot {
        fill: Fill::Loose,
        ..Slot::voter()
    };
    let scene = Scene {
        alarm: Alarmed::NoSpace,
        compacted: Some(HEAD - 1000),
        defragmenting: Some(1),
        ..Scene::formed(3, vec![slot; 3])
    };
    let mut observed = scene.observed();
    // Its size is only what it says.
    let Process::Serving(serving) = &mut observed.pods.get_mut(&1).unwrap().process else {
        unreachable!("it serves")
    };
    serving.space.size = u64::MAX;
    let (id, leader) = (serving.member_id, serving.leader);
    let decision = decide(&observed);
    assert!(
        matches!(decision.step, Step::Defragment { ordinal: 1, .. }),
        "{decision:?}"
    );
    let mut cluster = cluster();
    cluster.metadata.name = Some(NAME.to_owned());
    cluster.metadata.namespace = Some(NAMESPACE.to_owned());
    let live = serde_json::to_value(&cluster).unwrap();
    let (client, _) = recorded(vec![(200, live.clone()), (200, live)]);
    let asked = Arc::<Mutex<Vec<String>>>::default();
    let connect: Arc<dyn Connect> = Arc::new(Endless {
        status: status(id, leader),
        asked: Arc::clone(&asked),
    });
    let pod: ApiPod = serde_json::from_value(json!({
        "metadata": {"name": api::names::member(NAME, 1), "namespace": NAMESPACE},
        "status": {"podIP": "127.0.0.1"}
    }))
    .unwrap();
    let ctx = Context {
        caches: Caches {
            pods: store(vec![pod]),
            ..context(&client, vec![]).caches
        },
        pool: etcd::Pool::new(Arc::clone(&connect)),
        connect,
        ..context(&client, vec![])
    };
    let start = Instant::now();
    for _ in 0..2 {
        let outcome = Box::pin(act::act(&cluster, &observed, &decision, &ctx)).await;
        assert!(matches!(outcome, Outcome::NotNow(_)), "{outcome:?}");
    }
    assert!(start.elapsed() < Duration::from_secs(2));
    tokio::time::sleep(Duration::from_millis(50)).await;
    // The next look sees it, and it was begun once.
    let seen = ctx.upkeep.look(&observed.cluster.uid).unwrap();
    assert_eq!(seen.what, UpkeepTask::Defragment { ordinal: 1 });
    assert_eq!(seen.result, None);
    let asked = asked.lock().unwrap();
    let begun = asked.iter().filter(|call| call.ends_with("Defragment"));
    assert_eq!(begun.count(), 1, "{asked:?}");
}

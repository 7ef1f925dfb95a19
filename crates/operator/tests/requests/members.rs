//! Changes of the member list, against members that answer from a script.

use std::convert::Infallible;
use std::io;

use etcd::{BoxFuture, BoxStream, Connect, Target};
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::Pod as ApiPod;
use plan::decide;
use testkit::scene::{Does, For, Listed, Scene, Slot};
use testkit::world::{NAME, NAMESPACE};

use super::*;

/// A code of gRPC and what is said with it.
type Answer = (u16, &'static str);

/// What every member says, by ordinal, and who was asked.
struct Members {
    answers: Vec<Answer>,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Connect for Members {
    fn connect<'a>(&'a self, target: &'a Target, _: u16) -> BoxFuture<'a, io::Result<BoxStream>> {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let ordinal = api::names::ordinal(NAME, &target.pod).unwrap();
        let (code, says) = *self.answers.get(usize::try_from(ordinal).unwrap()).unwrap();
        let (asked, pod) = (Arc::clone(&self.asked), target.pod.clone());
        let serve = service_fn(move |request: Request<Incoming>| {
            let call = request.uri().path().rsplit('/').next().unwrap().to_owned();
            asked.lock().unwrap().push(format!("{pod} {call}"));
            async move {
                let answer = Response::builder()
                    .header("content-type", "application/grpc")
                    .header("grpc-status", code)
                    .header("grpc-message", says)
                    .body(Empty::<Bytes>::new());
                Ok::<_, Infallible>(answer.unwrap())
            }
        });
        let server = http2::Builder::new(TokioExecutor::new());
        tokio::spawn(server.serve_connection(TokioIo::new(far), serve));
        let near: BoxStream = Box::new(near);
        Box::pin(async move { Ok(near) })
    }
}

fn pod(ordinal: u32) -> ApiPod {
    serde_json::from_value(json!({
        "metadata": {"name": api::names::member(NAME, ordinal), "namespace": NAMESPACE},
        "status": {"podIP": "127.0.0.1"}
    }))
    .unwrap()
}

/// Asks three voters, the first of them the leader, to add a fourth member.
async fn add(answers: Vec<Answer>) -> (Outcome, Vec<String>) {
    let waits = Slot {
        join: For::ThisWait,
        ..Slot::new(Does::Waits(State::Empty), Listed::No)
    };
    let mut slots = vec![Slot::new(Does::Serves, Listed::Voter); 3];
    slots.push(waits);
    let observed = Scene::formed(5, slots).observed();
    let decision = decide(&observed);
    assert!(
        matches!(decision.step, Step::AddLearner { ordinal: 3, .. }),
        "{decision:?}"
    );
    let (client, _) = recorded(vec![]);
    let asked = Arc::default();
    let connect: Arc<dyn Connect> = Arc::new(Members {
        answers,
        asked: Arc::clone(&asked),
    });
    let ctx = Context {
        caches: Caches {
            pods: store((0..4).map(pod).collect()),
            ..context(&client, vec![]).caches
        },
        pool: etcd::Pool::new(Arc::clone(&connect)),
        connect,
        ..context(&client, vec![])
    };
    let mut cluster = cluster();
    cluster.metadata.name = Some(NAME.to_owned());
    cluster.metadata.namespace = Some(NAMESPACE.to_owned());
    let outcome = Box::pin(act::act(&cluster, &observed, &decision, &ctx)).await;
    let asked = asked.lock().unwrap().clone();
    (outcome, asked)
}

const UNHEALTHY: Answer = (14, "etcdserver: unhealthy cluster");
const LISTED: Answer = (9, "etcdserver: Peer URLs already exists");
const TIMED_OUT: Answer = (14, "etcdserver: request timed out");

#[tokio::test]
async fn who_is_badly_connected_does_not_keep_the_others_from_adding() {
    let (outcome, asked) = add(vec![UNHEALTHY, UNHEALTHY, LISTED]).await;
    assert_eq!(
        asked,
        ["db-0 MemberAdd", "db-1 MemberAdd", "db-2 MemberAdd"]
    );
    assert_eq!(outcome, Outcome::Done);
    let (outcome, asked) = add(vec![UNHEALTHY; 3]).await;
    assert_eq!(asked.len(), 3);
    assert!(matches!(outcome, Outcome::NotNow(_)), "{outcome:?}");
}

/// It may have been proposed: asking another one could add a second member.
#[tokio::test]
async fn an_answer_of_which_nobody_knows_what_became_is_not_asked_for_twice() {
    let (outcome, asked) = add(vec![TIMED_OUT; 3]).await;
    assert_eq!(asked, ["db-0 MemberAdd"]);
    assert!(matches!(outcome, Outcome::NotNow(_)), "{outcome:?}");
}

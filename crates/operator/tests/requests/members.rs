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
use plan::why::Rollout;
use testkit::scene::{Does, For, Listed, Scene, Slot};
use testkit::world::{NAME, NAMESPACE};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

/// A code of gRPC and what is said with it.
type Answer = (u16, &'static str);

/// What every member says, by ordinal, and who was asked.
struct Members {
    answers: Vec<Answer>,
    asked: Arc<Mutex<Vec<String>>>,
    /// What answers at the gate of every pod.
    report: Option<Report>,
}

impl Connect for Members {
    fn connect<'a>(
        &'a self,
        target: &'a Target,
        port: u16,
    ) -> BoxFuture<'a, io::Result<BoxStream>> {
        let (near, far) = tokio::io::duplex(64 * 1024);
        if port == gate::PORT {
            tokio::spawn(tell(far, serde_json::to_string(&self.report).unwrap()));
            let near: BoxStream = Box::new(near);
            return Box::pin(async move { Ok(near) });
        }
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

/// Answers one request with this body.
async fn tell(mut stream: tokio::io::DuplexStream, body: String) {
    let mut request = [0; 4096];
    let _asked = stream.read(&mut request).await.unwrap();
    let answer = format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(answer.as_bytes()).await.unwrap();
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
    act_on(&observed, &decision, (answers, None)).await
}

async fn act_on(
    observed: &Observed,
    decision: &Decision,
    (answers, report): (Vec<Answer>, Option<Report>),
) -> (Outcome, Vec<String>) {
    act_while(observed, decision, (answers, report), vec![]).await
}

/// The same, with what the API server says meanwhile.
async fn act_while(
    observed: &Observed,
    decision: &Decision,
    (answers, report): (Vec<Answer>, Option<Report>),
    says: Vec<(u16, Value)>,
) -> (Outcome, Vec<String>) {
    let (client, _) = recorded(says);
    let asked = Arc::default();
    let connect: Arc<dyn Connect> = Arc::new(Members {
        answers,
        asked: Arc::clone(&asked),
        report,
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
    let outcome = Box::pin(act::act(&cluster, observed, decision, &ctx)).await;
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
async fn a_request_whose_outcome_is_unknown_is_not_sent_twice() {
    let (outcome, asked) = add(vec![TIMED_OUT; 3]).await;
    assert_eq!(asked, ["db-0 MemberAdd"]);
    assert!(matches!(outcome, Outcome::NotNow(_)), "{outcome:?}");
}

/// The nonce alone does not tell: the address of a pod may have led elsewhere at the look already.
#[tokio::test]
async fn no_member_is_removed_for_the_report_of_another_pod() {
    let mut slots = vec![Slot::new(Does::Serves, Listed::Voter); 3];
    slots.push(Slot::new(Does::Waits(State::Empty), Listed::Voter));
    let observed = Scene::formed(5, slots).observed();
    let decision = decide(&observed);
    assert!(
        matches!(decision.step, Step::RemoveMember { ordinal: 3, .. }),
        "{decision:?}"
    );
    let own = observed.pods[&3].held().unwrap();
    let another = Report {
        pod_uid: "another".into(),
        ..own.clone()
    };
    let (outcome, asked) = act_on(&observed, &decision, (vec![LISTED; 4], Some(another))).await;
    assert_eq!(asked, Vec::<String>::new());
    let Outcome::NotNow(why) = outcome else {
        panic!("{outcome:?}");
    };
    assert!(why.contains("the pod with UID another"), "{why}");
}

/// etcd knows no resourceVersion: under what is asked for by now, the member may listen otherwise.
#[tokio::test]
async fn the_urls_of_a_voter_are_updated_only_on_the_newest_word_of_the_object() {
    let slots = vec![Slot::new(Does::Serves, Listed::Voter); 3];
    let observed = Scene::formed(3, slots).observed();
    let member = &observed.etcd.members.as_ref().unwrap().members[1];
    let http = member.peer_urls[0].clone();
    let step = Step::UpdatePeer {
        id: member.id,
        ordinal: 1,
        peer_urls: vec![http.clone(), http.replace("http:", "https:")],
    };
    let decision = Decision::act(step, Rollout::CallOffForgotten);
    for (version, expected) in [("7", vec!["db-0 MemberUpdate".to_owned()]), ("8", vec![])] {
        let live = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata",
            "metadata": {"name": NAME, "namespace": NAMESPACE, "resourceVersion": version}});
        let answers = (vec![TIMED_OUT; 3], None);
        let (outcome, asked) = act_while(&observed, &decision, answers, vec![(200, live)]).await;
        assert_eq!(asked, expected);
        assert!(matches!(outcome, Outcome::NotNow(_)), "{outcome:?}");
    }
}

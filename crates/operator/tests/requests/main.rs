//! The exact requests of every executor, against a recorded API server: what goes over the wire, with which
//! preconditions, and what is made of the answers.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    reason = "tests"
)]

mod admission;
mod admission_keep;
mod backups;
mod calm;
mod cert_manager;
mod certificates;
mod fetch;
mod former;
mod lease;
mod members;
mod node_bindings;
mod objects;
mod platform;
mod restore;
mod restores;
mod sources;
mod upkeep;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use api::v1alpha1::status::BootstrapIntent;
use api::{ClusterIntent, EtcdCluster, Reason};
use bytes::Bytes;
use gate::{Action, Grant, Report, State};
use http::{Request, Response};
use http_body_util::BodyExt;
use k8s_openapi::api::core::v1::Service;
use kube::Client;
use kube::client::Body;
use kube::runtime::events::{Recorder, Reporter};
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher::Event;
use operator::caches::Caches;
use operator::cluster::{act, report};
use operator::context::Context;
use plan::observed::{Claim, Cluster, Etcd, Objects, Pod, Process, Told};
use plan::status::{self, Outcome};
use plan::why::Bootstrap;
use plan::{Decision, Observed, Step};
use serde_json::{Value, json};

/// One request: method, path with query, body.
type Recorded = (String, String, Value);

/// An API server that answers from a script and records what it was asked.
fn recorded(answers: Vec<(u16, Value)>) -> (Client, Arc<Mutex<Vec<Recorded>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (log, answers) = (
        Arc::clone(&asked),
        Arc::new(Mutex::new(answers.into_iter())),
    );
    let service = tower::service_fn(move |request: Request<Body>| {
        let (log, answers) = (Arc::clone(&log), Arc::clone(&answers));
        async move {
            let (parts, body) = request.into_parts();
            let bytes = body.collect().await.unwrap().to_bytes();
            let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
            log.lock()
                .unwrap()
                .push((parts.method.to_string(), parts.uri.to_string(), body));
            let (code, answer) = answers
                .lock()
                .unwrap()
                .next()
                .expect("an unexpected request");
            let bytes = Bytes::from(serde_json::to_vec(&answer).unwrap());
            let response = Response::builder()
                .status(code)
                .body(Body::from(bytes.to_vec()))
                .unwrap();
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    (Client::new(service, "default"), asked)
}

fn store<K>(objects: Vec<K>) -> kube::runtime::reflector::Store<K>
where
    K: kube::Resource<DynamicType = ()> + Clone + 'static,
{
    let mut writer = Writer::default();
    for object in objects {
        writer.apply_watcher_event(&Event::Apply(object));
    }
    writer.as_reader()
}

fn context(client: &Client, services: Vec<Service>) -> Context {
    let connect: Arc<dyn etcd::Connect> = Arc::new(etcd::DirectTcp);
    let reporter = Reporter {
        controller: "etcd-operator".into(),
        instance: None,
    };
    Context {
        metrics: Arc::default(),
        client: client.clone(),
        caches: Caches {
            clusters: store(vec![]),
            users: store(vec![]),
            roles: store(vec![]),
            backups: store(vec![]),
            restores: store(vec![]),
            jobs: store(vec![]),
            statefulsets: store(vec![]),
            services: store(services),
            service_accounts: store(vec![]),
            budgets: store(vec![]),
            network_policies: store(vec![]),
            claims: store(vec![]),
            secrets: store(vec![]),
            slices: store(vec![]),
            pods: store(vec![]),
            filled: tokio::sync::OnceCell::new(),
        },
        pool: etcd::Pool::new(Arc::clone(&connect)),
        connect,
        recorder: Recorder::new(client.clone(), reporter),
        namespaces: Vec::new(),
        install: manifests::Installation {
            agent_image: "operator:1".into(),
            namespace: Some("etcd-operator-system".into()),
            pod_user: manifests::PodUser::Fixed,
        },
        domain: "cluster.local".into(),
        vault: operator::certificates::vault::Vault::default(),
        sources: operator::certificates::sources::Sources::default(),
        board: Arc::default(),
        found_right: operator::context::FoundRight::default(),
        compared: operator::context::Compared::default(),
        accounts: operator::cluster::observe::auth::Noted::default(),
        versions: operator::cluster::observe::accounts::Versions::default(),
        watched: operator::context::Watched::default(),
        refused: operator::context::Refused::default(),
        health: Arc::default(),
        lanes: Arc::new(operator::lanes::Lanes::new(4)),
        attempts: operator::backoff::Attempts::default(),
        waits: operator::waits::Waits::default(),
        upkeep: operator::context::upkeep(),
        hashing: operator::context::hashing(),
    }
}

fn cluster() -> EtcdCluster {
    serde_json::from_value(json!({
        "apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdCluster",
        "metadata": {"name": "db", "namespace": "prod", "uid": "u", "resourceVersion": "7", "generation": 1,
                     "finalizers": ["keep", "etcd.etcd.io/finalizer"]},
        "spec": {"size": 1}
    }))
    .unwrap()
}

fn held() -> Pod {
    Pod {
        uid: "pod-1".into(),
        created: jiff::Timestamp::UNIX_EPOCH,
        resolvable: true,
        scheduled: true,
        terminating: false,
        ready: false,
        problem: None,
        broken: None,
        fence: None,
        outdated: false,
        template: String::new(),
        transport: api::Transport::default(),
        trust: 0,
        refreshed: None,
        debug: false,
        told_removed: vec![],
        told: None,
        grant: None,
        process: Process::Held(Report {
            protocol: gate::PROTOCOL,
            state: State::Empty,
            nonce: "n1".into(),
            pod_uid: "pod-1".into(),
            detail: "empty".into(),
            data: None,
            failed: None,
            received_bytes: None,
        }),
        received: None,
        stranger: None,
        stall: None,
    }
}

fn observed() -> Observed {
    let cluster = cluster();
    let mut latched = status::latched(&cluster.status.clone().unwrap_or_default());
    latched.bootstrap = Some(BootstrapIntent {
        member: "db-0".into(),
        pod_uid: "pod-1".into(),
        claim_uid: "claim-1".into(),
        nonce: "n1".into(),
    });
    Observed {
        now: jiff::Timestamp::UNIX_EPOCH,
        cluster: Cluster {
            name: "db".into(),
            namespace: "prod".into(),
            uid: "u".into(),
            generation: 1,
            deleting: false,
            held_by_predecessor: true,
            paused: false,
            recover: None,
            unavailable_since: None,
            recalled: false,
            target: ClusterIntent::parse(&cluster.spec)
                .ok()
                .map(|intent| plan::target::decide_target(&intent, &latched)),
            intent: ClusterIntent::parse(&cluster.spec),
            latched,
        },
        objects: Objects::default(),
        claims: BTreeMap::from([(
            0,
            Claim {
                uid: "claim-1".into(),
                ours: true,
                terminating: false,
                requested: None,
                capacity: None,
                expandable: None,
                class: None,
                lost: None,
                lineage: None,
            },
        )]),
        pods: BTreeMap::from([(0, held())]),
        node_bindings: BTreeMap::new(),
        etcd: Etcd::default(),
        certificates: plan::observed::Certificates::default(),
        failed: Vec::new(),
        recreated: BTreeMap::new(),
        not_created: BTreeMap::new(),
        backups: plan::observed::Backups::default(),
        restore: plan::observed::Restore::default(),
        indexes_recorded: None,
    }
}

fn decision(step: Step) -> Decision {
    Decision::act(step, Bootstrap::Chosen("db-0".to_owned()))
}

fn grant() -> Step {
    Step::Grant {
        ordinal: 0,
        pod_uid: "pod-1".into(),
        grant: Grant {
            nonce: "n1".into(),
            cluster_uid: "u".into(),
            incarnation: 1,
            action: Action::Bootstrap {
                token: "u-1".into(),
                initial_cluster: "db-0=http://db-0.db-peer.prod.svc:2380".into(),
                discard: false,
            },
        },
    }
}

async fn run(step: Step, answers: Vec<(u16, Value)>) -> (Outcome, Vec<Recorded>) {
    let (client, asked) = recorded(answers);
    let ctx = context(&client, vec![]);
    let (cluster, observed, decision) = (cluster(), observed(), decision(step));
    let outcome = Box::pin(act::act(&cluster, &observed, &decision, &ctx)).await;
    let asked = asked.lock().unwrap().clone();
    (outcome, asked)
}

fn refusal(code: u16, reason: &str) -> (u16, Value) {
    let body = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure",
                      "message": reason, "reason": reason, "code": code});
    (code, body)
}

#[tokio::test]
async fn a_grant_is_an_annotation_on_exactly_the_pod_that_waits() {
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db-0"}});
    let (outcome, asked) = run(grant(), vec![(200, pod)]).await;
    assert_eq!(outcome, Outcome::Done);
    let (method, path, body) = &asked[0];
    assert_eq!(
        (method.as_str(), path.as_str()),
        ("PATCH", "/api/v1/namespaces/prod/pods/db-0?")
    );
    assert_eq!(body["metadata"]["uid"], "pod-1");
    let text = body["metadata"]["annotations"]["etcd.etcd.io/grant"]
        .as_str()
        .unwrap();
    assert!(text.contains(r#""nonce":"n1""#), "{text}");
    let told = &body["metadata"]["annotations"]["etcd.etcd.io/told"];
    assert_eq!(*told, Told::first(observed().now).to_string());
}

#[tokio::test]
async fn a_pod_that_is_annotated_again_keeps_its_grant() {
    let (client, asked) = recorded(vec![(200, json!({"kind": "Pod", "apiVersion": "v1"}))]);
    let mut observed = observed();
    let pod = observed.pods.get_mut(&0).unwrap();
    let Step::Grant { grant, .. } = grant() else {
        unreachable!("it is one")
    };
    pod.grant = Some(grant);
    let remind = decision(Step::RepeatGrant {
        ordinal: 0,
        uid: "pod-1".into(),
        told: "7 1".parse().unwrap(),
    });
    let ctx = context(&client, vec![]);
    let outcome = Box::pin(act::act(&cluster(), &observed, &remind, &ctx)).await;
    assert_eq!(outcome, Outcome::Done);
    let (_, path, body) = asked.lock().unwrap()[0].clone();
    assert_eq!(path, "/api/v1/namespaces/prod/pods/db-0?");
    let wanted = json!({"metadata": {"uid": "pod-1", "annotations": {"etcd.etcd.io/told": "7 1"}}});
    assert_eq!(body, wanted);
}

#[tokio::test]
async fn a_grant_to_a_pod_that_was_replaced_is_not_a_failure() {
    let (outcome, _) = run(grant(), vec![refusal(409, "Conflict")]).await;
    assert!(matches!(outcome, Outcome::NotNow(_)), "{outcome:?}");
}

#[tokio::test]
async fn a_namespace_that_goes_is_not_a_failure() {
    let (code, mut body) = refusal(403, "Forbidden");
    body["details"] =
        json!({"causes": [{"reason": "NamespaceTerminating", "field": "metadata.namespace"}]});
    let (outcome, _) = run(grant(), vec![(code, body)]).await;
    assert!(matches!(outcome, Outcome::NotNow(_)), "{outcome:?}");
    let (outcome, _) = run(grant(), vec![refusal(403, "Forbidden")]).await;
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
}

#[tokio::test]
async fn a_step_that_breaks_an_invariant_sends_no_request() {
    let Step::Grant {
        ordinal,
        pod_uid,
        mut grant,
    } = grant()
    else {
        panic!("not a grant")
    };
    grant.nonce = "another".into();
    let (outcome, asked) = run(
        Step::Grant {
            ordinal,
            pod_uid,
            grant,
        },
        vec![],
    )
    .await;
    assert!(matches!(outcome, Outcome::Failed(_)), "{outcome:?}");
    assert_eq!(asked, []);
}

#[tokio::test]
async fn a_latch_replaces_the_status_of_the_object_that_was_seen() {
    let mut latched = observed().cluster.latched;
    latched.storage = Some(1 << 30);
    let (outcome, asked) = run(
        Step::Latch(latched),
        vec![(200, serde_json::to_value(cluster()).unwrap())],
    )
    .await;
    assert_eq!(outcome, Outcome::Done);
    let (method, path, body) = &asked[0];
    let wanted = "/apis/etcd.etcd.io/v1alpha1/namespaces/prod/etcdclusters/db/status?";
    assert_eq!((method.as_str(), path.as_str()), ("PUT", wanted));
    assert_eq!(body["metadata"]["resourceVersion"], "7");
    assert_eq!(body["status"]["memory"]["proven"]["storageBytes"], 1 << 30);
}

#[tokio::test]
async fn only_the_finalizer_of_the_predecessor_is_taken_off() {
    let (outcome, asked) = run(
        Step::RemoveFinalizer,
        vec![(200, serde_json::to_value(cluster()).unwrap())],
    )
    .await;
    assert_eq!(outcome, Outcome::Done);
    assert_eq!(
        asked[0].2["metadata"],
        json!({"resourceVersion": "7", "finalizers": ["keep"]})
    );
}

#[tokio::test]
async fn a_status_that_says_nothing_new_is_not_written() {
    let (client, asked) = recorded(vec![(200, serde_json::to_value(cluster()).unwrap())]);
    let ctx = context(&client, vec![]);
    let waiting = Decision::wait(Bootstrap::NoPod, std::time::Duration::ZERO);
    let mut cluster = cluster();
    report::report(&cluster, &observed(), &waiting, &Outcome::Done, &ctx)
        .await
        .unwrap();
    let written = asked.lock().unwrap()[0].2["status"].clone();
    cluster.status = serde_json::from_value(written).unwrap();
    report::report(&cluster, &observed(), &waiting, &Outcome::Done, &ctx)
        .await
        .unwrap();
    assert_eq!(asked.lock().unwrap().len(), 1);
}

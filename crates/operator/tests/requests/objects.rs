//! Writes of the objects of a cluster: what is created, what is applied, and what one refusal does to the others.

use k8s_openapi::api::core::v1::Service;
use operator::cluster::act;
use plan::Step;
use plan::observed::{Answer, Attempt};
use plan::status::Outcome;
use serde_json::{Value, json};

use crate::{cluster, context, decision, observed, recorded, refusal, run};

fn shape() -> manifests::Shape {
    manifests::Shape {
        replicas: 1,
        min_available: 0,
        client_service: false,
        ..manifests::Shape::default()
    }
}

#[tokio::test]
async fn what_is_missing_is_created_and_never_applied_over_an_object_of_another_owner() {
    let foreign = json!({"apiVersion": "v1", "kind": "Service",
                         "metadata": {"name": "db-peer", "uid": "x"}});
    let made = |kind: &str| {
        (
            201,
            json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "db"}}),
        )
    };
    let answers = vec![
        made("ServiceAccount"),
        refusal(409, "AlreadyExists"),
        (200, foreign),
        made("PodDisruptionBudget"),
        made("StatefulSet"),
    ];
    let (outcome, asked) = run(Step::ApplyObjects(shape()), answers).await;
    let (yes, no) = (Answer::Written, Answer::Foreign);
    assert_eq!(answers_of(&outcome), [&yes, &no, &yes, &yes]);
    let methods: Vec<&str> = asked.iter().map(|(method, _, _)| method.as_str()).collect();
    assert_eq!(methods, ["POST", "POST", "GET", "POST", "POST"]);
}

fn attempts_of(outcome: &Outcome) -> &[Attempt] {
    match outcome {
        Outcome::Applied(attempts) => attempts,
        Outcome::Done | Outcome::NotNow(_) | Outcome::Failed(_) => &[],
    }
}

fn answers_of(outcome: &Outcome) -> Vec<&Answer> {
    let attempts = attempts_of(outcome).iter();
    attempts.map(|attempt| &attempt.answer).collect()
}

#[tokio::test]
async fn a_refused_object_holds_up_no_other_and_is_left_alone_until_it_may_be_tried_again() {
    let made = |kind: &str| {
        (
            201,
            json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "db"}}),
        )
    };
    let mut quota = refusal(403, "Forbidden");
    quota.1["message"] = json!("exceeded quota: claims");
    let answers = vec![
        made("ServiceAccount"),
        made("Service"),
        refusal(429, "TooManyRequests"),
        quota,
        made("StatefulSet"),
    ];
    let mut shape = shape();
    shape.claims = vec![0];
    let (outcome, asked) = run(Step::ApplyObjects(shape.clone()), answers).await;
    assert_eq!(asked.len(), 5);
    let answers = answers_of(&outcome);
    let refused = Answer::Refused("exceeded quota: claims".into());
    assert!(matches!(answers[2], Answer::Later(_)), "{answers:?}");
    assert_eq!((answers[3], answers[4]), (&refused, &Answer::Written));
    // Everything was tried a moment ago.
    let attempts = attempts_of(&outcome);
    let mut observed = observed();
    let wishes = attempts
        .iter()
        .map(|attempt| attempt.wish.clone())
        .collect();
    let mut memory = plan::observed::Refusals::default();
    memory.note(observed.now, attempts);
    memory.sort(&mut observed, wishes);
    assert!(observed.objects.drifted.is_empty());
    let (client, asked) = recorded(vec![]);
    let step = decision(Step::ApplyObjects(shape));
    let outcome = act::act(&cluster(), &observed, &step, &context(&client, vec![])).await;
    assert_eq!(outcome, Outcome::Applied(vec![]));
    assert!(asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn what_exists_is_applied_with_its_uid_and_what_is_right_is_left_alone() {
    let live: Service = serde_json::from_value(json!({
        "metadata": {"name": "db-peer", "namespace": "prod", "uid": "service-1",
            "ownerReferences": [{"apiVersion": "v", "kind": "EtcdCluster", "name": "db", "uid": "u"}]},
        "spec": {"publishNotReadyAddresses": false}}))
    .unwrap();
    let made = |kind: &str| {
        (
            201,
            json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "db"}}),
        )
    };
    let service = |version: &str, managed: Value| {
        (
            200,
            json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "db-peer", "uid": "service-1",
                "resourceVersion": version, "managedFields": managed}}),
        )
    };
    let by_us = json!([{"manager": "etcd-operator", "operation": "Update"}]);
    let (client, asked) = recorded(vec![
        made("ServiceAccount"),
        service("3", by_us),
        service("4", json!([])),
        service("5", json!([])),
        made("PodDisruptionBudget"),
        made("StatefulSet"),
    ]);
    let ctx = context(&client, vec![live]);
    let step = decision(Step::ApplyObjects(shape()));
    let outcome = act::act(&cluster(), &observed(), &step, &ctx).await;
    assert_eq!(answers_of(&outcome), [&Answer::Written; 4]);
    let asked = asked.lock().unwrap();
    // What came with its creation is called applied first, or it could never be taken off again.
    let (method, _, body) = &asked[2];
    assert_eq!(method, "PATCH");
    assert_eq!(body["metadata"]["managedFields"][0]["operation"], "Apply");
    assert_eq!(body["metadata"]["resourceVersion"], "3");
    let (method, path, body) = &asked[3];
    assert_eq!(method, "PATCH");
    assert!(
        path.contains("force=true") && path.contains("fieldManager=etcd-operator"),
        "{path}"
    );
    assert_eq!(body["metadata"]["uid"], "service-1");
    // An API server whose cache is behind must not allocate ports for a write that fails afterwards.
    assert_eq!(body["metadata"]["resourceVersion"], "4");
}

#[tokio::test]
async fn clients_are_let_in_only_on_the_objects_newest_word() {
    let made = |kind: &str| {
        (
            201,
            json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "db"}}),
        )
    };
    let mut later = serde_json::to_value(cluster()).unwrap();
    later["metadata"]["resourceVersion"] = json!("8");
    let (client, asked) = recorded(vec![
        made("ServiceAccount"),
        made("Service"),
        made("PodDisruptionBudget"),
        made("StatefulSet"),
        (200, later),
    ]);
    let mut observed = observed();
    observed.cluster.latched.cluster_id = Some(1);
    let shape = manifests::Shape {
        client_service: true,
        ..shape()
    };
    let step = decision(Step::ApplyObjects(shape));
    let outcome = act::act(&cluster(), &observed, &step, &context(&client, vec![])).await;
    let answers = answers_of(&outcome);
    assert!(matches!(answers[4], Answer::Later(_)), "{outcome:?}");
    let asked = asked.lock().unwrap();
    let (method, path, _) = asked.last().unwrap();
    assert!(
        method == "GET" && path.ends_with("etcdclusters/db"),
        "{path}"
    );
}

//! What a pause allows: the proven template comes back into the StatefulSet, and nothing else is written.

use api::labels;
use k8s_openapi::api::apps::v1::StatefulSet;
use manifests::{Shape, Template};
use plan::observed::Proven;

use super::*;

/// The StatefulSet while another template is tried: the proven one is kept beside it.
fn tried() -> Value {
    let template = |hash: &str| {
        json!({"metadata": {"annotations": {labels::TEMPLATE_ANNOTATION: hash}},
               "spec": {"containers": [{"name": "etcd", "image": format!("etcd:{hash}")}]}})
    };
    let owner = json!([{"apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdCluster",
                        "name": "db", "uid": "u", "controller": true}]);
    json!({"apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": "db", "namespace": "prod", "uid": "set-1", "resourceVersion": "9",
            "ownerReferences": owner,
            "annotations": {"mine": "stays", labels::KEPT_TEMPLATE_ANNOTATION: template("old").to_string()}},
        "spec": {"replicas": 3, "serviceName": "db-peer", "selector": {}, "template": template("new")}})
}

async fn restore(answers: Vec<(u16, Value)>) -> (Outcome, Vec<Recorded>) {
    let (client, asked) = recorded(answers);
    let set: StatefulSet = serde_json::from_value(tried()).unwrap();
    let ctx = Context {
        caches: Caches {
            statefulsets: store(vec![set]),
            ..context(&client, vec![]).caches
        },
        ..context(&client, vec![])
    };
    let mut observed = observed();
    observed.cluster.paused = true;
    observed.cluster.latched.cluster_id = Some(1);
    observed.cluster.latched.proven = Some(Proven {
        template: "old".into(),
        version: observed.cluster.target.as_ref().unwrap().intent.version,
        everywhere: true,
        before: None,
    });
    observed.objects.kept_template = Some("old".into());
    let shape = Shape {
        replicas: 1,
        template: Template::Kept,
        ..Shape::default()
    };
    let step = decision(Step::RestoreTemplate(shape));
    let outcome = Box::pin(act::act(&cluster(), &observed, &step, &ctx)).await;
    let asked = asked.lock().unwrap().clone();
    (outcome, asked)
}

fn object() -> (u16, Value) {
    (200, serde_json::to_value(cluster()).unwrap())
}

#[tokio::test]
async fn a_pause_brings_the_proven_template_back_and_writes_nothing_else() {
    let (outcome, asked) = restore(vec![object(), (200, tried()), (200, tried())]).await;
    assert_eq!(outcome, Outcome::Done);
    let paths: Vec<(&str, &str)> = asked
        .iter()
        .map(|(method, path, _)| (method.as_str(), path.split('?').next().unwrap()))
        .collect();
    let set = "/apis/apps/v1/namespaces/prod/statefulsets/db";
    let object = "/apis/etcd.etcd.io/v1alpha1/namespaces/prod/etcdclusters/db";
    assert_eq!(paths, [("GET", object), ("GET", set), ("PUT", set)]);
    let (_, path, body) = &asked[2];
    assert!(path.contains("fieldManager=etcd-operator"), "{path}");
    // Exactly the StatefulSet that was seen, and the rest of it as it was.
    assert_eq!(body["metadata"]["uid"], "set-1");
    assert_eq!(body["metadata"]["resourceVersion"], "9");
    assert_eq!(body["metadata"]["annotations"], json!({"mine": "stays"}));
    assert_eq!(body["spec"]["replicas"], 3);
    let image = &body["spec"]["template"]["spec"]["containers"][0]["image"];
    assert_eq!(image, "etcd:old");
}

#[tokio::test]
async fn a_template_is_not_brought_back_over_what_changed_in_between() {
    let mut later = object();
    later.1["metadata"]["resourceVersion"] = json!("8");
    let (outcome, asked) = restore(vec![later]).await;
    assert!(matches!(outcome, Outcome::NotNow(_)), "{outcome:?}");
    assert_eq!(asked.len(), 1);
    let mut set = tried();
    set["metadata"]["resourceVersion"] = json!("10");
    let (outcome, asked) = restore(vec![object(), (200, set)]).await;
    assert!(matches!(outcome, Outcome::NotNow(_)), "{outcome:?}");
    assert_eq!(asked.len(), 2);
    let answers = vec![object(), (200, tried()), refusal(403, "exceeded quota")];
    let (outcome, _) = restore(answers).await;
    assert_eq!(outcome, Outcome::Failed("exceeded quota".into()));
}

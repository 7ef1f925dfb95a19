//! The nodes and volumes of members that do not answer: what is asked, page by page, and what is known when the answer
//! does not come in time.

use std::convert::Infallible;

use api::EtcdClusterStatus;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod as ApiPod};
use operator::cluster::observe::observe;
use plan::observed::{NodeBinding, NodeState};

use super::*;

/// A server that has one volume of zone a, no node n1, and says this to lists of nodes; with `None` it never answers.
fn server(pages: Option<Vec<Value>>) -> (Client, Arc<Mutex<Vec<String>>>) {
    let asked = Arc::new(Mutex::new(Vec::new()));
    let log = Arc::clone(&asked);
    let pages = Arc::new(Mutex::new(pages.map(Vec::into_iter)));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (log, pages) = (Arc::clone(&log), Arc::clone(&pages));
        async move {
            let path = request.uri().path().to_owned();
            let (code, body) = match path.as_str() {
                "/api/v1/persistentvolumes/pv-1" => (200, volume()),
                "/api/v1/nodes" => {
                    log.lock().unwrap().push(request.uri().to_string());
                    let page = pages.lock().unwrap().as_mut().map(Iterator::next);
                    match page {
                        Some(page) => (200, page.expect("no further page was announced")),
                        None => std::future::pending().await,
                    }
                }
                _other => refusal(404, "NotFound"),
            };
            let bytes = serde_json::to_vec(&body).unwrap();
            let response = Response::builder().status(code).body(Body::from(bytes));
            Ok::<_, Infallible>(response.unwrap())
        }
    });
    (Client::new(service, "default"), asked)
}

fn volume() -> Value {
    let rule = json!({"key": "zone", "operator": "In", "values": ["a"]});
    let terms = json!([{"matchExpressions": [rule]}]);
    json!({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "pv-1"},
           "spec": {"nodeAffinity": {"required": {"nodeSelectorTerms": terms}}}})
}

fn page(zones: &[&str], more: &str) -> Value {
    let nodes: Vec<Value> = zones
        .iter()
        .map(|zone| json!({"metadata": {"name": format!("of-{zone}"), "labels": {"zone": zone}}}))
        .collect();
    json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
           "metadata": {"continue": more}, "items": nodes})
}

/// What is known of the binding of a member that does not answer, on a node that is gone.
async fn look(pages: Option<Vec<Value>>) -> (Option<NodeBinding>, Vec<String>) {
    let (client, asked) = server(pages);
    let pod: ApiPod = serde_json::from_value(json!({
        "metadata": {"name": "db-0", "namespace": "prod", "uid": "pod-1"},
        "spec": {"nodeName": "n1", "containers": [{"name": "etcd",
            "command": ["/agent/etcd-agent", "gate", "--cluster-uid", "u", "--"]}]}}))
    .unwrap();
    let claim: PersistentVolumeClaim = serde_json::from_value(json!({
        "metadata": {"name": "data-db-0", "namespace": "prod", "uid": "claim-1"},
        "spec": {"volumeName": "pv-1"}}))
    .unwrap();
    let ctx = Context {
        caches: Caches {
            pods: store(vec![pod]),
            claims: store(vec![claim]),
            ..context(&client, vec![]).caches
        },
        ..context(&client, vec![])
    };
    let mut cluster = cluster();
    let mut latched = observed().cluster.latched;
    latched.cluster_id = Some(1);
    cluster.status = Some(status::with_latched(
        &EtcdClusterStatus::default(),
        cluster.metadata.uid.as_deref().unwrap_or_default(),
        &latched,
    ));
    let observed = observe(&cluster, &ctx).await.unwrap();
    let asked = asked.lock().unwrap().clone();
    let mut binding = observed.node_bindings.get(&0).cloned();
    // Its first look is the first that saw the node gone.
    if let Some(binding) = &mut binding {
        assert_eq!(binding.gone_since.take(), Some(observed.now));
    }
    (binding, asked)
}

fn gone(elsewhere: Option<bool>) -> NodeBinding {
    NodeBinding {
        node: "n1".into(),
        state: NodeState::Deleted,
        elsewhere,
        gone_since: None,
    }
}

#[tokio::test]
async fn nodes_are_asked_for_page_by_page_until_one_fits() {
    let pages = vec![
        page(&["b", "c"], "next"),
        page(&["a", "b"], "after"),
        page(&["b"], ""),
    ];
    let (binding, asked) = Box::pin(look(Some(pages))).await;
    assert_eq!(binding, Some(gone(Some(true))));
    assert_eq!(asked.len(), 2, "{asked:?}");
    assert!(
        asked.iter().all(|path| path.contains("limit=")),
        "{asked:?}"
    );
    assert!(asked[1].contains("continue=next"), "{asked:?}");
}

#[tokio::test]
async fn a_zone_without_a_node_now_is_not_known_to_be_gone() {
    let pages = vec![page(&["b"], "next"), page(&["c"], "")];
    let (binding, asked) = Box::pin(look(Some(pages))).await;
    assert_eq!((binding, asked.len()), (Some(gone(None)), 2));
}

#[tokio::test]
async fn a_list_that_does_not_come_in_time_does_not_hide_that_the_node_is_gone() {
    let (binding, _) = Box::pin(look(None)).await;
    assert_eq!(binding, Some(gone(None)));
}

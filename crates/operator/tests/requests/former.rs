//! Pods that an earlier object of this name left: not looked at, not talked to, and waited for.

use std::io;

use etcd::{BoxFuture, BoxStream, Connect, Target};
use k8s_openapi::api::core::v1::Pod as ApiPod;
use operator::cluster::observe::observe;
use plan::decide;
use plan::why::Object;

use super::*;

/// No member answers; which ones were called is recorded.
#[derive(Default)]
struct Called(Mutex<Vec<String>>);

impl Connect for Called {
    fn connect<'a>(&'a self, target: &'a Target, _: u16) -> BoxFuture<'a, io::Result<BoxStream>> {
        self.0.lock().unwrap().push(target.pod.clone());
        Box::pin(async { Err(io::ErrorKind::TimedOut.into()) })
    }
}

pub(super) fn pod(name: &str, cluster: &str, controller: &Value) -> ApiPod {
    let command = ["/agent/etcd-agent", "gate", "--cluster-uid", cluster, "--"];
    let mut pod = serde_json::from_value(json!({
        "metadata": {"name": name, "namespace": "prod", "uid": format!("uid-of-{name}"), "ownerReferences": controller},
        "spec": {"containers": [{"name": "etcd", "command": command}]},
        "status": {"podIP": "127.0.0.1"}
    }))
    .unwrap();
    operator::caches::trim_pod(&mut pod);
    pod
}

pub(super) fn controller() -> Value {
    json!([{"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "db", "uid": "gone", "controller": true}])
}

async fn look(pods: Vec<ApiPod>) -> (Observed, Vec<String>) {
    let (client, _) = recorded(vec![]);
    let called = Arc::<Called>::default();
    let connect: Arc<dyn Connect> = Arc::<Called>::clone(&called);
    let ctx = Context {
        caches: Caches {
            pods: store(pods),
            ..context(&client, vec![]).caches
        },
        pool: etcd::Pool::new(Arc::clone(&connect)),
        connect,
        ..context(&client, vec![])
    };
    let observed = observe(&cluster(), &ctx).await.unwrap();
    let called = called.0.lock().unwrap().clone();
    (observed, called)
}

#[tokio::test]
async fn pods_of_a_former_object_are_waited_for_and_not_talked_to() {
    let pods = vec![
        pod("db-0", "former", &controller()),
        pod("db-1", "u", &controller()),
    ];
    let (observed, called) = look(pods).await;
    assert_eq!(observed.pods.keys().collect::<Vec<_>>(), [&1]);
    assert_eq!(observed.objects.former, ["Pod db-0"]);
    assert_eq!(called, ["db-1"]);
    let decision = decide(&observed);
    assert_eq!(decision.reason(), Reason::PreviousOwnerTerminating);
    assert!(matches!(decision.step, Step::Wait), "{decision:?}");
    let former = Object::PreviousOwner("Pod db-0".to_owned());
    assert_eq!(decision.why, former.into());
}

#[tokio::test]
async fn pods_that_are_not_deleted_are_named_in_a_condition() {
    let (observed, called) = look(vec![pod("db-0", "former", &json!([]))]).await;
    assert!(observed.pods.is_empty() && observed.objects.former.is_empty());
    assert_eq!(called, [""; 0]);
    let decision = decide(&observed);
    assert_eq!(decision.reason(), Reason::ForeignObject);
    assert!(
        decision.why.to_string().contains("Pod db-0"),
        "{}",
        decision.why
    );
}

/// Nothing stands in the way any more once they are gone.
#[tokio::test]
async fn when_former_pods_are_gone_our_objects_are_made() {
    let (observed, _) = look(vec![]).await;
    let step = decide(&observed).step;
    assert!(matches!(step, Step::ApplyObjects(_)), "{step:?}");
}

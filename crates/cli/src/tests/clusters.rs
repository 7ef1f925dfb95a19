//! Clusters as the API server gives them.

use api::EtcdCluster;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use crate::report::{ClusterReport, report};
use crate::screen::Screen;

/// 2026-11-19T12:00:00Z.
pub(super) const NOW: i64 = 1_795_089_600;

/// A pipe.
pub(super) fn pipe() -> Screen {
    Screen {
        width: None,
        colour: false,
        unicode: true,
        wide: false,
        now: Timestamp::from_second(NOW).unwrap(),
    }
}

/// The same, with more columns.
pub(super) fn wide() -> Screen {
    Screen {
        wide: true,
        ..pipe()
    }
}

/// A terminal of so many columns, with colours or with ASCII only.
pub(super) fn terminal(width: usize, rich: bool) -> Screen {
    Screen {
        width: Some(width),
        colour: rich,
        unicode: rich,
        ..pipe()
    }
}

pub(super) fn ago(seconds: i64) -> String {
    Timestamp::from_second(NOW - seconds).unwrap().to_string()
}

pub(super) fn condition(kind: &str, status: &str, reason: &str, message: &str) -> Value {
    json!({"type": kind, "status": status, "reason": reason, "message": message, "lastTransitionTime": ago(190)})
}

/// Three members, of which the last may be something else than healthy.
fn three(name: &str, last: &Value, conditions: &[Value]) -> Value {
    let member = |ordinal: u32, role: &str| {
        json!({
            "name": format!("{name}-{ordinal}"), "id": format!("{}a{ordinal}", ordinal + 1), "role": role, "ready": true,
            "version": "3.6.16", "clientURL": format!("https://{name}-{ordinal}.{name}-peer.prod.svc:2379"),
        })
    };
    json!({
        "apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdCluster",
        "metadata": {
            "name": name, "namespace": "prod", "uid": format!("u-{name}"), "generation": 2, "creationTimestamp": ago(864_000),
        },
        "spec": {"size": 3, "version": "v3.6.16"},
        "status": {
            "phase": "Running", "observedGeneration": 2, "readyReplicas": 3, "clusterID": "cdf818194e3a8c32", "version": "3.6.16",
            "clientEndpoints": [format!("https://{name}-client.prod.svc:2379")],
            "members": [member(0, "leader"), member(1, "follower"), last],
            "conditions": conditions,
        },
    })
}

/// As asked for.
pub(super) fn well() -> Value {
    let last = json!({"name": "db-2", "id": "3a2", "role": "follower", "ready": true, "version": "3.6.16"});
    three(
        "db",
        &last,
        &[
            condition(
                "Available",
                "True",
                "QuorumHealthy",
                "3 of 3 voters are healthy",
            ),
            condition(
                "Progressing",
                "False",
                "AsExpected",
                "3 healthy voters, as asked for",
            ),
            condition("Degraded", "False", "AsExpected", "no problem found"),
            condition("Ready", "True", "AsExpected", "3 of 3 members are healthy"),
        ],
    )
}

/// A volume is gone.
pub(super) fn degraded() -> Value {
    let last = json!({"name": "db-2", "id": "3a2", "ready": false, "message": "waits at the gate: its volume is empty"});
    let doing = "db-2 is replaced: its volume is gone, → a new member joins";
    three(
        "db",
        &last,
        &[
            condition(
                "Available",
                "True",
                "QuorumHealthy",
                "2 of 3 voters are healthy",
            ),
            condition("Progressing", "True", "ReplacingMember", doing),
            condition(
                "Degraded",
                "True",
                "MemberUnhealthy",
                "db-2 waits at the gate: its volume is empty",
            ),
            condition(
                "Ready",
                "False",
                "ReplacingMember",
                &format!("2 of 3 members are healthy: {doing}"),
            ),
        ],
    )
}

/// No quorum is left.
pub(super) fn down() -> Value {
    let last = json!({"name": "db-2", "id": "3a2", "ready": false, "message": "has no pod"});
    let text = "no quorum can return: the volumes of db-1 and db-2 are gone for good; db-0 has data. To go on with it: kubectl annotate etcdcluster db etcd.etcd.io/recover=cdf818194e3a8c32";
    let mut down = three(
        "db",
        &last,
        &[
            condition(
                "Available",
                "False",
                "QuorumLost",
                "no quorum of voters serves",
            ),
            condition("Progressing", "True", "QuorumLost", text),
            condition("Degraded", "True", "QuorumLost", text),
            condition("Ready", "False", "QuorumLost", text),
        ],
    );
    for at in 0..2 {
        down["status"]["members"][at]["ready"] = json!(false);
        down["status"]["members"][at]["message"] = json!("runs, and has no leader");
        down["status"]["members"][at]
            .as_object_mut()
            .unwrap()
            .remove("role");
    }
    down["status"]["phase"] = json!("Failed");
    down["status"]["unavailableSince"] = json!(ago(360));
    down
}

/// Nothing has looked at it.
pub(super) fn fresh() -> Value {
    json!({
        "apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdCluster",
        "metadata": {"name": "young", "namespace": "prod", "generation": 1, "creationTimestamp": ago(3)},
        "spec": {},
    })
}

/// Size 0.
pub(super) fn stopped() -> Value {
    let mut stopped = well();
    stopped["metadata"]["name"] = json!("night");
    stopped["spec"]["size"] = json!(0);
    stopped["status"]["members"] = json!([]);
    stopped["status"]["phase"] = json!("Stopped");
    let text = "spec.size is 0: no member runs";
    stopped["status"]["conditions"] = json!([
        condition("Available", "False", "Stopped", text),
        condition("Progressing", "False", "Stopped", text),
        condition("Degraded", "False", "AsExpected", "no problem found"),
        condition("Ready", "False", "Stopped", text),
    ]);
    stopped
}

pub(super) fn cluster(object: Value) -> EtcdCluster {
    serde_json::from_value(object).unwrap()
}

pub(super) fn pods() -> Vec<Pod> {
    let pod = |ordinal: u32, restarts: u32| {
        json!({
            "metadata": {"name": format!("db-{ordinal}"), "namespace": "prod", "creationTimestamp": ago(864_000)},
            "spec": {"nodeName": format!("node-{}", ordinal + 1), "containers": []},
            "status": {
                "podIP": format!("10.0.0.{ordinal}"),
                "containerStatuses": [{
                    "name": "etcd", "restartCount": restarts, "ready": true, "image": "", "imageID": "",
                }],
            },
        })
    };
    let pods = json!([pod(0, 0), pod(1, 12)]);
    serde_json::from_value(pods).unwrap()
}

/// With its pods.
pub(super) fn seen(object: Value) -> ClusterReport {
    report(&cluster(object), Some(Ok(&pods())))
}

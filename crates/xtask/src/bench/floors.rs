//! What creating a cluster is compared to: the same image, claim and user without an operator, with every member known
//! beforehand. `replicas` 1 is one such pod's start; 3 is a hand-made static cluster.

use std::time::Instant;

use anyhow::Result;
use serde_json::{Value, json};

use super::place::Place;

/// Seconds from the request for one bare pod until it answers; it stays.
pub(super) fn start_pod(place: &mut Place<'_>, version: &str) -> Result<f64> {
    place.post("/api/v1", "services", &build_service("p"))?;
    let object = build_statefulset("p", &place.namespace, version, 1);
    let started = Instant::now();
    place.post("/apis/apps/v1", "statefulsets", &object)?;
    place.voters(1, started)
}

/// The headless Service in front of the floor's pods.
pub(super) fn build_service(name: &str) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {"name": name},
        "spec": {
            "clusterIP": "None", "publishNotReadyAddresses": true, "selector": {"app": name},
            "ports": [{"name": "peer", "port": 2380}, {"name": "client", "port": 2379}],
        },
    })
}

/// The StatefulSet, started all at once as ours is.
pub(super) fn build_statefulset(name: &str, namespace: &str, version: &str, replicas: u8) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet",
        "metadata": {"name": name},
        "spec": {
            "serviceName": name, "replicas": replicas, "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "enableServiceLinks": false,
                    "securityContext": {"runAsUser": 65532, "runAsGroup": 65532, "fsGroup": 65532, "runAsNonRoot": true},
                    "containers": [container(name, namespace, version, replicas)],
                },
            },
            "volumeClaimTemplates": [{
                "metadata": {"name": "data"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            }],
        },
    })
}

fn container(name: &str, namespace: &str, version: &str, replicas: u8) -> Value {
    let host = |pod: &str| format!("http://{pod}.{name}.{namespace}.svc");
    let member = |index: u8| {
        let pod = format!("{name}-{index}");
        format!("{pod}={}:2380", host(&pod))
    };
    let members: Vec<String> = (0..replicas).map(member).collect();
    let own = host("$(POD_NAME)");
    json!({
        "name": "etcd",
        "image": format!("quay.io/coreos/etcd:v{version}"),
        "command": ["/usr/local/bin/etcd"],
        "args": [
            "--name=$(POD_NAME)",
            "--data-dir=/var/lib/etcd/data",
            "--listen-client-urls=http://[::]:2379",
            format!("--advertise-client-urls={own}:2379"),
            "--listen-peer-urls=http://[::]:2380",
            format!("--initial-advertise-peer-urls={own}:2380"),
            format!("--initial-cluster={}", members.join(",")),
            "--initial-cluster-state=new",
            format!("--initial-cluster-token={namespace}-{name}"),
        ],
        "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}},
        "volumeMounts": [{"name": "data", "mountPath": "/var/lib/etcd"}],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_member_of_a_floor_knows_all_the_others() {
        let floor = build_statefulset("f", "ns", "3.6.16", 3);
        let args = floor.pointer("/spec/template/spec/containers/0/args");
        let args = args.unwrap().to_string();
        let all = "--initial-cluster=f-0=http://f-0.f.ns.svc:2380,f-1=http://f-1.f.ns.svc:2380,f-2=http://f-2.f.ns.svc:2380";
        assert!(args.contains(all), "{args}");
    }
}

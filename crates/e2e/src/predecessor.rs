//! A cluster as the earlier operator left it: its objects, made by hand below an object that is paused, so that ours
//! looks on until a story takes the pause off.

use anyhow::{Context, Result, ensure};
use api::EtcdCluster;
use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::stage::Stage;
use crate::wait::{MINUTE, until};

const NAME: &str = "c";
const BUSYBOX: &str = "localhost/busybox:1";
/// Ends when it is asked to.
const POLITE: &str = "trap 'exit 0' TERM; while true; do sleep 1; done";

/// What the init container did: the first member begins, the others ask the first one for the member list.
const CONFIGURE: &str = r#"set -e
if [ "$HOSTNAME" = "c-0" ]; then
  state=new members="c-0=http://c-0.$DOMAIN:2380"
else
  state=existing
  until list=$(wget -q -O - --header 'Content-Type: application/json' --post-data '{}' "http://c-0.$DOMAIN:2379/v3/cluster/member/list"); do sleep 1; done
  members=$(echo "$list" | grep -o 'http://[^"]*:2380' | sed 's#^http://\([^.]*\)[.].*#\1=&#' | tr '\n' ',' | sed 's#,$##')
fi
cat > /etc/etcd/etcd.conf <<END
name: $HOSTNAME
data-dir: /data
listen-client-urls: http://0.0.0.0:2379
listen-peer-urls: http://0.0.0.0:2380
advertise-client-urls: http://$HOSTNAME.$DOMAIN:2379
initial-advertise-peer-urls: http://$HOSTNAME.$DOMAIN:2380
initial-cluster: $members
initial-cluster-token: c
initial-cluster-state: $state
END
"#;

/// The earlier operator, played by a story.
pub struct Predecessor {
    /// Its cluster.
    pub cluster: Cluster,
}

impl Predecessor {
    /// Stores an object, paused and with the finalizer that it set, and makes the objects of a first member.
    pub async fn start(stage: &Stage, spec: &Value) -> Result<Self> {
        let object = Self::object(spec).to_string();
        let create = ["create", "-f", "-"];
        let answer = stage.commands.kubectl_with(&create, &object).await?;
        answer.accepted()?;
        Self::make(stage, POLITE).await
    }

    /// What it would have stored.
    pub fn object(spec: &Value) -> Value {
        json!({
            "apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdCluster", "spec": spec,
            "metadata": {"name": NAME, "finalizers": ["etcd.etcd.io/finalizer"],
                "annotations": {"etcd.etcd.io/paused": "true"}},
        })
    }

    /// Makes the objects of a first member for an object that is there already. What the sidecar runs decides how long a
    /// pod takes to end.
    pub async fn make(stage: &Stage, sidecar: &str) -> Result<Self> {
        // Its pods ran as root.
        let namespaces: Api<Namespace> = Api::all(stage.client.clone());
        let lax =
            json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}});
        namespaces
            .patch(
                &stage.namespace,
                &PatchParams::default(),
                &Patch::Merge(lax),
            )
            .await?;
        let cluster = stage.cluster(NAME);
        let object = cluster.get().await?;
        let uid = object.metadata.uid.context("no UID")?;
        let version = object.spec.version.context("no version")?;
        let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
            service(&uid, "client", &json!({"type": "ClusterIP", "ports": [port("client", 2379)]})),
            service(&uid, "peer", &json!({"clusterIP": "None", "publishNotReadyAddresses": true, "ports": [port("peer", 2380)]})),
            config(&uid),
            set(&uid, &version, &stage.namespace, sidecar),
        ]});
        let create = ["create", "-f", "-"];
        let objects = objects.to_string();
        let answer = stage.commands.kubectl_with(&create, &objects).await?;
        answer.accepted()?;
        let predecessor = Self { cluster };
        predecessor.serves(1).await?;
        Ok(predecessor)
    }

    /// One more member, as it was done: first the member, which votes at once, then the pod.
    pub async fn grow(&self) -> Result<()> {
        let ordinal = self.cluster.pods().await?.len();
        self.announce(ordinal).await?;
        self.scale(ordinal.saturating_add(1)).await
    }

    /// Adds a member that has no pod yet.
    pub async fn announce(&self, ordinal: usize) -> Result<()> {
        let name = format!("{NAME}-{ordinal}");
        let url = format!(
            "--peer-urls=http://{name}.{}:2380",
            domain(&self.cluster.stage.namespace)
        );
        let add = [
            "exec",
            "c-0",
            "-c",
            "etcd",
            "--",
            "/usr/local/bin/etcdctl",
            "member",
            "add",
            &name,
            &url,
        ];
        // Right after an election etcd wants every peer to have been connected for five seconds.
        until(format!("{name} is added"), MINUTE, || async {
            let answer = self.cluster.stage.commands.kubectl(&add).await?;
            answer.accepted().map(|_| true)
        })
        .await
        .map(drop)
    }

    /// As many pods as this, all of them members that serve.
    pub async fn scale(&self, size: usize) -> Result<()> {
        let replicas = format!("--replicas={size}");
        let scale = ["scale", "statefulset", NAME, &replicas];
        let answer = self.cluster.stage.commands.kubectl(&scale).await?;
        answer.accepted()?;
        self.serves(size).await
    }

    /// The status that it wrote.
    pub async fn report(&self) -> Result<()> {
        let member = self.cluster.any_member().await?.status().await?;
        let (id, leader) = (member.cluster_id, member.leader);
        let size = self.cluster.pods().await?.len();
        let status = json!({"phase": "Running", "readyReplicas": size, "clusterID": format!("{id:x}"),
            "leaderID": format!("{leader:x}"), "clientEndpoints": [format!("http://c-client.{}.svc.cluster.local:2379", self.cluster.stage.namespace)]});
        let patch = Patch::Merge(json!({ "status": status }));
        let objects = self.cluster.stage.api::<EtcdCluster>();
        objects
            .patch_status(NAME, &PatchParams::default(), &patch)
            .await?;
        Ok(())
    }

    async fn serves(&self, size: usize) -> Result<()> {
        let what = format!("{size} members of the earlier operator serve");
        until(what, MINUTE * 2, || async {
            let members = self.cluster.members().await?;
            ensure!(members.len() == size, "{} have an address", members.len());
            for (name, member) in members {
                let status = member.status().await?;
                ensure!(status.leader != 0, "{name} has no leader");
            }
            Ok(true)
        })
        .await
        .map(drop)
    }
}

fn domain(namespace: &str) -> String {
    format!("{NAME}-peer.{namespace}.svc.cluster.local")
}

fn labels(component: &str) -> Value {
    json!({"app.kubernetes.io/name": "etcd", "app.kubernetes.io/instance": NAME,
        "app.kubernetes.io/component": component, "app.kubernetes.io/managed-by": "etcd-operator",
        "app.kubernetes.io/version": "v3.5.35",
        "etcd.etcd.io/cluster": NAME})
}

fn selector() -> Value {
    json!({"app.kubernetes.io/name": "etcd", "app.kubernetes.io/instance": NAME, "etcd.etcd.io/cluster": NAME})
}

fn metadata(uid: &str, name: &str, component: &str) -> Value {
    json!({"name": name, "labels": labels(component), "ownerReferences": [{
        "apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdCluster", "name": NAME, "uid": uid,
        "controller": true, "blockOwnerDeletion": true}]})
}

fn port(name: &str, number: u16) -> Value {
    json!({"name": name, "port": number, "targetPort": number, "protocol": "TCP"})
}

fn service(uid: &str, component: &str, spec: &Value) -> Value {
    let mut spec = spec.clone();
    if let Some(spec) = spec.as_object_mut() {
        spec.insert("selector".to_owned(), selector());
    }
    json!({"apiVersion": "v1", "kind": "Service", "spec": spec,
        "metadata": metadata(uid, &format!("{NAME}-{component}"), component)})
}

/// It was never mounted.
fn config(uid: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata(uid, &format!("{NAME}-config"), "database"),
        "data": {"etcd.conf": "name: $(ETCD_NAME)\ndata-dir: /data\n"}})
}

fn set(uid: &str, version: &str, namespace: &str, sidecar: &str) -> Value {
    let mounts = json!([{"name": "data", "mountPath": "/data"}, {"name": "etcd-config", "mountPath": "/etc/etcd"}]);
    let hostname =
        json!({"name": "HOSTNAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}});
    let healthy = json!({"command": ["/usr/local/bin/etcdctl", "--endpoints=http://localhost:2379", "endpoint", "health"]});
    let init = json!({"name": "etcd-init", "image": BUSYBOX, "command": ["sh", "-c", CONFIGURE],
        "env": [hostname, {"name": "DOMAIN", "value": domain(namespace)}], "volumeMounts": mounts,
        "resources": {"requests": {"cpu": "50m", "memory": "32Mi"}, "limits": {"cpu": "100m", "memory": "64Mi"}}});
    let etcd = json!({"name": "etcd", "image": format!("quay.io/coreos/etcd:{version}"), "command": ["/usr/local/bin/etcd", "--config-file=/etc/etcd/etcd.conf"],
        "env": [hostname], "volumeMounts": mounts,
        "ports": [{"name": "client", "containerPort": 2379}, {"name": "peer", "containerPort": 2380}],
        "resources": {"requests": {"cpu": "100m", "memory": "128Mi"}, "limits": {"cpu": "1", "memory": "1Gi"}},
        "livenessProbe": {"exec": healthy, "initialDelaySeconds": 30, "periodSeconds": 10, "timeoutSeconds": 5, "failureThreshold": 3},
        "readinessProbe": {"tcpSocket": {"port": 2379}, "initialDelaySeconds": 10, "periodSeconds": 5, "timeoutSeconds": 3, "failureThreshold": 5}});
    let netshoot = json!({"name": "netshoot", "image": BUSYBOX, "command": ["sh", "-c", sidecar]});
    json!({"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": metadata(uid, NAME, "database"), "spec": {
        "replicas": 1, "serviceName": format!("{NAME}-peer"), "podManagementPolicy": "Parallel",
        "updateStrategy": {"type": "RollingUpdate"}, "selector": {"matchLabels": selector()},
        "template": {"metadata": {"labels": labels("database")}, "spec": {
            "initContainers": [init], "containers": [etcd, netshoot],
            "securityContext": {"fsGroup": 1000}, "terminationGracePeriodSeconds": 30,
            "volumes": [{"name": "etcd-config", "emptyDir": {}}]}},
        "volumeClaimTemplates": [{"metadata": {"name": "data"}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": "1Gi"}}}}]}})
}

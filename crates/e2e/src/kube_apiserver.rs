//! A kube-apiserver that keeps its objects in a cluster of ours: a pod with the program of the local Kubernetes, the Service
//! of the cluster, and the Secret that is published for a client or a user. It has no controllers and no nodes.
//!
//! ```ignore
//! let Some(server) = KubeApiServer::start(&cluster, &names::user_secret("c", "kube-apiserver"), &[]).await? else {
//!     return Ok(()); // the nodes are not on this machine, and that was said
//! };
//! server.put("colour", "blue").await?;
//! let objects: Api<ConfigMap> = Api::default_namespaced(server.client.clone()); // watchers, informers
//! ```

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Pod};
use kube::api::{DeleteParams, ListParams, LogParams, Patch, PatchParams};
use kube::{Api, Client, Config};
use pki::{Authority, Leaf, Usage, Validity};
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::nodes::kubelet_of;
use crate::stage::Stage;
use crate::story::skipped;
use crate::wait::{MINUTE, until};

/// What callers identify themselves with.
const TOKEN: &str = "e2e";
const PORT: u16 = 6443;
/// Who writes, to the server.
const MANAGER: &str = "e2e";

/// One that runs.
pub struct KubeApiServer {
    /// Callers may do everything; the namespace is `default`.
    pub client: Client,
    stage: Stage,
    name: String,
}

impl KubeApiServer {
    /// Starts one against the Service of a cluster with TLS, with the certificate in this Secret, and waits until it serves.
    /// `None` where the nodes are not on this machine, which is told: then there is no program for it.
    pub async fn start(cluster: &Cluster, secret: &str, flags: &[&str]) -> Result<Option<Self>> {
        let stage = &cluster.stage;
        let Some(program) = program(stage).await? else {
            skipped("the nodes of the cluster are not on this machine");
            return Ok(None);
        };
        // The program comes from the node, which the rules for restricted pods do not let in.
        let namespaces: Api<Namespace> = Api::all(stage.client.clone());
        let label =
            json!({"metadata": {"labels": {"pod-security.kubernetes.io/enforce": "privileged"}}});
        let label = Patch::Merge(label);
        let patch = PatchParams::default();
        namespaces.patch(&stage.namespace, &patch, &label).await?;
        let name = format!("apiserver-{secret}");
        for object in [
            own_secret(&name)?,
            pod(cluster, (&name, secret), &program, flags),
        ] {
            let applied = stage.commands.apply(&object.to_string()).await?;
            applied.accepted()?;
        }
        let address = address(stage, &name).await?;
        let server = Self {
            client: client(&address)?,
            stage: stage.clone(),
            name,
        };
        if let Err(error) = server.serves_within(MINUTE * 2).await {
            let log = server.log().await?;
            let last: Vec<&str> = log.lines().rev().take(20).collect();
            return Err(error.context(last.join("\n")));
        }
        Ok(Some(server))
    }

    /// Waits until it reads and has written what every kube-apiserver writes first.
    pub async fn serves_within(&self, limit: Duration) -> Result<Duration> {
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        until("kube-apiserver serves", limit, || async {
            Ok(namespaces.get_opt("default").await?.is_some())
        })
        .await
    }

    /// Writes an object.
    pub async fn put(&self, name: &str, value: &str) -> Result<()> {
        let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
                            "data": {"value": value}});
        let (how, object) = (PatchParams::apply(MANAGER).force(), Patch::Apply(object));
        let written = self.objects().patch(name, &how, &object).await;
        written.map(drop).context("kube-apiserver")
    }

    /// All objects that were written, by name.
    pub async fn values(&self) -> Result<BTreeMap<String, String>> {
        let listed = self.objects().list(&ListParams::default()).await?;
        let pairs = listed.into_iter().filter_map(|object| {
            let value = object.data?.remove("value")?;
            Some((object.metadata.name?, value))
        });
        Ok(pairs.collect())
    }

    /// Config maps of the namespace `default`.
    pub fn objects(&self) -> Api<ConfigMap> {
        Api::default_namespaced(self.client.clone())
    }

    /// What it said so far.
    pub async fn log(&self) -> Result<String> {
        let pods: Api<Pod> = self.stage.api();
        Ok(pods.logs(&self.name, &LogParams::default()).await?)
    }

    /// Ends it, as a user does.
    pub async fn stop(self) -> Result<()> {
        let pods: Api<Pod> = self.stage.api();
        pods.delete(&self.name, &DeleteParams::default()).await?;
        Ok(())
    }
}

/// The program that lies beside the `kubectl` of the local cluster, if there is one and its nodes are here.
async fn program(stage: &Stage) -> Result<Option<PathBuf>> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut found = std::env::split_paths(&path).map(|directory| directory.join("kubectl"));
    let Some(kubectl) = found.find_map(|file| file.canonicalize().ok()) else {
        return Ok(None);
    };
    let named = kubectl.file_name().and_then(|name| name.to_str());
    let named = named.map(|name| name.replace("kubectl", "kube-apiserver"));
    let program = named.map(|name| kubectl.with_file_name(name));
    let nodes: Api<k8s_openapi::api::core::v1::Node> = Api::all(stage.client.clone());
    let nodes = nodes.list(&ListParams::default()).await?;
    let node = nodes.items.into_iter().find_map(|node| node.metadata.name);
    let here = kubelet_of(&node.context("a cluster without nodes")?)?.is_some();
    Ok(program.filter(|program| here && program.is_file()))
}

/// What it signs the tokens of service accounts with, and the token that callers bring.
fn own_secret(name: &str) -> Result<Value> {
    let validity = Validity::starting(Timestamp::now(), SignedDuration::from_hours(1));
    let authority = Authority::new("accounts", validity)?;
    let pair = authority.issue(&Leaf {
        common_name: "accounts".to_owned(),
        names: Vec::new(),
        usages: vec![Usage::Client],
        validity,
    })?;
    Ok(
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name},
        "stringData": {
            "accounts.crt": pair.chain,
            "accounts.key": pair.key.expose(),
            "tokens.csv": format!("{TOKEN},admin,admin,system:masters\n"),
        }}),
    )
}

fn pod(
    cluster: &Cluster,
    (name, secret): (&str, &str),
    program: &std::path::Path,
    flags: &[&str],
) -> Value {
    let (namespace, of) = (&cluster.stage.namespace, &cluster.name);
    let mut command = vec![
        "/kube-apiserver".to_owned(),
        format!("--etcd-servers=https://{of}-client.{namespace}.svc:2379"),
        "--etcd-cafile=/etcd/ca.crt".to_owned(),
        "--etcd-certfile=/etcd/tls.crt".to_owned(),
        "--etcd-keyfile=/etcd/tls.key".to_owned(),
        "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
        "--service-account-key-file=/own/accounts.crt".to_owned(),
        "--service-account-signing-key-file=/own/accounts.key".to_owned(),
        "--token-auth-file=/own/tokens.csv".to_owned(),
        "--authorization-mode=AlwaysAllow".to_owned(),
        "--service-cluster-ip-range=10.99.0.0/24".to_owned(),
        "--endpoint-reconciler-type=none".to_owned(),
        "--cert-dir=/certs".to_owned(),
        format!("--secure-port={PORT}"),
    ];
    command.extend(flags.iter().map(|flag| (*flag).to_owned()));
    let mount = |volume: &str| json!({"name": volume, "mountPath": format!("/{volume}")});
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": "kube-apiserver"}},
    "spec": {
        "terminationGracePeriodSeconds": 1,
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "containers": [{
            "name": "kube-apiserver", "image": "localhost/busybox:1", "imagePullPolicy": "Never",
            "command": command,
            "volumeMounts": [mount("kube-apiserver"), mount("etcd"), mount("own"), mount("certs")],
        }],
        "volumes": [
            {"name": "kube-apiserver", "hostPath": {"path": program, "type": "File"}},
            {"name": "etcd", "secret": {"secretName": secret}},
            {"name": "own", "secret": {"secretName": name}},
            {"name": "certs", "emptyDir": {}},
        ],
    }})
}

/// Where its pod is.
async fn address(stage: &Stage, name: &str) -> Result<String> {
    let pods: Api<Pod> = stage.api();
    let found = std::sync::OnceLock::new();
    until(format!("{name} has an address"), MINUTE, || async {
        let pod = pods.get(name).await?;
        let address = pod.status.and_then(|status| status.pod_ip);
        Ok(address.is_some_and(|address| found.set(address).is_ok()))
    })
    .await?;
    found.into_inner().context("no address")
}

/// It signs its own certificate, which is of no interest here.
fn client(address: &str) -> Result<Client> {
    let mut config = Config::new(format!("https://{address}:{PORT}").parse()?);
    config.accept_invalid_certs = true;
    config.auth_info = serde_json::from_value(json!({"token": TOKEN}))?;
    // Objects are written again by who waits for them, and not by layers below.
    config.read_timeout = Some(Duration::from_secs(10));
    Ok(Client::try_from(config)?)
}

//! A node falls silent, or its object is deleted while it is. Its member is left alone as long as it answers. They run
//! alone, because other clusters may live on that node, and only where its processes are on this very machine.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::{
    Cluster, Load, MINUTE, Played, Stage, Violated, comes_true, etcd_of, kubelet_of, quiet_node,
    signal, skipped, stays, story, until,
};
use k8s_openapi::api::core::v1::Node;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

/// The shortest that is accepted.
const PATIENCE: Duration = Duration::from_secs(10);

#[test]
fn a_member_on_a_silent_node_is_replaced_only_when_it_is_silent_too() -> Played {
    story(|stage| async move {
        let Some(victim) = Victim::choose(&stage).await? else {
            return Ok(());
        };
        let load = Load::start(&victim.cluster).await?;
        signal(&victim.kubelet, "STOP")?;
        let replaced = falls_silent(&victim).await;
        victim.repair().await?;
        replaced?;
        load.finish().await?;
        comes_true(&victim.cluster, 3, "3.6.16").await.map(drop)
    })
}

/// For longer than the patience its node says nothing and it serves; then it does not serve either.
async fn falls_silent(victim: &Victim) -> Result<()> {
    victim.is_silent().await?;
    stays("it serves and is left alone", PATIENCE * 2, || async {
        let pods = victim.cluster.pods().await?;
        let pod = pods.get(&victim.pod).and_then(ResourceExt::uid);
        if pod.as_ref() == Some(&victim.uid) {
            return Ok(true);
        }
        Err(Violated("another pod stands in its place".to_owned()).into())
    })
    .await?;
    signal(&victim.etcd, "STOP")?;
    victim.moves().await
}

#[test]
fn a_member_whose_node_was_deleted_comes_back_on_another_node() -> Played {
    story(|stage| async move {
        let Some(victim) = Victim::choose(&stage).await? else {
            return Ok(());
        };
        let load = Load::start(&victim.cluster).await?;
        let nodes: Api<Node> = Api::all(stage.client.clone());
        signal(&victim.kubelet, "STOP")?;
        signal(&victim.etcd, "STOP")?;
        let deleted = nodes.delete(&victim.node, &DeleteParams::default()).await;
        let moved = victim.moves().await;
        victim.repair().await?;
        deleted?;
        moved?;
        load.finish().await?;
        comes_true(&victim.cluster, 3, "3.6.16").await.map(drop)
    })
}

/// A member, and the processes without which it is silent.
struct Victim {
    cluster: Cluster,
    node: String,
    /// The node as it was, should its object be deleted.
    object: Node,
    pod: String,
    uid: String,
    kubelet: String,
    etcd: String,
}

impl Victim {
    /// A member of a new cluster; `None` where its processes are elsewhere.
    async fn choose(stage: &Stage) -> Result<Option<Self>> {
        let patience = PATIENCE.as_secs();
        let spec = json!({"size": 3, "version": "v3.6.16", "storage": {"size": "1Gi"},
            "recovery": {"nodePatienceSeconds": patience}});
        let cluster = stage.create("c", spec).await?;
        cluster.ready().await?;
        let node = quiet_node(&cluster).await?;
        let on = |pod: &k8s_openapi::api::core::v1::Pod| pod.spec.as_ref()?.node_name.clone();
        let pods = cluster.pods().await?;
        let found = pods.iter().find(|(_, pod)| on(pod).as_ref() == Some(&node));
        let (name, pod) = found.context("no member is there")?;
        let uid = pod.uid().context("no UID")?;
        let (Some(kubelet), Some(etcd)) = (kubelet_of(&node)?, etcd_of(&uid)?) else {
            skipped("the nodes are not on this machine");
            return Ok(None);
        };
        let nodes: Api<Node> = Api::all(stage.client.clone());
        Ok(Some(Self {
            object: nodes.get(&node).await?,
            pod: name.clone(),
            cluster,
            node,
            uid,
            kubelet,
            etcd,
        }))
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.cluster.stage.client.clone())
    }

    /// Kubernetes has noticed.
    async fn is_silent(&self) -> Result<()> {
        until(format!("{} is silent", self.node), MINUTE, || async {
            Ok(is_ready(&self.nodes().get(&self.node).await?) == Some("Unknown".to_owned()))
        })
        .await
        .map(drop)
    }

    /// Three members run on the other nodes, and all is well.
    async fn moves(&self) -> Result<()> {
        let gone = format!("no member is on {}", self.node);
        until(gone, MINUTE * 2, || async {
            let pods = self.cluster.pods().await?;
            let nodes = pods
                .values()
                .map(|pod| pod.spec.as_ref()?.node_name.as_deref());
            let nodes: Vec<_> = nodes.collect();
            let elsewhere = nodes.iter().flatten().filter(|on| **on != self.node);
            Ok(nodes.len() == 3 && elsewhere.count() == 3)
        })
        .await?;
        self.cluster.ready_within(MINUTE * 2).await?;
        let event = self.cluster.has_event("MemberRemoved", &self.node).await;
        event.context("why is not told")
    }

    /// Whatever came of it: the next story needs the node.
    async fn repair(&self) -> Result<()> {
        let nodes = self.nodes();
        if nodes.get_opt(&self.node).await?.is_none() {
            let mut node = self.object.clone();
            node.metadata.uid = None;
            node.metadata.resource_version = None;
            node.metadata.managed_fields = None;
            // A kubelet makes the object when it starts, and only then.
            nodes.create(&PostParams::default(), &node).await?;
        }
        signal(&self.etcd, "CONT")?;
        signal(&self.kubelet, "CONT")?;
        until(format!("{} is back", self.node), MINUTE, || async {
            let node = nodes.get(&self.node).await?;
            let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
            ensure!(taints.is_none_or(Vec::is_empty), "{taints:?}");
            Ok(is_ready(&node) == Some("True".to_owned()))
        })
        .await
        .map(drop)
    }
}

fn is_ready(node: &Node) -> Option<String> {
    let conditions = node.status.as_ref()?.conditions.as_ref()?;
    let ready = conditions.iter().find(|c| c.type_ == "Ready")?;
    Some(ready.status.clone())
}

//! Nodes, for the stories in which one goes.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;

use crate::cluster::Cluster;

/// A member's node, the leader's if possible, but not that of the only name server.
pub async fn quiet_node(cluster: &Cluster) -> Result<String> {
    let system: Api<Pod> = Api::namespaced(cluster.stage.client.clone(), "kube-system");
    let system = system.list(&ListParams::default()).await?.items;
    let taken: BTreeSet<String> = system.iter().filter_map(node_of).collect();
    let leader = cluster.leader().await?;
    let mut pods: Vec<(String, Pod)> = cluster.pods().await?.into_iter().collect();
    pods.sort_by_key(|(name, _)| *name != leader);
    let mut nodes = pods.iter().filter_map(|(_, pod)| node_of(pod));
    let node = nodes.find(|node| !taken.contains(node));
    let node = node.context("every member shares its node with the name server")?;
    ensure!(!node.is_empty(), "a pod without a node");
    Ok(node)
}

fn node_of(pod: &Pod) -> Option<String> {
    pod.spec.as_ref()?.node_name.clone()
}

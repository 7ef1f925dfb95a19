//! A member's node is gone for good. It has a program of its own, because other clusters may live on that node.

use std::time::Instant;

use anyhow::{Context, Result};
use e2e::{
    Cluster, LIMIT, Load, MINUTE, Played, Stage, comes_true, quiet_node, story, tell, until,
};
use serde_json::json;

const TAINT: &str = "node.kubernetes.io/out-of-service";

#[test]
fn a_member_whose_node_is_out_of_service_comes_back_on_another_node() -> Played {
    story(|stage| async move {
        let spec = json!({"size": 3, "version": "v3.6.16", "storage": {"size": "1Gi"}});
        let cluster = stage.create("c", spec).await?;
        cluster.ready().await?;
        let node = quiet_node(&cluster).await?;
        let load = Load::start(&cluster).await?;
        let taint = format!("{TAINT}=nodeshutdown:NoExecute");
        taint_node(&stage, &node, &taint).await?;
        let moved = moves(&cluster, &node).await;
        // Whatever came of it: the next story needs the node.
        let off = format!("{TAINT}-");
        taint_node(&stage, &node, &off).await?;
        moved?;
        comes_true(&cluster, 3, "3.6.16").await?;
        load.finish().await?.assert_gap(LIMIT * 2)
    })
}

async fn taint_node(stage: &Stage, node: &str, taint: &str) -> Result<()> {
    let arguments = ["taint", "node", node, taint];
    let said = stage.commands.kubectl(&arguments).await?;
    said.accepted().map(drop)
}

/// The member that was there is replaced on another node, and the cluster is whole again.
async fn moves(cluster: &Cluster, node: &str) -> Result<()> {
    let since = Instant::now();
    until(format!("no pod is on {node}"), MINUTE, || async {
        let pods = cluster.pods().await?;
        let nodes = pods
            .values()
            .map(|pod| pod.spec.as_ref()?.node_name.as_deref());
        let nodes: Vec<_> = nodes.collect();
        Ok(nodes.len() == 3 && nodes.iter().all(|on| on.is_some_and(|on| on != node)))
    })
    .await?;
    cluster.ready_within(MINUTE).await?;
    let took = since.elapsed().as_secs_f32();
    tell(&format!(
        "three voters {took:.1} s after {node} was given up"
    ));
    let why = format!("its node {node} is out of service");
    cluster.has_event("MemberRemoved", &why).await?;
    let phase = cluster.status().await?.phase;
    phase.context("no phase").map(drop)
}

//! A node is drained while a cluster is being rolled. It has a program of its own, because the operator and other
//! clusters may live on that node.

use anyhow::{Context, Result};
use e2e::{LIMIT, Load, MINUTE, Played, Stage, comes_true, quiet_node, story, tell, until};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

#[test]
fn a_node_that_is_drained_during_a_rollout_costs_clients_nothing() -> Played {
    story(|stage| async move {
        let spec = json!({"size": 3, "version": "v3.6.16", "storage": {"size": "1Gi"}});
        let cluster = stage.create("c", spec).await?;
        cluster.ready().await?;
        let before = cluster.pods().await?;
        let node = quiet_node(&cluster).await?;
        let load = Load::start(&cluster).await?;
        let patch = r#"{"spec":{"resources":{"requests":{"cpu":"60m"}}}}"#;
        stage.commands.patch("c", patch).await?.accepted()?;
        until("the rollout has begun", MINUTE, || async {
            let pods = cluster.pods().await?;
            let same = |(name, pod): (&String, &Pod)| {
                let now = pods.get(name);
                now.is_some_and(|now| now.metadata.uid == pod.metadata.uid)
            };
            Ok(!before.iter().all(same))
        })
        .await?;
        let drained = drain(&stage, &node).await;
        // Whatever came of it: the next story needs the node.
        let uncordon = stage.commands.kubectl(&["uncordon", &node]).await?;
        let drained = drained.and(uncordon.accepted().map(drop));
        drained.with_context(|| format!("{node} was not drained"))?;
        cluster.replaced(&before, 3).await?;
        comes_true(&cluster, 3, "3.6.16").await?;
        load.finish().await?.assert_gap(LIMIT)
    })
}

/// The budget lets the eviction wait until two others serve.
async fn drain(stage: &Stage, node: &str) -> Result<()> {
    let drain = [
        "drain",
        node,
        "--ignore-daemonsets",
        "--delete-emptydir-data",
        "--timeout=150s",
    ];
    let said = stage.commands.kubectl(&drain).await?.accepted()?;
    tell(said.trim_end());
    Ok(())
}

//! Much data over a slow link. It runs alone, because it slows every node down.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use e2e::{
    Cluster, MINUTE, Played, check_truth, deep, skipped, slow_down, speed_up, story, tell, until,
};
use etcd::Consistency;
use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::task::JoinSet;

/// Twice as long as this would be too long for a joiner that is judged by its age.
const PATIENCE: Duration = Duration::from_mins(1);
const MEBIBYTES: usize = 2048;
/// What pods of one node get from those of others in a second, in MiB.
const SPEED: u32 = 12;
/// Writers at once.
const WRITERS: usize = 4;

#[test]
fn two_gibibytes_over_a_slow_link_reach_every_new_member() -> Played {
    if !deep() {
        skipped("E2E_DEEP is not set");
        return Ok(());
    }
    story(|stage| async move {
        let spec = json!({"size": 1, "version": "v3.6.16", "storage": {"size": "10Gi"},
            "etcd": {"quotaBackendBytes": "4Gi"},
            "recovery": {"joinPatienceSeconds": PATIENCE.as_secs()}});
        let cluster = stage.create("c", spec).await?;
        cluster.ready_within(MINUTE * 2).await?;
        fill(&cluster).await?;
        let nodes: Api<Node> = Api::all(stage.client.clone());
        let nodes = nodes.list(&ListParams::default()).await?.items;
        let mut slowed = true;
        for node in &nodes {
            slowed &= slow_down(&node.name_any(), SPEED, MINUTE * 30)?;
        }
        let grown = if slowed {
            grow(&cluster).await
        } else {
            skipped("the nodes are not on this machine");
            Ok(())
        };
        for node in &nodes {
            speed_up(&node.name_any())?;
        }
        grown
    })
}

/// As many keys as are needed, none of them twice.
async fn fill(cluster: &Cluster) -> Result<()> {
    let member = Arc::new(cluster.any_member().await?.with_deadline(MINUTE));
    let begun = Instant::now();
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let member = Arc::clone(&member);
        writers.spawn(async move {
            let value = vec![b'.'; 1 << 20];
            for key in (writer..MEBIBYTES).step_by(WRITERS) {
                member.put(format!("key-{key}").as_bytes(), &value).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(written) = writers.join_next().await {
        written??;
    }
    let took = begun.elapsed().as_secs_f32();
    tell(&format!("{MEBIBYTES} MiB were written in {took:.1} s"));
    Ok(())
}

async fn grow(cluster: &Cluster) -> Result<()> {
    let begun = Instant::now();
    let patch = r#"{"spec":{"size":3}}"#;
    let patched = cluster.stage.commands.patch(&cluster.name, patch);
    patched.await?.accepted()?;
    let took = cluster.ready_within(MINUTE * 25).await?;
    let took = took.max(begun.elapsed());
    tell(&format!(
        "1 → 3 took {:.0} s at {SPEED} MiB/s",
        took.as_secs_f32()
    ));
    // Or this proves nothing.
    ensure!(took > PATIENCE * 2, "the link was not slow");
    check_truth(cluster, 3, "3.6.16").await?;
    // No joiner was given up on the way.
    let events = cluster
        .stage
        .events_of("EtcdCluster", &cluster.name)
        .await?;
    let removed = events.iter().find(|(reason, _)| reason == "MemberRemoved");
    ensure!(removed.is_none(), "{removed:?}");
    for (name, member) in cluster.members().await? {
        let last = format!("key-{}", MEBIBYTES - 1);
        until(format!("{name} has the data"), MINUTE, || async {
            let read = member.get(last.as_bytes(), Consistency::Local).await?;
            Ok(read.context("the last key is missing")?.value.len() == 1 << 20)
        })
        .await?;
    }
    Ok(())
}

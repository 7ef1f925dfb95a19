//! A user changes the size again and again, faster than one likes, or has very many clusters. (The operator that is
//! killed meanwhile is in `lifecycle_operator_cycles.rs`.)

use std::time::Duration;

use anyhow::{Result, ensure};
use api::v1alpha1::status::Phase;
use e2e::{
    Cluster, LIMIT, Load, MINUTE, Played, Report, check_truth, comes_true, story, tell, until,
};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt;
use serde_json::json;

#[test]
fn one_three_one_zero_and_one_again_with_all_the_data() -> Played {
    story(|stage| async move {
        let spec = json!({"size": 1, "version": "v3.6.16", "storage": {"size": "1Gi"}});
        let cluster = stage.create("c", spec).await?;
        cluster.ready().await?;
        let id = cluster.status().await?.cluster_id;
        let load = Load::start(&cluster).await?;
        for size in [3, 1] {
            becomes(&cluster, size).await?;
        }
        cluster.resize(0).await?;
        cluster.phase(Phase::Stopped).await?;
        becomes(&cluster, 1).await?;
        load.finish().await?;
        ensure!(cluster.status().await?.cluster_id == id, "another cluster");
        Ok(())
    })
}

#[test]
fn from_nothing_to_five_and_back_to_nothing() -> Played {
    story(|stage| async move {
        let spec = json!({"size": 0, "version": "v3.6.16", "storage": {"size": "1Gi"}});
        let cluster = stage.create("c", spec).await?;
        cluster.phase(Phase::Stopped).await?;
        becomes(&cluster, 1).await?;
        // Nothing is promised to clients below three members.
        during(&cluster, &[3]).await?;
        during(&cluster, &[5, 3]).await?.assert_gap(LIMIT)?;
        during(&cluster, &[1]).await?;
        cluster.resize(0).await?;
        cluster.phase(Phase::Stopped).await?;
        until("only the first claim is kept", MINUTE, || async {
            let claims = stage.list::<PersistentVolumeClaim>().await?;
            let names: Vec<String> = claims.iter().map(ResourceExt::name_any).collect();
            ensure!(names == ["data-c-0"], "{names:?}");
            Ok(true)
        })
        .await
        .map(drop)
    })
}

#[test]
fn what_was_stopped_starts_as_it_was_and_then_gets_its_new_size() -> Played {
    story(|stage| async move {
        let spec = json!({"size": 3, "version": "v3.6.16", "storage": {"size": "1Gi"}});
        let cluster = stage.create("c", spec).await?;
        cluster.ready().await?;
        let id = cluster.status().await?.cluster_id;
        cluster.put("kept", "through it all").await?;
        for size in [5, 1] {
            cluster.resize(0).await?;
            cluster.phase(Phase::Stopped).await?;
            becomes(&cluster, size).await?;
            ensure!(cluster.value("kept").await?.as_deref() == Some("through it all"));
            ensure!(cluster.status().await?.cluster_id == id, "another cluster");
        }
        Ok(())
    })
}

#[test]
fn three_seven_five_in_two_edits_within_two_seconds() -> Played {
    story(|stage| async move {
        let spec = json!({"size": 3, "version": "v3.6.16", "storage": {"size": "1Gi"}});
        let cluster = stage.create("c", spec).await?;
        cluster.ready().await?;
        let load = Load::start(&cluster).await?;
        cluster.resize(7).await?;
        // Far enough to have something to take back, if the operator sees it in time; the second edit does not wait for it.
        let seen = until("the first edit was seen", LIMIT, || async {
            Ok(cluster.status().await?.phase == Some(Phase::Scaling))
        });
        tell(&format!("the first edit was seen: {:?}", seen.await.ok()));
        cluster.resize(5).await?;
        cluster.ready_within(MINUTE * 2).await?;
        comes_true(&cluster, 5, "3.6.16").await?;
        let report = load.finish().await?;
        until("no pod is left over", MINUTE, || async {
            Ok(cluster.pods().await?.len() == 5)
        })
        .await?;
        report.assert_gap(LIMIT)
    })
}

#[test]
fn twenty_clusters_at_once_all_become_ready() -> Played {
    story(|stage| async move {
        let spec = json!({"size": 1, "version": "v3.6.16", "storage": {"size": "1Gi"}});
        let mut clusters = Vec::new();
        for number in 1..=20 {
            let name = format!("c{number}");
            clusters.push(stage.create(&name, spec.clone()).await?);
        }
        // One after the other they wait for the same moments, so the times add up to all of it.
        let mut all = Duration::ZERO;
        for cluster in &clusters {
            all += cluster.ready_within(MINUTE * 3).await?;
        }
        tell(&format!(
            "twenty clusters were Ready after {:.1} s",
            all.as_secs_f32()
        ));
        for cluster in &clusters {
            comes_true(cluster, 1, "3.6.16").await?;
        }
        Ok(())
    })
}

async fn becomes(cluster: &Cluster, size: u32) -> Result<()> {
    cluster.resize(size).await?;
    let took = cluster.ready_within(MINUTE * 2).await?;
    tell(&format!("{size} after {:.1} s", took.as_secs_f32()));
    check_truth(cluster, size, "3.6.16").await
}

/// One size after the other, with clients at work.
async fn during(cluster: &Cluster, sizes: &[u32]) -> Result<Report> {
    let load = Load::start_part(cluster, &format!("to {sizes:?}")).await?;
    for size in sizes {
        becomes(cluster, *size).await?;
    }
    load.finish().await
}

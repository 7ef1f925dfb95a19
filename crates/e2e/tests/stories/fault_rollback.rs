//! A volume is rolled back to an earlier state, or exchanged for another one, while no pod uses it.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::v1alpha1::status::Phase;
use e2e::{Cluster, MINUTE, Played, comes_true, on_volume, story, tell, until};
use k8s_openapi::api::apps::v1::StatefulSet;
use serde_json::json;

const VICTIM: &str = "c-1";

#[test]
fn a_volume_that_was_rolled_back_is_held_at_the_gate_and_its_member_replaced() -> Played {
    story(|stage| async move {
        let spec = json!({"size": 3, "version": "v3.6.16", "storage": {"size": "1Gi"}});
        let cluster = stage.create("c", spec).await?;
        cluster.ready().await?;
        let pod = cluster.pods().await?.remove(VICTIM).context("no pod")?;
        on_volume(&stage, &pod, "cp -r /data/data/member /data/earlier").await?;
        let member = cluster.any_member().await?.with_deadline(MINUTE);
        for n in 0..700 {
            until(format!("key {n} is written"), MINUTE, || async {
                let key = format!("key-{n}");
                Ok(member.put(key.as_bytes(), b"value").await.map(|_| true)?)
            })
            .await?;
        }
        let old = cluster.member(VICTIM).await?.status().await?.member_id;
        until("the template knows how far they came", MINUTE, || async {
            floor(&cluster, old).await
        })
        .await?;
        cluster.resize(0).await?;
        cluster.phase(Phase::Stopped).await?;
        let swap = "rm -r /data/data/member && mv /data/earlier /data/data/member";
        on_volume(&stage, &pod, swap).await?;
        cluster.resize(3).await?;
        let took = is_another(&cluster, old).await?;
        tell(&format!(
            "{VICTIM} was replaced {:.1} s after the start",
            took.as_secs_f32()
        ));
        comes_true(&cluster, 3, "3.6.16").await?;
        ensure!(cluster.value("key-699").await?.as_deref() == Some("value"));
        cluster.has_event("MemberRemoved", "rolled back").await
    })
}

#[test]
fn the_volume_of_another_member_is_held_at_the_gate_and_the_member_replaced() -> Played {
    story(|stage| async move {
        let spec = json!({"size": 3, "version": "v3.6.16", "storage": {"size": "1Gi"}});
        let cluster = stage.create("c", spec).await?;
        cluster.ready().await?;
        let pod = cluster.pods().await?.remove(VICTIM).context("no pod")?;
        let old = cluster.member(VICTIM).await?.status().await?.member_id;
        // Volumes stay on their nodes here, so this one is told to be another's.
        let rename = r#"sed -i 's/"pod":"c-1"/"pod":"c-0"/' /data/identity.json && grep -q '"c-0"' /data/identity.json"#;
        on_volume(&stage, &pod, rename).await?;
        cluster.kill(&pod).await?;
        is_another(&cluster, old).await?;
        comes_true(&cluster, 3, "3.6.16").await?;
        cluster.has_event("MemberRemoved", "not its own").await
    })
}

async fn is_another(cluster: &Cluster, old: u64) -> Result<Duration> {
    let what = format!("{VICTIM} is another member");
    until(what, MINUTE * 2, || async {
        let status = cluster.member(VICTIM).await?.status().await?;
        Ok(status.member_id != old && !status.is_learner)
    })
    .await
}

/// Pods that are made from now on hold back what is shorter.
async fn floor(cluster: &Cluster, id: u64) -> Result<bool> {
    let set = cluster.stage.api::<StatefulSet>().get("c").await?;
    let template = set.spec.context("no spec")?.template;
    let annotations = template.metadata.and_then(|meta| meta.annotations);
    let floors = annotations.and_then(|mut all| all.remove("etcd.etcd.io/floors"));
    Ok(floors.is_some_and(|floors| floors.contains(&format!("{id:x}="))))
}

//! The process of a member is stopped and answers nothing. Its liveness probe fails, so that is the kubelet's to
//! repair, and the operator leaves it alone. Only where the pods run on this very machine can a test do that.

use anyhow::{Context, ensure};
use e2e::{LIMIT, Load, MINUTE, Played, comes_true, etcd_of, signal, skipped, story, tell, until};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::json;

#[test]
fn a_process_that_answers_nothing_is_restarted_by_kubernetes() -> Played {
    story(|stage| async move {
        let spec = json!({"size": 3, "version": "v3.6.16", "storage": {"size": "1Gi"}});
        let cluster = stage.create("c", spec).await?;
        cluster.ready_within(MINUTE * 2).await?;
        let leader = cluster.leader().await?;
        let victim = ["c-0", "c-1", "c-2"].into_iter().find(|n| *n != leader);
        let victim = victim.context("no member follows")?;
        let old = cluster.member(victim).await?.status().await?.member_id;
        let pod = cluster.pods().await?.remove(victim).context("no pod")?;
        let uid = pod.uid().context("no UID")?;
        let Some(process) = etcd_of(&uid)? else {
            skipped("the pods are not on this machine");
            return Ok(());
        };
        let load = Load::start(&cluster).await?;
        signal(&process, "STOP")?;
        let took = until(format!("{victim} runs again"), MINUTE * 4, || async {
            let pods = cluster.pods().await?;
            let pod = pods.get(victim).context("no pod")?;
            ensure!(pod.uid().as_ref() == Some(&uid), "ANOTHER POD");
            Ok(restarts(pod) > 0 && etcd_of(&uid)?.is_some_and(|now| now != process))
        })
        .await?;
        tell(&format!("restarted after {:.0} s", took.as_secs_f32()));
        comes_true(&cluster, 3, "3.6.16").await?;
        load.finish().await?.assert_gap(LIMIT)?;
        let now = cluster.member(victim).await?.status().await?.member_id;
        ensure!(now == old, "{victim} was replaced");
        Ok(())
    })
}

fn restarts(pod: &Pod) -> i32 {
    let status = pod.status.as_ref();
    let containers = status.and_then(|s| s.container_statuses.as_ref());
    containers
        .into_iter()
        .flatten()
        .map(|container| container.restart_count)
        .sum()
}

//! Quorum is lost for good: two of three volumes are gone. Nothing happens until a user asks for it.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use e2e::{
    Cluster, MINUTE, OPERATOR_NAMESPACE, Operator, Played, Stage, check_truth_of_any_incarnation,
    story, tell, until,
};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::DeleteParams;
use serde_json::json;

#[test]
fn what_a_survivor_has_comes_back_on_a_persons_word() -> Played {
    story(|stage| async move {
        let spec = json!({"size": 3, "version": "v3.6.16", "storage": {"size": "1Gi"}});
        let cluster = stage.create("c", spec).await?;
        cluster.ready().await?;
        let old = cluster
            .status()
            .await?
            .cluster_id
            .context("no cluster ID")?;
        cluster.put("kept", "by the survivor").await?;
        lose(&stage, &cluster, &["c-0", "c-2"]).await?;
        until("the condition tells what to do", MINUTE * 2, || async {
            let status = cluster.status().await?;
            let told = status.conditions.iter().any(|condition| {
                condition.type_ == "Degraded"
                    && condition.reason == "QuorumLost"
                    && condition
                        .message
                        .contains(&format!("etcd.etcd.io/recover={old}"))
                    && condition.message.contains("its volume is empty")
            });
            ensure!(
                status.remembered().lineage.recovery.is_none(),
                "no person asked for it"
            );
            Ok(told)
        })
        .await?;
        let since = Instant::now();
        let word = format!("etcd.etcd.io/recover={old}");
        let arguments = ["annotate", "etcdcluster", "c", &word];
        stage.commands.kubectl(&arguments).await?.accepted()?;
        until("another cluster serves", MINUTE * 2, || async {
            Ok(cluster.status().await?.cluster_id.as_ref() != Some(&old))
        })
        .await?;
        until("writes are taken again", MINUTE, || async {
            Ok(cluster.put("after", "the recovery").await.is_ok())
        })
        .await?;
        let first = since.elapsed().as_secs_f32();
        cluster.ready_within(MINUTE * 2).await?;
        let whole = since.elapsed().as_secs_f32();
        tell(&format!(
            "first write {first:.1} s, three voters {whole:.1} s after the word"
        ));
        ensure!(cluster.value("kept").await?.as_deref() == Some("by the survivor"));
        cluster.has_event("Recovering", "").await?;
        check_truth_of_any_incarnation(&cluster, 3, "3.6.16").await
    })
}

#[test]
fn by_proof_it_comes_back_without_a_word() -> Played {
    story(|stage| async move {
        let spec = json!({"size": 3, "version": "v3.6.16", "storage": {"size": "1Gi"},
            "recovery": {"onQuorumLoss": "FromSurvivor"}});
        let cluster = stage.create("c", spec).await?;
        cluster.ready().await?;
        let old = cluster.status().await?.cluster_id;
        cluster.put("kept", "by the survivor").await?;
        lose(&stage, &cluster, &["c-1", "c-2"]).await?;
        until("another cluster serves", MINUTE * 4, || async {
            Ok(cluster.status().await?.cluster_id != old)
        })
        .await?;
        cluster.ready_within(MINUTE * 2).await?;
        ensure!(cluster.value("kept").await?.as_deref() == Some("by the survivor"));
        counted(&stage).await?;
        check_truth_of_any_incarnation(&cluster, 3, "3.6.16").await
    })
}

/// Claims go, and their pods with them: both come back, the data does not.
async fn lose(stage: &Stage, cluster: &Cluster, victims: &[&str]) -> Result<()> {
    let claims = stage.api::<PersistentVolumeClaim>();
    for victim in victims {
        let claim = format!("data-{victim}");
        claims.delete(&claim, &DeleteParams::default()).await?;
    }
    let pods = cluster.pods().await?;
    for victim in victims {
        cluster.kill(pods.get(*victim).context("no pod")?).await?;
    }
    Ok(())
}

/// What was done can be counted, and how the cluster is can be read.
async fn counted(stage: &Stage) -> Result<()> {
    let operator = Operator::disturb(&stage.client).await?;
    let pod = operator.holder().await?;
    let path = format!("/api/v1/namespaces/{OPERATOR_NAMESPACE}/pods/{pod}:8081/proxy/metrics");
    let answer = stage.commands.kubectl(&["get", "--raw", &path]).await?;
    let text = answer.accepted()?;
    let namespace = format!("namespace=\"{}\"", stage.namespace);
    let has = |words: &[&str]| {
        text.lines()
            .any(|line| words.iter().all(|word| line.contains(word)))
    };
    ensure!(
        has(&[
            "etcd_operator_steps_total",
            "reason=\"Recovering\"",
            "outcome=\"done\""
        ]) && has(&["etcd_cluster_phase", &namespace])
            && has(&["etcd_cluster_healthy_voters", &namespace, " 3"]),
        "{text}"
    );
    Ok(())
}

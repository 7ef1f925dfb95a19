//! A member, its pod or its volume goes, while a client writes.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use e2e::{Cluster, LIMIT, Load, MINUTE, Played, Stage, comes_true, on_volume, story, tell, until};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, ResourceQuota};
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

#[test]
fn a_member_that_lost_its_volume_is_replaced_and_nothing_written_is_lost() -> Played {
    story(|stage| async move {
        let cluster = three(&stage, "v3.6.16").await?;
        replace(&cluster, follower(&cluster).await?, "3.6.16").await
    })
}

#[test]
fn the_first_member_of_3_5_that_lost_its_volume_is_replaced_too() -> Played {
    story(|stage| async move {
        // The member that bootstrapped: its empty volume must never bootstrap a second cluster.
        let cluster = three(&stage, "v3.5.35").await?;
        replace(&cluster, "c-0", "3.5.35").await
    })
}

async fn follower(cluster: &Cluster) -> Result<&'static str> {
    let leader = cluster.leader().await?;
    let mut names = ["c-0", "c-1", "c-2"].into_iter();
    names
        .find(|name| *name != leader)
        .context("no member follows")
}

/// Under another ID than the one it had.
async fn votes_again(cluster: &Cluster, victim: &str, old: u64) -> Result<()> {
    until(format!("{victim} is a new member"), MINUTE * 3, || async {
        let status = cluster.member(victim).await?.status().await?;
        Ok(status.member_id != old && !status.is_learner)
    })
    .await
    .map(drop)
}

async fn replace(cluster: &Cluster, victim: &str, version: &str) -> Result<()> {
    let old = cluster.member(victim).await?.status().await?;
    let load = Load::start(cluster).await?;
    let claims = cluster.stage.api::<PersistentVolumeClaim>();
    let claim = format!("data-{victim}");
    let uid = claims.get(&claim).await?.metadata.uid;
    claims.delete(&claim, &DeleteParams::default()).await?;
    let pods = cluster.pods().await?;
    cluster.kill(pods.get(victim).context("no pod")?).await?;
    until(format!("{victim} is a new member"), MINUTE * 2, || async {
        let status = cluster.member(victim).await?.status().await?;
        ensure!(
            status.cluster_id == old.cluster_id,
            "ANOTHER CLUSTER: {:x}",
            status.cluster_id
        );
        Ok(status.member_id != old.member_id && !status.is_learner)
    })
    .await?;
    let took = cluster.ready_within(MINUTE).await?;
    load.finish().await?;
    tell(&format!(
        "{victim} was a voter again, and {:.1} s later the cluster was Ready",
        took.as_secs_f32()
    ));
    ensure!(
        claims.get(&claim).await?.metadata.uid != uid,
        "the claim is the old one"
    );
    comes_true(cluster, 3, version).await?;
    let list = cluster
        .any_member()
        .await?
        .member_list(etcd::Consistency::Linearizable)
        .await?;
    let old_id = old.member_id;
    ensure!(
        list.members.iter().all(|member| member.id != old_id),
        "the old member ID is back"
    );
    let removed = format!("{old_id:x}");
    cluster.has_event("MemberRemoved", &removed).await?;
    Ok(())
}

#[test]
fn a_member_whose_database_is_no_use_is_replaced() -> Played {
    story(|stage| async move {
        let cluster = three(&stage, "v3.6.16").await?;
        let victim = follower(&cluster).await?;
        let old = cluster.member(victim).await?.status().await?.member_id;
        let load = Load::start(&cluster).await?;
        let pod = cluster.pods().await?.remove(victim).context("no pod")?;
        // Its log stays as it is, so that the gate lets it through.
        let zeros = "dd if=/dev/zero of=/data/data/member/snap/db bs=4096 count=64 conv=notrunc";
        on_volume(&stage, &pod, zeros).await?;
        cluster.kill(&pod).await?;
        votes_again(&cluster, victim, old).await?;
        comes_true(&cluster, 3, "3.6.16").await?;
        load.finish().await?.assert_gap(LIMIT)?;
        cluster
            .has_event("MemberRemoved", "its data cannot be used")
            .await
    })
}

#[test]
fn a_member_that_lost_its_data_is_replaced_while_a_quota_refuses_more_members() -> Played {
    story(|stage| async move {
        let cluster = three(&stage, "v3.6.16").await?;
        let quotas = stage.api::<ResourceQuota>();
        let quota = json!({"metadata": {"name": "claims"},
            "spec": {"hard": {"persistentvolumeclaims": "3"}}});
        let quota = serde_json::from_value(quota)?;
        quotas.create(&PostParams::default(), &quota).await?;
        until("the quota counts the claims", MINUTE, || async {
            let status = quotas.get("claims").await?.status.unwrap_or_default();
            let used = status.used.unwrap_or_default();
            Ok(used
                .get("persistentvolumeclaims")
                .is_some_and(|n| n.0 == "3"))
        })
        .await?;
        cluster.resize(5).await?;
        let words = ["PersistentVolumeClaim data-c-3", "exceeded quota: claims"];
        cluster.complains("Degraded", &words).await?;
        let victim = follower(&cluster).await?;
        let old = cluster.member(victim).await?.status().await?.member_id;
        let pod = cluster.pods().await?.remove(victim).context("no pod")?;
        on_volume(&stage, &pod, "rm -rf /data/data").await?;
        cluster.kill(&pod).await?;
        votes_again(&cluster, victim, old).await?;
        // It is told as long as it lasts, whatever else was done.
        cluster.complains("Degraded", &words).await?;
        cluster.has_event("WriteRefused", "data-c-3").await?;
        cluster.resize(3).await?;
        cluster.ready_within(MINUTE).await.map(drop)
    })
}

#[test]
fn a_member_that_was_removed_by_hand_joins_again() -> Played {
    story(|stage| async move {
        let cluster = three(&stage, "v3.6.16").await?;
        let victim = follower(&cluster).await?;
        let old = cluster.member(victim).await?.status().await?.member_id;
        let load = Load::start(&cluster).await?;
        let since = Instant::now();
        // Not the victim, which ends before it has answered, perhaps. And an answer may be lost: the list tells.
        let leader = cluster.leader().await?;
        let other = cluster.member(&leader).await?;
        until("etcd lets it go", MINUTE, || async {
            drop(other.member_remove(old).await);
            let list = other.member_list(etcd::Consistency::Linearizable).await?;
            Ok(!list.members.iter().any(|member| member.id == old))
        })
        .await?;
        votes_again(&cluster, victim, old).await?;
        let took = since.elapsed().as_secs_f32();
        tell(&format!("{victim} was a voter again after {took:.1} s"));
        comes_true(&cluster, 3, "3.6.16").await?;
        load.finish().await?.assert_gap(LIMIT)?;
        cluster
            .has_event("MemberRemoved", "but not by the operator")
            .await
    })
}

#[test]
fn a_killed_pod_comes_back_as_the_same_member_and_a_killed_leader_does_not_stop_writes() -> Played {
    story(|stage| async move {
        let cluster = three(&stage, "v3.6.16").await?;
        let before = ids(&cluster).await?;
        for role in ["follower", "leader"] {
            let leader = cluster.leader().await?;
            let victim = if role == "leader" {
                leader
            } else {
                before
                    .iter()
                    .map(|(name, _)| name.clone())
                    .find(|name| *name != leader)
                    .context("no member follows")?
            };
            let pod = cluster.pods().await?.remove(&victim).context("no pod")?;
            let uid = pod.metadata.uid.clone();
            let load = Load::start_part(&cluster, role).await?;
            cluster.kill(&pod).await?;
            until(format!("{victim} has a new pod"), MINUTE, || async {
                let pods = cluster.pods().await?;
                Ok(pods.get(&victim).is_some_and(|pod| pod.metadata.uid != uid))
            })
            .await?;
            until("all members are as before", MINUTE, || async {
                Ok(ids(&cluster).await? == before)
            })
            .await?;
            // Its status speaks of the former pod until the operator has looked again.
            let took = comes_true(&cluster, 3, "3.6.16").await?;
            let report = load.finish().await?;
            tell(&format!(
                "{role} killed: Ready again {:.1} s after it answered",
                took.as_secs_f32()
            ));
            // A leader that is killed costs an election, which alone may take longer than the limit.
            report.assert_gap(if role == "leader" { LIMIT * 5 } else { LIMIT })?;
        }
        comes_true(&cluster, 3, "3.6.16").await.map(drop)
    })
}

async fn three(stage: &Stage, version: &str) -> Result<Cluster> {
    let spec = json!({"size": 3, "version": version, "storage": {"size": "1Gi"}});
    let cluster = stage.create("c", spec).await?;
    cluster.ready_within(MINUTE * 2).await?;
    Ok(cluster)
}

async fn ids(cluster: &Cluster) -> Result<Vec<(String, u64)>> {
    let mut ids = Vec::new();
    for (name, member) in cluster.members().await? {
        ids.push((name, member.status().await?.member_id));
    }
    Ok(ids)
}

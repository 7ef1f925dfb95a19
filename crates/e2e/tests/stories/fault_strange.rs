//! What was not asked for: members that were added by hand, a status that names another cluster, and a cluster of which
//! nothing is left.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::names;
use e2e::{Cluster, MINUTE, Played, Stage, comes_true, lock, settled, story, until};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::ResourceExt;
use kube::api::DeleteParams;
use serde_json::json;

/// Some looks of the operator at a cluster that does not move.
const SOME_LOOKS: Duration = Duration::from_secs(6);

#[test]
fn a_member_that_was_added_by_hand_is_reported_and_left_alone() -> Played {
    story(|stage| async move {
        let cluster = create(&stage, 3).await?;
        let url = "http://127.0.0.1:9";
        let stranger = add(&cluster, url).await?;
        let id = format!("{stranger:x}");
        let words = [
            "was not added by the operator",
            &id,
            "etcdctl member remove",
        ];
        cluster.complains("Degraded", &words).await?;
        ensure!(cluster.condition("Available").await?.status == "True");
        settled(&stage, "the stranger is listed", SOME_LOOKS, || async {
            is_listed(&cluster, stranger).await
        })
        .await?;
        cluster.any_member().await?.member_remove(stranger).await?;
        cluster.ready().await?;
        comes_true(&cluster, 3, "3.6.16").await.map(drop)
    })
}

#[test]
fn a_ghost_under_the_name_of_a_pod_to_come_makes_room_for_it() -> Played {
    story(|stage| async move {
        let cluster = create(&stage, 1).await?;
        cluster
            .annotate("etcd.etcd.io/paused", Some("true"))
            .await?;
        let url = names::peer_url(lock::scheme_of_peers(), "c", stage.unique(), 1);
        let ghost = add(&cluster, &url).await?;
        cluster.resize(3).await?;
        cluster.annotate("etcd.etcd.io/paused", None).await?;
        cluster.ready_within(MINUTE * 2).await?;
        ensure!(
            !is_listed(&cluster, ghost).await?,
            "the ghost is still there"
        );
        comes_true(&cluster, 3, "3.6.16").await.map(drop)
    })
}

#[test]
fn two_clusters_under_one_name_freeze_until_a_user_decides() -> Played {
    story(|stage| async move {
        let cluster = create(&stage, 3).await?;
        let real = cluster.status().await?.cluster_id.context("no ID")?;
        set_cluster_id(&stage, "1234abcd").await?;
        let words = ["two etcd clusters under one name", "1234abcd", &real];
        cluster.complains("Degraded", &words).await?;
        // Of edits that would end members nothing comes now.
        cluster.resize(1).await?;
        let before = uids(&cluster).await?;
        settled(&stage, "nothing is touched", SOME_LOOKS, || async {
            cluster.put("frozen", "and yet it serves").await?;
            Ok(uids(&cluster).await? == before)
        })
        .await?;
        cluster.resize(3).await?;
        set_cluster_id(&stage, &real).await?;
        cluster.ready().await?;
        ensure!(uids(&cluster).await? == before, "a pod was recreated");
        comes_true(&cluster, 3, "3.6.16").await.map(drop)
    })
}

#[test]
fn where_nothing_is_left_nothing_begins_before_a_user_says_so() -> Played {
    story(|stage| async move {
        let cluster = create(&stage, 1).await?;
        let id = cluster.status().await?.cluster_id;
        cluster.put("lost", "with its only volume").await?;
        let claims = stage.api::<PersistentVolumeClaim>();
        let gone = DeleteParams::default();
        claims.delete("data-c-0", &gone).await?;
        let pod = cluster.pods().await?.remove("c-0").context("no pod")?;
        cluster.kill(&pod).await?;
        let words = ["no data is left", "its volume is empty"];
        cluster.complains("Degraded", &words).await?;
        settled(&stage, "no other cluster begins", SOME_LOOKS, || async {
            let status = cluster.status().await?;
            Ok(status.cluster_id == id && cluster.any_member().await.is_err())
        })
        .await?;
        // As the condition says: the object and its claims go, and it is recreated.
        cluster.delete().await?;
        claims.delete("data-c-0", &gone).await?;
        until("its claim is gone", MINUTE, || async {
            Ok(claims.get_opt("data-c-0").await?.is_none())
        })
        .await?;
        let cluster = create(&stage, 1).await?;
        ensure!(cluster.status().await?.cluster_id != id, "the same cluster");
        ensure!(cluster.value("lost").await?.is_none());
        Ok(())
    })
}

async fn create(stage: &Stage, size: u32) -> Result<Cluster> {
    let spec = json!({"size": size, "version": "v3.6.16", "storage": {"size": "1Gi"}});
    let cluster = stage.create("c", spec).await?;
    cluster.ready().await?;
    Ok(cluster)
}

/// etcd adds no member before its voters have been connected for a while.
async fn add(cluster: &Cluster, url: &str) -> Result<u64> {
    let leader = cluster.member(&cluster.leader().await?).await?;
    until("etcd takes a learner", MINUTE, || async {
        Ok(leader.member_add_learner(url).await.is_ok())
    })
    .await?;
    let list = leader.member_list(etcd::Consistency::Linearizable).await?;
    let mut added = list.members.into_iter();
    let added = added.find(|member| member.peer_urls.iter().any(|at| at == url));
    Ok(added.context("not listed")?.id)
}

async fn is_listed(cluster: &Cluster, id: u64) -> Result<bool> {
    let member = cluster.any_member().await?;
    let list = member.member_list(etcd::Consistency::Linearizable).await?;
    Ok(list.members.iter().any(|member| member.id == id))
}

async fn uids(cluster: &Cluster) -> Result<Vec<String>> {
    let pods = cluster.pods().await?;
    Ok(pods.values().filter_map(ResourceExt::uid).collect())
}

async fn set_cluster_id(stage: &Stage, id: &str) -> Result<()> {
    let lineage = json!({"clusterID": id});
    let status = json!({"clusterID": id, "memory": {"lineage": lineage}});
    stage.commands.patch_status("c", &status).await
}

//! No node takes pods for a while. It has a program of its own, because other clusters need them.

use anyhow::{Context, Result, ensure};
use api::names;
use e2e::{Cluster, MINUTE, Played, Stage, comes_true, lock, story, until};
use k8s_openapi::api::core::v1::{Node, PersistentVolumeClaim};
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use serde_json::json;

#[test]
fn quorum_that_may_return_is_waited_for_and_nothing_is_touched() -> Played {
    story(|stage| async move {
        let spec = json!({"size": 3, "version": "v3.6.16", "storage": {"size": "1Gi"},
            "recovery": {"onQuorumLoss": "FromSurvivor"}});
        let cluster = stage.create("c", spec).await?;
        cluster.ready().await?;
        let before = known(&stage, &cluster).await?;
        let waited = alone(&stage, waits(&cluster)).await;
        waited?;
        cluster.ready_within(MINUTE * 2).await?;
        ensure!(
            known(&stage, &cluster).await? == before,
            "something was touched"
        );
        comes_true(&cluster, 3, "3.6.16").await.map(drop)
    })
}

/// Two of three pods go, and their nodes take no pod: their volumes are tied to them.
async fn waits(cluster: &Cluster) -> Result<()> {
    let pods = cluster.pods().await?;
    for victim in ["c-0", "c-2"] {
        cluster.kill(pods.get(victim).context("no pod")?).await?;
    }
    let words = ["no quorum responds", "c-0 cannot start", "c-2 cannot start"];
    cluster.complains("Degraded", &words).await?;
    let status = cluster.status().await?;
    ensure!(status.unavailable_since.is_some(), "since when is not told");
    ensure!(
        status.remembered().lineage.recovery.is_none(),
        "no member is proved to be gone"
    );
    Ok(())
}

#[test]
fn a_learner_that_never_starts_is_given_up_after_its_time() -> Played {
    story(|stage| async move {
        let spec = json!({"size": 1, "version": "v3.6.16", "storage": {"size": "1Gi"}});
        let cluster = stage.create("c", spec).await?;
        cluster.ready().await?;
        cluster
            .annotate("etcd.etcd.io/paused", Some("true"))
            .await?;
        let url = names::peer_url(lock::scheme_of_peers(), "c", stage.unique(), 1);
        let member = cluster.any_member().await?;
        let learner = member.member_add_learner(&url).await?.id;
        cluster.resize(3).await?;
        let given_up = alone(&stage, is_given_up(&stage, &cluster, learner)).await;
        given_up?;
        cluster.ready_within(MINUTE * 2).await?;
        comes_true(&cluster, 3, "3.6.16").await.map(drop)
    })
}

/// Its time is five minutes, which are put behind it by hand.
async fn is_given_up(stage: &Stage, cluster: &Cluster, learner: u64) -> Result<()> {
    cluster.annotate("etcd.etcd.io/paused", None).await?;
    let id = format!("{learner:x}");
    until("its time is recorded", MINUTE, || async {
        let status = cluster.status().await?;
        let learners = status.remembered().admissions.learners.clone();
        Ok(learners.iter().any(|known| known.member_id == id))
    })
    .await?;
    let earlier = "2026-01-01T00:00:00Z";
    let learners = json!([{"memberID": id, "since": earlier}]);
    let status = json!({"memory": {"admissions": {"learners": learners}}});
    stage.commands.patch_status("c", &status).await?;
    until("the learner is listed no more", MINUTE, || async {
        let member = cluster.any_member().await?;
        let list = member.member_list(etcd::Consistency::Linearizable).await?;
        Ok(list.members.iter().all(|member| member.id != learner))
    })
    .await?;
    cluster.has_event("MemberRemoved", "does not serve").await
}

/// Does something while no node takes pods. Whatever comes of it: the next story needs them.
async fn alone<T>(stage: &Stage, what: impl Future<Output = Result<T>>) -> Result<T> {
    let nodes: Api<Node> = Api::all(stage.client.clone());
    let nodes = nodes.list(&ListParams::default()).await?;
    let names: Vec<String> = nodes.iter().map(ResourceExt::name_any).collect();
    let all = |word: &'static str| names.iter().map(move |name| [word, name.as_str()]);
    for cordon in all("cordon") {
        stage.commands.kubectl(&cordon).await?.accepted()?;
    }
    let done = what.await;
    for uncordon in all("uncordon") {
        stage.commands.kubectl(&uncordon).await?.accepted()?;
    }
    done
}

/// Whose data it is, and on which claims.
async fn known(stage: &Stage, cluster: &Cluster) -> Result<(Vec<u64>, Vec<String>)> {
    let mut ids = Vec::new();
    for member in cluster.members().await?.into_values() {
        ids.push(member.status().await?.member_id);
    }
    let claims = stage.list::<PersistentVolumeClaim>().await?;
    Ok((ids, claims.iter().filter_map(ResourceExt::uid).collect()))
}

//! A user replaces the earlier operator by this one: what it runs is taken over, and goes on all the while. (Objects that
//! it stored with TLS are in `lifecycle_operator_adopt.rs`, because the rules of the schema have to step aside for them.)

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::v1alpha1::status::Phase;
use e2e::{
    Cluster, LIMIT, Load, MINUTE, Played, Predecessor, Stage, Violated, Witness, check_truth,
    comes_true, stays, story, tell, until,
};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Pod, Service};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::ResourceExt;
use serde_json::{Value, json};

const PAUSED: &str = "etcd.etcd.io/paused";
const VERSION: &str = "3.5.35";

#[test]
fn three_members_are_taken_over_one_after_another_and_clients_hardly_notice() -> Played {
    story(|stage| async move {
        let cluster = left_by_predecessor(&stage).await?;
        let (identities, before) = (identities(&cluster).await?, cluster.pods().await?);
        let load = Load::start_part(&cluster, "taken over").await?;
        let witness = Witness::start(&cluster).await?;
        cluster.annotate(PAUSED, None).await?;
        let took = cluster.replaced(&before, 3).await?;
        comes_true(&cluster, 3, VERSION).await?;
        let seen = witness.finish().await?;
        let report = load.finish().await?;
        tell(&format!(
            "taken over in the order {:?}, Ready {:.1} s after the last, phases {:?}",
            seen.replaced,
            took.as_secs_f32(),
            seen.phases
        ));
        ensure!(seen.most_away <= 1, "{} were away at once", seen.most_away);
        ensure!(seen.replaced.len() == 3, "{:?}", seen.replaced);
        ensure!(
            !seen.phases.contains(&Phase::Failed) && !seen.phases.contains(&Phase::Creating),
            "{:?}",
            seen.phases
        );
        is_same(&cluster, &identities).await?;
        for (name, pod) in cluster.pods().await? {
            is_gated(&pod).with_context(|| name)?;
        }
        has_keys(&cluster).await?;
        cluster.has_event("Adopting", "previous operator").await?;
        report.assert_gap(LIMIT)?;
        grows_and_shrinks(&cluster).await?;
        comes_back(&cluster).await?;
        // The finalizer that the earlier operator set does not block the deletion.
        cluster.delete().await.map(drop)
    })
}

#[test]
fn a_single_member_is_taken_over_with_its_data() -> Played {
    story(|stage| async move {
        // The release that the predecessor ran by default.
        let spec = json!({"size": 1, "version": "v3.5.21", "storage": {"size": "1Gi"}});
        stage
            .commands
            .kubectl_with(
                &["create", "-f", "-"],
                &Predecessor::object(&spec).to_string(),
            )
            .await?
            .accepted()?;
        // As it was: it does not hear that it shall stop, so that a pod takes half a minute to go.
        let cluster = Predecessor::make(&stage, "sleep 86400").await?.cluster;
        write_keys(&cluster).await?;
        let (identities, before) = (identities(&cluster).await?, cluster.pods().await?);
        let load = Load::start(&cluster).await?;
        cluster.annotate(PAUSED, None).await?;
        cluster.replaced(&before, 1).await?;
        load.finish().await?;
        comes_true(&cluster, 1, "3.5.21").await?;
        is_same(&cluster, &identities).await?;
        has_keys(&cluster).await?;
        cluster.has_event("Adopting", "previous operator").await
    })
}

#[test]
fn without_a_quorum_nothing_is_touched_and_the_object_says_why() -> Played {
    story(|stage| async move {
        let spec = json!({"size": 3, "version": "v3.5.35", "storage": {"size": "1Gi"}});
        let predecessor = Predecessor::start(&stage, &spec).await?;
        let cluster = &predecessor.cluster;
        write_keys(cluster).await?;
        predecessor.report().await?;
        let identity = identities(cluster).await?;
        // It adds a member before its pod: two votes are needed from now on, and one is there.
        predecessor.announce(1).await?;
        until("the leader gives up", MINUTE, || async {
            let status = cluster.member("c-0").await?.status().await?;
            Ok(status.leader == 0)
        })
        .await?;
        let before = footprint(&stage).await?;
        cluster.annotate(PAUSED, None).await?;
        let words = until_told(cluster, &["previous operator", "quorum"]).await?;
        tell(&format!("without a quorum it says: {words}"));
        stays("nothing is touched", Duration::from_secs(15), || async {
            let now = footprint(&stage).await?;
            ensure!(
                now == before,
                Violated(format!("{before:?} became {now:?}"))
            );
            Ok(true)
        })
        .await?;
        ensure!(cluster.condition("Ready").await?.status == "False");
        // Once the pod is there it goes on.
        predecessor.scale(2).await?;
        cluster.ready_within(MINUTE * 3).await?;
        comes_true(cluster, 3, VERSION).await?;
        has_keys(cluster).await?;
        let now = identities(cluster).await?;
        ensure!(
            identity.iter().all(|(name, id)| now.get(name) == Some(id)),
            "{identity:?} became {now:?}"
        );
        Ok(())
    })
}

/// Three members with some keys, and a status that says so.
async fn left_by_predecessor(stage: &Stage) -> Result<Cluster> {
    let spec = json!({"size": 3, "version": "v3.5.35", "storage": {"size": "1Gi"}});
    let predecessor = Predecessor::start(stage, &spec).await?;
    write_keys(&predecessor.cluster).await?;
    predecessor.grow().await?;
    predecessor.grow().await?;
    predecessor.report().await?;
    Ok(predecessor.cluster)
}

async fn write_keys(cluster: &Cluster) -> Result<()> {
    for number in 0..20 {
        cluster
            .put(&format!("kept/{number}"), &number.to_string())
            .await?;
    }
    Ok(())
}

async fn has_keys(cluster: &Cluster) -> Result<()> {
    for number in 0..20 {
        let value = cluster.value(&format!("kept/{number}")).await?;
        ensure!(
            value == Some(number.to_string()),
            "kept/{number} is {value:?}"
        );
    }
    Ok(())
}

/// Cluster and member ID by name.
async fn identities(cluster: &Cluster) -> Result<BTreeMap<String, (u64, u64)>> {
    let mut identities = BTreeMap::new();
    for (name, member) in cluster.members().await? {
        let status = member.status().await?;
        identities.insert(name, (status.cluster_id, status.member_id));
    }
    Ok(identities)
}

async fn is_same(cluster: &Cluster, before: &BTreeMap<String, (u64, u64)>) -> Result<()> {
    let now = identities(cluster).await?;
    ensure!(now == *before, "{before:?} became {now:?}");
    Ok(())
}

fn is_gated(pod: &Pod) -> Result<()> {
    let spec = pod.spec.as_ref().context("no spec")?;
    let init: Vec<&str> = spec
        .init_containers
        .iter()
        .flatten()
        .map(|container| container.name.as_str())
        .collect();
    let containers: Vec<&str> = spec
        .containers
        .iter()
        .map(|container| container.name.as_str())
        .collect();
    ensure!(
        init == ["agent"] && containers == ["etcd"],
        "{init:?} {containers:?}"
    );
    Ok(())
}

async fn grows_and_shrinks(cluster: &Cluster) -> Result<()> {
    let load = Load::start_part(cluster, "five and three").await?;
    for size in [5_u32, 3] {
        cluster.resize(size).await?;
        cluster.ready_within(MINUTE * 2).await?;
        comes_true(cluster, size, VERSION).await?;
    }
    load.finish().await?.assert_gap(LIMIT)
}

async fn comes_back(cluster: &Cluster) -> Result<()> {
    let identities = identities(cluster).await?;
    let pods = cluster.pods().await?;
    let pod = pods.get("c-1").context("no c-1")?;
    cluster.kill(pod).await?;
    until("c-1 is back", MINUTE, || async {
        let now = cluster.pods().await?;
        let back = now
            .get("c-1")
            .is_some_and(|now| now.metadata.uid != pod.metadata.uid);
        check_truth(cluster, 3, VERSION).await?;
        Ok(back)
    })
    .await?;
    is_same(cluster, &identities).await
}

async fn until_told(cluster: &Cluster, words: &[&str]) -> Result<String> {
    until(format!("a condition says {words:?}"), MINUTE, || async {
        told(cluster, words).await.map(|told| told.is_some())
    })
    .await?;
    told(cluster, words).await?.context("no longer")
}

async fn told(cluster: &Cluster, words: &[&str]) -> Result<Option<String>> {
    let mut conditions = cluster.status().await?.conditions.into_iter();
    let found =
        conditions.find(|condition| words.iter().all(|word| condition.message.contains(word)));
    Ok(found.map(|condition| {
        let (kind, status) = (condition.type_, condition.status);
        format!(
            "{kind}={status} {}: {}",
            condition.reason, condition.message
        )
    }))
}

/// Everything that the operator could have changed, as far as it is not the object's own status.
async fn footprint(stage: &Stage) -> Result<BTreeSet<String>> {
    let mut all = BTreeSet::new();
    for set in stage.list::<StatefulSet>().await? {
        let spec: Value = serde_json::to_value(&set.spec)?;
        all.insert(format!("set {} {:?} {spec}", set.name_any(), set.labels()));
    }
    for pod in stage.list::<Pod>().await? {
        all.insert(format!("pod {:?} {:?}", pod.uid(), pod.annotations()));
    }
    for service in stage.list::<Service>().await? {
        all.insert(format!("service {:?}", service.resource_version()));
    }
    for budget in stage.list::<PodDisruptionBudget>().await? {
        all.insert(format!("budget {}", budget.name_any()));
    }
    Ok(all)
}

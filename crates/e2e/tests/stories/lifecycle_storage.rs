//! A user asks for larger volumes, or decides what becomes of them.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use api::v1alpha1::status::Phase;
use e2e::{
    Cluster, LIMIT, Load, MINUTE, Played, Stage, Witness, check_truth,
    check_truth_of_any_incarnation, comes_true, story, tell, until,
};
use etcd::Consistency;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

#[test]
fn larger_volumes_grow_under_running_members_and_the_quota_follows() -> Played {
    story(|stage| async move {
        let classes: Api<StorageClass> = Api::all(stage.client.clone());
        let class = format!("{}-grows", stage.unique());
        classes
            .create(&PostParams::default(), &expanding(&classes, &class).await?)
            .await?;
        let outcome = grows(&stage, &class).await;
        classes.delete(&class, &DeleteParams::default()).await?;
        outcome
    })
}

async fn grows(stage: &Stage, class: &str) -> Result<()> {
    let spec = json!({"size": 3, "version": "v3.6.16", "storage": {"size": "1Gi", "storageClassName": class}});
    let cluster = stage.create("c", spec).await?;
    cluster.ready().await?;
    let (before, set) = (cluster.pods().await?, set(stage).await?);
    let load = Load::start(&cluster).await?;
    let witness = Witness::start(&cluster).await?;
    let patch = r#"{"spec":{"storage":{"size":"2Gi"}}}"#;
    stage.commands.patch("c", patch).await?.accepted()?;
    all_ask_for(stage, "2Gi").await?;
    until(
        "the StatefulSet is another one and claims 2Gi",
        MINUTE,
        || async {
            let now = self::set(stage).await?;
            ensure!(now.uid() != set.uid(), "it is the same one");
            ensure!(
                claimed(&now).as_deref() == Some("2Gi"),
                "{:?}",
                claimed(&now)
            );
            // It has found the pods that it was made around.
            let ready = now.status.as_ref().and_then(|status| status.ready_replicas);
            Ok(ready == Some(3))
        },
    )
    .await?;
    ensure!(
        uids(&cluster.pods().await?) == uids(&before),
        "a pod was replaced with the StatefulSet"
    );
    until("it says what it waits for", MINUTE, || async {
        let waits = cluster.condition("Progressing").await?;
        let told = waits.message.contains("waiting for data-c-");
        ensure!(waits.reason == "ExpandingVolumes" && told, "{waits:?}");
        Ok(true)
    })
    .await?;
    resize(stage, "2Gi").await?;
    let took = cluster.replaced(&before, 3).await?;
    let seen = witness.finish().await?;
    let report = load.finish().await?;
    tell(&format!(
        "the quota reached {:?}, Ready {:.1} s after the last",
        seen.replaced,
        took.as_secs_f32()
    ));
    ensure!(seen.most_away <= 1, "{} were away at once", seen.most_away);
    let quota = format!("--quota-backend-bytes={}", (2_u64 << 30) / 5 * 2);
    for (name, pod) in cluster.pods().await? {
        ensure!(arguments(&pod).contains(&quota), "{name} lacks {quota}");
    }
    comes_true(&cluster, 3, "3.6.16").await?;
    report.assert_gap(LIMIT)
}

#[test]
fn a_class_that_cannot_expand_is_named_and_everything_else_goes_on() -> Played {
    story(|stage| async move {
        let classes: Api<StorageClass> = Api::all(stage.client.clone());
        let class = format!("{}-fixed", stage.unique());
        let mut fixed = expanding(&classes, &class).await?;
        fixed.allow_volume_expansion = Some(false);
        classes.create(&PostParams::default(), &fixed).await?;
        let outcome = cannot_grow(&stage, &classes, &class).await;
        classes.delete(&class, &DeleteParams::default()).await?;
        outcome
    })
}

async fn cannot_grow(stage: &Stage, classes: &Api<StorageClass>, class: &str) -> Result<()> {
    let spec = json!({"size": 1, "version": "v3.6.16", "storage": {"size": "1Gi", "storageClassName": class}});
    let cluster = stage.create("c", spec).await?;
    cluster.ready().await?;
    let before = cluster.pods().await?;
    let load = Load::start(&cluster).await?;
    let size = |size: &str| format!(r#"{{"spec":{{"storage":{{"size":"{size}"}}}}}}"#);
    let words = [
        "spec.storage.size",
        class,
        "does not allow volume expansion",
    ];
    let refusal = stage.commands.patch("c", &size("2Gi")).await?;
    refusal.refused_with(&words)?;
    // One that was stored all the same: the class could expand then.
    cluster
        .annotate("etcd.etcd.io/paused", Some("true"))
        .await?;
    expands(classes, class, true).await?;
    stage.commands.patch("c", &size("2Gi")).await?.accepted()?;
    expands(classes, class, false).await?;
    cluster.annotate("etcd.etcd.io/paused", None).await?;
    let words = cluster.complains("Degraded", &words).await?;
    tell(&format!("a class that cannot expand is told as: {words}"));
    ensure!(cluster.status().await?.phase == Some(Phase::Running));
    ensure!(cluster.condition("Available").await?.status == "True");
    // It can grow in number all the same.
    cluster.resize(3).await?;
    until("three members vote", MINUTE * 2, || async {
        let member = cluster.any_member().await?;
        let list = member.member_list(Consistency::Linearizable).await?;
        let voters = list.members.iter().filter(|member| !member.is_learner);
        Ok(voters.count() == 3)
    })
    .await?;
    load.finish().await?;
    cluster
        .complains("Degraded", &["does not allow volume expansion"])
        .await?;
    let after = cluster.pods().await?;
    let first = |pods: &BTreeMap<String, Pod>| pods.get("c-0").and_then(ResourceExt::uid);
    ensure!(first(&before) == first(&after), "c-0 was restarted");
    // Taken back.
    stage.commands.patch("c", &size("1Gi")).await?.accepted()?;
    cluster.ready().await?;
    comes_true(&cluster, 3, "3.6.16").await?;
    let refusal = stage.commands.patch("c", &size("512Mi")).await?;
    refusal.refused_with(&["spec.storage.size", "cannot be reduced"])?;
    let class = r#"{"spec":{"storage":{"storageClassName":"other"}}}"#;
    let refusal = stage.commands.patch("c", class).await?;
    refusal.refused_with(&[
        "spec.storage.storageClassName",
        "StorageClass of a volume cannot change",
    ])?;
    check_truth(&cluster, 3, "3.6.16").await
}

async fn expands(classes: &Api<StorageClass>, class: &str, can: bool) -> Result<()> {
    let patch = Patch::Merge(json!({"allowVolumeExpansion": can}));
    classes
        .patch(class, &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

#[test]
fn with_when_stopped_delete_a_stop_ends_the_data_and_a_start_is_a_new_incarnation() -> Played {
    story(|stage| async move {
        let spec = json!({"size": 3, "version": "v3.6.16",
            "storage": {"size": "1Gi", "claimPolicy": {"whenStopped": "Delete"}}});
        let cluster = stage.create("c", spec).await?;
        cluster.ready().await?;
        cluster.put("old", "data").await?;
        let id = cluster.status().await?.cluster_id;
        cluster.resize(0).await?;
        cluster.phase(Phase::Stopped).await?;
        until("no claim is left", MINUTE, || async {
            Ok(stage.list::<PersistentVolumeClaim>().await?.is_empty())
        })
        .await?;
        let available = cluster.condition("Available").await?;
        ensure!(available.status == "False", "{available:?}");
        cluster.resize(3).await?;
        cluster.ready_within(MINUTE * 2).await?;
        let status = cluster.status().await?;
        let incarnation = status.remembered().lineage.incarnation;
        ensure!(incarnation == Some(2), "{incarnation:?}");
        ensure!(status.cluster_id != id, "the same cluster ID");
        ensure!(cluster.value("old").await?.is_none(), "an old key is there");
        let load = Load::start(&cluster).await?;
        check_truth_of_any_incarnation(&cluster, 3, "3.6.16").await?;
        load.finish().await.map(drop)
    })
}

#[test]
fn with_when_scaled_retain_volumes_stay_and_are_used_again_but_never_what_is_on_them() -> Played {
    story(|stage| async move {
        let spec = json!({"size": 3, "version": "v3.6.16",
            "storage": {"size": "1Gi", "claimPolicy": {"whenScaled": "Retain"}}});
        let cluster = stage.create("c", spec).await?;
        cluster.ready().await?;
        for number in 0..20 {
            cluster.put(&format!("key/{number}"), "early").await?;
        }
        let (ids, claims) = (member_ids(&cluster).await?, claims(&stage).await?);
        let load = Load::start(&cluster).await?;
        cluster.resize(1).await?;
        cluster.ready().await?;
        until("one pod is left", MINUTE, || async {
            Ok(cluster.pods().await?.len() == 1)
        })
        .await?;
        check_truth(&cluster, 1, "3.6.16").await?;
        ensure!(
            self::claims(&stage).await? == claims,
            "the claims are not the same"
        );
        // What the volumes know is old from now on.
        for number in 10..30 {
            cluster.put(&format!("key/{number}"), "late").await?;
        }
        cluster.resize(3).await?;
        cluster.ready_within(MINUTE * 2).await?;
        load.finish().await?;
        comes_true(&cluster, 3, "3.6.16").await?;
        ensure!(
            self::claims(&stage).await? == claims,
            "the claims are not the same"
        );
        let now = member_ids(&cluster).await?;
        for name in ["c-1", "c-2"] {
            ensure!(
                now.get(name) != ids.get(name),
                "{name} is the member it was"
            );
        }
        ensure!(now.get("c-0") == ids.get("c-0"), "c-0 is another member");
        agree(&cluster).await
    })
}

/// Waits until every claim asks for this size.
async fn all_ask_for(stage: &Stage, size: &str) -> Result<()> {
    until(format!("every claim asks for {size}"), MINUTE, || async {
        let claims = stage.list::<PersistentVolumeClaim>().await?;
        let asked: Vec<Option<String>> = claims.iter().map(requested).collect();
        ensure!(
            asked.iter().all(|asked| asked.as_deref() == Some(size)),
            "{asked:?}"
        );
        Ok(asked.len() == 3)
    })
    .await
    .map(drop)
}

/// Every member by itself has every key as it was written last.
async fn agree(cluster: &Cluster) -> Result<()> {
    for (name, member) in cluster.members().await? {
        for number in 0..30 {
            let key = format!("key/{number}");
            let found = member.get(key.as_bytes(), Consistency::Local).await?;
            let found = found.map(|found| String::from_utf8_lossy(&found.value).into_owned());
            let wanted = if number < 10 { "early" } else { "late" };
            ensure!(found.as_deref() == Some(wanted), "{name}: {key} {found:?}");
        }
    }
    Ok(())
}

/// A class like the one that works, which can expand.
async fn expanding(classes: &Api<StorageClass>, name: &str) -> Result<StorageClass> {
    let mut class = classes.get("standard").await?;
    class.metadata = kube::api::ObjectMeta {
        name: Some(name.to_owned()),
        ..kube::api::ObjectMeta::default()
    };
    class.allow_volume_expansion = Some(true);
    Ok(class)
}

/// Plays the resizer, of which a directory on a node has none: first the volume says the new size, then the claim.
async fn resize(stage: &Stage, size: &str) -> Result<()> {
    let volumes: Api<PersistentVolume> = Api::all(stage.client.clone());
    let claims = stage.api::<PersistentVolumeClaim>();
    for claim in stage.list::<PersistentVolumeClaim>().await? {
        let volume = claim
            .spec
            .as_ref()
            .and_then(|spec| spec.volume_name.clone());
        let larger = Patch::Merge(json!({"spec": {"capacity": {"storage": size}}}));
        volumes
            .patch(
                &volume.context("an unbound claim")?,
                &PatchParams::default(),
                &larger,
            )
            .await?;
        let larger = Patch::Merge(json!({"status": {"capacity": {"storage": size}}}));
        claims
            .patch_status(&claim.name_any(), &PatchParams::default(), &larger)
            .await?;
    }
    Ok(())
}

async fn set(stage: &Stage) -> Result<StatefulSet> {
    Ok(stage.api::<StatefulSet>().get("c").await?)
}

fn claimed(set: &StatefulSet) -> Option<String> {
    let claims = set.spec.as_ref()?.volume_claim_templates.as_ref()?;
    requested(claims.first()?)
}

fn requested(claim: &PersistentVolumeClaim) -> Option<String> {
    let resources = claim.spec.as_ref()?.resources.as_ref()?;
    Some(resources.requests.as_ref()?.get("storage")?.0.clone())
}

/// UIDs of the claims by name.
async fn claims(stage: &Stage) -> Result<BTreeMap<String, Option<String>>> {
    let claims = stage.list::<PersistentVolumeClaim>().await?;
    let named = claims.iter().map(|claim| (claim.name_any(), claim.uid()));
    Ok(named.collect())
}

async fn member_ids(cluster: &Cluster) -> Result<BTreeMap<String, u64>> {
    let mut ids = BTreeMap::new();
    for (name, member) in cluster.members().await? {
        ids.insert(name, member.status().await?.member_id);
    }
    Ok(ids)
}

fn uids(pods: &BTreeMap<String, Pod>) -> BTreeMap<String, Option<String>> {
    pods.iter()
        .map(|(name, pod)| (name.clone(), pod.uid()))
        .collect()
}

/// Command and arguments of etcd.
fn arguments(pod: &Pod) -> Vec<String> {
    let containers = pod.spec.iter().flat_map(|spec| &spec.containers);
    let etcd = containers.filter(|container| container.name == "etcd");
    etcd.flat_map(|etcd| etcd.command.iter().chain(&etcd.args).flatten().cloned())
        .collect()
}

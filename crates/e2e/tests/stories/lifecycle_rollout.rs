//! A user changes what the pods are made of, or asks for a restart: members are replaced one at a time, while clients
//! go on. (A node that is drained meanwhile is in `fault_node_drain.rs`.)

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::v1alpha1::status::Phase;
use e2e::{
    Cluster, LIMIT, Load, MINUTE, Played, Stage, Violated, Witness, check_truth, comes_true,
    settled, story, tell, until,
};
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

const IMAGE: &str = "quay.io/coreos/etcd:v3.6.16";

#[test]
fn other_resources_reach_one_member_at_a_time_and_the_leader_last() -> Played {
    story(|stage| async move {
        let cluster = three(&stage).await?;
        let (before, leader) = (cluster.pods().await?, cluster.leader().await?);
        let load = Load::start(&cluster).await?;
        let witness = Witness::start(&cluster).await?;
        let patch = r#"{"spec":{"resources":{"requests":{"cpu":"60m","memory":"96Mi"}}}}"#;
        stage.commands.patch("c", patch).await?.accepted()?;
        let took = cluster.replaced(&before, 3).await?;
        let seen = witness.finish().await?;
        let report = load.finish().await?;
        tell(&format!(
            "replaced in the order {:?}, Ready {:.1} s after the last",
            seen.replaced,
            took.as_secs_f32()
        ));
        ensure!(seen.most_away <= 1, "{} were away at once", seen.most_away);
        ensure!(
            seen.replaced.len() == 3 && seen.replaced.last() == Some(&leader),
            "{leader} led; the order was {:?}",
            seen.replaced
        );
        ensure!(seen.phases.contains(&Phase::Upgrading), "{:?}", seen.phases);
        ensure!(
            seen.was_told("1 of 3") || seen.was_told("2 of 3"),
            "no condition said how far it was: {:?}",
            seen.messages
        );
        for (name, pod) in cluster.pods().await? {
            ensure!(request(&pod, "cpu").as_deref() == Some("60m"), "{name}");
        }
        comes_true(&cluster, 3, "3.6.16").await?;
        report.assert_gap(LIMIT)
    })
}

#[test]
fn an_image_that_does_not_exist_costs_one_member_and_can_be_taken_back() -> Played {
    story(|stage| async move {
        let cluster = three(&stage).await?;
        let before = cluster.pods().await?;
        let load = Load::start_part(&cluster, "stuck").await?;
        let version = |version: &str| format!(r#"{{"spec":{{"version":"{version}"}}}}"#);
        let patch = version("v3.6.99");
        stage.commands.patch("c", &patch).await?.accepted()?;
        let words = cluster.complains("Degraded", &["c-", "v3.6.99"]).await?;
        let stuck = one_is_disturbed(&cluster, &before).await?;
        ensure!(words.contains(&stuck), "{stuck} is not named: {words}");
        // It stays with this one.
        settled(
            &stage,
            "only one pod is disturbed",
            Duration::from_secs(10),
            || async { Ok(one_is_disturbed(&cluster, &before).await? == stuck) },
        )
        .await?;
        load.finish().await?.assert_gap(LIMIT)?;

        // A pod that comes back meanwhile comes back as it was. Until then one of three serves, and no client can
        // write.
        let load = Load::start_part(&cluster, "another pod deleted").await?;
        let other = before.iter().find(|(name, _)| **name != stuck);
        let (name, pod) = other.context("no other pod")?;
        cluster.kill(pod).await?;
        until(format!("{name} is back"), MINUTE, || async {
            let status = cluster.member(name).await?.status().await?;
            let now = cluster.pods().await?.remove(name).context("no pod")?;
            Ok(status.leader != 0 && now.metadata.uid != pod.metadata.uid)
        })
        .await?;
        let pods = cluster.pods().await?;
        let image = image(pods.get(name).context("no pod")?);
        ensure!(image.as_deref() == Some(IMAGE), "{name} runs {image:?}");
        load.finish().await?;

        let patch = version("v3.6.16");
        stage.commands.patch("c", &patch).await?.accepted()?;
        until(
            "all three run the old image and serve",
            MINUTE * 2,
            || async {
                check_truth(&cluster, 3, "3.6.16").await?;
                let pods = cluster.pods().await?;
                Ok(pods.values().all(|pod| image_is(pod, IMAGE)))
            },
        )
        .await
        .map(drop)
    })
}

#[test]
fn a_restart_that_is_asked_for_replaces_every_pod_and_nothing_else() -> Played {
    story(|stage| async move {
        let cluster = three(&stage).await?;
        let before = cluster.pods().await?;
        let generation = cluster.get().await?.metadata.generation;
        let load = Load::start(&cluster).await?;
        let witness = Witness::start(&cluster).await?;
        let restart = "etcd.etcd.io/restartedAt";
        cluster
            .annotate(restart, Some("2026-11-15T12:00:00Z"))
            .await?;
        cluster.replaced(&before, 3).await?;
        let seen = witness.finish().await?;
        let report = load.finish().await?;
        ensure!(seen.most_away <= 1, "{} were away at once", seen.most_away);
        ensure!(seen.replaced.len() == 3, "{:?}", seen.replaced);
        ensure!(cluster.get().await?.metadata.generation == generation);
        comes_true(&cluster, 3, "3.6.16").await?;
        // The same value again is not another restart.
        let before = cluster.pods().await?;
        cluster
            .annotate(restart, Some("2026-11-15T12:00:00Z"))
            .await?;
        settled(
            &stage,
            "no member is restarted",
            Duration::from_secs(10),
            || async { Ok(uids(&cluster.pods().await?) == uids(&before)) },
        )
        .await?;
        report.assert_gap(LIMIT)
    })
}

#[test]
fn a_paused_cluster_is_left_alone_until_it_is_unpaused() -> Played {
    story(|stage| async move {
        let spec = json!({"size": 1, "version": "v3.6.16", "storage": {"size": "1Gi"}});
        let cluster = stage.create("c", spec).await?;
        cluster.ready().await?;
        let load = Load::start(&cluster).await?;
        let pause = "etcd.etcd.io/paused";
        cluster.annotate(pause, Some("true")).await?;
        cluster.resize(3).await?;
        until("the status says that it is paused", MINUTE, || async {
            let status = serde_json::to_string(&cluster.status().await?)?;
            ensure!(status.contains("Paused"), "{status}");
            Ok(true)
        })
        .await?;
        settled(
            &stage,
            "nothing is done",
            Duration::from_secs(10),
            || async { Ok(cluster.pods().await?.len() == 1) },
        )
        .await?;
        cluster.annotate(pause, None).await?;
        cluster.ready_within(MINUTE * 2).await?;
        load.finish().await?;
        let status = serde_json::to_string(&cluster.status().await?)?;
        ensure!(!status.contains("Paused"), "{status}");
        comes_true(&cluster, 3, "3.6.16").await.map(drop)
    })
}

async fn three(stage: &Stage) -> Result<Cluster> {
    let spec = json!({"size": 3, "version": "v3.6.16", "storage": {"size": "1Gi"}});
    let cluster = stage.create("c", spec).await?;
    cluster.ready().await?;
    Ok(cluster)
}

/// The one pod that is not what it was; the two others are the same, and serve.
async fn one_is_disturbed(cluster: &Cluster, before: &BTreeMap<String, Pod>) -> Result<String> {
    let now = uids(&cluster.pods().await?);
    let mut disturbed: Vec<String> = Vec::new();
    for (name, uid) in uids(before) {
        if now.get(&name) == Some(&uid) {
            let status = cluster.member(&name).await?.status().await?;
            ensure!(status.leader != 0, "{name} knows no leader");
        } else {
            disturbed.push(name);
        }
    }
    ensure!(
        disturbed.len() == 1,
        Violated(format!("disturbed: {disturbed:?}"))
    );
    disturbed.pop().context("no member is disturbed")
}

fn uids(pods: &BTreeMap<String, Pod>) -> BTreeMap<String, Option<String>> {
    let uid = |pod: &Pod| pod.metadata.uid.clone();
    pods.iter()
        .map(|(name, pod)| (name.clone(), uid(pod)))
        .collect()
}

fn image(pod: &Pod) -> Option<String> {
    pod.spec.as_ref()?.containers.first()?.image.clone()
}

fn image_is(pod: &Pod, wanted: &str) -> bool {
    image(pod).as_deref() == Some(wanted)
}

fn request(pod: &Pod, resource: &str) -> Option<String> {
    let container = pod.spec.as_ref()?.containers.first()?;
    let requests = container.resources.as_ref()?.requests.as_ref()?;
    Some(requests.get(resource)?.0.clone())
}

//! Something stands in the way of a start: the cluster says what, in the words of the scheduler or the kubelet, and
//! goes on by itself once that is corrected.

use std::path::PathBuf;

use anyhow::{Context, Result, ensure};
use api::v1alpha1::status::Phase;
use e2e::{Cluster, MINUTE, Played, skipped, story, tell};
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;
use tokio::process::Command;

#[test]
fn an_image_that_does_not_exist_is_named_and_the_cluster_goes_on_once_it_does() -> Played {
    story(|stage| async move {
        let repository = format!("localhost/{}/etcd", stage.unique());
        let spec = json!({"size": 1, "repository": repository, "version": "v3.6.16", "storage": {"size": "1Gi"}});
        let cluster = stage.create("c", spec).await?;
        let words = cluster
            .complains("Degraded", &["c-0", "cannot start", &repository])
            .await?;
        ensure!(words.contains("Image"), "not the kubelet's words: {words}");
        still_creating(&cluster).await?;
        let image = format!("{repository}:v3.6.16");
        if !tag("quay.io/coreos/etcd:v3.6.16", &image).await? {
            skipped(
                "the image is not corrected, because the nodes of this cluster cannot be reached",
            );
            return Ok(());
        }
        let ready = cluster.ready_within(MINUTE * 2).await;
        untag(&image).await?;
        ready.map(drop)
    })
}

#[test]
fn a_pod_that_fits_on_no_node_is_told_in_the_schedulers_words_and_goes_on_once_there_is_room()
-> Played {
    story(|stage| async move {
        // Something that no node has, until one gets it.
        let resource = format!("example.com/{}", stage.unique());
        let one = json!({(resource.clone()): "1"});
        let spec =
            json!({"size": 1, "version": "v3.6.16", "resources": {"requests": one, "limits": one}});
        let cluster = stage.create("c", spec).await?;
        let words = format!("Insufficient {resource}");
        cluster
            .complains(
                "Degraded",
                &["c-0", "cannot start", "nodes are available", &words],
            )
            .await?;
        still_creating(&cluster).await?;
        let nodes: Api<Node> = Api::all(stage.client.clone());
        let name = nodes.list(&ListParams::default()).await?.items[0]
            .metadata
            .name
            .clone()
            .context("no name")?;
        let capacity =
            |amount: Option<&str>| json!({"status": {"capacity": {(resource.clone()): amount}}});
        let room = Patch::Merge(capacity(Some("1")));
        nodes
            .patch_status(&name, &PatchParams::default(), &room)
            .await?;
        let ready = cluster.ready().await;
        let room = Patch::Merge(capacity(None));
        nodes
            .patch_status(&name, &PatchParams::default(), &room)
            .await?;
        ready.map(drop)
    })
}

#[test]
fn more_cpu_than_any_node_has_is_reported_and_can_be_corrected_in_the_spec() -> Played {
    story(|stage| async move {
        let spec = json!({"size": 3, "version": "v3.6.16", "storage": {"size": "1Gi"},
            "resources": {"requests": {"cpu": "1000"}}});
        let cluster = stage.create("c", spec).await?;
        cluster
            .complains("Degraded", &["c-0", "cannot start", "Insufficient cpu"])
            .await?;
        let ready = cluster.condition("Ready").await?;
        ensure!(ready.status == "False", "{ready:?}");
        still_creating(&cluster).await?;
        let less = r#"{"spec":{"resources":{"requests":{"cpu":"50m"}}}}"#;
        stage.commands.patch("c", less).await?.accepted()?;
        cluster.ready_within(MINUTE).await.map(drop)
    })
}

#[test]
fn a_claim_that_cannot_bind_is_told_and_the_cluster_goes_on_once_it_can() -> Played {
    story(|stage| async move {
        let class = format!("{}-late", stage.unique());
        let spec = json!({"size": 1, "version": "v3.6.16", "storage": {"size": "1Gi", "storageClassName": class}});
        let cluster = stage.create("c", spec).await?;
        let words = cluster
            .complains("Degraded", &["c-0", "cannot start"])
            .await?;
        tell(&format!("an unbound claim is told as: {words}"));
        let claim = [
            "PersistentVolumeClaim",
            "persistentvolumeclaim",
            "storageclass",
        ];
        ensure!(
            claim.iter().any(|word| words.contains(word)),
            "not the scheduler's words: {words}"
        );
        still_creating(&cluster).await?;
        let classes: Api<StorageClass> = Api::all(stage.client.clone());
        let made = late_class(&classes, &class).await?;
        classes.create(&PostParams::default(), &made).await?;
        let ready = cluster.ready().await;
        classes.delete(&class, &DeleteParams::default()).await?;
        ready.map(drop)
    })
}

/// A copy of a class that works, under another name.
async fn late_class(classes: &Api<StorageClass>, name: &str) -> Result<StorageClass> {
    let all = classes.list(&ListParams::default()).await?.items;
    let mut copy = all
        .into_iter()
        .next()
        .context("the cluster has no storage class")?;
    copy.metadata = kube::api::ObjectMeta {
        name: Some(name.to_owned()),
        ..kube::api::ObjectMeta::default()
    };
    Ok(copy)
}

async fn still_creating(cluster: &Cluster) -> Result<()> {
    let phase = cluster.status().await?.phase;
    ensure!(phase == Some(Phase::Creating), "the phase is {phase:?}");
    Ok(())
}

/// Gives an image that every node has another name; false where the nodes cannot be reached.
async fn tag(from: &str, to: &str) -> Result<bool> {
    let sockets = sockets()?;
    for socket in &sockets {
        ctr(socket, &["images", "tag", from, to]).await?;
    }
    Ok(!sockets.is_empty())
}

async fn untag(image: &str) -> Result<()> {
    for socket in sockets()? {
        ctr(&socket, &["images", "remove", image]).await?;
    }
    Ok(())
}

/// The nodes of the local cluster keep their containerd beside the kubeconfig.
fn sockets() -> Result<Vec<PathBuf>> {
    let kubeconfig = std::env::var_os("KUBECONFIG")
        .map(PathBuf::from)
        .unwrap_or_default();
    let nodes = kubeconfig
        .parent()
        .map(|cluster| cluster.join("nodes"))
        .unwrap_or_default();
    if !nodes.is_dir() {
        return Ok(Vec::new());
    }
    let mut sockets = Vec::new();
    for node in std::fs::read_dir(nodes)? {
        sockets.push(node?.path().join("containerd.sock"));
    }
    sockets.retain(|socket| socket.exists());
    Ok(sockets)
}

async fn ctr(socket: &std::path::Path, arguments: &[&str]) -> Result<()> {
    let mut command = Command::new("ctr");
    command
        .arg("-a")
        .arg(socket)
        .args(["-n", "k8s.io"])
        .args(arguments);
    let output = command.output().await.context("ctr")?;
    ensure!(
        output.status.success(),
        "ctr: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

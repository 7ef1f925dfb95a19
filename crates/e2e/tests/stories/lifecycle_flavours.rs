//! A user takes etcd from somewhere else, in another layout.

use anyhow::{Context, Result, ensure};
use e2e::{Cluster, LIMIT, Load, MINUTE, Played, Stage, comes_true, story, until};
use k8s_openapi::api::core::v1::Node;
use kube::Api;
use kube::api::ListParams;
use serde_json::json;

#[test]
fn three_members_run_from_an_image_of_bitnamis_layout_and_come_back() -> Played {
    story(|stage| async move {
        let spec = json!({"size": 3, "version": "3.6.16", "repository": "docker.io/bitnami/etcd",
            "storage": {"size": "1Gi"}});
        let cluster = stage.create("c", spec).await?;
        cluster.ready().await?;
        comes_true(&cluster, 3, "3.6.16").await?;
        runs(&cluster, "docker.io/bitnami/etcd:3.6.16").await?;
        // A start with data goes another way than the first one.
        let load = Load::start(&cluster).await?;
        let leader = cluster.leader().await?;
        let mut pods = cluster.pods().await?;
        pods.remove(&leader);
        let (name, pod) = pods.into_iter().next().context("no member follows")?;
        cluster.kill(&pod).await?;
        until(
            format!("{name} has a new pod that serves"),
            MINUTE,
            || async {
                let now = cluster.pods().await?.remove(&name).context("no pod")?;
                let status = cluster.member(&name).await?.status().await?;
                Ok(now.metadata.uid != pod.metadata.uid && status.leader != 0)
            },
        )
        .await?;
        comes_true(&cluster, 3, "3.6.16").await?;
        load.finish().await?.assert_gap(LIMIT)
    })
}

#[test]
fn other_registries_have_the_official_layout_and_tags_of_their_own() -> Played {
    story(|stage| async move {
        let kubernetes = json!({"size": 1, "version": "v3.6.16",
            "repository": "registry.k8s.io/etcd", "image": {"tag": "3.6.16-0"}});
        let google = json!({"size": 1, "version": "v3.6.16",
            "repository": "gcr.io/etcd-development/etcd"});
        let kubernetes = stage.create("kubernetes", kubernetes).await?;
        let google = stage.create("google", google).await?;
        for (cluster, image) in [
            (kubernetes, "registry.k8s.io/etcd:3.6.16-0"),
            (google, "gcr.io/etcd-development/etcd:v3.6.16"),
        ] {
            cluster.ready().await?;
            comes_true(&cluster, 1, "3.6.16").await?;
            runs(&cluster, image).await?;
        }
        Ok(())
    })
}

#[test]
fn an_image_can_be_named_by_its_digest() -> Played {
    story(|stage| async move {
        let tagged = "quay.io/coreos/etcd:v3.6.16";
        // A kubelet reports its images now and then.
        until("a node knows the digest", MINUTE, || async {
            Ok(by_digest(&stage, tagged).await?.is_some())
        })
        .await?;
        let pinned = by_digest(&stage, tagged).await?.context("forgotten")?;
        let (_, digest) = pinned.split_once('@').context("no digest")?;
        let spec = json!({"size": 1, "version": "v3.6.16", "image": {"digest": digest}});
        let cluster = stage.create("c", spec).await?;
        cluster.ready().await?;
        comes_true(&cluster, 1, "3.6.16").await?;
        runs(&cluster, &pinned).await
    })
}

/// The name by its digest under which a node has an image.
async fn by_digest(stage: &Stage, tagged: &str) -> Result<Option<String>> {
    let nodes: Api<Node> = Api::all(stage.client.clone());
    for node in nodes.list(&ListParams::default()).await?.items {
        let images = node.status.and_then(|status| status.images);
        for image in images.into_iter().flatten() {
            let names = image.names.unwrap_or_default();
            let pinned = names
                .iter()
                .find(|name| name.contains("/coreos/etcd@sha256:"));
            if let Some(pinned) = pinned.filter(|_| names.iter().any(|name| name == tagged)) {
                return Ok(Some(pinned.clone()));
            }
        }
    }
    Ok(None)
}

async fn runs(cluster: &Cluster, image: &str) -> Result<()> {
    for (name, pod) in cluster.pods().await? {
        let spec = pod.spec.context("no spec")?;
        let etcd = spec.containers.first().context("no container")?;
        ensure!(
            etcd.image.as_deref() == Some(image),
            "{name} runs {:?}",
            etcd.image
        );
    }
    Ok(())
}

//! A user takes etcd from somewhere else, in another layout.

use anyhow::{Context, Result, ensure};
use e2e::{Cluster, LIMIT, Load, MINUTE, Played, comes_true, story, until};
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
        let (name, pod) = pods.into_iter().next().context("nobody follows")?;
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

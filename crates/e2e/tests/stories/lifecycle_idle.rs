//! Nothing happens, and so nothing is written: counted from the API server's audit log.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::{Audit, MINUTE, Played, Violated, deep, skipped, stays, story, tell, until};
use k8s_openapi::jiff::{SignedDuration, Timestamp};
use serde_json::json;

/// So long after the last write a cluster has settled: longer than from one look at it to the next.
const CALM: SignedDuration = SignedDuration::from_secs(12);

#[test]
fn idle_clusters_are_looked_at_and_not_written_to() -> Played {
    let (clusters, watched) = if deep() {
        (20, MINUTE)
    } else {
        (3, Duration::from_secs(30))
    };
    story(move |stage| async move {
        let Some(audit) = Audit::find() else {
            skipped("this cluster has no audit log beside its kubeconfig");
            return Ok(());
        };
        let begin = Timestamp::now();
        let mut made = Vec::new();
        for number in 1..=clusters {
            let spec = json!({"size": 1, "version": "v3.6.16", "storage": {"size": "1Gi"}});
            made.push(stage.create(&format!("c{number}"), spec).await?);
        }
        for cluster in &made {
            cluster.ready_within(MINUTE * 5).await?;
        }
        let writes = |since: Timestamp| audit.writes(&stage.namespace, since);
        until("nothing is written any more", MINUTE, || async {
            Ok(writes(Timestamp::now().checked_sub(CALM)?)?.is_empty())
        })
        .await?;
        let settled = Timestamp::now();
        let before = writes(begin)?.len();
        // Or this proves nothing.
        ensure!(
            before >= clusters * 5,
            "{before} writes made {clusters} clusters"
        );
        let heard = looks(&made).await?;
        stays("nothing is written", watched, || async {
            match writes(settled)?.first() {
                None => Ok(true),
                Some(write) => Err(Violated(format!("{write:?}")).into()),
            }
        })
        .await?;
        tell(&format!(
            "{clusters} idle clusters in {watched:?}: no write; to make them took {before}"
        ));
        ensure!(heard == looks(&made).await?, "a status has changed unseen");
        Ok(())
    })
}

/// The versions of the objects: what changes them is a write of any account.
async fn looks(clusters: &[e2e::Cluster]) -> Result<Vec<String>> {
    let mut versions = Vec::new();
    for cluster in clusters {
        let version = cluster.get().await?.metadata.resource_version;
        versions.push(version.context("no resourceVersion")?);
    }
    Ok(versions)
}

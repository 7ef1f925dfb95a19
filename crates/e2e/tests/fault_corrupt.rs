//! The data of one member goes bad under it. Only where the volumes lie on this very machine can a test do that.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::{Cluster, MINUTE, Played, Stage, comes_true, database, stays, story, tell, until};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::DeleteParams;
use serde_json::json;

const WORD: &str = "a-word-that-is-found-nowhere-else";

#[test]
fn a_member_whose_data_went_bad_is_found_by_etcd_and_replaced() -> Played {
    story(|stage| async move {
        let cluster = create(&stage).await?;
        let leader = cluster.leader().await?;
        let victim = ["c-0", "c-1", "c-2"].into_iter().find(|m| *m != leader);
        let victim = victim.context("everybody leads")?;
        let Some(database) = database(&cluster, victim).await? else {
            tell("SKIPPED: the volumes are not on this machine");
            return Ok(());
        };
        let old = cluster.member(victim).await?.status().await?.member_id;
        until("the word is in the file", MINUTE, || async {
            overwrite(&database, *b"A")
        })
        .await?;
        compact(&cluster, &leader).await?;
        let took = until(
            format!("{victim} is another member"),
            MINUTE * 3,
            || async {
                let status = cluster.member(victim).await?.status().await?;
                Ok(status.member_id != old && !status.is_learner)
            },
        )
        .await?;
        tell(&format!(
            "{victim} was replaced {:.1} s after its data went bad",
            took.as_secs_f32()
        ));
        comes_true(&cluster, 3, "3.6.16").await?;
        ensure!(cluster.any_member().await?.alarms().await?.is_empty());
        ensure!(cluster.value("key").await?.as_deref() == Some(WORD));
        let why = "differs from that of the majority";
        cluster.has_event("MemberRemoved", why).await
    })
}

#[test]
fn where_no_majority_agrees_nothing_is_touched_until_somebody_decides() -> Played {
    story(|stage| async move {
        let cluster = create(&stage).await?;
        let leader = cluster.leader().await?;
        let all = ["c-0", "c-1", "c-2"];
        let others: Vec<&str> = all.into_iter().filter(|m| *m != leader).collect();
        for (victim, letter) in others.iter().zip([*b"A", *b"B"]) {
            let Some(database) = database(&cluster, victim).await? else {
                tell("SKIPPED: the volumes are not on this machine");
                return Ok(());
            };
            until("the word is in the file", MINUTE, || async {
                overwrite(&database, letter)
            })
            .await?;
        }
        let before = ids(&cluster).await?;
        compact(&cluster, &leader).await?;
        let words = ["no majority agrees", "c-0 has", "c-1 has", "c-2 has"];
        tell(&cluster.complains("Degraded", &words).await?);
        ensure!(cluster.condition("Degraded").await?.reason == "DataDiffers");
        ensure!(cluster.condition("Available").await?.status == "False");
        stays("nobody is touched", Duration::from_secs(10), || async {
            Ok(ids(&cluster).await? == before)
        })
        .await?;
        // As the condition says: the leader is right, and one of the others goes.
        let lost = others.first().context("nobody follows")?;
        let pods = cluster.pods().await?;
        stage
            .api::<PersistentVolumeClaim>()
            .delete(&format!("data-{lost}"), &DeleteParams::default())
            .await?;
        cluster.kill(pods.get(*lost).context("no pod")?).await?;
        let took = until("both are other members", MINUTE * 3, || async {
            let now = ids(&cluster).await?;
            let same = |name: &str| before.get(name) == now.get(name);
            Ok(now.len() == 3 && !others.iter().any(|name| same(name)))
        })
        .await?;
        tell(&format!(
            "decided, and {:.1} s later all was well",
            took.as_secs_f32()
        ));
        comes_true(&cluster, 3, "3.6.16").await?;
        ensure!(cluster.any_member().await?.alarms().await?.is_empty());
        ensure!(cluster.value("key").await?.as_deref() == Some(WORD));
        Ok(())
    })
}

async fn create(stage: &Stage) -> Result<Cluster> {
    let spec = json!({"size": 3, "version": "v3.6.16", "storage": {"size": "1Gi"}});
    let cluster = stage.create("c", spec).await?;
    cluster.ready_within(MINUTE * 2).await?;
    cluster.put("key", WORD).await?;
    Ok(cluster)
}

async fn ids(cluster: &Cluster) -> Result<BTreeMap<String, u64>> {
    let mut ids = BTreeMap::new();
    for (name, member) in cluster.members().await? {
        ids.insert(name, member.status().await?.member_id);
    }
    Ok(ids)
}

/// etcd compares what members have after a compaction, once a minute.
async fn compact(cluster: &Cluster, leader: &str) -> Result<()> {
    let member = cluster.member(leader).await?.with_deadline(MINUTE);
    let revision = member.status().await?.revision;
    member.compact(revision, true).await?;
    Ok(())
}

/// Changes a letter of every copy of the word, in place: etcd reads its file through the same memory.
fn overwrite(path: &Path, letter: [u8; 1]) -> Result<bool> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    let found: Vec<usize> = bytes
        .windows(WORD.len())
        .enumerate()
        .filter(|(_, window)| *window == WORD.as_bytes())
        .map(|(at, _)| at)
        .collect();
    let mut file = OpenOptions::new().write(true).open(path)?;
    for at in &found {
        file.seek(SeekFrom::Start(u64::try_from(*at)?))?;
        file.write_all(&letter)?;
    }
    Ok(!found.is_empty())
}

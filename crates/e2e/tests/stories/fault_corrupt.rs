//! The data of one member goes bad under it. Only where the volumes lie on this very machine can a test do that.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::{
    Cluster, MINUTE, Played, Stage, comes_true, database, settled, skipped, story, tell, until,
};
use etcd::Consistency;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::api::DeleteParams;
use serde_json::json;

const WORD: &str = "a-word-that-is-found-nowhere-else";
/// Once this is in the file, nothing is written to it any more that could bring a word back.
const LAST: &str = "and-another-one-that-is-found-only-there";

#[test]
fn a_member_whose_data_went_bad_is_found_by_etcd_and_replaced() -> Played {
    story(|stage| async move {
        let cluster = create(&stage).await?;
        let leader = cluster.leader().await?;
        let victim = ["c-0", "c-1", "c-2"].into_iter().find(|m| *m != leader);
        let victim = victim.context("no member follows")?;
        let Some(database) = database(&cluster, victim).await? else {
            skipped("the volumes are not on this machine");
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
        let why = "differs from the majority";
        cluster.has_event("MemberRemoved", why).await
    })
}

#[test]
fn where_no_majority_agrees_nothing_is_touched_until_a_user_decides() -> Played {
    story(|stage| async move {
        let cluster = create(&stage).await?;
        let leader = cluster.leader().await?;
        let all = ["c-0", "c-1", "c-2"];
        let others: Vec<&str> = all.into_iter().filter(|m| *m != leader).collect();
        for (victim, letter) in others.iter().zip([*b"A", *b"B"]) {
            let Some(database) = database(&cluster, victim).await? else {
                skipped("the volumes are not on this machine");
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
        let told = cluster.complains_within(MINUTE * 3, "Degraded", &words);
        tell(&told.await?);
        until("no client is served", MINUTE * 3, || async {
            let reason = cluster.condition("Degraded").await?.reason;
            let available = cluster.condition("Available").await?.status;
            Ok(reason == "DataInconsistent" && available == "False")
        })
        .await?;
        settled(
            &stage,
            "no member is touched",
            Duration::from_secs(10),
            || async { Ok(ids(&cluster).await? == before) },
        )
        .await?;
        decide(&cluster, &before, (&leader, others.first().copied())).await?;
        let took = until("both are other members", MINUTE * 3, || async {
            let now = ids(&cluster).await?;
            let same = |name: &str| before.get(name) == now.get(name);
            let any = cluster.any_member().await?;
            let listed = any.member_list(Consistency::Linearizable).await?.members;
            let grown = listed.len() == 3 && listed.iter().all(|member| !member.is_learner);
            Ok(now.len() == 3 && grown && !others.iter().any(|name| same(name)))
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

/// As the condition says: a member that is right leads, and one of the others loses its data.
async fn decide(
    cluster: &Cluster,
    ids: &BTreeMap<String, u64>,
    (right, wrong): (&str, Option<&str>),
) -> Result<()> {
    until(format!("{right} leads"), MINUTE, || async {
        let now = cluster.leader().await?;
        if now == right {
            return Ok(true);
        }
        let id = ids.get(right).context("no such member")?;
        cluster.member(&now).await?.move_leader(*id).await?;
        Ok(false)
    })
    .await?;
    let wrong = wrong.context("no member follows")?;
    let pods = cluster.pods().await?;
    let claims = cluster.stage.api::<PersistentVolumeClaim>();
    let claim = format!("data-{wrong}");
    claims.delete(&claim, &DeleteParams::default()).await?;
    cluster.kill(pods.get(wrong).context("no pod")?).await
}

async fn create(stage: &Stage) -> Result<Cluster> {
    let spec = json!({"size": 3, "version": "v3.6.16", "storage": {"size": "1Gi"}});
    let cluster = stage.create("c", spec).await?;
    cluster.ready_within(MINUTE * 2).await?;
    // Each member writes its storage version by itself, up to seconds later, and with it the pages around: what was altered
    // before would be written over with what the process still knew.
    until("every storage version is written", MINUTE, || async {
        for (name, member) in cluster.members().await? {
            let version = member.status().await?.storage_version;
            let written = version.as_deref() == Some("3.6.0");
            ensure!(written, "{name} has {version:?}");
        }
        Ok(true)
    })
    .await?;
    cluster.put("key", WORD).await?;
    cluster.put("another", LAST).await?;
    Ok(cluster)
}

async fn ids(cluster: &Cluster) -> Result<BTreeMap<String, u64>> {
    let mut ids = BTreeMap::new();
    for (name, member) in cluster.members().await? {
        ids.insert(name, member.status().await?.member_id);
    }
    Ok(ids)
}

/// etcd compares what members have after a compaction, once a minute. Not up to the newest revision: of that one etcd keeps
/// the hash that it made before it forgot anything, and who joins later has another.
async fn compact(cluster: &Cluster, leader: &str) -> Result<()> {
    let member = cluster.member(leader).await?.with_deadline(MINUTE);
    let revision = member.status().await?.revision;
    member.compact(revision - 1, true).await?;
    Ok(())
}

/// Changes a letter of every copy of the word, in place: etcd reads its file through the same memory.
fn overwrite(path: &Path, letter: [u8; 1]) -> Result<bool> {
    let mut bytes = Vec::new();
    File::open(path)?.read_to_end(&mut bytes)?;
    let is_last = |window: &[u8]| window == LAST.as_bytes();
    if !bytes.windows(LAST.len()).any(is_last) {
        return Ok(false);
    }
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

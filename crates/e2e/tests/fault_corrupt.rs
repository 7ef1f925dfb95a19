//! The data of one member goes bad under it. Only where the volumes lie on this very machine can a test do that.

use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use anyhow::{Context, Result, ensure};
use e2e::{MINUTE, Played, comes_true, database, story, tell, until};
use serde_json::json;

const WORD: &str = "a-word-that-is-found-nowhere-else";

#[test]
fn a_member_whose_data_went_bad_is_found_by_etcd_and_replaced() -> Played {
    story(|stage| async move {
        let spec = json!({"size": 3, "version": "v3.6.16", "storage": {"size": "1Gi"}});
        let cluster = stage.create("c", spec).await?;
        cluster.ready_within(MINUTE * 2).await?;
        cluster.put("key", WORD).await?;
        let leader = cluster.leader().await?;
        let victim = ["c-0", "c-1", "c-2"].into_iter().find(|m| *m != leader);
        let victim = victim.context("everybody leads")?;
        let Some(database) = database(&cluster, victim).await? else {
            tell("SKIPPED: the volumes are not on this machine");
            return Ok(());
        };
        let old = cluster.member(victim).await?.status().await?.member_id;
        until("the word is in the file", MINUTE, || async {
            flip(&database)
        })
        .await?;
        // etcd compares what members have after a compaction, once a minute.
        let member = cluster.member(&leader).await?.with_deadline(MINUTE);
        let revision = member.status().await?.revision;
        member.compact(revision, true).await?;
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
        let events = stage.events_of("EtcdCluster", "c").await?;
        let removed = |(reason, text): &(String, String)| {
            reason == "MemberRemoved" && text.contains("differs from that of the majority")
        };
        ensure!(events.iter().any(removed), "no event tells why: {events:?}");
        Ok(())
    })
}

/// Flips a bit of every copy of the word, in place: etcd reads its file through the same memory.
fn flip(path: &Path) -> Result<bool> {
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
        file.write_all(b"A")?;
    }
    Ok(!found.is_empty())
}

//! A database runs full, while a client writes.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use e2e::{Cluster, Load, MINUTE, Played, Stage, comes_true, stays, story, tell, until};
use etcd::{Cause, Consistency, Member};
use serde_json::{Value, json};
use tokio::task::JoinSet;

const PAUSED: &str = "etcd.etcd.io/paused";
/// Keys that are written over and over.
const KEYS: usize = 32;

#[test]
fn a_database_full_of_history_takes_writes_again_by_itself() -> Played {
    story(|stage| async move { comes_back(&stage, (3, "v3.6.16"), ("16Mi", 8 << 10)).await })
}

#[test]
fn a_single_member_of_3_5_full_of_history_takes_writes_again_by_itself() -> Played {
    story(|stage| async move { comes_back(&stage, (1, "v3.5.35"), ("16Mi", 8 << 10)).await })
}

#[test]
fn a_hundred_megabytes_of_history_are_made_room_of_in_seconds() -> Played {
    story(|stage| async move { comes_back(&stage, (3, "v3.7.3"), ("100Mi", 64 << 10)).await })
}

async fn comes_back(
    stage: &Stage,
    (size, version): (u32, &str),
    (quota, value): (&str, usize),
) -> Result<()> {
    let cluster = create(stage, (size, version), quota).await?;
    let load = Load::start(&cluster).await?;
    // Paused, or the operator would make room before etcd complains.
    cluster.annotate(PAUSED, Some("true")).await?;
    let written = fill(&cluster, value, KEYS).await?;
    let alarms = cluster.any_member().await?.alarms().await?;
    ensure!(!alarms.is_empty(), "no alarm stands");
    let begin = Instant::now();
    cluster.annotate(PAUSED, None).await?;
    until("writes are taken again", MINUTE * 2, || async {
        Ok(cluster.put("again", "yes").await.is_ok())
    })
    .await?;
    let took = begin.elapsed().as_secs_f32();
    cluster.ready_within(MINUTE).await?;
    load.finish().await?;
    let member = cluster.any_member().await?;
    ensure!(member.alarms().await?.is_empty(), "an alarm stands");
    for (key, value) in written.iter().enumerate() {
        let read = member.get(&name(key), Consistency::Linearizable).await?;
        let read = read.with_context(|| format!("key {key} is lost"))?.value;
        // A write that was refused may have been the one that filled the quota, and that one is kept.
        let (read, value) = (round(&read), round(value));
        ensure!(read >= value, "key {key} has {read:?}, not {value:?}");
    }
    for (name, member) in cluster.members().await? {
        let status = member.status().await?;
        tell(&format!("{name} has {} KiB", status.db_size >> 10));
    }
    tell(&format!("writes were taken again after {took:.1} s"));
    for wanted in ["HistoryCompacted", "MemberDefragmented", "AlarmDisarmed"] {
        cluster.has_event(wanted, "").await?;
    }
    let version = version.trim_start_matches('v');
    comes_true(&cluster, size, version).await.map(drop)
}

#[test]
fn a_database_full_of_keys_says_so_and_a_larger_quota_is_all_it_needs() -> Played {
    story(|stage| async move {
        let cluster = create(&stage, (3, "v3.6.16"), "16Mi").await?;
        // Every key is another one: there is nothing to forget.
        fill(&cluster, 256 << 10, 1000).await?;
        let words = ["accepts no writes", "quotaBackendBytes", "16.0 MiB"];
        let told = cluster.complains("Degraded", &words).await?;
        tell(&told);
        let condition = cluster.condition("Degraded").await?;
        ensure!(condition.reason == "NoSpace", "{condition:?}");
        let patch = r#"{"spec":{"etcd":{"quotaBackendBytes":"128Mi"}}}"#;
        stage.commands.patch("c", patch).await?.accepted()?;
        until("writes are taken again", MINUTE * 2, || async {
            Ok(cluster.put("again", "yes").await.is_ok())
        })
        .await?;
        comes_true(&cluster, 3, "3.6.16").await.map(drop)
    })
}

#[test]
fn a_file_that_is_mostly_empty_is_written_anew_in_the_window_only() -> Played {
    story(|stage| async move {
        // The fewest members: how several take turns is told in the stories above.
        let spec = json!({"size": 1, "version": "v3.6.16", "storage": {"size": "1Gi"},
            "maintenance": {"window": window(2)}});
        let cluster = stage.create("c", spec).await?;
        cluster.ready_within(MINUTE * 2).await?;
        let member = cluster.any_member().await?.with_deadline(MINUTE);
        let value = vec![b'.'; 1 << 20];
        let mut revision = 0;
        for _ in 0..110 {
            revision = member.put(b"key", &value).await?;
        }
        member.compact(revision, true).await?;
        until("etcd tells what is free", MINUTE, || async {
            cluster.put("another", "write").await?;
            Ok(member.status().await?.db_size_in_use < 50 << 20)
        })
        .await?;
        let full = member.status().await?.db_size;
        let closed = || async { Ok(member.status().await?.db_size >= full) };
        stays("the window is closed", Duration::from_secs(15), closed).await?;
        let patch = json!({"spec": {"maintenance": {"window": window(0)}}});
        let patched = stage.commands.patch("c", &patch.to_string()).await?;
        patched.accepted()?;
        let took = until("the file is rewritten", MINUTE, || async {
            Ok(member.status().await?.db_size < full / 2)
        })
        .await?;
        tell(&format!(
            "{:.1} s after the window was opened",
            took.as_secs_f32()
        ));
        cluster.has_event("MemberDefragmented", "c-0").await?;
        comes_true(&cluster, 1, "3.6.16").await.map(drop)
    })
}

/// Two hours a day, of which the first begins so many full hours from now.
fn window(from_now: u64) -> Value {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let hour = now.unwrap_or_default().as_secs() / 3600 + from_now;
    json!({"start": format!("{:02}:00", hour % 24), "hours": 2})
}

async fn create(stage: &Stage, (size, version): (u32, &str), quota: &str) -> Result<Cluster> {
    let spec = json!({"size": size, "version": version, "storage": {"size": "1Gi"},
        "etcd": {"quotaBackendBytes": quota}});
    let cluster = stage.create("c", spec).await?;
    cluster.ready_within(MINUTE * 2).await?;
    Ok(cluster)
}

fn name(key: usize) -> Vec<u8> {
    format!("fill/{key}").into_bytes()
}

/// The round in which a value was written.
fn round(value: &[u8]) -> Option<u32> {
    let text = String::from_utf8_lossy(value);
    text.split_once('/')?.0.parse().ok()
}

/// Writes until etcd refuses; what was acknowledged last of each key.
async fn fill(cluster: &Cluster, size: usize, keys: usize) -> Result<Vec<Vec<u8>>> {
    let leader = cluster.leader().await?;
    let member = cluster.member(&leader).await?.with_deadline(MINUTE);
    let mut last = vec![Vec::new(); keys];
    for round in 0..1000_u32 {
        for first in (0..keys).step_by(KEYS) {
            let some = first..keys.min(first + KEYS);
            let mut writes: JoinSet<_> = some
                .map(|key| write(member.clone(), key, round, size))
                .collect();
            let mut full = false;
            while let Some(done) = writes.join_next().await {
                let (key, value) = done??;
                match (value, last.get_mut(key)) {
                    (Some(value), Some(last)) => *last = value,
                    _refused => full = true,
                }
            }
            if full {
                last.retain(|value| !value.is_empty());
                return Ok(last);
            }
        }
    }
    bail!("the quota was never reached")
}

/// One write; no value where etcd has no space for it.
async fn write(
    member: Member,
    key: usize,
    round: u32,
    size: usize,
) -> Result<(usize, Option<Vec<u8>>)> {
    let mut value = format!("{round}/{key}/").into_bytes();
    value.resize(size, b'.');
    let full = AtomicBool::new(false);
    // So much at once may cost an election.
    until("etcd takes it, or is full", MINUTE, || async {
        match member.put(&name(key), &value).await {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.cause, Cause::NoSpace) => {
                full.store(true, Ordering::Relaxed);
                Ok(true)
            }
            Err(error) => Err(error.into()),
        }
    })
    .await?;
    Ok((key, (!full.into_inner()).then_some(value)))
}

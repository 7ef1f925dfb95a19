//! Keepers that are killed, or two at once, with a real store: whatever is listed afterwards is whole, and the next attempt
//! succeeds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use archive::work::{Answer, Keep, Task};
use tokio::sync::Barrier;

use crate::kit::{Bench, on_one_version, skipped};
use crate::round::{made, read};
use crate::s3::{credentials, serve, store};
use crate::wire::{Verdict, Wire};

/// What a keeper says that is not killed.
async fn spawned(bench: &Bench, wire: &Wire, task: Task) -> Option<Answer> {
    let mut command = bench.command(store(wire.port, "bucket"), task);
    let keeper = command.spawn().unwrap();
    *wire.keeper.lock().unwrap() = Some(keeper.id());
    let output = tokio::task::spawn_blocking(move || keeper.wait_with_output()).await;
    let output = output.unwrap().unwrap();
    output.status.code()?;
    Some(serde_json::from_slice(&output.stdout).unwrap())
}

/// The IDs in the store, by its own listing, each once for each manifest.
fn ids(answer: Answer) -> Vec<String> {
    let newest = made(answer).newest;
    newest.into_iter().map(|base| base.id).collect()
}

#[test]
fn a_keeper_may_be_killed_before_and_after_every_write() {
    let Some(server) = std::env::var_os("S3_SERVER") else {
        return skipped("S3_SERVER is not set");
    };
    on_one_version(async |tools| {
        let objects = tempfile::tempdir().unwrap();
        let (port, _server) = serve(&server, objects.path(), &[]).await;
        let bench = Bench::new(tools).await;
        bench.fill(20).await;
        credentials(&bench);
        // The number of the write that is the last one, counted down; and on which side of it.
        let left = Arc::new(AtomicU32::new(u32::MAX));
        let after = Arc::new(AtomicBool::new(false));
        let (counted, side) = (Arc::clone(&left), Arc::clone(&after));
        let wire = Wire::before(port, move |asked| {
            if !asked.writes() || counted.fetch_sub(1, Ordering::Relaxed) != 1 {
                return Verdict::Pass;
            }
            if side.load(Ordering::Relaxed) {
                Verdict::KillAfter
            } else {
                Verdict::KillBefore
            }
        })
        .await;
        let direct = async |task| bench.run_with(store(port, "bucket"), task).await;
        let mut killed = Vec::new();
        for number in 1..20 {
            let mut survived = 0;
            for is_after in [false, true] {
                left.store(number, Ordering::Relaxed);
                after.store(is_after, Ordering::Relaxed);
                bench.member.put(b"k", b"v").await.unwrap();
                let mut task = bench.snapshot(&format!("k-{number}-{is_after}"));
                // Another one goes whenever one is made, so that deletes are among the writes.
                task.keep = Some(Keep {
                    newest: Some(2),
                    ..Keep::default()
                });
                let ended = spawned(&bench, &wire, Task::Snapshot(task.clone())).await;
                survived += u32::from(ended.is_some());
                if ended.is_none() {
                    killed.push((number, is_after));
                }
                // The newest that is listed is whole, whatever happened.
                if number > 1 || is_after {
                    let newest = direct(read(&bench, None)).await;
                    assert!(matches!(newest, Answer::Done(_)), "{number}: {newest:?}");
                }
                left.store(u32::MAX, Ordering::Relaxed);
                task.attempt = 1;
                let id = task.id.clone();
                let listed = ids(direct(Task::Snapshot(task)).await);
                let times = listed.iter().filter(|listed| **listed == id).count();
                assert_eq!(times, 1, "{number}, {is_after}: {listed:?}");
                let whole = direct(read(&bench, Some(&id))).await;
                assert!(matches!(whole, Answer::Done(_)), "{number}: {whole:?}");
            }
            if survived == 2 {
                // The timeline, an upload of three requests, the manifest, and two deletes.
                assert!(killed.contains(&(6, true)), "{killed:?}");
                return;
            }
        }
        panic!("it never ended: {killed:?}");
    });
}

#[test]
fn two_keepers_at_once_do_each_other_no_harm() {
    let Some(server) = std::env::var_os("S3_SERVER") else {
        return skipped("S3_SERVER is not set");
    };
    on_one_version(async |tools| {
        let objects = tempfile::tempdir().unwrap();
        let (port, _server) = serve(&server, objects.path(), &[]).await;
        let bench = Bench::new(tools).await;
        bench.fill(20).await;
        credentials(&bench);
        let direct = async |task| bench.run_with(store(port, "bucket"), task).await;
        // Both are at the same request at the same moment: when the parts are joined, and when the manifest is written.
        for (meet, second) in [
            ("uploadId=", 0),
            ("uploadId=", 1),
            (".json", 0),
            (".json", 1),
        ] {
            let barrier = Arc::new(Barrier::new(2));
            let wire = Wire::before(port, move |asked| {
                let is_it = match meet {
                    ".json" => asked.method == "PUT" && asked.target.contains("/base/"),
                    _join => asked.method == "POST",
                };
                if is_it && asked.target.contains(meet) {
                    Verdict::Meet(Arc::clone(&barrier))
                } else {
                    Verdict::Pass
                }
            })
            .await;
            let number = u32::from(meet == ".json") * 2 + second;
            let one = bench.snapshot(&format!("two-{number}"));
            let mut other = one.clone();
            other.attempt = second;
            let (one, other) =
                tokio::join!(spawned(&bench, &wire, Task::Snapshot(one.clone())), async {
                    // What the other copies is not the same.
                    bench.member.put(b"k", b"v").await.unwrap();
                    spawned(&bench, &wire, Task::Snapshot(other)).await
                });
            for answer in [one, other] {
                let made = made(answer.unwrap());
                let whole = direct(read(&bench, Some(&made.base.id))).await;
                assert!(matches!(whole, Answer::Done(_)), "{meet}: {whole:?}");
            }
            // All that is listed is whole.
            for id in ids(direct(Task::Snapshot(bench.snapshot(&format!("after-{number}")))).await)
            {
                let whole = direct(read(&bench, Some(&id))).await;
                assert!(matches!(whole, Answer::Done(_)), "{meet}, {id}: {whole:?}");
            }
        }
    });
}

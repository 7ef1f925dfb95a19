//! Keepers that are killed, or two at once, with a real store: whatever is listed afterwards is whole, and the next attempt
//! succeeds.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use archive::work::{Answer, Keep, Task};
use tokio::sync::Barrier;

use crate::kit::{Bench, on_one_version, skipped};
use crate::round::{made, read};
use crate::s3::{credentials, serve, store};
use crate::wire::{Asked, Verdict, Wire};

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

/// Kills a keeper at a write, counted from 1, on one side of it.
#[derive(Clone, Default)]
struct Killer {
    left: Arc<AtomicU32>,
    after: Arc<AtomicBool>,
}

impl Killer {
    fn judge(&self, asked: &Asked) -> Verdict {
        if !asked.writes() || self.left.fetch_sub(1, Ordering::Relaxed) != 1 {
            return Verdict::Pass;
        }
        if self.after.load(Ordering::Relaxed) {
            Verdict::KillAfter
        } else {
            Verdict::KillBefore
        }
    }

    fn aim(&self, number: u32, is_after: bool) {
        self.left.store(number, Ordering::Relaxed);
        self.after.store(is_after, Ordering::Relaxed);
    }
}

async fn is_whole(bench: &Bench, port: u16, id: Option<&str>) {
    let answer = bench.run_with(store(port, "bucket"), read(bench, id)).await;
    assert!(matches!(answer, Answer::Done(_)), "{id:?}: {answer:?}");
}

/// A backup whose keeper is killed at this write, and the next attempt; whether it was killed.
async fn was_killed(
    bench: &Bench,
    wire: &Wire,
    port: u16,
    (number, is_after): (u32, bool),
) -> bool {
    bench.member.put(b"k", b"v").await.unwrap();
    let mut task = bench.snapshot(&format!("k-{number}-{is_after}"));
    // Another one goes whenever one is made, so that deletes are among the writes.
    task.keep = Some(Keep {
        newest: Some(2),
        ..Keep::default()
    });
    let ended = spawned(bench, wire, Task::Snapshot(task.clone())).await;
    // The newest that is listed is whole, whatever happened.
    if number > 1 || is_after {
        is_whole(bench, port, None).await;
    }
    task.attempt = 1;
    let id = task.id.clone();
    let again = bench.run_with(store(port, "bucket"), Task::Snapshot(task));
    let listed = ids(again.await);
    let times = listed.iter().filter(|listed| **listed == id).count();
    assert_eq!(times, 1, "{number}, {is_after}: {listed:?}");
    is_whole(bench, port, Some(&id)).await;
    ended.is_none()
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
        let killer = Killer::default();
        let own = killer.clone();
        let wire = Wire::before(port, move |asked| own.judge(asked)).await;
        let mut number = 0;
        loop {
            number += 1;
            let mut was = [false; 2];
            for (is_after, killed) in [false, true].into_iter().zip(&mut was) {
                killer.aim(number, is_after);
                *killed = was_killed(&bench, &wire, port, (number, is_after)).await;
            }
            if was == [false; 2] {
                break;
            }
            assert!(number < 20, "it never ended");
        }
        // An upload of three requests, the manifest, and two deletes.
        assert!(number > 6, "{number}");
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
                is_whole(&bench, port, Some(&made.base.id)).await;
            }
            // All that is listed is whole.
            let after = bench.snapshot(&format!("after-{number}"));
            let after = bench.run_with(store(port, "bucket"), Task::Snapshot(after));
            for id in ids(after.await) {
                is_whole(&bench, port, Some(&id)).await;
            }
        }
    });
}

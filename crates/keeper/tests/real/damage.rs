//! What is damaged, on the way to the store or in it, is named and never used.

use std::path::PathBuf;
use std::process::Command;

use archive::work::{Answer, Cause, Task};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};

use crate::kit::{Bench, eventually, local, on_every_version, on_one_version};
use crate::round::{fetch, made, read, verify};

pub(crate) fn failed(answer: Answer) -> (Cause, String) {
    match answer {
        Answer::Failed { cause, message } => (cause, message),
        done @ Answer::Done(_) => panic!("{done:?}"),
    }
}

fn flip(path: &PathBuf, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_flipped_bit_in_the_data_is_named_and_the_base_never_used() {
    on_every_version(async |tools| {
        let bench = Bench::new(tools).await;
        bench.fill(100).await;
        for compress in [true, false] {
            let id = if compress { "a" } else { "b" };
            let mut task = bench.snapshot(id);
            task.compress = compress;
            let made = made(bench.run(Task::Snapshot(task)).await);
            let path = bench.data(id);
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(name.ends_with(if compress { ".db.zst" } else { ".db" }));
            // A page of free bytes, which no checksum of zstd or of etcd would be needed for, is in neither place.
            flip(&path, usize::try_from(made.base.stored_bytes).unwrap() / 2);
            let tasks = [
                fetch(&bench, Some(id)),
                read(&bench, Some(id)),
                verify(&bench, Some(id)),
            ];
            for task in tasks {
                let (cause, message) = failed(bench.run(task).await);
                assert_eq!(cause, Cause::Damaged);
                assert!(message.contains(&format!("{name} is damaged")), "{message}");
            }
            // What a verification found is recorded beside it.
            let records = bench.names("damaged");
            let mut records = records.iter();
            assert!(records.any(|record| record.starts_with(&format!("{id}-"))));
            let into = bench.directory.path().join("into");
            assert_eq!(std::fs::read_dir(into).unwrap().count(), 0);
            assert!(bench.names("verified").is_empty());
        }
    });
}

#[test]
fn a_flipped_bit_in_a_manifest_is_named_and_no_older_base_taken_instead() {
    on_one_version(async |tools| {
        let bench = Bench::new(tools).await;
        made(bench.run(Task::Snapshot(bench.snapshot("old"))).await);
        bench.fill(10).await;
        made(bench.run(Task::Snapshot(bench.snapshot("new"))).await);
        let name = bench
            .names("base")
            .into_iter()
            .find(|name| name.ends_with("-new.json"));
        let name = name.unwrap();
        let path = bench.timeline().join("base").join(&name);
        let text = std::fs::read_to_string(&path).unwrap();
        flip(&path, text.find("\"revision\":11").unwrap() + 12);
        for id in [None, Some("new")] {
            let (cause, message) = failed(bench.run(fetch(&bench, id)).await);
            assert_eq!(cause, Cause::Damaged);
            assert!(
                message.contains(&name) && message.contains("checksum"),
                "{message}"
            );
        }
        // And where the data is gone.
        std::fs::remove_file(bench.data("old")).unwrap();
        let (cause, message) = failed(bench.run(fetch(&bench, Some("old"))).await);
        assert!(
            cause == Cause::Damaged && message.contains("is missing"),
            "{message}"
        );
    });
}

/// Passes so many bytes of a member's answers on, then does what is asked.
async fn cut(to: u16, after: u64, and_then_hang: bool) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((inner, _)) = listener.accept().await {
            let outer = TcpStream::connect(("127.0.0.1", to)).await.unwrap();
            let (mut from_keeper, mut to_keeper) = inner.into_split();
            let (from_etcd, mut to_etcd) = outer.into_split();
            tokio::spawn(async move { tokio::io::copy(&mut from_keeper, &mut to_etcd).await });
            let mut limited = from_etcd.take(after);
            tokio::io::copy(&mut limited, &mut to_keeper).await.unwrap();
            if and_then_hang {
                std::future::pending::<()>().await;
            }
            to_keeper.shutdown().await.unwrap();
        }
    });
    port
}

#[test]
fn a_stream_that_breaks_off_leaves_nothing_in_the_store() {
    on_every_version(async |tools| {
        let bench = Bench::new(tools).await;
        bench.fill(200).await;
        let mut task = bench.snapshot("a");
        task.member.address = format!("127.0.0.1:{}", cut(bench.seat.client, 300_000, false).await);
        let (cause, message) = failed(bench.run(Task::Snapshot(task)).await);
        assert_eq!(cause, Cause::Member, "{message}");
        assert!(bench.names("base").is_empty(), "{:?}", bench.names("base"));
        // The next attempt of the same ID succeeds.
        made(bench.run(Task::Snapshot(bench.snapshot("a"))).await);
    });
}

#[test]
fn a_keeper_that_is_asked_to_end_says_so_and_leaves_nothing_in_the_store() {
    on_one_version(async |tools| {
        let bench = Bench::new(tools).await;
        bench.fill(200).await;
        let mut task = bench.snapshot("a");
        task.member.address = format!("127.0.0.1:{}", cut(bench.seat.client, 300_000, true).await);
        let keeper = bench
            .command(local(), Task::Snapshot(task))
            .spawn()
            .unwrap();
        eventually(async || (!bench.names("base").is_empty()).then_some(())).await;
        let id = keeper.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", "TERM", &id])
                .status()
                .unwrap()
                .success()
        );
        let output = tokio::task::spawn_blocking(move || keeper.wait_with_output()).await;
        assert_eq!(output.unwrap().unwrap().status.code(), Some(1));
        let text = std::fs::read_to_string(bench.directory.path().join("log")).unwrap();
        let (_, message) = failed(serde_json::from_str(&text).unwrap());
        assert!(message.contains("SIGTERM"), "{message}");
        assert!(bench.names("base").is_empty(), "{:?}", bench.names("base"));
    });
}

#[test]
fn another_member_than_the_one_that_was_asked_for_is_not_copied() {
    on_one_version(async |tools| {
        let bench = Bench::new(tools).await;
        let mut task = bench.snapshot("a");
        task.member.id = "77".to_owned();
        let (cause, message) = failed(bench.run(Task::Snapshot(task)).await);
        assert!(
            cause == Cause::Member && message.contains("and not 77"),
            "{message}"
        );
        let mut task = bench.snapshot("a");
        task.place.cluster_id = "77".to_owned();
        let (cause, message) = failed(bench.run(Task::Snapshot(task)).await);
        assert!(
            cause == Cause::Member && message.contains("cluster ID"),
            "{message}"
        );
        let mut task = bench.snapshot("../a");
        task.recipients.clear();
        let (cause, _) = failed(bench.run(Task::Snapshot(task)).await);
        assert_eq!(cause, Cause::Request);
        assert!(bench.names("").is_empty());
    });
}

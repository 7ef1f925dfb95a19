//! There and back: by hand with standard tools, by a fetch, and by a verification.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use archive::work::{Answer, Cause, Depth, Done, Fetch, Made, Task, Verified, Verify};

use crate::damage::failed;
use crate::kit::{Bench, Seat, eventually, on_every_version, on_one_version, serving};

pub(crate) fn made(answer: Answer) -> Made {
    match answer {
        Answer::Done(Done::Snapshot(made)) => made,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn verified(answer: Answer) -> Verified {
    match answer {
        Answer::Done(Done::Verify(verified)) => verified,
        other => panic!("{other:?}"),
    }
}

pub(crate) fn verify(bench: &Bench, id: Option<&str>) -> Task {
    Task::Verify(Verify {
        place: bench.place(),
        id: id.map(str::to_owned),
        run: None,
    })
}

pub(crate) fn fetch(bench: &Bench, id: Option<&str>) -> Task {
    let into = bench.directory.path().join("into");
    Task::Fetch(Fetch {
        place: bench.place(),
        id: id.map(str::to_owned),
        revision: None,
        into: Some(into.to_str().unwrap().to_owned()),
    })
}

/// The same, but nothing is written.
pub(crate) fn read(bench: &Bench, id: Option<&str>) -> Task {
    let Task::Fetch(task) = fetch(bench, id) else {
        panic!("not a fetch");
    };
    Task::Fetch(Fetch { into: None, ..task })
}

/// Restores a file with etcdutl and starts etcd on it; revision, keys and hash up to a revision.
pub(crate) async fn restored(tools: &Path, file: &Path, revision: i64) -> (i64, u64, u32) {
    let seat = Seat::new("r-0");
    let done = Command::new(tools.join("etcdutl"))
        .args(["snapshot", "restore"])
        .arg(file)
        .arg("--data-dir")
        .arg(seat.directory.path().join("data"))
        .args(["--name", "r-0", "--initial-advertise-peer-urls", &seat.peer])
        .args(["--initial-cluster", &format!("r-0={}", seat.peer)])
        .output();
    let done = done.unwrap();
    assert!(
        done.status.success(),
        "{}",
        String::from_utf8_lossy(&done.stderr)
    );
    let _process = seat.start(tools, &[&seat], "existing");
    let member = seat.member();
    let status = serving(&member).await;
    let hash = member.hash_kv(revision).await.unwrap();
    (
        status.revision,
        member.count_keys().await.unwrap(),
        hash.hash,
    )
}

#[test]
fn standard_tools_bring_a_base_back_with_all_its_data() {
    on_every_version(async |tools| {
        let bench = Bench::new(tools).await;
        bench.fill(300).await;
        bench.member.compact(150, true).await.unwrap();
        let made = made(bench.run(Task::Snapshot(bench.snapshot("a"))).await);
        assert_eq!((made.base.revision, made.base.compact_revision), (301, 150));
        assert_eq!(made.newest.len(), 1);

        let data = bench.data("a");
        assert_eq!(made.base.url, format!("file://{}", data.display()));
        let stored = std::fs::read(&data).unwrap();
        assert_eq!(made.base.stored_bytes, u64::try_from(stored.len()).unwrap());
        let raw = zstd::decode_all(stored.as_slice()).unwrap();
        let file = bench.directory.path().join("by-hand.db");
        std::fs::write(&file, raw).unwrap();
        let hash = bench.member.hash_kv(301).await.unwrap().hash;
        assert_eq!(restored(&bench.tools, &file, 301).await, (301, 300, hash));
    });
}

#[test]
fn the_revision_is_exact_while_others_write() {
    on_every_version(async |tools| {
        let bench = Bench::new(tools).await;
        bench.fill(400).await;
        let stop = Arc::new(AtomicBool::new(false));
        let (member, stopped) = (bench.member.clone(), Arc::clone(&stop));
        let writer = tokio::spawn(async move {
            let mut number = 0_u32;
            while !stopped.load(Ordering::Relaxed) {
                let key = format!("/w/{}", number % 100);
                member.put(key.as_bytes(), &[7; 3000]).await.unwrap();
                number += 1;
            }
            number
        });
        for id in ["a", "b", "c"] {
            let made = made(bench.run(Task::Snapshot(bench.snapshot(id))).await);
            assert!(made.base.revision > 401, "{made:?}");
            // A real etcd on it is at this revision, or the verification fails.
            let verified = verified(bench.run(verify(&bench, Some(id))).await);
            assert_eq!(verified.revision, made.base.revision);
            assert_eq!(verified.depth, Depth::Restored);
        }
        stop.store(true, Ordering::Relaxed);
        assert!(writer.await.unwrap() > 10);
        assert_eq!(bench.names("verified").len(), 3);
        assert_eq!(
            std::fs::read_dir(bench.directory.path().join("scratch"))
                .unwrap()
                .count(),
            0
        );
    });
}

#[test]
fn a_new_database_without_any_key_can_be_restored() {
    on_every_version(async |tools| {
        let bench = Bench::new(tools).await;
        let empty = made(bench.run(Task::Snapshot(bench.snapshot("a"))).await);
        assert_eq!((empty.base.revision, empty.base.compact_revision), (1, 0));
        bench.member.put(b"k", b"v").await.unwrap();
        let small = made(bench.run(Task::Snapshot(bench.snapshot("b"))).await);
        assert_eq!(small.base.revision, 2);
        let verified = verified(bench.run(verify(&bench, None)).await);
        assert_eq!((verified.id.as_str(), verified.keys), ("b", Some(1)));
    });
}

#[test]
fn a_follower_tells_its_hash_and_the_restored_base_has_it() {
    on_every_version(async |tools| {
        let bench = Bench::new(tools.clone()).await;
        bench.fill(50).await;
        let second = Seat::new("c-1");
        let added = bench.member.member_add_learner(&second.peer).await.unwrap();
        let _joined = second.start(&tools, &[&bench.seat, &second], "existing");
        let mut task = bench.snapshot("a");
        task.member.address = format!("127.0.0.1:{}", second.client);
        task.member.id = format!("{:x}", added.id);
        eventually(async || second.member().status().await.ok()).await;
        let (cause, message) = failed(bench.run(Task::Snapshot(task.clone())).await);
        assert!(
            cause == Cause::Member && message.contains("learner"),
            "{message}"
        );
        eventually(async || bench.member.member_promote(added.id).await.ok()).await;
        serving(&second.member()).await;
        // Hashes cover the history that is left: the restored etcd must have the same compact revision.
        bench.member.compact(20, true).await.unwrap();
        made(bench.run(Task::Snapshot(task)).await);
        let verified = verified(bench.run(verify(&bench, None)).await);
        assert_eq!((verified.depth, verified.keys), (Depth::Hash, Some(50)));
        // The leader is not asked.
        made(bench.run(Task::Snapshot(bench.snapshot("b"))).await);
        let text = bench
            .names("base")
            .into_iter()
            .find(|name| name.ends_with("-b.json"));
        let text = std::fs::read_to_string(bench.timeline().join("base").join(text.unwrap()));
        assert!(!text.unwrap().contains("hashKv"));
    });
}

#[test]
fn a_fetch_brings_the_snapshot_and_then_says_that_it_is_ready() {
    on_one_version(async |tools| {
        let bench = Bench::new(tools).await;
        bench.fill(100).await;
        made(bench.run(Task::Snapshot(bench.snapshot("a"))).await);
        let Task::Fetch(mut task) = fetch(&bench, None) else {
            panic!("not a fetch");
        };
        task.place.cluster_id = String::new();
        let into = bench.directory.path().join("into");
        let read = bench.run(read(&bench, None)).await;
        let mut written = std::fs::read_dir(&into).unwrap();
        assert!(
            written.next().is_none(),
            "one that only reads writes nothing"
        );
        let first = bench.run(Task::Fetch(task.clone())).await;
        assert_eq!(read, first);
        let Answer::Done(Done::Fetch(fetched)) = &first else {
            panic!("{first:?}");
        };
        let bytes = std::fs::read(into.join("snapshot.db")).unwrap();
        assert_eq!(fetched.base.raw_bytes, u64::try_from(bytes.len()).unwrap());
        assert_eq!(fetched.trailer, archive::hex(&bytes[bytes.len() - 32..]));
        let hash = bench.member.hash_kv(101).await.unwrap().hash;
        assert_eq!(
            restored(&bench.tools, &into.join("snapshot.db"), 101).await,
            (101, 100, hash)
        );

        // A second time nothing is written; and without the data in the store it would not be possible.
        let data = bench.data("a");
        std::fs::rename(&data, into.join("moved")).unwrap();
        assert_eq!(bench.run(Task::Fetch(task.clone())).await, first);
        // What is no longer whole is fetched again.
        std::fs::rename(into.join("moved"), data).unwrap();
        std::fs::write(into.join("snapshot.db"), &bytes[..bytes.len() - 1]).unwrap();
        assert_eq!(bench.run(Task::Fetch(task)).await, first);
        assert_eq!(std::fs::read(into.join("snapshot.db")).unwrap(), bytes);
    });
}

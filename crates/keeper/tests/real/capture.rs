//! Capture: every row comes to the store, as etcd stores it, whatever is killed.

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use archive::log::{Range, Row, as_of};
use archive::work::{Answer, Keep, Task};
use tokio::task::JoinHandle;

use crate::captured::{Capturing, bases, command, cover, newest, read, request, said, segments};
use crate::kit::{Bench, Seat, eventually, on_every_version, on_one_version, serving};
use crate::round::made;

fn now() -> i64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    i64::try_from(since.unwrap().as_millis()).unwrap()
}

/// A write: when it was begun, its revision, and when it was acknowledged.
type Write = (i64, i64, i64);

/// Writes until it is told to end.
fn writer(bench: &Bench) -> (Arc<AtomicBool>, JoinHandle<Vec<Write>>) {
    let stop = Arc::new(AtomicBool::new(false));
    let (member, stopped) = (bench.member.clone(), Arc::clone(&stop));
    let writes = tokio::spawn(async move {
        let mut writes = Vec::new();
        while !stopped.load(Ordering::Relaxed) {
            let key = format!("/w/{}", writes.len() % 100);
            let begun = now();
            let revision = member.put(key.as_bytes(), &[7; 300]).await.unwrap();
            writes.push((begun, revision, now()));
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        writes
    });
    (stop, writes)
}

/// Everything that a client can do to keys, by the hands of etcdctl.
fn stir(bench: &Bench, round: u32) {
    let granted = bench.etcdctl(&["lease", "grant", "600"]);
    let id = granted.split_whitespace().nth(1).unwrap();
    bench.etcdctl(&["put", "--lease", id, "/leased", "x"]);
    let mut transaction = Command::new(bench.tools.join("etcdctl"))
        .arg(format!("--endpoints=127.0.0.1:{}", bench.seat.client))
        .args(["txn"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let text =
        format!("\nput /t/a {round}\nput /t/b {round}\nput /t/c {round}\ndel /w/ --prefix\n\n\n");
    transaction
        .stdin
        .take()
        .unwrap()
        .write_all(text.as_bytes())
        .unwrap();
    assert!(transaction.wait().unwrap().success());
    bench.etcdctl(&["del", "--prefix", "/t/"]);
}

/// Waits until the store has everything up to a revision.
async fn stored(bench: &Bench, revision: i64) {
    eventually(async || (newest(bench) >= revision).then_some(())).await;
}

/// Waits until the store has everything; its newest revision.
async fn all_stored(bench: &Bench) -> i64 {
    let last = bench.member.read_linearizable().await.unwrap();
    stored(bench, last).await;
    last
}

/// That the rows from the first revision on are those of the member, byte for byte.
async fn is_exact(bench: &Bench) -> i64 {
    let last = all_stored(bench).await;
    let hash = bench.member.hash_kv(last).await.unwrap().hash;
    assert_eq!(read(bench, 1, last).hash(), hash, "{}", said(bench));
    last
}

#[test]
fn every_row_is_captured_as_etcd_stores_it_though_the_keeper_is_killed_after_every_put() {
    on_every_version(async |tools| {
        let bench = Bench::new(tools).await;
        let request = request(&bench);
        let mut keeper = Capturing::begin(&bench, &request);
        eventually(async || (!bases(&bench).is_empty()).then_some(())).await;
        let (stop, writes) = writer(&bench);
        for round in 1..8 {
            let before = segments(&bench).len();
            stir(&bench, round);
            eventually(async || (segments(&bench).len() > before).then_some(())).await;
            drop(keeper);
            keeper = Capturing::begin(&bench, &request);
        }
        stop.store(true, Ordering::Relaxed);
        let writes = writes.await.unwrap();
        let last = is_exact(&bench).await;
        assert_eq!(cover(&bench).ranges, [Range { from: 1, to: last }]);

        let log = read(&bench, 1, last);
        let leased = log.leases.iter().filter(|(_, ttl)| *ttl == 600).count();
        assert!(leased >= 7, "{:?}", log.leases);
        assert!(
            log.rows
                .iter()
                .any(|(_, sub, row)| *sub > 3 && matches!(row, Row::Delete(_)))
        );
        for (begun, revision, acknowledged) in &writes {
            for mark in &log.marks {
                assert!(
                    *acknowledged >= mark.sent || *revision <= mark.revision,
                    "{mark:?}"
                );
                assert!(
                    *begun <= mark.answered || *revision > mark.revision,
                    "{mark:?}"
                );
            }
        }
        let (_, revision, acknowledged) = writes[writes.len() / 2];
        let later = log.marks.iter().find(|mark| mark.sent > acknowledged);
        let later = as_of(&log.marks, later.unwrap().answered).unwrap();
        assert!(later.revision >= revision, "{later:?}");

        // On a cluster on which nothing happens, nothing is written.
        let names = bench.names("log");
        tokio::time::sleep(Duration::from_millis(500)).await;
        assert_eq!(bench.names("log"), names);
        // What came since the last interval is there after an orderly end.
        let last = bench.member.put(b"last", b"x").await.unwrap();
        eventually(async || (newest(&bench) >= last).then_some(())).await;
        keeper.end();
    });
}

#[test]
fn two_keepers_at_once_do_no_harm() {
    on_one_version(async |tools| {
        let bench = Bench::new(tools).await;
        let one = request(&bench);
        let first = Capturing::begin(&bench, &one);
        eventually(async || (!bases(&bench).is_empty()).then_some(())).await;
        let mut other = one.clone();
        other.interval_milliseconds = 130;
        let second = Capturing::beside(&bench, &other, "other-spool");
        let (stop, writes) = writer(&bench);
        let mut rounds = 0;
        eventually(async || {
            rounds += 1;
            stir(&bench, rounds);
            let all = segments(&bench);
            let overlap = all.windows(2).any(|two| two[1].first <= two[0].last);
            (overlap && rounds > 10).then_some(())
        })
        .await;
        stop.store(true, Ordering::Relaxed);
        writes.await.unwrap();
        is_exact(&bench).await;
        first.end();
        second.end();
    });
}

#[test]
fn what_was_compacted_before_it_was_captured_is_a_gap_with_both_ends() {
    on_every_version(async |tools| {
        let bench = Bench::new(tools).await;
        let request = request(&bench);
        let keeper = Capturing::begin(&bench, &request);
        eventually(async || (!bases(&bench).is_empty()).then_some(())).await;
        bench.fill(20).await;
        stored(&bench, 21).await;
        keeper.end();

        // Compacted exactly as far as the store has: nothing is missing, and nothing can be compared.
        bench.fill(10).await;
        bench.member.compact(21, true).await.unwrap();
        let keeper = Capturing::begin(&bench, &request);
        stored(&bench, 31).await;
        assert_eq!(cover(&bench).ranges, [Range { from: 1, to: 31 }]);
        assert_eq!(bases(&bench).len(), 1);
        keeper.end();

        bench.fill(10).await;
        bench.member.compact(36, true).await.unwrap();
        let keeper = Capturing::begin(&bench, &request);
        stored(&bench, 41).await;
        bench.fill(10).await;
        stored(&bench, 51).await;
        let ranges = [Range { from: 1, to: 31 }, Range { from: 36, to: 51 }];
        assert_eq!(cover(&bench).ranges, ranges);
        assert_eq!(cover(&bench).gaps(), [Range { from: 32, to: 35 }]);
        let said = said(&bench);
        assert!(
            said.contains("revisions 32 to 35 are in no backup"),
            "{said}"
        );
        keeper.end();
    });
}

#[test]
fn what_the_store_does_not_take_waits_in_the_spool_and_no_more_than_it_may_hold() {
    on_one_version(async |tools| {
        let bench = Bench::new(tools).await;
        let mut request = request(&bench);
        request.compress = false;
        let keeper = Capturing::begin(&bench, &request);
        eventually(async || (!bases(&bench).is_empty()).then_some(())).await;
        let first = bench.member.put(b"a", b"b").await.unwrap();
        stored(&bench, first).await;
        // A file where the directory should be: every put fails.
        let (log, away) = (bench.timeline().join("log"), bench.timeline().join("away"));
        std::fs::rename(&log, &away).unwrap();
        std::fs::write(&log, "").unwrap();
        bench.fill(40).await;
        eventually(async || said(&bench).contains("wait in the spool").then_some(())).await;
        let spooled = bench
            .directory
            .path()
            .join("spool")
            .join(bench.place().cluster_id);
        eventually(async || {
            let files = std::fs::read_dir(&spooled).unwrap().count();
            (files > 0).then_some(())
        })
        .await;
        // It is killed, and the store is back only after the next one has more than it may hold.
        drop(keeper);
        std::fs::remove_file(&log).unwrap();
        std::fs::rename(&away, &log).unwrap();
        request.spool_bytes = 50_000;
        let keeper = Capturing::begin(&bench, &request);
        stored(&bench, 42).await;
        std::fs::rename(&log, &away).unwrap();
        std::fs::write(&log, "").unwrap();
        eventually(async || {
            bench.fill(10).await;
            said(&bench).contains("the spool is full").then_some(())
        })
        .await;
        let spooled = std::fs::read_dir(&spooled).unwrap();
        let bytes: u64 = spooled
            .map(|it| it.unwrap().metadata().unwrap().len())
            .sum();
        assert!(bytes < 50_000 + 400_000, "{bytes}");
        std::fs::remove_file(&log).unwrap();
        std::fs::rename(&away, &log).unwrap();
        let last = all_stored(&bench).await;
        assert_eq!(cover(&bench).ranges, [Range { from: 1, to: last }]);
        assert_eq!(bases(&bench).len(), 1);
        keeper.end();
    });
}

#[test]
fn another_history_is_never_mixed_with_the_one_that_is_stored() {
    on_one_version(async |tools| {
        let mut bench = Bench::new(tools.clone()).await;
        let request = request(&bench);
        let keeper = Capturing::begin(&bench, &request);
        eventually(async || (!bases(&bench).is_empty()).then_some(())).await;
        bench.fill(10).await;
        stored(&bench, 11).await;
        bench.stop();
        let (data, old) = (
            bench.seat.directory.path().join("data"),
            bench.seat.directory.path().join("old"),
        );
        let copied = Command::new("cp").arg("-a").arg(&data).arg(&old).status();
        assert!(copied.unwrap().success());
        bench.process = Some(bench.seat.start(&tools, &[&bench.seat], "existing"));
        serving(&bench.member).await;
        bench.member.put(b"kept", b"x").await.unwrap();
        // The keeper found the member again by itself.
        stored(&bench, 12).await;
        keeper.end();
        let names = bench.names("log");
        bench.stop();
        std::fs::remove_dir_all(&data).unwrap();
        std::fs::rename(&old, &data).unwrap();
        bench.process = Some(bench.seat.start(&tools, &[&bench.seat], "existing"));
        serving(&bench.member).await;
        for value in [&b"forked"[..], b"more"] {
            // First the member has fewer revisions than the store, then as many, and more, of another content.
            let mut keeper = command(&bench, &request);
            let output = tokio::task::spawn_blocking(move || keeper.output()).await;
            let output = output.unwrap().unwrap();
            assert!(!output.status.success(), "{output:?}");
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(
                said.contains("has another history than the cluster"),
                "{said}"
            );
            let told = std::fs::read_to_string(bench.directory.path().join("log")).unwrap();
            let told: Answer = serde_json::from_str(&told).unwrap();
            assert!(matches!(told, Answer::Failed { .. }));
            assert_eq!(bench.names("log"), names);
            bench.member.put(b"other", value).await.unwrap();
        }
    });
}

#[test]
fn a_follower_is_asked_and_its_hash_is_recorded() {
    on_one_version(async |tools| {
        let bench = Bench::new(tools.clone()).await;
        let second = Seat::new("c-1");
        let added = bench.member.member_add_learner(&second.peer).await.unwrap();
        let _joined = second.start(&tools, &[&bench.seat, &second], "existing");
        eventually(async || bench.member.member_promote(added.id).await.ok()).await;
        serving(&second.member()).await;
        let mut request = request(&bench);
        let mut follower = request.members[0].clone();
        follower.name = "c-1".to_owned();
        follower.address = format!("127.0.0.1:{}", second.client);
        follower.id = format!("{:x}", added.id);
        request.members.push(follower);
        request.seal_seconds = 1;
        let keeper = Capturing::begin(&bench, &request);
        eventually(async || (!bases(&bench).is_empty()).then_some(())).await;
        bench.fill(20).await;
        // One that is being written has another name until it is whole.
        let is_whole = |name: &String| archive::log::parse_seal(name).is_some();
        let name = eventually(async || bench.names("seal").into_iter().rfind(is_whole)).await;
        let text = std::fs::read(bench.timeline().join("seal").join(&name)).unwrap();
        let seal: archive::log::SealRecord = archive::manifest::open(&text).unwrap();
        assert_eq!(archive::log::parse_seal(&name), Some(seal.hash_kv.revision));
        assert_eq!(seal.member, format!("{:x}", added.id));
        let hash = bench.member.hash_kv(seal.hash_kv.revision).await.unwrap();
        assert_eq!(hash.hash, seal.hash_kv.hash);
        // Nothing happens: within the interval the store is told that.
        stored(&bench, bench.member.read_linearizable().await.unwrap()).await;
        eventually(async || {
            let all = segments(&bench);
            all.iter().any(|it| it.last < it.first).then_some(())
        })
        .await;
        keeper.end();
    });
}

#[test]
fn encrypted_segments_say_in_their_names_what_is_needed_and_nothing_of_their_content() {
    on_one_version(async |tools| {
        let bench = Bench::new(tools).await;
        let identity = age::x25519::Identity::generate();
        let mut request = request(&bench);
        request.recipients = vec![identity.to_public().to_string()];
        let keeper = Capturing::begin(&bench, &request);
        eventually(async || (!bases(&bench).is_empty()).then_some(())).await;
        bench
            .member
            .put(b"secret-key", b"secret-value")
            .await
            .unwrap();
        stored(&bench, 2).await;
        drop(keeper);
        // The next one goes on though it has no key that decrypts.
        let keeper = Capturing::begin(&bench, &request);
        bench.member.put(b"more", b"x").await.unwrap();
        stored(&bench, 3).await;
        keeper.end();
        let names = bench.names("log");
        assert!(
            names.iter().all(|name| name.ends_with(".log.zst.age")),
            "{names:?}"
        );
        let stored = std::fs::read(bench.timeline().join("log").join(&names[0])).unwrap();
        let plain = age::decrypt(&identity, &stored).unwrap();
        let plain = zstd::decode_all(&plain[..]).unwrap();
        let has = |text: &[u8]| plain.windows(text.len()).any(|part| part == text);
        assert!(has(b"secret-key") && has(b"secret-value"));
        assert!(!stored.windows(10).any(|part| part == b"secret-key"));
    });
}

#[test]
fn log_goes_with_the_last_base_that_needs_it_and_what_is_left_is_covered() {
    on_one_version(async |tools| {
        let bench = Bench::new(tools).await;
        let request = request(&bench);
        let keeper = Capturing::begin(&bench, &request);
        eventually(async || (!bases(&bench).is_empty()).then_some(())).await;
        let mut task = bench.snapshot("weekly");
        task.made_by.name = "weekly".to_owned();
        bench.fill(10).await;
        stored(&bench, 11).await;
        made(bench.run(Task::Snapshot(task)).await);
        bench.fill(10).await;
        stored(&bench, 21).await;
        // One that keeps all lets go of no log.
        made(bench.run(Task::Snapshot(bench.snapshot("a"))).await);
        assert_eq!(segments(&bench)[0].first, 2);
        let mut task = bench.snapshot("b");
        task.keep = Some(Keep {
            newest: Some(1),
            ..Keep::default()
        });
        let pruned = made(bench.run(Task::Snapshot(task.clone())).await);
        // The base of capture and the first of this object went; the weekly one of another object needs its log.
        assert_eq!((pruned.pruned, pruned.unpruned), (2, None));
        let first = segments(&bench)[0].clone();
        assert!(first.last > 11 && first.first <= 12, "{first:?}");
        let weekly = bench
            .names("base")
            .into_iter()
            .filter(|name| name.contains("weekly"));
        for name in weekly {
            std::fs::remove_file(bench.timeline().join("base").join(name)).unwrap();
        }
        bench.fill(5).await;
        stored(&bench, 26).await;
        task.id = "c".to_owned();
        made(bench.run(Task::Snapshot(task)).await);
        bench.fill(5).await;
        stored(&bench, 31).await;
        assert_eq!(cover(&bench).ranges, [Range { from: 1, to: 31 }]);
        assert!(segments(&bench)[0].last > 26);
        // Capture goes on, though the log begins with the base.
        drop(keeper);
        let keeper = Capturing::begin(&bench, &request);
        bench.fill(5).await;
        stored(&bench, 36).await;
        keeper.end();
    });
}

#[test]
fn what_makes_no_sense_is_rejected() {
    on_one_version(async |tools| {
        let bench = Bench::new(tools).await;
        let mut request = request(&bench);
        request.interval_milliseconds = 0;
        let mut keeper = command(&bench, &request);
        let output = tokio::task::spawn_blocking(move || keeper.output()).await;
        let output = output.unwrap().unwrap();
        assert!(!output.status.success());
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(
            said.contains("an interval must be longer than zero"),
            "{said}"
        );
    });
}

//! A base brings back every revision since its compaction: etcd starts on it at exactly that revision, and its hash is the
//! one that the original has there.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use archive::work::{Cause, Fetch, Fetched, Task};

use crate::damage::failed;
use crate::foreign::{brought, fetched};
use crate::kit::{Bench, Process, Seat, VERSIONS, on_every_version, on_one_version, serving};
use crate::round::{fetch, made, read};

/// Each is one revision of several rows.
const TRANSACTIONS: u32 = 12;

fn at(bench: &Bench, revision: i64) -> Task {
    let Task::Fetch(task) = fetch(bench, None) else {
        panic!("not a fetch");
    };
    Task::Fetch(Fetch {
        revision: Some(revision),
        ..task
    })
}

/// Puts of all sizes, deletions, ranges, transactions, and leases that end.
async fn history(bench: &Bench) {
    bench.fill(60).await;
    bench.fill_with(4, 1_000_000).await;
    for number in 0..TRANSACTIONS {
        transaction(bench, number);
        let put = format!("/t/{}/0", number / 2);
        bench.member.put(put.as_bytes(), b"again").await.unwrap();
    }
    bench.etcdctl(&["del", "--prefix", "/k/1"]);
    let lease = granted(bench);
    bench.etcdctl(&["put", "/leased/a", "x", &format!("--lease={lease}")]);
    bench.etcdctl(&["put", "/leased/b", "x", &format!("--lease={lease}")]);
    bench.etcdctl(&["del", "/k/2"]);
    bench.etcdctl(&["lease", "revoke", &lease]);
    bench.fill(20).await;
}

fn granted(bench: &Bench) -> String {
    let said = bench.etcdctl(&["lease", "grant", "600"]);
    said.split_whitespace().nth(1).unwrap().to_owned()
}

fn transaction(bench: &Bench, number: u32) {
    let puts: Vec<String> = (0..number + 2)
        .map(|key| format!("put /t/{number}/{key} {number}\n"))
        .collect();
    let mut etcdctl = Command::new(bench.tools.join("etcdctl"))
        .arg(format!("--endpoints=127.0.0.1:{}", bench.seat.client))
        .arg("txn")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    let words = format!("\n{}del /t/{number}/gone\n\n\n", puts.concat());
    let mut to = etcdctl.stdin.take().unwrap();
    to.write_all(words.as_bytes()).unwrap();
    drop(to);
    assert!(etcdctl.wait().unwrap().success());
}

/// What etcdutl says, which must succeed.
fn etcdutl(tools: &Path, words: &[&str]) -> String {
    let done = Command::new(tools.join("etcdutl")).args(words).output();
    let done = done.unwrap();
    assert!(done.status.success(), "{words:?}: {done:?}");
    String::from_utf8(done.stdout).unwrap()
}

/// Restores a file with etcdutl and starts etcd on it.
async fn started(tools: &Path, file: &Path) -> (Seat, Process) {
    let seat = Seat::new("m-0");
    let data = seat.directory.path().join("data");
    let cluster = format!("m-0={}", seat.peer);
    let words = [
        "snapshot",
        "restore",
        file.to_str().unwrap(),
        "--data-dir",
        data.to_str().unwrap(),
        "--name",
        "m-0",
        "--initial-advertise-peer-urls",
        &seat.peer,
        "--initial-cluster",
        &cluster,
    ];
    etcdutl(tools, &words);
    let process = seat.start(tools, &[&seat], "existing");
    serving(&seat.member()).await;
    (seat, process)
}

/// Fetches a revision, and compares it with the original.
async fn check(bench: &Bench, revision: i64) -> Fetched {
    let fetched = fetched(bench.run(at(bench, revision)).await);
    let file = brought(bench);
    etcdutl(
        &bench.tools,
        &["snapshot", "status", file.to_str().unwrap()],
    );
    let told = bench.member.hash_kv(revision).await.unwrap();
    let (seat, _process) = started(&bench.tools, &file).await;
    let member = seat.member();
    assert_eq!(member.status().await.unwrap().revision, revision);
    let hash = member.hash_kv(revision).await.unwrap();
    assert_eq!(
        (hash.hash, hash.compact_revision),
        (told.hash, told.compact_revision),
        "revision {revision}"
    );
    // etcd goes on with the file: it writes, and compacts all that it was given.
    let next = member.put(b"/next", b"x").await.unwrap();
    assert_eq!(next, revision + 1);
    member.compact(next, true).await.unwrap();
    member.defragment().await.unwrap();
    assert!(member.count_keys().await.unwrap() > 0);
    fetched
}

#[test]
fn every_revision_since_the_compaction_of_a_base_comes_back_exactly() {
    on_every_version(async |tools| {
        let newest = tools.ends_with(VERSIONS[2]);
        let bench = Bench::new(tools).await;
        history(&bench).await;
        bench.member.compact(40, true).await.unwrap();
        let base = made(bench.run(Task::Snapshot(bench.snapshot("a"))).await).base;
        // Later than the base: what the original has at a revision does not change.
        bench.fill(10).await;
        let (first, last) = (41, base.revision);
        let seed = u64::from(std::process::id());
        let number = if newest { 4 } else { 1 };
        for draw in 0..number {
            let spread = u64::try_from(last - first).unwrap();
            let ahead = (seed + draw).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 16;
            let revision = first + i64::try_from(ahead % spread).unwrap();
            let fetched = check(&bench, revision).await;
            let rewound = fetched.rewound.unwrap();
            assert_eq!(rewound.revision, revision);
            assert_eq!(fetched.base, base);
            let bytes = std::fs::metadata(brought(&bench)).unwrap().len();
            assert_eq!(rewound.bytes, bytes);
        }
        // The newest one is the base itself.
        let whole = fetched(bench.run(at(&bench, last)).await);
        assert_eq!((whole.rewound, whole.base.id.as_str()), (None, "a"));
    });
}

#[test]
fn the_hash_of_each_revision_is_that_of_the_original() {
    on_one_version(async |tools| {
        let bench = Bench::new(tools).await;
        bench.fill(300).await;
        history(&bench).await;
        bench.member.compact(200, true).await.unwrap();
        let base = made(bench.run(Task::Snapshot(bench.snapshot("a"))).await).base;
        let step = usize::try_from((base.revision - 200) / 12).unwrap();
        for revision in (201..base.revision).step_by(step) {
            let task = at(&bench, revision);
            let first = bench.run(task.clone()).await;
            let file = brought(&bench);
            let asked = revision.to_string();
            let file = file.to_str().unwrap();
            let words = ["hashkv", file, "--rev", &asked, "-w", "json"];
            // A second time nothing is written.
            let made = std::fs::metadata(file).unwrap().modified().unwrap();
            assert_eq!(bench.run(task).await, first);
            assert_eq!(std::fs::metadata(file).unwrap().modified().unwrap(), made);
            // etcdutl writes to what it looks at.
            let told = bench.member.hash_kv(revision).await.unwrap();
            let said = etcdutl(&bench.tools, &words);
            assert!(
                said.contains(&format!("\"hash\":{},", told.hash)),
                "{revision}: {said}, {told:?}"
            );
        }
    });
}

#[test]
fn a_lease_that_was_revoked_since_is_there_again_and_named() {
    on_one_version(async |tools| {
        let bench = Bench::new(tools).await;
        bench.fill(3).await;
        let (kept, ended) = (granted(&bench), granted(&bench));
        bench.etcdctl(&["put", "/kept", "x", &format!("--lease={kept}")]);
        bench.etcdctl(&["put", "/ended", "x", &format!("--lease={ended}")]);
        let then = bench.member.status().await.unwrap().revision;
        bench.etcdctl(&["lease", "revoke", &ended]);
        made(bench.run(Task::Snapshot(bench.snapshot("a"))).await);
        let rewound = check(&bench, then).await.rewound.unwrap();
        assert_eq!(
            (rewound.leases, rewound.some_leases),
            (1, vec![ended.clone()])
        );
        let (seat, _process) = started(&bench.tools, &brought(&bench)).await;
        for (id, granted) in [(kept, 600), (ended, archive::materialise::LEASE_SECONDS)] {
            let words = ["lease", "timetolive", &id, "--keys"];
            let endpoint = format!("--endpoints=127.0.0.1:{}", seat.client);
            let said = Command::new(bench.tools.join("etcdctl"))
                .arg(endpoint)
                .args(words)
                .output()
                .unwrap();
            let said = String::from_utf8(said.stdout).unwrap();
            assert!(
                said.contains(&format!("granted with TTL({granted}s)")),
                "{said}"
            );
            assert!(said.contains("attached keys([/"), "{said}");
        }
    });
}

#[test]
fn a_revision_that_no_base_holds_is_refused_with_the_nearest_on_both_sides() {
    on_one_version(async |tools| {
        let bench = Bench::new(tools).await;
        bench.fill(19).await;
        made(bench.run(Task::Snapshot(bench.snapshot("old"))).await);
        bench.fill(40).await;
        bench.member.compact(40, true).await.unwrap();
        made(bench.run(Task::Snapshot(bench.snapshot("new"))).await);
        for (revision, before, after) in [
            (30, "is 20 (base old)", "is 40 (base new)"),
            (61, "is 60 (base new)", "there is none after it"),
            (0, "there is none before it", "is 1 (base old)"),
        ] {
            let (cause, message) = failed(bench.run(at(&bench, revision)).await);
            assert_eq!(cause, Cause::Request, "{message}");
            assert!(
                message.contains(before) && message.contains(after),
                "{message}"
            );
        }
        // One that is named must hold it itself.
        let Task::Fetch(task) = at(&bench, 15) else {
            panic!("not a fetch");
        };
        let named = Fetch {
            id: Some("new".to_owned()),
            ..task.clone()
        };
        let (cause, message) = failed(bench.run(Task::Fetch(named)).await);
        assert_eq!(cause, Cause::Request);
        assert!(
            message.contains("holds the revisions 40 to 60, and not 15"),
            "{message}"
        );
        let into = bench.directory.path().join("into");
        assert_eq!(std::fs::read_dir(&into).unwrap().count(), 0);
        // What is only read says from what it would be made.
        let Task::Fetch(only) = read(&bench, None) else {
            panic!("not a fetch");
        };
        let only = Fetch {
            revision: Some(15),
            ..only
        };
        let told = fetched(bench.run(Task::Fetch(only)).await);
        assert_eq!(std::fs::read_dir(&into).unwrap().count(), 0);
        let whole = fetched(bench.run(Task::Fetch(task)).await);
        assert_eq!((told.base.id.as_str(), &told.base), ("old", &whole.base));
        let (told, whole) = (told.rewound.unwrap(), whole.rewound.unwrap());
        assert_eq!((told.revision, told.base_trailer), (15, whole.base_trailer));
    });
}

//! Bases that are tried: what is compared, what is recorded of it in the store, and what follows from that.

use std::process::Command;

use archive::layout;
use archive::manifest::{Compression, HashKv, Manifest, Source, seal};
use archive::stream::Reader;
use archive::work::{Answer, Cause, Depth, Done, Keep, Task, Verify};
use sha2::{Digest as _, Sha256};

use crate::damage::failed;
use crate::kit::{Bench, VERSIONS, on_every_version, on_one_version, tools};
use crate::round::{fetch, made, verified, verify};

fn run(bench: &Bench, id: &str, run: &str) -> Task {
    Task::Verify(Verify {
        place: bench.place(),
        id: Some(id.to_owned()),
        run: Some(run.to_owned()),
    })
}

fn fetched(answer: Answer) -> String {
    match answer {
        Answer::Done(Done::Fetch(fetched)) => fetched.base.id,
        other => panic!("{other:?}"),
    }
}

/// Writes a manifest once more, as it would be with something else in it.
fn rewrite(bench: &Bench, id: &str, edit: impl FnOnce(&mut Manifest)) {
    let end = format!("-{id}.json");
    let names = bench.names("base").into_iter();
    let mut names = names.filter(|name| name.ends_with(&end));
    let name = names.next().unwrap();
    let path = bench.timeline().join("base").join(&name);
    let mut manifest = Manifest::open(&name, &std::fs::read(&path).unwrap()).unwrap();
    edit(&mut manifest);
    std::fs::write(path, seal(&manifest).unwrap()).unwrap();
}

#[test]
fn a_base_with_another_hash_is_damaged_and_the_one_before_is_offered() {
    on_every_version(async |tools| {
        let bench = Bench::new(tools).await;
        bench.fill(20).await;
        bench.member.compact(10, true).await.unwrap();
        made(bench.run(Task::Snapshot(bench.snapshot("old"))).await);
        bench.fill(20).await;
        let newest = made(bench.run(Task::Snapshot(bench.snapshot("new"))).await);
        let told = bench.member.hash_kv(newest.base.revision).await.unwrap();
        let (revision, compact_revision) = (told.revision, told.compact_revision);
        let with = |hash| {
            Some(HashKv {
                revision,
                compact_revision,
                hash,
            })
        };
        rewrite(&bench, "new", |manifest| manifest.hash_kv = with(told.hash));
        let good = verified(bench.run(run(&bench, "new", "first")).await);
        assert_eq!(good.depth, Depth::Hash);
        assert_eq!(fetched(bench.run(fetch(&bench, None)).await), "new");
        // Records are known by the second.
        tokio::time::sleep(std::time::Duration::from_millis(1100)).await;

        rewrite(&bench, "new", |it| it.hash_kv = with(told.hash ^ 1));
        let first = bench.run(run(&bench, "new", "second")).await;
        let (cause, message) = failed(first.clone());
        assert_eq!(cause, Cause::Damaged);
        assert!(
            message.contains(".db.zst: restored, it has hash"),
            "{message}"
        );
        assert_eq!(bench.names("damaged").len(), 1);
        // It is not the newest of anything any more, but is there for who names it.
        assert_eq!(fetched(bench.run(fetch(&bench, None)).await), "old");
        assert_eq!(fetched(bench.run(fetch(&bench, Some("new"))).await), "new");
        let mut task = bench.snapshot("newer");
        task.keep = Some(Keep {
            newest: Some(2),
            ..Keep::default()
        });
        let listed = made(bench.run(Task::Snapshot(task)).await);
        assert_eq!(listed.pruned, 0, "it takes the place of none");
        let of = |id: &str| {
            let mut listed = listed.newest.iter().filter(|base| base.id == id);
            listed.next().unwrap().clone()
        };
        assert!(of("new").damaged && of("new").verified.is_none());
        assert!(!of("old").damaged && !of("newer").damaged);

        // The same verification is answered from the store, whatever is there by now; another one looks again.
        rewrite(&bench, "new", |manifest| manifest.hash_kv = with(told.hash));
        assert_eq!(bench.run(run(&bench, "new", "second")).await, first);
        assert_eq!(bench.names("damaged").len(), 1);
        tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
        verified(bench.run(run(&bench, "new", "third")).await);
        assert_eq!(fetched(bench.run(fetch(&bench, None)).await), "newer");
        let listed = made(bench.run(Task::Snapshot(bench.snapshot("newer"))).await);
        assert!(listed.newest.iter().all(|base| !base.damaged));
    });
}

#[test]
fn what_came_of_a_verification_is_answered_from_the_store() {
    on_one_version(async |tools| {
        let bench = Bench::new(tools).await;
        bench.fill(20).await;
        made(bench.run(Task::Snapshot(bench.snapshot("a"))).await);
        let first = bench.run(run(&bench, "a", "first")).await;
        verified(first.clone());
        std::fs::remove_file(bench.data("a")).unwrap();
        assert_eq!(bench.run(run(&bench, "a", "first")).await, first);
        let (cause, message) = failed(bench.run(run(&bench, "a", "second")).await);
        assert!(
            cause == Cause::Damaged && message.contains("is missing"),
            "{message}"
        );
        assert_eq!(
            (bench.names("verified").len(), bench.names("damaged").len()),
            (1, 1)
        );
        // One of which nothing is left has no record either.
        let (cause, message) = failed(bench.run(run(&bench, "b", "third")).await);
        assert!(
            cause == Cause::Damaged && message.contains("no base b"),
            "{message}"
        );
        assert_eq!(bench.names("damaged").len(), 1);
        let (_, message) = failed(bench.run(fetch(&bench, None)).await);
        assert!(message.contains("name the one that is meant"), "{message}");
    });
}

#[test]
fn an_older_etcd_is_not_blamed_on_the_base() {
    let (Some(older), Some(newer)) = (tools(VERSIONS[1]), tools(VERSIONS[2])) else {
        return crate::kit::skipped("ETCD_BINARIES is not set");
    };
    on_one_version(async |_| {
        let mut bench = Bench::new(newer.clone()).await;
        made(bench.run(Task::Snapshot(bench.snapshot("a"))).await);
        bench.tools = older.clone();
        let (cause, message) = failed(bench.run(verify(&bench, Some("a"))).await);
        assert_eq!(cause, Cause::Request);
        assert!(message.contains("which cannot run on it"), "{message}");
        assert!(bench.names("damaged").is_empty());
        // Nor is a directory in which nothing can be written.
        bench.tools = newer.clone();
        let scratch = bench.directory.path().join("scratch");
        std::fs::remove_dir(&scratch).unwrap();
        std::fs::write(&scratch, "").unwrap();
        let (cause, _) = failed(bench.run(verify(&bench, Some("a"))).await);
        assert_eq!(cause, Cause::Request);
        assert!(bench.names("damaged").is_empty());
    });
}

/// A base of the database as it lies on the disk of a member that has ended.
fn by_hand(bench: &Bench, hash: HashKv) {
    let path = bench.seat.directory.path().join("data/member/snap/db");
    let mut bytes = std::fs::read(path).unwrap();
    let trailer = Sha256::digest(&bytes);
    bytes.extend_from_slice(&trailer);
    let mut reader = Reader::new();
    reader.push(&bytes).unwrap();
    let facts = reader.finish().unwrap();
    assert_eq!(facts.revision, hash.revision);
    let task = bench.snapshot("a");
    let manifest = Manifest {
        id: "a".to_owned(),
        data: "base/a-0.db".to_owned(),
        time: jiff::Timestamp::now(),
        revision: facts.revision,
        compact_revision: facts.compact_revision,
        stored: facts.raw.clone(),
        raw: facts.raw,
        trailer: facts.trailer,
        compression: Compression::None,
        encrypted: false,
        recipients: Vec::new(),
        source: Source {
            name: "c-0".to_owned(),
            id: "1".to_owned(),
            etcd_version: bench.status.version.clone(),
            storage_version: None,
            db_size: 0,
            db_size_in_use: 0,
            auth_enabled: Some(true),
        },
        made_by: task.made_by,
        hash_kv: Some(hash),
    };
    let base = bench.timeline().join("base");
    std::fs::create_dir_all(&base).unwrap();
    std::fs::write(base.join("a-0.db"), bytes).unwrap();
    let name = layout::manifest(facts.revision, "a").unwrap();
    std::fs::write(bench.timeline().join(name), seal(&manifest).unwrap()).unwrap();
}

#[test]
fn where_users_are_asked_who_they_are_a_certificate_of_root_compares_the_hash() {
    on_every_version(async |tools| {
        let mut bench = Bench::new(tools).await;
        bench.fill(20).await;
        let told = bench.member.hash_kv(21).await.unwrap();
        bench.member.user_add("root", Some("secret")).await.unwrap();
        bench.member.user_grant_role("root", "root").await.unwrap();
        bench.member.auth_enable().await.unwrap();
        // It writes what it has every tenth of a second.
        tokio::time::sleep(std::time::Duration::from_millis(500)).await;
        bench.stop();
        by_hand(
            &bench,
            HashKv {
                revision: told.revision,
                compact_revision: told.compact_revision,
                hash: told.hash,
            },
        );
        let tried = verified(bench.run(verify(&bench, Some("a"))).await);
        assert_eq!((tried.depth, tried.keys), (Depth::Hash, Some(20)));
        rewrite(&bench, "a", |manifest| {
            let told = manifest.hash_kv.as_mut().unwrap();
            told.hash ^= 1;
        });
        let (cause, _) = failed(bench.run(verify(&bench, Some("a"))).await);
        assert_eq!(cause, Cause::Damaged);
    });
}

#[test]
fn the_keeper_copies_itself_into_another_image() {
    let directory = tempfile::tempdir().unwrap();
    let copy = directory.path().join("etcd-keeper");
    let keeper = env!("CARGO_BIN_EXE_etcd-keeper");
    let done = Command::new(keeper)
        .arg("install")
        .arg(&copy)
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    let version = Command::new(&copy).arg("--version").output().unwrap();
    assert!(String::from_utf8_lossy(&version.stdout).starts_with("etcd-keeper "));
    let nowhere = directory.path().join("nowhere/etcd-keeper");
    let failed = Command::new(keeper)
        .arg("install")
        .arg(nowhere)
        .output()
        .unwrap();
    assert!(!failed.status.success());
    assert!(String::from_utf8_lossy(&failed.stderr).contains("cannot be copied"));
}

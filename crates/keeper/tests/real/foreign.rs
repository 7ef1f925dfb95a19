//! Files that something else made: etcd's own tools make them here, and etcd's own tools restore what the keeper brought.

use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use age::secrecy::ExposeSecret as _;
use age::x25519::Identity;
use archive::hex;
use archive::work::{Answer, Cause, Done, Fetched, Import, Task};
use flate2::write::GzEncoder;
use sha2::{Digest as _, Sha256};

use crate::damage::failed;
use crate::kit::{Bench, VERSIONS, on_every_version, on_one_version, tools};
use crate::round::restored;

const KEY: &str = "2026-11-19T02:00:00Z/etcd.db";

pub(crate) fn import(bench: &Bench) -> Import {
    let into = bench.directory.path().join("into");
    Import {
        name: KEY.to_owned(),
        sha256: None,
        skip_hash_check: false,
        into: into.to_str().map(str::to_owned),
    }
}

pub(crate) fn fetched(answer: Answer) -> Fetched {
    match answer {
        Answer::Done(Done::Fetch(fetched)) => fetched,
        other => panic!("{other:?}"),
    }
}

/// Where the store has it.
fn place(bench: &Bench) -> PathBuf {
    bench.directory.path().join("store/backups").join(KEY)
}

fn put(bench: &Bench, bytes: &[u8]) {
    let place = place(bench);
    std::fs::create_dir_all(place.parent().unwrap()).unwrap();
    std::fs::write(place, bytes).unwrap();
}

pub(crate) fn brought(bench: &Bench) -> PathBuf {
    bench.directory.path().join("into/snapshot.db")
}

/// What `etcdctl snapshot save` makes.
pub(crate) fn saved(bench: &Bench) -> Vec<u8> {
    let file = bench.directory.path().join("saved.db");
    bench.etcdctl(&["snapshot", "save", file.to_str().unwrap()]);
    std::fs::read(file).unwrap()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

fn age(bytes: &[u8], identity: &Identity, armored: bool) -> Vec<u8> {
    let recipient = identity.to_public();
    if armored {
        return age::encrypt_and_armor(&recipient, bytes)
            .unwrap()
            .into_bytes();
    }
    age::encrypt(&recipient, bytes).unwrap()
}

/// The minor version of a release, as etcd writes it into its files.
fn minor(tools: &Path) -> String {
    let release = tools.file_name().unwrap().to_str().unwrap();
    format!("{}.0", release.rsplit_once('.').unwrap().0)
}

#[test]
fn a_file_of_etcdctl_comes_back_however_it_is_wrapped() {
    on_every_version(async |tools| {
        let bench = Bench::new(tools).await;
        bench.fill(300).await;
        bench.member.compact(150, true).await.unwrap();
        let raw = saved(&bench);
        let identity = Identity::generate();
        let key = bench.directory.path().join("identity/key");
        std::fs::write(&key, identity.to_string().expose_secret()).unwrap();
        for wrapped in [
            raw.clone(),
            gzip(&raw),
            zstd::encode_all(raw.as_slice(), 1).unwrap(),
            age(
                &zstd::encode_all(raw.as_slice(), 1).unwrap(),
                &identity,
                false,
            ),
            age(&gzip(&raw), &identity, true),
        ] {
            put(&bench, &wrapped);
            let task = Import {
                sha256: Some(hex(&Sha256::digest(&wrapped))),
                ..import(&bench)
            };
            let fetched = fetched(bench.run(Task::Import(task)).await);
            let base = &fetched.base;
            assert_eq!((base.revision, base.compact_revision), (301, 150));
            assert_eq!(base.id, KEY);
            assert_eq!(base.url, format!("file://{}", place(&bench).display()));
            assert_eq!(base.stored_bytes, u64::try_from(wrapped.len()).unwrap());
            assert_eq!(base.raw_bytes, u64::try_from(raw.len()).unwrap());
            assert_eq!(base.etcd_version, minor(&bench.tools));
            assert_eq!(fetched.auth, Some(false));
            assert_eq!(fetched.trailer, hex(&raw[raw.len() - 32..]));
            assert_eq!(std::fs::read(brought(&bench)).unwrap(), raw);
        }
        let hash = bench.member.hash_kv(301).await.unwrap().hash;
        let restored = restored(&bench.tools, &brought(&bench), 301).await;
        assert_eq!(restored, (301, 300, hash));

        // Without the key it is not to be had.
        std::fs::remove_file(key).unwrap();
        put(&bench, &age(&raw, &identity, false));
        let (cause, message) = failed(bench.run(Task::Import(import(&bench))).await);
        assert!(
            cause == Cause::Identity && message.contains(KEY),
            "{message}"
        );
    });
}

#[test]
fn a_copied_database_comes_back_only_on_request_and_with_a_hash_of_its_own() {
    on_every_version(async |tools| {
        let mut bench = Bench::new(tools).await;
        bench.fill(200).await;
        let hash = bench.member.hash_kv(201).await.unwrap().hash;
        bench.stop();
        let database = bench.seat.directory.path().join("data/member/snap/db");
        let copied = std::fs::read(database).unwrap();
        put(&bench, &copied);
        let (cause, message) = failed(bench.run(Task::Import(import(&bench))).await);
        assert!(
            cause == Cause::Damaged && message.contains("skipHashCheck"),
            "{message}"
        );
        assert!(!brought(&bench).exists());

        let task = Import {
            skip_hash_check: true,
            ..import(&bench)
        };
        let fetched = fetched(bench.run(Task::Import(task.clone())).await);
        assert_eq!(fetched.base.revision, 201);
        assert_eq!(fetched.base.etcd_version, minor(&bench.tools));
        let bytes = std::fs::read(brought(&bench)).unwrap();
        assert_eq!(fetched.base.raw_bytes, u64::try_from(bytes.len()).unwrap());
        let (body, end) = bytes.split_at(bytes.len() - 32);
        assert!(copied.starts_with(body));
        assert_eq!(
            (end, hex(end)),
            (Sha256::digest(body).as_slice(), fetched.trailer)
        );
        // etcd's own tool is not told to skip anything.
        let restored = restored(&bench.tools, &brought(&bench), 201).await;
        assert_eq!(restored, (201, 200, hash));

        // Half of it is not a database, whatever is skipped.
        put(&bench, &copied[..body.len() / 2]);
        let (cause, message) = failed(bench.run(Task::Import(task)).await);
        assert!(
            cause == Cause::Damaged && message.contains("says that it has"),
            "{message}"
        );
    });
}

#[test]
fn a_hash_that_is_wrong_is_passed_over_only_on_request() {
    on_one_version(async |tools| {
        let bench = Bench::new(tools).await;
        bench.fill(20).await;
        let raw = saved(&bench);
        let mut wrong = raw.clone();
        wrong[raw.len() - 1] ^= 1;
        put(&bench, &wrong);
        let (cause, message) = failed(bench.run(Task::Import(import(&bench))).await);
        assert!(
            cause == Cause::Damaged && message.contains("differs"),
            "{message}"
        );
        let mut task = import(&bench);
        task.skip_hash_check = true;
        fetched(bench.run(Task::Import(task.clone())).await);
        assert_eq!(std::fs::read(brought(&bench)).unwrap(), raw);
        // Our own checksum is compared all the same.
        task.sha256 = Some(hex(&Sha256::digest(&raw)));
        task.into.as_mut().unwrap().push_str("-2");
        let (cause, message) = failed(bench.run(Task::Import(task)).await);
        assert!(
            cause == Cause::Damaged && message.contains("is not the file that is meant"),
            "{message}"
        );
    });
}

#[test]
fn authentication_that_was_on_is_read_from_the_file() {
    on_every_version(async |tools| {
        let bench = Bench::new(tools).await;
        bench.fill(5).await;
        bench.etcdctl(&["user", "add", "root:secret"]);
        bench.etcdctl(&["user", "grant-role", "root", "root"]);
        bench.etcdctl(&["auth", "enable"]);
        let file = bench.directory.path().join("saved.db");
        let save = [
            "--user=root:secret",
            "snapshot",
            "save",
            file.to_str().unwrap(),
        ];
        bench.etcdctl(&save);
        put(&bench, &std::fs::read(&file).unwrap());
        let fetched = fetched(bench.run(Task::Import(import(&bench))).await);
        assert_eq!((fetched.auth, fetched.base.revision), (Some(true), 6));
    });
}

#[test]
fn what_is_cut_altered_or_something_else_is_named_and_never_used() {
    on_one_version(async |tools| {
        let bench = Bench::new(tools).await;
        bench.fill(200).await;
        let raw = saved(&bench);
        let mut flipped = raw.clone();
        flipped[raw.len() / 2] ^= 1;
        let wrapped = gzip(&raw);
        let zipped = zstd::encode_all(raw.as_slice(), 1).unwrap();
        let cases: [(&[u8], &str); 9] = [
            (&[], "ends after 0 bytes"),
            (&raw[..raw.len() - 1], "without its hash"),
            (&raw[..raw.len() / 2], "without its hash"),
            (&raw[..raw.len() - 32], "no hash at its end"),
            (&flipped, "differs from its content"),
            (&wrapped[..wrapped.len() / 2], "decode"),
            (&zipped[..zipped.len() - 1], "decode"),
            (b"apiVersion: v1", "ends after 14 bytes"),
            (&[b'x'; 9000], "not a database of etcd"),
        ];
        for (bytes, said) in cases {
            put(&bench, bytes);
            let (cause, message) = failed(bench.run(Task::Import(import(&bench))).await);
            assert!(
                cause == Cause::Damaged && message.contains(said) && message.contains(KEY),
                "{said}: {message}"
            );
            let into = bench.directory.path().join("into");
            assert_eq!(std::fs::read_dir(into).unwrap().count(), 0, "{said}");
        }
        std::fs::remove_file(place(&bench)).unwrap();
        let (cause, message) = failed(bench.run(Task::Import(import(&bench))).await);
        assert!(
            cause == Cause::Damaged && message.starts_with("there is no file://"),
            "{message}"
        );
        for name in ["../secret", "/etc/passwd", "a//b", ""] {
            let task = Import {
                name: name.to_owned(),
                ..import(&bench)
            };
            let (cause, _) = failed(bench.run(Task::Import(task)).await);
            assert_eq!(cause, Cause::Request, "{name}");
        }
    });
}

#[test]
fn a_file_is_brought_once_and_again_where_either_side_has_changed() {
    on_one_version(async |tools| {
        let bench = Bench::new(tools).await;
        bench.fill(50).await;
        put(&bench, &saved(&bench));
        let run = async || fetched(bench.run(Task::Import(import(&bench))).await);
        let inode = || {
            use std::os::unix::fs::MetadataExt as _;
            std::fs::metadata(brought(&bench)).unwrap().ino()
        };
        let first = run().await;
        let held = inode();
        assert_eq!(
            (run().await, inode()),
            (first.clone(), held),
            "nothing is written"
        );
        // What was damaged on the volume is brought once more.
        let whole = std::fs::read(brought(&bench)).unwrap();
        std::fs::write(brought(&bench), &whole[1..]).unwrap();
        assert_eq!(run().await, first);
        assert_eq!(std::fs::read(brought(&bench)).unwrap(), whole);
        // And so is a file of that name that is another one now.
        bench.fill(60).await;
        put(&bench, &saved(&bench));
        assert_eq!(run().await.base.revision, 111);
    });
}

#[test]
fn a_file_of_an_older_minor_version_serves_under_a_newer_one() {
    let (Some(old), Some(new)) = (tools(VERSIONS[0]), tools(VERSIONS[2])) else {
        return crate::kit::skipped("ETCD_BINARIES is not set");
    };
    crate::kit::block_on(async {
        let bench = Bench::new(old).await;
        bench.fill(100).await;
        put(&bench, &gzip(&saved(&bench)));
        let fetched = fetched(bench.run(Task::Import(import(&bench))).await);
        assert_eq!(fetched.base.etcd_version, "3.5.0");
        let (revision, keys, _) = restored(&new, &brought(&bench), 101).await;
        assert_eq!((revision, keys), (101, 100));
    });
}

/// `etcd` 3.4.13 got 30 keys, of which it deleted one; one with a lease; and compacted at 10. Then `etcdctl` 3.4.13 saved it.
const OF_3_4: &[u8] = include_bytes!("data/etcd-3.4.13.db.gz");

#[test]
fn a_file_of_etcd_3_4_serves_under_every_later_version() {
    on_every_version(async |tools| {
        let bench = Bench::new(tools).await;
        put(&bench, OF_3_4);
        let fetched = fetched(bench.run(Task::Import(import(&bench))).await);
        assert_eq!(fetched.base.etcd_version, "3.4.0");
        let (revision, compacted) = (fetched.base.revision, fetched.base.compact_revision);
        assert_eq!((revision, compacted, fetched.auth), (33, 10, Some(false)));
        let (revision, keys, _) = restored(&bench.tools, &brought(&bench), 33).await;
        assert_eq!((revision, keys), (33, 30));
        let mut raw = Vec::new();
        let mut decoder = flate2::read::GzDecoder::new(OF_3_4);
        decoder.read_to_end(&mut raw).unwrap();
        assert_eq!(std::fs::read(brought(&bench)).unwrap(), raw);
    });
}

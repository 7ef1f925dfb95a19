//! A cluster bootstrapped from a snapshot that was brought to the volume.

use std::{
    fs,
    path::{Path, PathBuf},
    thread,
    time::Duration,
};

use gate::{Action, Report, SNAPSHOT_FILE, State, restore_directory};
use serde_json::{Value, json};

use crate::{
    etcd::{Member, Status, binaries},
    support::{await_some, get, request},
    survivor::{BUMP, Files, Tools},
};

/// The wish that the snapshots here are brought for.
const WISH: &str = "0123456789abcdef";

impl Member {
    /// All of a running member's database with the hash at its end, as a backup has it.
    fn snapshot(&self) -> Vec<u8> {
        let asked = request(self.client, "POST /v3/maintenance/snapshot", "{}");
        let (status, text) = asked.unwrap();
        assert_eq!(status, 200, "{text}");
        let pieces = serde_json::Deserializer::from_str(&text).into_iter::<Value>();
        let blob = |piece: Value| piece["result"]["blob"].as_str().map(decode);
        pieces
            .filter_map(|piece| blob(piece.unwrap()))
            .flatten()
            .collect()
    }

    fn brought(&self) -> PathBuf {
        self.pod.volume().join(restore_directory(WISH))
    }

    fn file(&self) -> PathBuf {
        self.brought().join(SNAPSHOT_FILE)
    }

    /// As the Job leaves it before the pod starts.
    fn bring(&self, snapshot: &[u8]) {
        fs::create_dir_all(self.brought()).unwrap();
        fs::write(self.file(), snapshot).unwrap();
        fs::write(self.brought().join("ready.json"), "{}").unwrap();
    }

    /// Permission to bootstrap from exactly this snapshot.
    fn restore(&self, snapshot: &[u8], skip_hash_check: bool, bump_revision: u64) -> Action {
        Action::Restore {
            token: self.pod.token(),
            initial_cluster: self.initial_cluster(),
            directory: restore_directory(WISH),
            trailer: trailer(snapshot),
            skip_hash_check,
            bump_revision,
        }
    }

    /// Grants what usually is.
    fn grant_restore(&self, report: &Report, snapshot: &[u8]) {
        let action = self.restore(snapshot, false, BUMP);
        self.pod.grant(&report.nonce, action);
    }

    /// Serves on new data, and what it was made of is gone.
    fn assert_restored(&self, report: &Report) -> Status {
        self.await_serving();
        let (new, identity) = (self.status(), self.pod.identity());
        let list = self.call("cluster/member/list", &json!({}));
        assert_eq!(list["members"].as_array().unwrap().len(), 1, "{list}");
        assert_eq!(identity.nonce, report.nonce);
        assert_eq!(
            (identity.member_id.as_ref(), identity.cluster_id.as_ref()),
            (Some(&new.member_id), Some(&new.cluster_id))
        );
        assert!(!self.brought().exists());
        assert_eq!(self.leftovers(), Vec::<String>::new());
        new
    }

    /// Waits again, and tells why.
    fn assert_failed(&self, before: &Report) -> Report {
        let report = await_some("another wait", || {
            let report = self.pod.report();
            report.filter(|report| report.nonce != before.nonce)
        });
        assert_eq!(report.state, before.state);
        let failed = report.failed.clone().unwrap();
        let told = format!("; the restore failed: {}", failed.why);
        assert!(report.detail.ends_with(&told), "{}", report.detail);
        assert!(failed.time > 1_700_000_000, "{}", failed.time);
        assert!(failed.why.contains("MiB of free space"), "{}", failed.why);
        assert_eq!(self.leftovers(), Vec::<String>::new());
        report
    }

    /// As before, and the brought file stays.
    fn assert_refused(&self, before: &Report, file: &[u8]) -> Report {
        let report = self.assert_failed(before);
        assert_eq!(fs::read(self.file()).unwrap(), file);
        assert!(self.brought().join("ready.json").exists());
        report
    }
}

/// A snapshot with some keys, of a member that is gone.
fn source(etcd: &Path) -> Vec<u8> {
    let member = Member::new(etcd, "m0");
    let process = member.found();
    for key in 0..10 {
        member.put(&format!("key-{key}"), "x");
    }
    let snapshot = member.snapshot();
    drop(process);
    snapshot
}

/// The last 32 bytes in hexadecimal digits.
fn trailer(snapshot: &[u8]) -> String {
    let end = &snapshot[snapshot.len() - 32..];
    let digits: Vec<String> = end.iter().map(|byte| format!("{byte:02x}")).collect();
    digits.concat()
}

/// Base64, as the JSON gateway tells bytes.
fn decode(text: &str) -> Vec<u8> {
    let value = |letter: u8| match letter {
        b'A'..=b'Z' => letter - b'A',
        b'a'..=b'z' => letter - b'a' + 26,
        b'0'..=b'9' => letter - b'0' + 52,
        b'+' => 62,
        b'/' => 63,
        other => panic!("{other}"),
    };
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for letter in text.bytes().filter(|letter| *letter != b'=') {
        bits = bits << 6 | u32::from(value(letter));
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push(u8::try_from(bits >> count & 255).unwrap());
        }
    }
    bytes
}

#[test]
fn a_snapshot_becomes_a_cluster_with_all_its_keys() {
    for etcd in binaries() {
        let source = Member::new(&etcd, "m0");
        let process = source.found();
        for key in 0..10 {
            source.put(&format!("key-{key}"), "x");
        }
        let (snapshot, keys) = (source.snapshot(), source.keys());
        let (revision, old) = (source.revision(), source.status());
        source.put("later", "x");
        drop(process);

        let member = Member::new(&etcd, "m0");
        member.bring(&snapshot);
        // Brought for another wish, which is not this one's to remove.
        let other = member.pod.volume().join(restore_directory("ff"));
        fs::create_dir(&other).unwrap();
        let process = member.start();
        let report = member.pod.await_state(State::Empty);
        member.grant_restore(&report, &snapshot);
        let new = member.assert_restored(&report);
        assert_ne!(new.cluster_id, old.cluster_id);
        assert_ne!(new.member_id, old.member_id);
        assert_eq!(member.keys(), keys);
        assert_eq!(member.revision(), revision + BUMP);
        // A client that watches from a revision of the old cluster is told so.
        let body = json!({"key": "AA==", "revision": revision.to_string()}).to_string();
        let (_, answer) = request(member.client, "POST /v3/kv/range", &body).unwrap();
        assert!(
            answer.contains("required revision has been compacted"),
            "{answer}"
        );
        assert!(other.is_dir());
        // There was nothing to set aside.
        let aside = member.pod.volume().join(format!("aside-{}", report.nonce));
        assert!(!aside.exists());
        drop(process);

        // The grant still lies there, and is not needed any more.
        let process = member.start();
        member.await_serving();
        assert_eq!(member.status().cluster_id, new.cluster_id);
        assert_eq!(member.put("later", "x"), revision + BUMP + 1);
        drop(process);

        // The IDs are those that the token implies.
        fs::remove_dir_all(member.data()).unwrap();
        let _process = member.start();
        let report = member.pod.await_state(State::Empty);
        member.pod.grant(&report.nonce, member.bootstrap(false));
        member.await_serving();
        let bootstrapped = member.status();
        assert_eq!(
            (bootstrapped.cluster_id, bootstrapped.member_id),
            (new.cluster_id, new.member_id)
        );
    }
}

#[test]
fn fenced_data_makes_way_and_lies_aside_as_it_was() {
    for etcd in binaries() {
        let mut member = Member::new(&etcd, "m0");
        let process = member.found();
        let (snapshot, old) = (member.snapshot(), member.status());
        member.put("later", "x");
        drop(process);
        member.raise_fence();
        member.bring(&snapshot);
        let files = Files::read(&member.data().join("member"));
        let _process = member.start();
        let report = member.pod.await_state(State::Fenced);
        member.grant_restore(&report, &snapshot);
        member.assert_recovered(&old, &report, &files);
        member.assert_restored(&report);
        assert_eq!(member.keys().len(), 1);
        assert!(member.has_key());
    }
}

#[test]
fn another_file_or_an_altered_one_is_not_restored_and_stays() {
    for etcd in binaries() {
        let snapshot = source(&etcd);
        let member = Member::new(&etcd, "m0");
        let _process = member.start();
        let report = member.pod.await_state(State::Empty);
        assert_eq!(report.failed, None);
        member.grant_restore(&report, &snapshot);
        let report = member.assert_failed(&report);
        let why = &report.failed.as_ref().unwrap().why;
        assert!(why.contains("snapshot.db is missing"), "{why}");

        // By its end it is the same file, and that end is the hash of all that comes before.
        let mut altered = snapshot.clone();
        altered[snapshot.len() / 2] ^= 1;
        member.bring(&altered);
        member.grant_restore(&report, &snapshot);
        let report = member.assert_refused(&report, &altered);
        let why = &report.failed.as_ref().unwrap().why;
        let words = "etcdutl failed: exit status: 1: Error: expected sha256 [";
        assert!(why.starts_with(words), "{why}");
        assert!(member.pod.log().contains("\nError: expected sha256 ["));

        let mut other = snapshot.clone();
        other[snapshot.len() - 1] ^= 1;
        member.bring(&other);
        member.grant_restore(&report, &snapshot);
        let report = member.assert_refused(&report, &other);
        let why = &report.failed.as_ref().unwrap().why;
        assert!(why.contains("it is another file"), "{why}");

        member.bring(&snapshot);
        member.grant_restore(&report, &snapshot);
        member.assert_restored(&report);
        assert_eq!(member.keys().len(), 11);
    }
}

/// A database that was copied has no hash at its end.
#[test]
fn only_a_grant_that_says_so_takes_a_file_without_a_hash() {
    for etcd in binaries() {
        let source = Member::new(&etcd, "m0");
        let process = source.found();
        let revision = source.revision();
        process.signal("TERM");
        process.await_exit();
        let database = fs::read(source.data().join("member/snap/db")).unwrap();
        let member = Member::new(&etcd, "m0");
        member.bring(&database);
        let _process = member.start();
        let report = member.pod.await_state(State::Empty);
        member.grant_restore(&report, &database);
        let report = member.assert_refused(&report, &database);
        let why = &report.failed.as_ref().unwrap().why;
        assert!(why.contains("missing hash"), "{why}");
        let action = member.restore(&database, true, 0);
        member.pod.grant(&report.nonce, action);
        member.assert_restored(&report);
        assert!(member.has_key());
        assert_eq!(member.revision(), revision);
    }
}

#[test]
fn killed_before_the_new_data_is_complete_the_snapshot_is_there_for_the_next_attempt() {
    for etcd in binaries() {
        let snapshot = source(&etcd);
        for point in ["restore", "restored"] {
            let mut member = Member::new(&etcd, "m0");
            let tools = Tools::new(&member.pod, &etcd);
            member.etcd = tools.path("etcd");
            member.bring(&snapshot);
            tools.hold(point);
            let process = member.start_group();
            let first = member.pod.await_state(State::Empty);
            member.grant_restore(&first, &snapshot);
            tools.await_point(point);
            let told = member.pod.await_detail("restoring: 1 of 2");
            assert_eq!((told.state, &told.nonce), (State::Empty, &first.nonce));
            assert_eq!(get(member.pod.port, "/livez").unwrap().0, 200);
            process.kill_group();
            assert_eq!(fs::read(member.file()).unwrap(), snapshot);
            assert_eq!(member.leftovers().len(), 1);
            tools.release(point);

            let _process = member.start_group();
            let second = member.pod.await_state(State::Empty);
            assert_ne!(first.nonce, second.nonce);
            member.grant_restore(&second, &snapshot);
            member.assert_restored(&second);
            assert_eq!(member.keys().len(), 11);
        }
    }
}

/// A little later each time, until one comes too late. One minor: what it is killed in is the agent's.
#[test]
fn killed_at_any_moment_a_restore_ends_well() {
    if let Some(etcd) = binaries().last() {
        let snapshot = source(etcd);
        let member = Member::new(etcd, "m0");
        member.bring(&snapshot);
        let (mut granted, mut kills) = (None, 0);
        let delays = std::iter::successors(Some(0), |delay: &u64| Some(delay + delay / 4 + 10));
        for delay in delays.map(Duration::from_millis) {
            let process = member.start_group();
            // Empty again, or what was complete is carried on with: the gate knows no /health.
            let report = await_some("a report or etcd", || {
                if let Some(report) = member.pod.report() {
                    return Some(Some(report));
                }
                let (status, _) = get(member.pod.port, "/health")?;
                (status != 404).then_some(None)
            });
            let Some(report) = report else { break };
            assert_eq!(report.state, State::Empty);
            member.grant_restore(&report, &snapshot);
            granted = Some(report);
            thread::sleep(delay);
            let runs = get(member.pod.port, "/gate").is_some_and(|(status, _)| status == 404);
            process.kill_group();
            kills += 1;
            let is_brought = fs::read(member.file()).is_ok_and(|bytes| bytes == snapshot);
            let is_placed = member.data().join("member/snap/db").exists();
            assert!(is_brought || is_placed, "{delay:?}\n{}", member.pod.log());
            if runs {
                break;
            }
        }
        assert!(kills > 2, "{kills}");
        let _process = member.start_group();
        member.assert_restored(&granted.unwrap());
        assert_eq!(member.keys().len(), 11);
    }
}

/// What stands in the way is told in the tool's own words, and how much space it takes.
#[test]
fn a_volume_without_space_is_told_and_can_be_tried_again() {
    if let Some(etcd) = binaries().last() {
        let snapshot = source(etcd);
        let mut member = Member::new(etcd, "m0");
        let tools = Tools::new(&member.pod, etcd);
        tools.write(
            "etcdutl",
            "echo 'Error: write: no space left on device' >&2; exit 1",
        );
        member.etcd = tools.path("etcd");
        member.bring(&snapshot);
        let _process = member.start();
        let report = member.pod.await_state(State::Empty);
        member.grant_restore(&report, &snapshot);
        let report = member.assert_failed(&report);
        let why = &report.failed.as_ref().unwrap().why;
        assert_eq!(
            why,
            "etcdutl failed: exit status: 1: Error: write: no space left on device; the volume is as it was; \
             a restore needs 65 MiB of free space on it beside the snapshot"
        );
        assert_eq!(fs::read(member.file()).unwrap(), snapshot);
        let etcdutl = etcd.with_file_name("etcdutl");
        tools.write("etcdutl", &format!("exec {} \"$@\"", etcdutl.display()));
        member.grant_restore(&report, &snapshot);
        member.assert_restored(&report);
    }
}

/// Whatever the operator thinks, data that was not set apart for it is not moved.
#[test]
fn data_that_no_fence_holds_does_not_make_way() {
    if let Some(etcd) = binaries().last() {
        let mut member = Member::new(etcd, "m0");
        let process = member.found();
        let snapshot = member.snapshot();
        drop(process);
        member.bring(&snapshot);
        member.pod.uid = "another";
        let files = Files::read(&member.data().join("member"));
        let _process = member.start();
        let report = member.pod.await_state(State::OtherObject);
        member.grant_restore(&report, &snapshot);
        let refusal = member.pod.await_refusal().detail;
        assert!(
            refusal.contains("a Restore needs an empty data directory"),
            "{refusal}"
        );
        assert_eq!(Files::read(&member.data().join("member")), files);
        assert!(member.file().exists());
    }
}

//! A quota that is used up, and the way back: compact, defragment, disarm.

use std::path::{Path, PathBuf};
use std::time::Duration;

use etcd::{Alarm, AlarmKind, Cause, Consistency, Hash, Member};

use crate::cluster::{eventually, handles, serving};
use crate::process::{Seat, minor};
use crate::trio::Trio;

const QUOTA: u64 = 16 << 20;
const QUOTA_FLAG: &str = "--quota-backend-bytes=16777216";
/// History that is kept.
const KEPT: i64 = 20;

/// Overwrites a few keys until etcd refuses; the last revision.
async fn fill(member: &Member) -> i64 {
    let value = vec![b'x'; 256 << 10];
    let mut revision = 0;
    for round in 0..1000 {
        let key = format!("key-{}", round % 4);
        match member.put(key.as_bytes(), &value).await {
            Ok(written) => revision = written,
            Err(error) => {
                assert!(matches!(error.cause, Cause::NoSpace), "{error:?}");
                return revision;
            }
        }
    }
    panic!("the quota was never reached");
}

/// What a member says of its alarms, whatever the spaces between the words.
async fn told(member: &Member) -> Vec<String> {
    let errors = member.status().await.unwrap().errors;
    let words = |line: &String| line.split_whitespace().collect::<Vec<_>>().join(" ");
    errors.iter().map(words).collect()
}

async fn comes_back(members: &[Member], binary: &Path) {
    let revision = fill(&members[0]).await;
    let alarms = alarms_told(members).await;
    for member in members {
        let status = member.status().await.unwrap();
        let known = (minor(binary) != "3.5").then_some(QUOTA);
        assert_eq!(status.db_size_quota, known);
        // Files of the same data differ a little; one of them is at the quota.
        assert!(status.db_size > QUOTA / 2, "{status:?}");
        assert!(status.revision >= revision, "{status:?}");
    }
    // Reads go on.
    members[0].read_linearizable().await.unwrap();
    // An alarm without a member belongs to none.
    let without_member = Alarm {
        member_id: 0,
        kind: AlarmKind::NoSpace,
    };
    members[0].disarm(without_member).await.unwrap();
    assert_eq!(members[0].alarms().await.unwrap(), alarms);
    compact(members, revision - KEPT).await;
    for member in members {
        defragment(member).await;
    }
    // Room alone does not bring writes back.
    let still = members[0].put(b"key", b"value").await.unwrap_err();
    assert!(matches!(still.cause, Cause::NoSpace), "{still:?}");
    for alarm in alarms {
        members[0].disarm(alarm).await.unwrap();
        members[0].disarm(alarm).await.unwrap();
    }
    assert_eq!(members[0].alarms().await.unwrap(), []);
    for member in members {
        eventually("no member reports it any more", async || {
            told(member).await.is_empty().then_some(())
        })
        .await;
    }
    members[0].put(b"key", b"value").await.unwrap();
}

/// The alarms, once every member reports them in the words that the operator reads.
async fn alarms_told(members: &[Member]) -> Vec<Alarm> {
    let mut ids = Vec::new();
    for member in members {
        ids.push(member.status().await.unwrap().member_id);
    }
    // Each at its quota raises its own, in its own time.
    let alarms = eventually("every member reports the alarms", async || {
        let alarms = members[0].alarms().await.unwrap();
        for member in members {
            let told = told(member).await;
            let is_told = |alarm: &Alarm| {
                told.contains(&format!("memberID:{} alarm:NOSPACE", alarm.member_id))
            };
            if alarms.is_empty() || !alarms.iter().all(is_told) || told.len() != alarms.len() {
                return None;
            }
        }
        Some(alarms)
    })
    .await;
    for alarm in &alarms {
        assert_eq!(alarm.kind, AlarmKind::NoSpace);
        assert!(ids.contains(&alarm.member_id));
    }
    alarms
}

/// What a compaction frees shows in the status of a member after its next write, and now and then, where an old read
/// had not ended yet, only after the one after it. So each is asked twice, and each time for one revision more.
async fn compact(members: &[Member], floor: i64) {
    for (revision, member) in (floor - 10..).zip(members.iter().chain(members)) {
        let patient = member.clone().with_deadline(Duration::from_mins(1));
        patient.compact(revision, true).await.unwrap();
    }
    for member in members {
        let status = member.status().await.unwrap();
        assert!(status.db_size_in_use < QUOTA * 7 / 10, "{status:?}");
    }
    let first = members[0].clone().with_deadline(Duration::from_mins(1));
    first.compact(floor, true).await.unwrap();
    let again = first.compact(floor, true).await.unwrap_err();
    assert!(matches!(again.cause, Cause::Compacted), "{again:?}");
    let ahead = first.compact(floor + 10_000, true).await.unwrap_err();
    assert!(matches!(ahead.cause, Cause::FutureRevision), "{ahead:?}");
}

async fn defragment(member: &Member) {
    let patient = member.clone().with_deadline(Duration::from_mins(1));
    patient.defragment().await.unwrap();
    let status = member.status().await.unwrap();
    assert!(status.db_size < QUOTA * 7 / 10, "{status:?}");
    // What a second one could win is too little to be worth it.
    let waste = status.db_size.saturating_sub(status.db_size_in_use);
    assert!(
        waste < 1 << 20 || waste * 10 < status.db_size,
        "{waste} of {status:?}"
    );
}

pub(crate) async fn a_lone_member_gets_its_space_back(binary: PathBuf) {
    let seat = Seat::new("c-0");
    let _process = seat.start_with(&binary, &[&seat], &[QUOTA_FLAG]);
    let members = handles([&seat]);
    serving(&members[0]).await;
    comes_back(&members, &binary).await;
}

pub(crate) async fn three_members_get_their_space_back(binary: PathBuf) {
    let seats = ["c-0", "c-1", "c-2"].map(Seat::new);
    let [first, second, third] = &seats;
    let all = [first, second, third];
    let _processes = all.map(|seat| seat.start_with(&binary, &all, &[QUOTA_FLAG]));
    let members = handles(all);
    for member in &members {
        serving(member).await;
    }
    comes_back(&members, &binary).await;
    // The same data has the same hash, at one revision after one compaction.
    let mut revisions = Vec::new();
    for member in &members {
        member.read_linearizable().await.unwrap();
        revisions.push(member.status().await.unwrap().revision);
    }
    let common = *revisions.iter().min().unwrap();
    let mut hashes = Vec::new();
    for member in &members {
        let hash = member.hash_kv(common).await.unwrap();
        assert_eq!(hash.revision, common);
        assert!(hash.compact_revision > 0);
        hashes.push(hash);
    }
    assert!(hashes.iter().all(|hash| *hash == hashes[0]), "{hashes:?}");
    let past = members[0].hash_kv(1).await.unwrap_err();
    assert!(matches!(past.cause, Cause::Compacted), "{past:?}");
}

pub(crate) async fn data_that_was_changed_on_disk_shows_in_the_hash(binary: PathBuf) {
    let mut trio = Trio::new(&binary).await;
    let word = b"a-word-that-is-found-nowhere-else";
    let revision = trio.members[0].put(b"key", word).await.unwrap();
    let before = hashes(&trio, revision).await;
    assert!(before.iter().all(|hash| *hash == before[0]), "{before:?}");
    let leader = trio.leader().await;
    let victim = (leader + 1) % 3;
    assert!(trio.alter(victim, &binary, word).await > 0);
    // No alarm yet; only the hash shows it.
    let after = hashes(&trio, revision).await;
    for place in 0..3 {
        let same = after[place] == before[place];
        assert_eq!(same, place != victim, "{after:?}");
    }
    let local = trio.members[victim].get(b"key", Consistency::Local).await;
    assert_ne!(local.unwrap().unwrap().value, word);
}

async fn hashes(trio: &Trio, revision: i64) -> Vec<Hash> {
    let mut all = Vec::new();
    for member in &trio.members {
        member.read_linearizable().await.unwrap();
        all.push(member.hash_kv(revision).await.unwrap());
    }
    all
}

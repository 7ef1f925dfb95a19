//! Crashes between any two steps.

use gate::Identity;

use super::*;
use crate::{
    judge::{Place, Verdict, judge},
    look::look,
    volume::{member, write_identity},
    wal::{Head, tests::Writer},
};

const UID: &str = "uid-1";
const NONCE_2: &str = "0123456789abcdef0123456789abcdef";
const ASIDE: &str = "aside-0123456789abcdef0123456789abcdef";
const WAL: &str = "wal/0000000000000000-0000000000000000.wal";
const OLD: Head = Head {
    member_id: 0xa1,
    cluster_id: 0xc1,
};
const NEW: Head = Head {
    member_id: 0xa2,
    cluster_id: 0xc2,
};

/// Data in `directory/data`, and the identity that was written for it.
fn make(directory: &Path, head: Head, incarnation: u64) {
    let member = member(directory, Place::Data);
    for name in ["wal", "snap"] {
        fs::create_dir_all(member.join(name)).unwrap();
    }
    fs::write(member.join(WAL), Writer::new(0, head).preallocated()).unwrap();
    fs::write(member.join("snap/db"), format!("{head:?}")).unwrap();
    let identity = Identity {
        cluster_uid: UID.into(),
        incarnation,
        nonce: "n".into(),
        pod: None,
        member_id: Some(format!("{:x}", head.member_id)),
        cluster_id: Some(format!("{:x}", head.cluster_id)),
        transport: None,
    };
    write_identity(directory, &identity).unwrap();
}

fn is_whole(data: &Path, head: Head) -> bool {
    let wal = fs::read(data.join("member").join(WAL)).ok();
    wal == Some(Writer::new(0, head).preallocated())
        && fs::read_to_string(data.join("member/snap/db")).ok() == Some(format!("{head:?}"))
}

fn volume() -> (tempfile::TempDir, PathBuf) {
    let volume = tempfile::TempDir::new().unwrap();
    make(volume.path(), OLD, 1);
    let directory = directory(volume.path(), NONCE_2);
    fs::create_dir(&directory).unwrap();
    make(&directory, NEW, 2);
    (volume, directory)
}

#[test]
fn a_crash_during_a_swap_loses_neither_the_old_nor_the_new_data() {
    // A second crash may come while the first swap is carried on with.
    for first in 0..=SWAP.len() {
        for second in 0..=SWAP.len() {
            let (volume, directory) = volume();
            let volume = volume.path();
            for steps in [first, second] {
                if !directory.join("identity.json").exists() {
                    continue;
                }
                for step in SWAP.iter().take(steps) {
                    step(volume, &directory).unwrap();
                }
                let (data, aside) = (volume.join("data"), volume.join(ASIDE));
                assert!(is_whole(&data, OLD) != is_whole(&aside, OLD), "{steps}");
                let fresh = directory.join("data");
                assert!(is_whole(&fresh, NEW) != is_whole(&data, NEW), "{steps}");
            }
            settle(volume).unwrap();
            let verdict = judge(&look(volume).unwrap(), UID, Some(2));
            assert_eq!(verdict, Verdict::Start, "{first} {second}");
            assert!(is_whole(&volume.join("data"), NEW));
            assert!(is_whole(&volume.join(ASIDE), OLD));
            let kept = fs::read_to_string(volume.join(ASIDE).join("identity.json")).unwrap();
            assert!(kept.contains(r#""incarnation":1"#), "{kept}");
            assert!(!directory.exists());
            settle(volume).unwrap();
        }
    }
}

#[test]
fn an_unfinished_recovery_is_removed_and_nothing_else() {
    let (volume, directory) = volume();
    let volume = volume.path();
    fs::remove_file(directory.join("identity.json")).unwrap();
    fs::write(directory.join("identity.json.tmp"), "half").unwrap();
    settle(volume).unwrap();
    assert!(!directory.exists());
    assert!(is_whole(&volume.join("data"), OLD));
    assert_eq!(
        judge(&look(volume).unwrap(), UID, None),
        Verdict::Start,
        "the old data is as it was"
    );
}

#[test]
fn directories_of_others_stay() {
    let volume = tempfile::TempDir::new().unwrap();
    make(volume.path(), OLD, 1);
    let names = [
        "recover-",
        "recover-2026-11-16",
        "recover-0123456789abcdef0123456789abcde",
        "recover-0123456789ABCDEF0123456789abcdef",
        "recover-0123456789abcdef0123456789abcdef0",
    ];
    for name in names {
        let directory = volume.path().join(name);
        fs::create_dir(&directory).unwrap();
        // Not even with a file in it that looks like ours.
        fs::write(directory.join("identity.json"), "{}").unwrap();
        fs::create_dir(directory.join("data")).unwrap();
    }
    settle(volume.path()).unwrap();
    for name in names {
        assert!(volume.path().join(name).join("data").exists(), "{name}");
    }
    assert!(is_whole(&volume.path().join("data"), OLD));
}

const USED: &str = "restore-0a";
/// Brought for another restore, and what others left.
const OTHERS: [&str; 4] = ["restore-0b", "restore-", "restore-2026-11-16", "backup"];

/// As after a restore that is complete; brought snapshots and foreign directories lie there.
fn restored(used: Option<&str>) -> (tempfile::TempDir, PathBuf) {
    let (volume, directory) = volume();
    for name in OTHERS.into_iter().chain([USED]) {
        let brought = volume.path().join(name);
        fs::create_dir(&brought).unwrap();
        for file in ["snapshot.db", "ready.json"] {
            fs::write(brought.join(file), name).unwrap();
        }
    }
    if let Some(used) = used {
        fs::write(directory.join("used"), used).unwrap();
    }
    (volume, directory)
}

fn is_brought(volume: &Path, name: &str) -> bool {
    let is_there = |file: &str| volume.join(name).join(file).exists();
    is_there("snapshot.db") && is_there("ready.json")
}

#[test]
fn a_crash_during_the_swap_of_a_restore_leaves_the_snapshot_until_its_data_has_its_place() {
    for first in 0..=SWAP.len() {
        for second in 0..=SWAP.len() {
            let (volume, directory) = restored(Some(USED));
            let volume = volume.path();
            for steps in [first, second] {
                if !directory.join("identity.json").exists() {
                    continue;
                }
                for step in SWAP.iter().take(steps) {
                    step(volume, &directory).unwrap();
                }
                let is_placed = is_whole(&volume.join("data"), NEW);
                assert!(is_placed || is_brought(volume, USED), "{first} {second}");
            }
            settle(volume).unwrap();
            assert!(!volume.join(USED).exists(), "{first} {second}");
            for name in OTHERS {
                assert!(is_brought(volume, name), "{name}");
            }
            assert!(is_whole(&volume.join("data"), NEW));
            assert!(is_whole(&volume.join(ASIDE), OLD));
            assert!(!directory.exists());
        }
    }
}

/// Killed while the snapshot is being removed, or it was removed by hand.
#[test]
fn a_snapshot_that_is_gone_in_part_or_whole_holds_nothing_up() {
    for gone in ["restore-0a/snapshot.db", "restore-0a"] {
        let (volume, directory) = restored(Some(USED));
        let volume = volume.path();
        let path = volume.join(gone);
        if path.is_dir() {
            fs::remove_dir_all(path).unwrap();
        } else {
            fs::remove_file(path).unwrap();
        }
        settle(volume).unwrap();
        assert!(!volume.join(USED).exists() && !directory.exists());
        assert!(is_whole(&volume.join("data"), NEW));
    }
}

#[test]
fn only_the_directory_that_was_used_goes() {
    let outside = tempfile::TempDir::new().unwrap();
    fs::write(outside.path().join("snapshot.db"), "x").unwrap();
    // A recovery from a survivor's data has noted nothing, and a note that leads elsewhere is not followed.
    let elsewhere = [
        "",
        "backup",
        "restore-",
        "restore-/../backup",
        "aside-0",
        ".",
    ];
    for used in elsewhere.map(Some).into_iter().chain([None]) {
        let (volume, directory) = restored(used);
        let volume = volume.path();
        settle(volume).unwrap();
        for name in OTHERS.into_iter().chain([USED]) {
            assert!(is_brought(volume, name), "{used:?} {name}");
        }
        assert!(!directory.exists());
        assert!(is_whole(&volume.join("data"), NEW));
    }
    let (volume, _) = restored(Some("restore-0c"));
    let link = volume.path().join("restore-0c");
    std::os::unix::fs::symlink(outside.path(), &link).unwrap();
    settle(volume.path()).unwrap();
    assert!(outside.path().join("snapshot.db").exists());
    assert!(is_whole(&volume.path().join("data"), NEW));
}

#[test]
fn a_restore_that_is_not_complete_keeps_its_snapshot() {
    let (volume, directory) = restored(Some(USED));
    let volume = volume.path();
    fs::remove_file(directory.join("identity.json")).unwrap();
    settle(volume).unwrap();
    assert!(!directory.exists());
    assert!(is_brought(volume, USED));
    assert!(is_whole(&volume.join("data"), OLD));
}

/// What a wait that is Empty finds: no data at all, an empty directory, or remains that are none.
#[test]
fn new_data_takes_the_place_of_nothing() {
    for steps in 0..=SWAP.len() {
        for remains in [None, Some("data"), Some("data/member/wal")] {
            let (volume, directory) = restored(Some(USED));
            let volume = volume.path();
            fs::remove_dir_all(volume.join("data")).unwrap();
            if let Some(remains) = remains {
                fs::create_dir_all(volume.join(remains)).unwrap();
            }
            for step in SWAP.iter().take(steps) {
                step(volume, &directory).unwrap();
            }
            settle(volume).unwrap();
            let verdict = judge(&look(volume).unwrap(), UID, Some(2));
            assert_eq!(verdict, Verdict::Start, "{steps} {remains:?}");
            assert!(is_whole(&volume.join("data"), NEW));
            assert_eq!(
                volume.join(ASIDE).exists(),
                remains == Some("data/member/wal")
            );
            assert!(!directory.exists() && !volume.join(USED).exists());
        }
    }
}

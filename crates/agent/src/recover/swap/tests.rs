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

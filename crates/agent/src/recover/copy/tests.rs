//! Logs of several files, torn, uncommitted or damaged.

use super::*;
use crate::wal::{Head, read_tail, tests::Writer};

const HEAD: Head = Head {
    member_id: 0xa1,
    cluster_id: 0xc1,
};

/// A volume with these WAL files, oldest first, and a database.
fn volume(files: &[Vec<u8>]) -> tempfile::TempDir {
    let volume = tempfile::TempDir::new().unwrap();
    let member = volume.path().join("data/member");
    for name in ["wal", "snap"] {
        fs::create_dir_all(member.join(name)).unwrap();
    }
    for (sequence, bytes) in files.iter().enumerate() {
        fs::write(member.join("wal").join(name(sequence)), bytes).unwrap();
    }
    for name in ["wal/0.tmp", "snap/db", "snap/1-2.snap", "snap/db.tmp.1"] {
        fs::write(member.join(name), name).unwrap();
    }
    volume
}

fn name(sequence: usize) -> String {
    format!("{sequence:016x}-{sequence:016x}.wal")
}

/// The files of the copy's log.
fn copied(files: &[Vec<u8>]) -> Result<Vec<Vec<u8>>, String> {
    let volume = volume(files);
    let work = volume.path().join("work");
    copy(volume.path(), &work)?;
    let read = |directory: &str| {
        (0..files.len())
            .map(|sequence| fs::read(volume.path().join(directory).join(name(sequence))).unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(read("data/member/wal"), files, "the original is only read");
    for (name, expected) in [("db", true), ("1-2.snap", true), ("db.tmp.1", false)] {
        assert_eq!(work.join("member/snap").join(name).exists(), expected);
    }
    assert!(!work.join("member/wal/0.tmp").exists());
    Ok(read("work/member/wal"))
}

fn commit(bytes: &[u8]) -> Option<u64> {
    let size = u64::try_from(bytes.len()).unwrap();
    let tail = read_tail(bytes, size, true, &|| false).unwrap();
    assert_eq!(tail.damage, None);
    tail.commit
}

#[test]
fn all_of_the_log_is_committed_in_the_copy() {
    let log = Writer::new(0, HEAD).state(1, 1).entry(1, 2, b"a");
    let log = log.entry(2, 3, b"acknowledged");
    assert_eq!(commit(&log.bytes), Some(1));
    let copies = copied(&[log.clone().preallocated()]).unwrap();
    assert_eq!(commit(&copies[0]), Some(3));
    assert_eq!(copies[0].get(..log.bytes.len()), Some(&log.bytes[..]));

    let done = log.state(2, 3);
    let copies = copied(&[done.clone().preallocated()]).unwrap();
    assert_eq!(copies[0], done.bytes, "nothing to add");
}

#[test]
fn what_a_file_that_was_just_begun_does_not_tell_the_ones_before_it_do() {
    let first = Writer::new(0, HEAD).state(1, 1).entry(1, 2, b"a");
    let second = Writer::new(first.crc, HEAD).entry(2, 3, b"b");
    let third = Writer::new(second.crc, HEAD);
    let files = [first.bytes, second.bytes, third.preallocated()];
    let copies = copied(&files).unwrap();
    assert_eq!(copies[..2], files[..2]);
    assert_eq!(commit(&copies[2]), Some(3));
}

#[test]
fn a_torn_end_is_left_behind_and_damage_is_refused() {
    let good = Writer::new(0, HEAD).state(1, 1).entry(1, 2, b"a");
    let torn = good.clone().entry(1, 3, &[0xaa; 3000]).bytes;
    let copies = copied(&[torn[..good.bytes.len() + 100].to_vec()]).unwrap();
    assert_eq!(copies[0], good.clone().state(1, 2).bytes);

    let next = Writer::new(good.crc, HEAD).state(1, 2);
    let torn = torn[..good.bytes.len() + 100].to_vec();
    // Not read unless it is needed; etcd itself looks at the rest.
    assert!(copied(&[torn.clone(), next.clone().entry(1, 3, b"").bytes]).is_ok());
    let refusal = copied(&[torn, next.bytes]).unwrap_err();
    assert!(refusal.contains("torn at offset"), "{refusal}");

    let mut flipped = good.clone().entry(1, 3, b"b").preallocated();
    flipped[good.bytes.len() + 20] ^= 1;
    assert!(copied(&[flipped]).unwrap_err().contains("at offset"));
}

#[test]
fn the_room_that_is_needed_grows_with_the_database() {
    let volume = volume(&[Writer::new(0, HEAD).preallocated()]);
    let before = needed_room(volume.path());
    let database = volume.path().join("data/member/snap/db");
    let file = File::options().write(true).open(database).unwrap();
    file.set_len(100 << 20).unwrap();
    let after = needed_room(volume.path());
    assert!(before > NEW_LOG && before < NEW_LOG + (1 << 20), "{before}");
    assert!(after > 264 << 20 && after < 265 << 20, "{after}");
}

//! Volumes with several WAL files, as a long-lived member leaves them.

use super::*;
use crate::wal::{Position, tests::Writer};

const OLD: Head = Head {
    member_id: 1,
    cluster_id: 2,
};

/// A volume with these WAL files, oldest first; each is named after its place.
fn volume(files: &[Vec<u8>]) -> tempfile::TempDir {
    let volume = tempfile::TempDir::new().unwrap();
    let directory = volume.path().join("data/member/wal");
    fs::create_dir_all(&directory).unwrap();
    for (sequence, bytes) in files.iter().enumerate() {
        let name = format!("{sequence:016x}-{:016x}.wal", sequence * 10);
        fs::write(directory.join(name), bytes).unwrap();
    }
    fs::write(directory.join("1.tmp"), "").unwrap();
    fs::write(
        directory.join("0000000000000009-0000000000000009.wal.broken"),
        "",
    )
    .unwrap();
    volume
}

fn log(files: &[Vec<u8>]) -> Log {
    let log = look_at_log(volume(files).path(), Place::Data, &|| false).unwrap();
    assert!(log.written.is_some());
    Log {
        written: None,
        ..log
    }
}

#[test]
fn the_newest_file_decides_who_wrote_the_log() {
    let new = Head {
        member_id: 3,
        cluster_id: 4,
    };
    let files = [
        Writer::new(0, OLD).bytes,
        Writer::new(5, new).preallocated(),
    ];
    assert_eq!(look(volume(&files).path()).unwrap().wal, Wal::Head(new));
    let files = [Writer::new(0, OLD).bytes, Vec::new()];
    assert!(matches!(
        look(volume(&files).path()).unwrap().wal,
        Wal::Unreadable(_)
    ));
}

#[test]
fn a_file_that_was_just_begun_leaves_the_last_entry_to_the_one_before() {
    let before = Writer::new(0, OLD)
        .state(1, 7)
        .entry(1, 8, b"a")
        .entry(2, 9, b"b");
    let begun = Writer::new(before.crc, OLD).state(2, 8);
    let last = Position { term: 2, index: 9 };
    let ancient = b"not read at all".to_vec();
    let expected = Log {
        last,
        commit: 8,
        damage: None,
        goes_on: false,
        written: None,
    };
    let files = [
        ancient.clone(),
        before.bytes.clone(),
        begun.clone().preallocated(),
    ];
    assert_eq!(log(&files), expected);

    // Once the newest says it all, the one before is not read.
    let full = begun.entry(3, 10, b"c").preallocated();
    let last = Position { term: 3, index: 10 };
    assert_eq!(
        log(&[before.bytes, ancient, full]),
        Log { last, ..expected }
    );
}

#[test]
fn a_torn_write_is_an_end_only_in_the_newest_file() {
    let mut before = Writer::new(0, OLD).entry(1, 8, b"a").bytes;
    before.truncate(before.len() - 4);
    assert_eq!(log(std::slice::from_ref(&before)).damage, None);
    let damage = log(&[before, Writer::new(0, OLD).preallocated()])
        .damage
        .unwrap();
    assert!(damage.contains("a newer file follows"), "{damage}");
}

#[test]
fn the_root_is_looked_at_only_when_nothing_lies_in_the_data_directory() {
    let new = Head {
        member_id: 3,
        cluster_id: 4,
    };
    let volume = volume(&[Writer::new(0, new).preallocated()]);
    let root = volume.path().join("member/wal");
    fs::create_dir_all(&root).unwrap();
    let name = "0000000000000000-0000000000000000.wal";
    fs::write(root.join(name), Writer::new(0, OLD).preallocated()).unwrap();
    let place = |volume: &Path| {
        let seen = look(volume).unwrap();
        (seen.place, seen.wal, seen.database)
    };
    assert_eq!(place(volume.path()), (Place::Data, Wal::Head(new), false));
    let wal = volume.path().join("data/member/wal");
    fs::write(wal.join(name), "damaged").unwrap();
    let (found, wal_seen, _) = place(volume.path());
    assert!(found == Place::Data && matches!(wal_seen, Wal::Unreadable(_)));
    fs::remove_dir_all(&wal).unwrap();
    fs::create_dir(volume.path().join("data/member/snap")).unwrap();
    fs::write(volume.path().join("data/member/snap/db"), "").unwrap();
    assert_eq!(place(volume.path()), (Place::Data, Wal::Absent, true));
    fs::remove_dir_all(volume.path().join("data")).unwrap();
    assert_eq!(place(volume.path()), (Place::Root, Wal::Head(OLD), false));
}

#[test]
fn our_link_is_no_data_in_the_root() {
    let volume = volume(&[Writer::new(0, OLD).preallocated()]);
    let path = volume.path();
    let head = |place| look_at_head(path, place).unwrap();
    volume::link::lead(path, volume::link::Lead::ToData);
    assert!(path.join("member/wal").is_dir());
    assert_eq!((head(Place::Data), head(Place::Root)), (Some(OLD), None));
    // A link that is not ours leads to other data.
    fs::rename(path.join("data"), path.join("elsewhere")).unwrap();
    assert_eq!(look(path).unwrap().wal, Wal::Absent);
    fs::remove_file(path.join("member")).unwrap();
    std::os::unix::fs::symlink("elsewhere/member", path.join("member")).unwrap();
    let seen = look(path).unwrap();
    assert_eq!((seen.place, seen.wal), (Place::Root, Wal::Head(OLD)));
}

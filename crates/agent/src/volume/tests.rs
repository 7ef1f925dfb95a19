//! Crashes between any two steps.

use gate::State;

use super::*;
use crate::{
    judge::{Verdict, Wal, judge},
    look::look,
    permit::Start,
    wal::{Head, tests::Writer},
};

const UID: &str = "uid-1";
const HEAD: Head = Head {
    member_id: 0xa1,
    cluster_id: 0xc1,
};
const WAL: &str = "wal/0000000000000000-0000000000000000.wal";

/// A volume with data in one place, and what else may lie around.
fn volume(place: Place) -> tempfile::TempDir {
    let volume = tempfile::TempDir::new().unwrap();
    let path = member(volume.path(), place);
    for directory in ["wal", "snap"] {
        fs::create_dir_all(path.join(directory)).unwrap();
    }
    fs::write(path.join(WAL), Writer::new(0, HEAD).preallocated()).unwrap();
    fs::write(path.join("snap/db"), "database").unwrap();
    fs::create_dir(volume.path().join("lost+found")).unwrap();
    volume
}

fn is_whole(member: &Path) -> bool {
    let wal = fs::read(member.join(WAL)).ok();
    wal == Some(Writer::new(0, HEAD).preallocated())
        && fs::read(member.join("snap/db")).ok().as_deref() == Some(b"database")
}

fn identity() -> Identity {
    Identity {
        cluster_uid: UID.into(),
        incarnation: 1,
        nonce: "n2".into(),
        pod: None,
        member_id: Some("a1".into()),
        cluster_id: Some("c1".into()),
        transport: None,
    }
}

fn state(volume: &Path) -> Option<State> {
    match judge(&look(volume).unwrap(), UID, None) {
        Verdict::Start => None,
        Verdict::Wait(state, _) => Some(state),
    }
}

#[test]
fn a_crash_during_an_adoption_leaves_the_data_whole_in_one_place() {
    for leftover in [false, true] {
        for steps in 0..=ADOPTION.len() {
            let volume = volume(Place::Root);
            let volume = volume.path();
            if leftover {
                fs::create_dir_all(volume.join("data/member/wal.tmp")).unwrap();
            }
            for step in ADOPTION.iter().take(steps) {
                step(volume, "n1").unwrap();
            }
            let seen = look(volume).unwrap();
            assert_eq!(seen.wal, Wal::Head(HEAD), "{steps}");
            assert!(seen.database);
            assert_eq!(state(volume), Some(State::Unidentified), "{steps}");
            let is_last = steps == ADOPTION.len();
            assert_eq!(is_whole(&member(volume, Place::Data)), is_last, "{steps}");
            // An etcd in the root finds it before, in between and after.
            assert!(is_whole(&member(volume, Place::Root)), "{steps}");
            assert_eq!(link::find(volume), is_last.then_some(Lead::ToData));

            let permit = Permit {
                discard: false,
                identity: identity(),
                start: Start::OnData,
            };
            prepare(volume, seen.place, &permit).unwrap();
            assert_eq!(state(volume), None, "{steps}");
            assert!(is_whole(&member(volume, Place::Data)));
            assert_eq!(link::find(volume), Some(Lead::ToData));
            assert!(is_whole(&member(volume, Place::Root)));
        }
    }
}

#[test]
fn a_crash_while_removed_data_is_set_aside_loses_no_identity_before_the_data() {
    for place in [Place::Data, Place::Root] {
        for steps in 0..=REMOVAL.len() {
            let volume = volume(place);
            let volume = volume.path();
            write_identity(volume, &identity()).unwrap();
            let target = removed(volume, 0xa1);
            fs::create_dir_all(target.join("member/wal")).unwrap();
            for step in REMOVAL.iter().take(steps) {
                step(volume, place, &target).unwrap();
            }
            let before = match (steps, place) {
                (0 | 1, Place::Data) => None,
                (0 | 1, Place::Root) => Some(State::Unidentified),
                _later => Some(State::Empty),
            };
            assert_eq!(state(volume), before, "{place:?} {steps}");
            if before != Some(State::Empty) {
                set_aside_removed(volume, place, 0xa1).unwrap();
                assert_eq!(state(volume), Some(State::Empty));
                let stays = place == Place::Root;
                assert_eq!(volume.join("identity.json").exists(), stays);
                assert_eq!(target.join("identity.json").exists(), !stays);
            }
            assert!(is_whole(&target.join("member")), "{place:?} {steps}");
            let left = (place == Place::Root).then_some(Lead::Nowhere);
            assert_eq!(link::find(volume), left);
        }
    }
}

#[test]
fn discarded_data_is_not_found_again_in_the_root() {
    let volume = volume(Place::Root);
    let volume = volume.path();
    fs::create_dir_all(volume.join("data/member/snap")).unwrap();
    let permit = Permit {
        discard: true,
        identity: identity(),
        start: Start::OnData,
    };
    prepare(volume, Place::Root, &permit).unwrap();
    assert_eq!(state(volume), Some(State::Empty));
    assert!(is_whole(&volume.join("aside-n2-member")));
    assert!(volume.join("aside-n2/member/snap").is_dir());
    assert_eq!(link::find(volume), Some(Lead::Nowhere));
}

#[test]
fn no_data_begins_in_the_root_once_adopted_data_went_aside() {
    let discard: fn(&Path) = |volume| {
        let permit = Permit {
            discard: true,
            identity: identity(),
            start: Start::OnData,
        };
        prepare(volume, Place::Data, &permit).unwrap();
        assert!(is_whole(&volume.join("aside-n2/member")));
        assert!(!link::exists(&volume.join("aside-n2-member")).unwrap());
    };
    let remove: fn(&Path) = |volume| set_aside_removed(volume, Place::Data, 0xa1).unwrap();
    for goes in [discard, remove] {
        let volume = volume(Place::Root);
        let volume = volume.path();
        for step in ADOPTION {
            step(volume, "n1").unwrap();
        }
        goes(volume);
        assert_eq!(state(volume), Some(State::Empty));
        assert_eq!(link::find(volume), Some(Lead::ToData));
        let root = member(volume, Place::Root);
        let error = fs::create_dir_all(root.join("snap")).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
    }
}

#[test]
fn the_transport_is_noted_where_it_changed_and_nothing_else_is() {
    let volume = volume(Place::Data);
    let path = volume.path();
    let file = path.join("identity.json");
    write_identity(path, &identity()).unwrap();
    let seen = || look(path).unwrap().identity;
    let text = || fs::read_to_string(&file).unwrap();
    let plain = text();
    // A file that must not be written again.
    let blocked = path.join("identity.json.tmp");
    fs::create_dir(&blocked).unwrap();
    note_transport(path, &seen(), None).unwrap();
    let tls = "client=Tls,peer=Tls".to_owned();
    let fault = note_transport(path, &seen(), Some(&tls)).unwrap_err();
    assert_eq!((fault.exit, text()), (Exit::Write, plain.clone()));
    fs::remove_dir(&blocked).unwrap();

    note_transport(path, &seen(), Some(&tls)).unwrap();
    let expected = Identity {
        transport: Some(tls.clone()),
        ..identity()
    };
    assert_eq!(seen(), IdentityFile::Says(expected));
    assert_eq!(state(path), None);
    note_transport(path, &seen(), None).unwrap();
    assert_eq!(text(), plain);
    // Without an identity there is nothing to add to.
    note_transport(path, &IdentityFile::Absent, Some(&tls)).unwrap();
    assert_eq!(text(), plain);
}

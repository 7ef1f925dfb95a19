//! Links in the root of a volume, and what must not be taken for one.

use std::path::PathBuf;

use super::*;
use crate::permit::tests::STATES;

fn root(volume: &Path) -> PathBuf {
    member(volume, Place::Root)
}

#[test]
fn a_link_is_made_and_turned_as_often_as_one_likes() {
    let volume = tempfile::TempDir::new().unwrap();
    let volume = volume.path();
    assert_eq!(find(volume), None);
    for wanted in [Lead::ToData, Lead::ToData, Lead::Nowhere, Lead::ToData] {
        // As a crash before the rename leaves it.
        symlink("anywhere", volume.join("member.tmp")).unwrap();
        set(volume, wanted).unwrap();
        assert_eq!(find(volume), Some(wanted));
        drop(fs::remove_file(volume.join("member.tmp")));
    }
    fs::create_dir_all(volume.join("data/member/wal")).unwrap();
    assert!(root(volume).join("wal").is_dir());
    set(volume, Lead::Nowhere).unwrap();
    assert!(!root(volume).exists());
    let error = fs::create_dir(root(volume)).unwrap_err();
    assert_eq!(error.kind(), io::ErrorKind::AlreadyExists);
}

#[test]
fn what_is_no_link_of_ours_stays() {
    for lead in [Lead::ToData, Lead::Nowhere] {
        let volume = tempfile::TempDir::new().unwrap();
        let volume = volume.path();
        fs::create_dir_all(root(volume).join("wal")).unwrap();
        set(volume, lead).unwrap();
        assert_eq!(find(volume), None);
        assert!(root(volume).join("wal").is_dir());

        // Other data on another disk.
        fs::rename(root(volume), volume.join("elsewhere")).unwrap();
        symlink("elsewhere", root(volume)).unwrap();
        set(volume, lead).unwrap();
        assert_eq!(find(volume), None);
        assert!(root(volume).join("wal").is_dir());
    }
}

#[test]
fn only_data_that_may_be_resumed_is_led_to_while_the_gate_waits() {
    for state in STATES {
        let leads = Lead::during(state) == Lead::ToData;
        assert_eq!(leads, state == State::Unidentified, "{state:?}");
    }
}

#[test]
fn data_leaves_the_root_and_a_link_takes_its_place() {
    type Move = fn(&Path, &Path, Lead) -> io::Result<()>;
    let in_steps: Move = |volume, target, lead| {
        symlink("anywhere", target).unwrap();
        move_out_in_steps(volume, target, lead)
    };
    let at_once: Move = move_out;
    for moved in [at_once, in_steps] {
        for lead in [Lead::ToData, Lead::Nowhere] {
            let volume = tempfile::TempDir::new().unwrap();
            let volume = volume.path();
            let target = volume.join("data/member");
            fs::create_dir_all(root(volume).join("wal")).unwrap();
            fs::create_dir(volume.join("data")).unwrap();
            moved(volume, &target, lead).unwrap();
            assert_eq!(find(volume), Some(lead));
            assert!(target.symlink_metadata().unwrap().is_dir());
            assert!(target.join("wal").is_dir());
            assert_eq!(root(volume).join("wal").is_dir(), lead == Lead::ToData);
        }
    }
}

#[test]
fn nothing_leaves_the_root_where_no_link_can_be_made() {
    let volume = tempfile::TempDir::new().unwrap();
    let volume = volume.path();
    fs::create_dir_all(root(volume).join("wal")).unwrap();
    // A directory could be moved there, and no link be made.
    let target = volume.join("data/member");
    fs::create_dir_all(&target).unwrap();
    move_out(volume, &target, Lead::ToData).unwrap_err();
    assert!(root(volume).join("wal").is_dir());
}

//! Which file passes for the snapshot that a grant names.

use std::os::unix::fs::symlink;

use super::*;

/// A volume with a snapshot of a length, and what its grant says.
fn volume(length: u8) -> (tempfile::TempDir, Snapshot) {
    let volume = tempfile::TempDir::new().unwrap();
    let bytes: Vec<u8> = (0..length).collect();
    fs::create_dir(volume.path().join("restore-0a")).unwrap();
    fs::write(volume.path().join("restore-0a/snapshot.db"), &bytes).unwrap();
    let end = bytes.iter().rev().take(32).rev();
    let digits: Vec<String> = end.map(|byte| format!("{byte:02x}")).collect();
    let snapshot = Snapshot {
        directory: "restore-0a".into(),
        trailer: digits.concat(),
        skip_hash_check: false,
    };
    (volume, snapshot)
}

#[test]
fn a_file_that_ends_as_the_grant_says_is_found() {
    for length in [32, 33, 200] {
        let (volume, snapshot) = volume(length);
        let path = volume.path().join("restore-0a/snapshot.db");
        assert_eq!(find(volume.path(), &snapshot), Ok(path));
        assert_eq!(size(volume.path(), &snapshot), u64::from(length));
    }
}

#[test]
fn another_file_is_not_taken_for_it() {
    let (volume, snapshot) = volume(200);
    let refused = |snapshot: &Snapshot| find(volume.path(), snapshot).unwrap_err();
    let path = volume.path().join("restore-0a/snapshot.db");
    let mut bytes = fs::read(&path).unwrap();
    for at in [168, 199] {
        bytes[at] ^= 1;
        fs::write(&path, &bytes).unwrap();
        let why = refused(&snapshot);
        assert!(why.contains("it is another file"), "{why}");
        assert!(why.contains(&snapshot.trailer), "{why}");
        bytes[at] ^= 1;
    }
    fs::write(&path, &bytes[..31]).unwrap();
    assert!(refused(&snapshot).contains("too short"));
    fs::write(&path, "").unwrap();
    assert!(refused(&snapshot).contains("too short"));
    fs::remove_file(&path).unwrap();
    let why = refused(&snapshot);
    assert_eq!(why, "restore-0a/snapshot.db is missing on the volume");
    fs::remove_dir(volume.path().join("restore-0a")).unwrap();
    assert!(refused(&snapshot).contains("is missing"));
    assert_eq!(size(volume.path(), &snapshot), 0);
}

#[test]
fn nothing_but_a_file_in_a_directory_of_the_volume_is_read() {
    let (outside, snapshot) = volume(200);
    let from = outside.path().join("restore-0a");
    let refused = |volume: &Path| {
        let why = find(volume, &snapshot).unwrap_err();
        assert!(why.contains("is no file in a directory"), "{why}");
    };
    let volume = tempfile::TempDir::new().unwrap();
    let directory = volume.path().join("restore-0a");
    symlink(&from, &directory).unwrap();
    refused(volume.path());
    fs::remove_file(&directory).unwrap();
    fs::create_dir(&directory).unwrap();
    symlink(from.join("snapshot.db"), directory.join("snapshot.db")).unwrap();
    refused(volume.path());
    fs::remove_file(directory.join("snapshot.db")).unwrap();
    fs::create_dir(directory.join("snapshot.db")).unwrap();
    refused(volume.path());
}

//! The snapshot that was brought to the volume before this pod started. It is only read until the data that was made of it
//! lies in its place; from then on it is of no use, and its directory is removed. A restore that failed leaves it for the next.

use std::{
    fs::{self, File},
    io::{self, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
};

use gate::SNAPSHOT_FILE;
use serde_json::json;

use crate::{
    permit::{Snapshot, restore},
    telemetry::{Level, log},
};

/// In the directory of a restore: the name of the directory that it made its data of.
const USED: &str = "used";
/// Bytes of the hash at the end of a snapshot.
const HASH: i64 = 32;

/// The file, if it is the one that the grant was made for; the error is one sentence for people. No link is followed: what
/// was brought lies on the volume.
pub(super) fn find(volume: &Path, snapshot: &Snapshot) -> Result<PathBuf, String> {
    let path = path(volume, snapshot);
    let name = format!("{}/{SNAPSHOT_FILE}", snapshot.directory);
    let cannot = |error: io::Error| match error.kind() {
        io::ErrorKind::NotFound => format!("{name} is missing on the volume"),
        _other => format!("cannot read {name}: {error}"),
    };
    let directory = volume.join(&snapshot.directory).symlink_metadata();
    let file = path.symlink_metadata();
    if !directory.map_err(cannot)?.is_dir() || !file.map_err(cannot)?.is_file() {
        return Err(format!("{name} is no file in a directory of the volume"));
    }
    let found = read_trailer(&path).map_err(cannot)?;
    match found {
        Some(found) if found == snapshot.trailer => Ok(path),
        Some(found) => Err(format!(
            "{name} ends in {found}, not in {}: it is another file",
            snapshot.trailer
        )),
        None => Err(format!("{name} is too short to be a snapshot")),
    }
}

/// What a restore needs beside the snapshot: as much again, before the log.
pub(super) fn size(volume: &Path, snapshot: &Snapshot) -> u64 {
    let file = path(volume, snapshot).symlink_metadata();
    file.map_or(0, |file| file.len())
}

/// Notes in the directory of a restore what becomes useless with it.
pub(super) fn note(directory: &Path, snapshot: &Snapshot) -> io::Result<()> {
    fs::write(directory.join(USED), &snapshot.directory)
}

/// Removes what the restore in `directory` was made of; a recovery from a survivor's data has noted nothing. A failure costs
/// space and is no reason to hold the start up.
///
/// Invariant: nothing but the noted directory goes, and no other name than that of a brought backup is taken
/// (`only_the_directory_that_was_used_goes`).
pub(super) fn clear(volume: &Path, directory: &Path) {
    let warn = |name: &str, error: &dyn std::fmt::Display| {
        let fields = json!({"directory": name, "error": error.to_string()});
        log(
            Level::Warn,
            "cannot remove a backup that was restored",
            &fields,
        );
    };
    let name = match fs::read_to_string(directory.join(USED)) {
        Ok(name) => name,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return,
        Err(error) => return warn(USED, &error),
    };
    if !restore::is_directory(&name) {
        return warn(&name, &"it is not named as one");
    }
    match fs::remove_dir_all(volume.join(&name)) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => warn(&name, &error),
        Ok(()) | Err(_) => {}
    }
}

fn path(volume: &Path, snapshot: &Snapshot) -> PathBuf {
    volume.join(&snapshot.directory).join(SNAPSHOT_FILE)
}

/// The end of a file, in hexadecimal digits; `None` when it has none.
fn read_trailer(path: &Path) -> io::Result<Option<String>> {
    use std::fmt::Write as _;
    let mut file = File::open(path)?;
    if i64::try_from(file.metadata()?.len()).is_ok_and(|length| length < HASH) {
        return Ok(None);
    }
    file.seek(SeekFrom::End(-HASH))?;
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes)?;
    let mut text = String::new();
    for byte in bytes {
        write!(text, "{byte:02x}").map_err(io::Error::other)?;
    }
    Ok(Some(text))
}

#[cfg(test)]
mod tests;

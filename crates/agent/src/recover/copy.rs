//! The working copy: all that etcd reads, with all of the log committed. The original is only read.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, BufReader, Read, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use serde_json::json;

use crate::{
    judge::Place,
    look,
    telemetry::{Level, log},
    volume,
    wal::{self, End, HardState, Position, Unreadable},
};

/// A new log is preallocated at this size, and restored data has one.
pub(super) const NEW_LOG: u64 = 64 << 20;

/// What a recovery needs beside the data, at most: the copy and the restored database at the same time,
/// or the copy with its log, whichever is more. A file system that shares blocks needs less.
pub(crate) fn needed_room(volume: &Path) -> u64 {
    let size = |path: &Path| path.metadata().map_or(0, |metadata| metadata.len());
    let snap = volume::member(volume, Place::Data).join("snap");
    let copied: u64 = list_snap(&snap)
        .unwrap_or_default()
        .iter()
        .map(|path| size(path))
        .sum();
    let log = look::list_wal(volume, Place::Data).map_or(0, |listed| {
        listed.files.last().map_or(0, |newest| size(newest))
    });
    copied + (log + NEW_LOG).max(size(&snap.join("db")) + NEW_LOG)
}

/// Copies the data into `work`. The error is one sentence for people.
pub(super) fn copy(volume: &Path, work: &Path) -> Result<(), String> {
    let copied = || -> io::Result<()> {
        let (wal, snap) = (work.join("member/wal"), work.join("member/snap"));
        for directory in [work, &work.join("member"), &wal, &snap] {
            DirBuilder::new().mode(0o700).create(directory)?;
        }
        for file in list_snap(&volume::member(volume, Place::Data).join("snap"))? {
            fs::copy(&file, snap.join(name_of(&file)))?;
        }
        Ok(())
    };
    copied().map_err(|error| format!("cannot copy the database: {error}"))?;
    copy_log(volume, &work.join("member/wal"))
}

/// What etcd reads in `member/snap`; the rest was never finished.
fn list_snap(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory)? {
        let path = entry?.path();
        let name = name_of(&path);
        if name == "db" || [".snap", ".snap.db"].iter().any(|end| name.ends_with(end)) {
            files.push(path);
        }
    }
    Ok(files)
}

/// The newest file is copied up to its end and committed there; etcd appends to it. Older ones are never
/// written to again, so a second name for each will do.
fn copy_log(volume: &Path, target: &Path) -> Result<(), String> {
    let listed = look::list_wal(volume, Place::Data).map_err(|fault| fault.message)?;
    let Some((newest, older)) = listed.files.split_last() else {
        return Err("there is no log".into());
    };
    let cannot = |path: &Path, error: &dyn std::fmt::Display| {
        format!("cannot copy the log {}: {error}", name_of(path))
    };
    let end = read_end(newest, true)?;
    let record = commit_all(&end, older)?;
    for path in older {
        let copy = target.join(name_of(path));
        fs::hard_link(path, &copy)
            .or_else(|_| fs::copy(path, &copy).map(|_| ()))
            .map_err(|error| cannot(path, &error))?;
    }
    let copied = || -> io::Result<()> {
        let mut copy = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(target.join(name_of(newest)))?;
        io::copy(&mut File::open(newest)?.take(end.offset), &mut copy)?;
        copy.write_all(&record)
    };
    copied().map_err(|error| cannot(newest, &error))
}

/// The record that commits the whole log; empty when all of it is committed. What the newest file does
/// not tell, because it was just begun, the ones before it do.
fn commit_all(end: &End, older: &[PathBuf]) -> Result<Vec<u8>, String> {
    let (mut last, mut state) = (end.last, end.state);
    for path in older.iter().rev() {
        if last.is_some() && state.is_some() {
            break;
        }
        let before = read_end(path, false)?;
        last = last.or(before.last);
        state = state.or(before.state);
    }
    let (last, state): (Position, HardState) =
        (last.unwrap_or_default(), state.unwrap_or_default());
    let record = end.commit(state, last);
    log(
        Level::Info,
        "the end of the log",
        &json!({"term": last.term, "index": last.index, "commit": state.commit, "raised": record.is_some()}),
    );
    Ok(record.unwrap_or_default())
}

fn read_end(path: &Path, is_newest: bool) -> Result<End, String> {
    let read = |file: File| match file.metadata() {
        Ok(metadata) => wal::read_end(
            BufReader::with_capacity(1 << 20, file),
            metadata.len(),
            is_newest,
        ),
        Err(error) => Err(Unreadable::Io(error)),
    };
    let why = match File::open(path).map_err(Unreadable::Io).and_then(read) {
        Ok(end) => return Ok(end),
        Err(Unreadable::Torn(at)) => format!("torn at offset {at}, but a newer file follows"),
        Err(Unreadable::Damaged(why)) => why,
        Err(Unreadable::Io(error)) => error.to_string(),
    };
    Err(format!("cannot read the log {}: {why}", name_of(path)))
}

fn name_of(path: &Path) -> String {
    path.file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests;

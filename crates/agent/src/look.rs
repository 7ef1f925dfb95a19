//! Looks at the volume and says what is there. Reads only, and as little as possible: names, the
//! identity file and the head of the newest WAL file; the whole of that file only when asked.

use std::{
    fs::{self, File},
    io::{self, BufReader, Read},
    path::{Path, PathBuf},
    time::UNIX_EPOCH,
};

use crate::{
    Result,
    judge::{IdentityFile, Log, Place, Seen, Wal},
    outcome::{Exit, Fault},
    volume,
    wal::{self, Head, Tail, Unreadable},
};

/// An identity file is some 200 bytes; more than this is not ours.
const LONGEST_IDENTITY: u64 = 64 << 10;

/// What can be seen at little cost.
pub(crate) fn look(volume: &Path) -> Result<Seen> {
    // A volume that is not mounted must not pass for an empty one.
    fs::read_dir(volume).map_err(|error| unreadable(volume, &error))?;
    let mut seen = Seen {
        place: Place::Data,
        wal: look_at_wal(volume, Place::Data)?,
        database: has_database(volume, Place::Data)?,
        identity: look_at_identity(&volume.join("identity.json"))?,
        log: None,
    };
    // Our own data is never passed over for something in the root.
    if seen.wal == Wal::Absent && !seen.database {
        let (wal, database) = (
            look_at_wal(volume, Place::Root)?,
            has_database(volume, Place::Root)?,
        );
        if wal != Wal::Absent || database {
            seen = Seen {
                place: Place::Root,
                wal,
                database,
                ..seen
            };
        }
    }
    Ok(seen)
}

/// Who wrote the log in one place; `None` when there is none that says.
pub(crate) fn look_at_head(volume: &Path, place: Place) -> Result<Option<Head>> {
    Ok(match look_at_wal(volume, place)? {
        Wal::Head(head) => Some(head),
        Wal::Absent | Wal::Unreadable(_) => None,
    })
}

/// How far the log goes: the newest file, and the one before it as long as the newest alone does not
/// say. Bounded by [`wal::LONGEST_SCAN`] each.
pub(crate) fn look_at_log(volume: &Path, place: Place, stop: &dyn Fn() -> bool) -> Result<Log> {
    let files = list_wal(volume, place)?.files;
    let mut found = Tail::default();
    for (age, path) in files.iter().rev().take(2).enumerate() {
        let read = |file: File| {
            let size = file.metadata()?.len();
            wal::read_tail(
                BufReader::with_capacity(1 << 20, file),
                size,
                age == 0,
                stop,
            )
        };
        let older = File::open(path)
            .and_then(read)
            .map_err(|error| unreadable(path, &error))?;
        found.last = found.last.or(older.last);
        found.commit = found.commit.or(older.commit);
        found.goes_on |= older.goes_on;
        found.damage = found
            .damage
            .or(older.damage.map(|why| format!("{}: {why}", name_of(path))));
        if found.last.is_some() && found.commit.is_some() {
            break;
        }
    }
    let Tail {
        last,
        commit,
        damage,
        goes_on,
    } = found;
    Ok(Log {
        last: last.unwrap_or_default(),
        commit: commit.unwrap_or_default(),
        damage,
        goes_on,
        written: files.last().and_then(|path| written(path)),
    })
}

/// When a file was last written to.
fn written(path: &Path) -> Option<i64> {
    let modified = path.metadata().ok()?.modified().ok()?;
    let since = modified.duration_since(UNIX_EPOCH).ok()?;
    i64::try_from(since.as_secs()).ok()
}

/// The first index that the newest WAL file may hold, by its name.
pub(crate) fn begin_of_newest(volume: &Path, place: Place) -> Result<Option<u64>> {
    let files = list_wal(volume, place)?.files;
    let stem = files.last().and_then(|path| path.file_stem()?.to_str());
    let index = stem.and_then(|stem| stem.split_once('-'));
    Ok(index.and_then(|(_, index)| u64::from_str_radix(index, 16).ok()))
}

/// WAL files by name, oldest first.
pub(crate) struct WalFiles {
    /// Named as etcd names them.
    pub(crate) files: Vec<PathBuf>,
    /// A file that ends in `.wal` without being named as etcd names one.
    misnamed: Option<String>,
}

/// The WAL files in one place.
pub(crate) fn list_wal(volume: &Path, place: Place) -> Result<WalFiles> {
    let directory = volume::member(volume, place).join("wal");
    let mut listed = WalFiles {
        files: Vec::new(),
        misnamed: None,
    };
    for name in names(volume, place, "wal")? {
        let Some(stem) = name.strip_suffix(".wal") else {
            continue;
        };
        let is_number = |text: &str| text.len() == 16 && u64::from_str_radix(text, 16).is_ok();
        match stem.split_once('-') {
            Some((sequence, index)) if is_number(sequence) && is_number(index) => {
                listed.files.push(directory.join(name));
            }
            _ => listed.misnamed = Some(name),
        }
    }
    // Fixed-width hexadecimal: the order of names is the order of sequence numbers.
    listed.files.sort_unstable();
    Ok(listed)
}

fn look_at_wal(volume: &Path, place: Place) -> Result<Wal> {
    let listed = list_wal(volume, place)?;
    let Some(newest) = listed.files.last() else {
        // etcd takes any `*.wal` for a sign of data.
        return Ok(listed.misnamed.map_or(Wal::Absent, |name| {
            Wal::Unreadable(format!("{name} is not named like a WAL file"))
        }));
    };
    let read = |file: File| match file.metadata() {
        Ok(metadata) => wal::read_head(BufReader::with_capacity(4096, file), metadata.len()),
        Err(error) => Err(Unreadable::Io(error)),
    };
    match File::open(newest).map_err(Unreadable::Io).and_then(read) {
        Ok(head) => Ok(Wal::Head(head)),
        Err(Unreadable::Torn(at)) => Ok(Wal::Unreadable(format!(
            "{} is torn at offset {at}",
            name_of(newest)
        ))),
        Err(Unreadable::Damaged(why)) => Ok(Wal::Unreadable(format!("{}: {why}", name_of(newest)))),
        Err(Unreadable::Io(error)) => Err(unreadable(newest, &error)),
    }
}

/// A backend, or a snapshot that etcd could build one from.
fn has_database(volume: &Path, place: Place) -> Result<bool> {
    let is_database = |name: &String| {
        // `.snap` alone, or `.snap.db`: a database that a leader sent.
        name == "db" || [".snap", ".snap.db"].iter().any(|end| name.ends_with(end))
    };
    Ok(names(volume, place, "snap")?.iter().any(is_database))
}

fn look_at_identity(path: &Path) -> Result<IdentityFile> {
    let mut text = Vec::new();
    let read = File::open(path).and_then(|file| file.take(LONGEST_IDENTITY).read_to_end(&mut text));
    match read {
        Ok(_) => Ok(match serde_json::from_slice(&text) {
            Ok(identity) => IdentityFile::Says(identity),
            Err(error) => IdentityFile::Unreadable(error.to_string()),
        }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(IdentityFile::Absent),
        Err(error) => Err(unreadable(path, &error)),
    }
}

/// The names in a directory of `member`; a directory that does not exist is empty. Our own link in the
/// root is no data there, wherever it leads (`our_link_is_no_data_in_the_root`).
fn names(volume: &Path, place: Place, directory: &str) -> Result<Vec<String>> {
    if place == Place::Root && volume::link::find(volume).is_some() {
        return Ok(Vec::new());
    }
    let directory = &volume::member(volume, place).join(directory);
    let list = || -> io::Result<Vec<String>> {
        fs::read_dir(directory)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect()
    };
    match list() {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        listed => listed.map_err(|error| unreadable(directory, &error)),
    }
}

fn name_of(path: &Path) -> String {
    path.file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned()
}

fn unreadable(path: &Path, error: &io::Error) -> Fault {
    Fault::new(Exit::Read, format!("cannot read {}", path.display()), error)
}

#[cfg(test)]
mod tests;

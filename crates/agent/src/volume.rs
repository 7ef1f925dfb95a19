//! Writes to the volume: moves data aside, leaves the identity file, makes the data directory. Every
//! step is synced before the next; nothing is ever deleted.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::Path,
};

use gate::Identity;

use crate::{
    Result,
    outcome::{Exit, Fault},
    permit::Permit,
};

/// Prepares the volume for the start that was permitted.
///
/// Invariant: data goes aside *before* the identity file changes. The other way round, a crash in
/// between would leave old data under a new identity, and after a Bootstrap, whose identity names no
/// IDs, the next start would take it for ours (`discard_moves_the_data_aside`).
pub(crate) fn prepare(volume: &Path, permit: &Permit) -> Result<()> {
    let Permit {
        discard,
        identity,
        start: _,
    } = permit;
    if *discard {
        move_aside(volume, &identity.nonce)
            .map_err(|error| Fault::new(Exit::Write, "cannot move the data aside", &error))?;
    }
    write_identity(volume, identity)
        .map_err(|error| Fault::new(Exit::Write, "cannot write the identity file", &error))?;
    make_data_directory(volume)
        .map_err(|error| Fault::new(Exit::Write, "cannot make the data directory", &error))
}

fn move_aside(volume: &Path, nonce: &str) -> io::Result<()> {
    let data = volume.join("data");
    if !fs::exists(&data)? {
        return Ok(());
    }
    fs::rename(data, volume.join(format!("aside-{nonce}")))?;
    sync_directory(volume)
}

fn write_identity(volume: &Path, identity: &Identity) -> io::Result<()> {
    let text = serde_json::to_vec(identity)?;
    let temporary = volume.join("identity.json.tmp");
    let mut file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(&temporary)?;
    file.write_all(&text)?;
    file.sync_all()?;
    fs::rename(temporary, volume.join("identity.json"))?;
    sync_directory(volume)
}

fn make_data_directory(volume: &Path) -> io::Result<()> {
    let data = volume.join("data");
    if fs::exists(&data)? {
        return Ok(());
    }
    DirBuilder::new().mode(0o700).create(data)?;
    sync_directory(volume)
}

fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

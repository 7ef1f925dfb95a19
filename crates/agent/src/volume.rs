//! Writes to the volume: moves data aside or to where it belongs, leaves the identity file, makes the
//! data directory. Every step is synced before the next. Nothing is ever deleted but what was once
//! set aside as removed, when the same member's data is set aside again.

use std::{
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::{DirBuilderExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

use gate::Identity;

use self::link::Lead;
use crate::{
    Result,
    judge::{IdentityFile, Place},
    outcome::{Exit, Fault},
    permit::Permit,
};

pub(crate) mod link;
#[cfg(test)]
mod tests;

/// etcd's `member` directory in one place.
pub(crate) fn member(volume: &Path, place: Place) -> PathBuf {
    match place {
        Place::Data => volume.join("data/member"),
        Place::Root => volume.join("member"),
    }
}

/// Prepares the volume for the start that was permitted on what was seen in `place`.
///
/// Invariant: data goes aside *before* the identity file changes. The other way round, a crash in
/// between would leave old data under a new identity, and after a Bootstrap, whose identity names no
/// IDs, the next start would take it for ours (`discard_moves_the_data_aside`).
pub(crate) fn prepare(volume: &Path, place: Place, permit: &Permit) -> Result<()> {
    let Permit {
        discard,
        identity,
        start: _,
    } = permit;
    if *discard {
        move_aside(volume, &identity.nonce)
            .map_err(|error| Fault::new(Exit::Write, "cannot move the data aside", &error))?;
    } else if place == Place::Root {
        let what = "cannot move the data out of the volume's root";
        for step in ADOPTION {
            step(volume, &identity.nonce).map_err(|error| Fault::new(Exit::Write, what, &error))?;
        }
    }
    write_identity(volume, identity)
        .map_err(|error| Fault::new(Exit::Write, "cannot write the identity file", &error))?;
    make_data_directory(volume)
        .map_err(|error| Fault::new(Exit::Write, "cannot make the data directory", &error))
}

/// Sets the data of a removed member aside, with the identity file that was written for it.
///
/// Invariant: the data goes first. A crash in between leaves an empty directory, which always waits;
/// the other way round it would leave data that nothing marks as removed once the pod and its annotation
/// are gone (`a_crash_while_removed_data_is_set_aside_loses_no_identity_before_the_data`).
pub(crate) fn set_aside_removed(volume: &Path, place: Place, id: u64) -> Result<()> {
    for step in REMOVAL {
        step(volume, place, &removed(volume, id)).map_err(|error| {
            let what = format!("cannot move the data of the removed member {id:x} aside");
            Fault::new(Exit::Write, what, &error)
        })?;
    }
    Ok(())
}

/// Where the data of a removed member goes.
pub(crate) fn removed(volume: &Path, id: u64) -> PathBuf {
    volume.join(format!("removed-{id:x}"))
}

/// Takes the volume and the nonce of the grant.
type AdoptionStep = fn(&Path, &str) -> io::Result<()>;
/// Takes the volume, where the data lies, and where it goes.
type RemovalStep = fn(&Path, Place, &Path) -> io::Result<()>;

/// The steps that bring data from the volume's root to `data/`.
///
/// Invariant: between any two of them the data lies whole in one of the two places, and the next start
/// waits for a grant (`a_crash_during_an_adoption_leaves_the_data_whole_in_one_place`). The identity
/// file comes after the last.
const ADOPTION: [AdoptionStep; 3] = [
    // Leftovers, such as a WAL that was never finished; there is no data in it.
    move_data_aside,
    |volume, _| make_data_directory(volume),
    // Until the gate has proved itself, the pod may come back without it.
    |volume, _| link::move_out(volume, &member(volume, Place::Data), Lead::ToData),
];

/// The steps that set the data of a removed member aside.
const REMOVAL: [RemovalStep; 3] = [
    |volume, _, target| {
        match fs::remove_dir_all(target) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        sync_directory(volume)
    },
    |volume, place, target| {
        match place {
            Place::Data => fs::rename(volume.join("data"), target)?,
            Place::Root => {
                DirBuilder::new().mode(0o700).create(target)?;
                link::move_out(volume, &target.join("member"), Lead::Nowhere)?;
            }
        }
        sync_directory(volume)
    },
    |volume, place, target| {
        let identity = volume.join("identity.json");
        if place == Place::Data && fs::exists(&identity)? {
            fs::rename(identity, target.join("identity.json"))?;
            sync_directory(target)?;
            sync_directory(volume)?;
        }
        Ok(())
    },
];

/// All of it: what lies in the root would otherwise be found again once `data/` is gone.
fn move_aside(volume: &Path, nonce: &str) -> io::Result<()> {
    move_data_aside(volume, nonce)?;
    // A link of ours is no data, and must not be gone for a moment.
    if link::find(volume).is_none() && link::exists(&member(volume, Place::Root))? {
        let aside = volume.join(format!("aside-{nonce}-member"));
        link::move_out(volume, &aside, Lead::Nowhere)?;
    }
    Ok(())
}

fn move_data_aside(volume: &Path, nonce: &str) -> io::Result<()> {
    let data = volume.join("data");
    if !fs::exists(&data)? {
        return Ok(());
    }
    fs::rename(data, volume.join(format!("aside-{nonce}")))?;
    sync_directory(volume)
}

/// Leaves an identity file, whole or not at all.
pub(crate) fn write_identity(volume: &Path, identity: &Identity) -> io::Result<()> {
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

/// Notes how etcd speaks from now on, where it spoke otherwise before. What cannot be noted must not start: the operator
/// would later start the data with a scheme that its members are not listed under.
pub(crate) fn note_transport(
    volume: &Path,
    identity: &IdentityFile,
    transport: Option<&String>,
) -> Result<()> {
    let identity = match identity {
        IdentityFile::Says(identity) if identity.transport.as_ref() != transport => identity,
        IdentityFile::Says(_) | IdentityFile::Absent | IdentityFile::Unreadable(_) => return Ok(()),
    };
    let identity = Identity {
        transport: transport.cloned(),
        ..identity.clone()
    };
    write_identity(volume, &identity)
        .map_err(|error| Fault::new(Exit::Write, "cannot write the identity file", &error))
}

fn make_data_directory(volume: &Path) -> io::Result<()> {
    let data = volume.join("data");
    if fs::exists(&data)? {
        return Ok(());
    }
    DirBuilder::new().mode(0o700).create(data)?;
    sync_directory(volume)
}

/// The names in a directory reach the disk.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    File::open(path)?.sync_all()
}

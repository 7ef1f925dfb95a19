//! Makes another cluster of the data that is there: a copy is brought up to the end of its log, then
//! restored under a new token, and takes the old data's place when it is complete. It decides nothing:
//! whether this may be done was judged in [`crate::permit`].
//!
//! `recover-<nonce>/` on the volume is laid out as the volume itself (`data/`, `identity.json`) and holds
//! the copy in `work/` meanwhile. Invariant: the identity file is the last thing that is written there.
//! Without it the directory is rubbish and the old data is untouched; with it the new data is complete,
//! and the swap is finished whenever an agent starts
//! (`killed_at_any_moment_it_ends_well_and_keeps_the_old_data`).

mod copy;
mod swap;
mod tools;

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt,
    path::Path,
};

use gate::Identity;
use serde_json::json;

use self::tools::Tools;
pub(crate) use self::{swap::settle, tools::find_etcdutl};
use crate::{
    args::Gate,
    judge::Place,
    look,
    outcome::Fault,
    permit::Recovery,
    telemetry::{Level, log},
    volume,
};

/// What a recovery is told and asked from outside.
pub(crate) struct Outside<'a> {
    /// Tells how far it is.
    pub(crate) progress: &'a dyn Fn(&str),
    /// Whether to give up.
    pub(crate) stop: &'a (dyn Fn() -> bool + Sync),
}

/// Why there is no other cluster.
#[derive(Debug)]
pub(crate) enum Failure {
    /// The old data lies where it lay; one sentence for people.
    Kept(String),
    /// Broken off within the swap, which the next start of the agent carries on with.
    Swap(Fault),
}

/// Recovers; afterwards the volume is judged again.
pub(crate) fn recover(
    args: &Gate,
    recovery: &Recovery,
    outside: &Outside<'_>,
) -> Result<(), Failure> {
    let directory = swap::directory(&args.volume, &recovery.identity.nonce);
    let room = copy::needed_room(&args.volume);
    if let Err(why) = prepare(args, recovery, &directory, outside) {
        // Room for the next attempt; what is left is removed at the next start.
        drop(fs::remove_dir_all(&directory));
        let room = room.div_ceil(1 << 20);
        return Err(Failure::Kept(format!(
            "{why}; the data is as it was; a recovery needs {room} MiB of free room on the volume"
        )));
    }
    step(outside, "4 of 4, the new data takes its place");
    swap::complete(&args.volume, &directory).map_err(Failure::Swap)
}

/// Everything up to the moment from which there is no way back.
fn prepare(
    args: &Gate,
    recovery: &Recovery,
    directory: &Path,
    outside: &Outside<'_>,
) -> Result<(), String> {
    let tools = Tools::new(args, outside)?;
    let made = DirBuilder::new().mode(0o700).create(directory);
    made.map_err(|error| format!("cannot make {}: {error}", directory.display()))?;

    step(outside, "1 of 4, copying the data");
    let work = directory.join("work");
    copy::copy(&args.volume, &work)?;

    step(outside, "2 of 4, replaying its log");
    tools.replay(&work)?;
    // Its contents are in the database now.
    remove(&work.join("member/wal"))?;

    step(outside, "3 of 4, restoring under a new token");
    let data = directory.join("data");
    tools.restore(&work.join("member/snap/db"), &data, recovery)?;
    remove(&work)?;

    let identity = identify(directory, recovery)?;
    let written = sync_all(directory).and_then(|()| volume::write_identity(directory, &identity));
    written.map_err(|error| format!("cannot keep the new data: {error}"))
}

/// The new identity, as the new data tells it.
fn identify(directory: &Path, recovery: &Recovery) -> Result<Identity, String> {
    let head = look::look_at_head(directory, Place::Data).map_err(|fault| fault.message)?;
    let Some(new) = head else {
        return Err("the restored data has no readable log".into());
    };
    let old = recovery.old;
    if new.cluster_id == old.cluster_id || new.member_id == old.member_id {
        return Err(format!(
            "the restored data has an ID of the old: cluster {:x}, member {:x}",
            new.cluster_id, new.member_id
        ));
    }
    Ok(Identity {
        member_id: Some(format!("{:x}", new.member_id)),
        cluster_id: Some(format!("{:x}", new.cluster_id)),
        ..recovery.identity.clone()
    })
}

fn step(outside: &Outside<'_>, what: &str) {
    log(Level::Info, "recovering", &json!({"step": what}));
    (outside.progress)(what);
}

fn remove(path: &Path) -> Result<(), String> {
    fs::remove_dir_all(path).map_err(|error| format!("cannot remove {}: {error}", path.display()))
}

/// Everything in a directory reaches the disk, its names included.
fn sync_all(path: &Path) -> io::Result<()> {
    if path.symlink_metadata()?.is_dir() {
        for entry in fs::read_dir(path)? {
            sync_all(&entry?.path())?;
        }
    }
    File::open(path)?.sync_all()
}

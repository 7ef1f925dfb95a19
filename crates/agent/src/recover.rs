//! Makes another cluster of the data that is there (a copy is brought up to the end of its log) or of a
//! snapshot that was brought to the volume: it is restored under a new token, and takes the old data's place
//! when it is complete. It decides nothing: whether this may be done was judged in [`crate::permit`].
//!
//! `recover-<nonce>/` on the volume is laid out as the volume itself (`data/`, `identity.json`) and holds
//! the copy in `work/` meanwhile, or in `used` the name of the directory that the snapshot was in.
//! Invariant: the identity file is the last thing that is written there. Without it the
//! directory is rubbish and the old data is untouched; with it the new data is complete, and the swap is
//! finished whenever an agent starts (`killed_at_any_moment_a_restore_ends_well`,
//! `killed_at_any_moment_it_ends_well_and_keeps_the_old_data`).

mod brought;
mod copy;
mod swap;
mod tools;
mod words;

use std::{
    fs::{self, DirBuilder, File},
    io,
    os::unix::fs::DirBuilderExt,
    path::{Path, PathBuf},
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
    permit::{Origin, Recovery, Snapshot},
    telemetry::{Level, log},
    volume,
    wal::Head,
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

/// Makes another cluster; afterwards the volume is judged again.
pub(crate) fn recover(
    args: &Gate,
    recovery: &Recovery,
    outside: &Outside<'_>,
) -> Result<(), Failure> {
    let work = Work {
        args,
        recovery,
        directory: swap::directory(&args.volume, &recovery.identity.nonce),
        outside,
    };
    let needed = describe_space(&args.volume, &recovery.origin);
    if let Err(why) = work.prepare() {
        // Space for the next attempt; what is left is removed at the next start.
        drop(fs::remove_dir_all(&work.directory));
        return Err(Failure::Kept(format!("{why}; {needed}")));
    }
    work.step(match recovery.origin {
        Origin::Data => "4 of 4, the new data takes its place",
        Origin::Snapshot(_) => "2 of 2, the new data takes its place",
    });
    swap::complete(&args.volume, &work.directory).map_err(Failure::Swap)
}

/// What a failure leaves and what an attempt needs, measured before it takes any.
fn describe_space(volume: &Path, origin: &Origin) -> String {
    let mebibytes = |bytes: u64| bytes.div_ceil(1 << 20);
    match origin {
        Origin::Data => {
            let room = mebibytes(copy::needed_room(volume));
            format!("the data is as it was; a recovery needs {room} MiB of free room on the volume")
        }
        Origin::Snapshot(snapshot) => {
            let size = brought::size(volume, snapshot).saturating_add(copy::NEW_LOG);
            let size = mebibytes(size);
            format!(
                "the volume is as it was; a restore needs {size} MiB of free space on it beside the snapshot"
            )
        }
    }
}

/// One attempt.
struct Work<'a> {
    args: &'a Gate,
    recovery: &'a Recovery,
    directory: PathBuf,
    outside: &'a Outside<'a>,
}

impl Work<'_> {
    /// Everything up to the moment from which there is no way back.
    fn prepare(&self) -> Result<(), String> {
        let tools = Tools::new(self.args, self.outside)?;
        let directory = &self.directory;
        let made = DirBuilder::new().mode(0o700).create(directory);
        made.map_err(|error| format!("cannot make {}: {error}", directory.display()))?;
        match &self.recovery.origin {
            Origin::Data => self.renew(&tools)?,
            Origin::Snapshot(snapshot) => self.restore(&tools, snapshot)?,
        }
        let identity = identify(directory, self.recovery)?;
        let written =
            sync_all(directory).and_then(|()| volume::write_identity(directory, &identity));
        written.map_err(|error| format!("cannot keep the new data: {error}"))
    }

    /// The new data is made of a copy of the old.
    fn renew(&self, tools: &Tools<'_>) -> Result<(), String> {
        self.step("1 of 4, copying the data");
        let work = self.directory.join("work");
        copy::copy(&self.args.volume, &work)?;

        self.step("2 of 4, replaying its log");
        tools.replay(&work)?;
        // Its contents are in the database now.
        remove(&work.join("member/wal"))?;

        self.step("3 of 4, restoring under a new token");
        tools.restore(&work.join("member/snap/db"), &self.data(), self.recovery)?;
        remove(&work)
    }

    /// The new data is made of a snapshot that was brought.
    fn restore(&self, tools: &Tools<'_>, snapshot: &Snapshot) -> Result<(), String> {
        self.step("1 of 2, etcdutl restores the snapshot");
        let file = brought::find(&self.args.volume, snapshot)?;
        tools.restore(&file, &self.data(), self.recovery)?;
        brought::note(&self.directory, snapshot)
            .map_err(|error| format!("cannot note what was restored: {error}"))
    }

    fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    fn step(&self, what: &str) {
        let fields = json!({"by": self.recovery.origin.noun(), "step": what});
        log(Level::Info, "making another cluster", &fields);
        (self.outside.progress)(what);
    }
}

/// The new identity, as the new data tells it.
fn identify(directory: &Path, recovery: &Recovery) -> Result<Identity, String> {
    let head = look::look_at_head(directory, Place::Data).map_err(|fault| fault.message)?;
    let Some(new) = head else {
        return Err("the restored data has no readable log".into());
    };
    let is_same = |old: Head| new.cluster_id == old.cluster_id || new.member_id == old.member_id;
    if recovery.old.is_some_and(is_same) {
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

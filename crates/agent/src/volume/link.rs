//! `member` in the volume's root, for an etcd without a gate whose data directory that root is: a pod
//! that an earlier operator's template makes while the gate is still being tried. Without a `member` it
//! would start over, as a voter without its log or as another cluster with the same IDs. So a link is
//! there: to the data, or to nothing, and then etcd cannot make the directory and exits.

use std::{fs, io, os::unix::fs::symlink, path::Path};

use gate::State;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use serde_json::json;

use super::{member, sync_directory};
use crate::{
    judge::Place,
    telemetry::{Level, log},
};

/// Where the link leads. Relative: the volume is mounted elsewhere in other pods.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lead {
    /// To the data, which an etcd that starts in the root continues from.
    ToData,
    /// To a name that is never given to anything.
    Nowhere,
}

impl Lead {
    /// While the gate waits: data that only lacks its identity file may be resumed, all else must not
    /// be read or started over by any process.
    pub(crate) fn during(state: State) -> Self {
        match state {
            State::Unidentified => Self::ToData,
            State::Empty
            | State::OtherObject
            | State::Mismatch
            | State::Damaged
            | State::Fenced
            | State::RolledBack => Self::Nowhere,
        }
    }

    fn target(self) -> &'static Path {
        Path::new(match self {
            Self::ToData => "data/member",
            Self::Nowhere => "held-at-the-gate",
        })
    }
}

/// Where the link of a volume leads; `None` when there is no link of ours.
pub(crate) fn find(volume: &Path) -> Option<Lead> {
    let target = fs::read_link(member(volume, Place::Root)).ok()?;
    [Lead::ToData, Lead::Nowhere]
        .into_iter()
        .find(|lead| lead.target() == target)
}

/// Puts the link right. It is a second line of defence: a failure is reported and blocks nothing.
pub(crate) fn lead(volume: &Path, lead: Lead) {
    if let Err(error) = set(volume, lead) {
        let fields = json!({"lead": format!("{lead:?}"), "error": error.to_string()});
        log(Level::Warn, "cannot link member in the root", &fields);
    }
}

/// Makes or turns the link; whatever else lies there is data, and stays
/// (`what_is_no_link_of_ours_stays`).
fn set(volume: &Path, lead: Lead) -> io::Result<()> {
    let path = member(volume, Place::Root);
    if find(volume) == Some(lead) || (find(volume).is_none() && exists(&path)?) {
        return Ok(());
    }
    let temporary = volume.join("member.tmp");
    remove(&temporary)?;
    symlink(lead.target(), &temporary)?;
    fs::rename(temporary, path)?;
    sync_directory(volume)
}

/// Moves `member` out of the root and leaves a link in its place.
///
/// Invariant: there is no moment without a `member`, where the file system can exchange two names; where
/// it cannot, there is one without a link, and the next start of the agent makes it. A file system
/// without links moves nothing (`a_crash_during_an_adoption_leaves_the_data_whole_in_one_place`).
pub(super) fn move_out(volume: &Path, target: &Path, lead: Lead) -> io::Result<()> {
    symlink(lead.target(), target)?;
    let path = member(volume, Place::Root);
    if renameat_with(CWD, path, CWD, target, RenameFlags::EXCHANGE).is_err() {
        move_out_in_steps(volume, target, lead)?;
    }
    if let Some(parent) = target.parent() {
        sync_directory(parent)?;
    }
    sync_directory(volume)
}

/// Where two names cannot be exchanged; `target` is a link that shows that links can be made.
fn move_out_in_steps(volume: &Path, target: &Path, lead: Lead) -> io::Result<()> {
    remove(target)?;
    fs::rename(member(volume, Place::Root), target)?;
    set(volume, lead)
}

/// Whether there is anything of this name; a link counts, wherever it leads.
pub(super) fn exists(path: &Path) -> io::Result<bool> {
    match path.symlink_metadata() {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        removed => removed,
    }
}

#[cfg(test)]
mod tests;

//! The new data takes the place of the old. Begins once the new data is complete and known to be so, and
//! from then on is finished by the next start; until then nothing of the old data has moved.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::json;

use super::brought;
use crate::{
    Result,
    outcome::{Exit, Fault},
    telemetry::{Level, log},
    volume::sync_directory,
};

const PREFIX: &str = "recover-";
/// Hexadecimal digits of a nonce.
const NONCE: usize = 32;

/// Where the recovery of one wait happens.
pub(super) fn directory(volume: &Path, nonce: &str) -> PathBuf {
    volume.join(format!("{PREFIX}{nonce}"))
}

/// Finishes what an earlier start of the agent had begun: a recovery that was complete is carried on
/// with, what remained of any other is removed.
///
/// Invariant: only a directory that is named after a nonce is touched: a volume that was taken over may hold directories
/// of its owner (`directories_of_others_stay`).
pub(crate) fn settle(volume: &Path) -> Result<()> {
    // A volume that cannot be read is judged later.
    let Ok(entries) = fs::read_dir(volume) else {
        return Ok(());
    };
    for entry in entries.flatten() {
        let name = entry.file_name();
        let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
        if !is_directory || !is_ours(&name.to_string_lossy()) {
            continue;
        }
        let directory = entry.path();
        let fields = json!({"directory": name.to_string_lossy()});
        if directory.join("identity.json").exists() {
            log(Level::Info, "carrying on with a recovery", &fields);
            complete(volume, &directory)?;
        } else {
            log(Level::Info, "removing an unfinished recovery", &fields);
            // It blocks nothing; the next start tries again.
            if let Err(error) = fs::remove_dir_all(&directory) {
                let fields = json!({"error": error.to_string()});
                log(Level::Warn, "cannot remove an unfinished recovery", &fields);
            }
        }
    }
    Ok(())
}

fn is_ours(name: &str) -> bool {
    let is_digit = |letter: char| matches!(letter, '0'..='9' | 'a'..='f');
    let nonce = name.strip_prefix(PREFIX);
    nonce.is_some_and(|nonce| nonce.len() == NONCE && nonce.chars().all(is_digit))
}

/// Swaps the data in `directory` for that of the volume.
pub(super) fn complete(volume: &Path, directory: &Path) -> Result<()> {
    let done = SWAP.iter().try_for_each(|step| step(volume, directory));
    done.map_err(|error| {
        let what = "cannot put the recovered data in its place";
        Fault::new(Exit::Write, what, &error)
    })
}

/// Takes the volume and the directory of the recovery.
type SwapStep = fn(&Path, &Path) -> io::Result<()>;

/// The steps of a swap; each does nothing when it was done before.
///
/// Invariant: between any two of them the old data lies whole in `data/` or in `aside-<nonce>/`, the new
/// data whole in `recover-<nonce>/data/` or in `data/`, and the identity file in `recover-<nonce>/` says
/// that the rest is to be done (`a_crash_during_a_swap_loses_neither_the_old_nor_the_new_data`). A snapshot that the new data
/// was made of goes after that data has its place and before the identity file does
/// (`a_crash_during_the_swap_of_a_restore_leaves_the_snapshot_until_its_data_has_its_place`).
const SWAP: [SwapStep; 6] = [
    |volume, directory| {
        let data = volume.join("data");
        // An empty directory is nothing to set aside; whatever cannot be removed is moved.
        if fs::exists(directory.join("data"))? {
            drop(fs::remove_dir(&data));
        }
        move_once(directory, &data, &aside(volume, directory))
    },
    // It was written for the old data. Where there was none, the new file replaces it.
    |volume, directory| {
        let aside = aside(volume, directory);
        if !fs::exists(&aside)? {
            return Ok(());
        }
        let kept = aside.join("identity.json");
        move_once(directory, &volume.join("identity.json"), &kept)
    },
    |volume, directory| move_once(directory, &directory.join("data"), &volume.join("data")),
    |volume, directory| {
        brought::clear(volume, directory);
        Ok(())
    },
    |volume, directory| {
        let identity = directory.join("identity.json");
        if fs::exists(&identity)? {
            fs::rename(identity, volume.join("identity.json"))?;
        }
        sync_directory(volume)?;
        sync_directory(directory)
    },
    |volume, directory| {
        fs::remove_dir_all(directory)?;
        sync_directory(volume)
    },
];

fn aside(volume: &Path, directory: &Path) -> PathBuf {
    let name = directory.file_name().unwrap_or_default().to_string_lossy();
    let nonce = name.strip_prefix(PREFIX).unwrap_or(&name);
    volume.join(format!("aside-{nonce}"))
}

/// Moves `from` to `to`, unless the new data has left its directory: what lies at `from` is new then.
fn move_once(directory: &Path, from: &Path, to: &Path) -> io::Result<()> {
    if !fs::exists(directory.join("data"))? || !fs::exists(from)? {
        return Ok(());
    }
    fs::rename(from, to)?;
    for path in [from, to] {
        if let Some(parent) = path.parent() {
            sync_directory(parent)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;

//! A snapshot on a volume: the file, and then a record that says so, without which the file is rubbish. Both are synced before
//! they have their names.

use std::fs::{DirBuilder, File};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::DirBuilderExt as _;
use std::path::Path;

use archive::hex;
use archive::manifest::Sum;
use archive::work::Cause;
use sha2::{Digest as _, Sha256};

use crate::fault::{Explain as _, Fault, Result};

pub(crate) const SNAPSHOT: &str = "snapshot.db";
/// Its name until it is whole.
pub(crate) const PART: &str = "snapshot.db.part";
pub(crate) const READY: &str = "ready.json";

/// Makes the directory. Only its owner reads what is in it.
pub(crate) fn make(into: &Path) -> Result<()> {
    let made = DirBuilder::new().recursive(true).mode(0o700).create(into);
    made.explain(Cause::Request, format!("make {}", into.display()))
}

/// Length and SHA-256 of a file.
pub(crate) fn sum_of(path: &Path) -> Option<Sum> {
    let mut file = File::open(path).ok()?;
    let (mut hash, mut bytes) = (Sha256::new(), 0_u64);
    let mut block = vec![0; 256 * 1024];
    loop {
        let read = file.read(&mut block).ok()?;
        if read == 0 {
            let sha256 = hex(&hash.finalize());
            return Some(Sum { bytes, sha256 });
        }
        hash.update(block.get(..read)?);
        bytes = bytes.checked_add(u64::try_from(read).ok()?)?;
    }
}

/// Says what is there, now that it is.
pub(crate) fn write_ready(into: &Path, text: &str) -> Result<()> {
    let part = into.join("ready.json.part");
    let what = format!("write {}", part.display());
    let mut file = File::create(&part).explain(Cause::Request, &what)?;
    file.write_all(text.as_bytes())
        .explain(Cause::Request, &what)?;
    file.sync_all().explain(Cause::Request, &what)?;
    put_in_place(&part, &into.join(READY))
}

/// Gives a synced file its name, and syncs that as well.
pub(crate) fn put_in_place(part: &Path, to: &Path) -> Result<()> {
    let what = format!("write {}", to.display());
    std::fs::rename(part, to).explain(Cause::Request, &what)?;
    let directory = to.parent().unwrap_or(to);
    let synced = File::open(directory).and_then(|directory| directory.sync_all());
    synced.explain(Cause::Request, &what)
}

/// That so many bytes have room where a file is. What does not fit is known before the volume is full.
pub(crate) fn has_room(file: &File, bytes: u64, what: &str) -> Result<()> {
    let volume = rustix::fs::fstatvfs(file).explain(Cause::Request, what)?;
    fits(volume.f_bavail.saturating_mul(volume.f_frsize), bytes, what)
}

fn fits(free: u64, bytes: u64, what: &str) -> Result<()> {
    if bytes <= free {
        return Ok(());
    }
    let message = format!("{what}: the snapshot has {bytes} bytes, and the volume has {free} left");
    Err(Fault::new(Cause::Request, message))
}

/// Removes a file that may be there.
pub(crate) fn remove(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).explain(Cause::Request, format!("remove {}", path.display()))
        }
        _gone => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_is_told_before_it_is_written() {
        let file = tempfile::tempfile().unwrap();
        has_room(&file, 1, "write x").unwrap();
        let fault = has_room(&file, u64::MAX, "write x").unwrap_err();
        assert_eq!(fault.cause, Cause::Request);
        let fault = fits(9, 10, "write x").unwrap_err();
        let message = "write x: the snapshot has 10 bytes, and the volume has 9 left";
        assert_eq!(fault.message, message);
        fits(10, 10, "write x").unwrap();
    }
}

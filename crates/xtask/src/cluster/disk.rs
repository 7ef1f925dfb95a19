//! Whether there is room on the machine's disk. The nodes are configured to overlook a full disk, so it has to be said
//! here.

use std::path::Path;

use anyhow::{Context, Result, bail};

const MIB: u64 = 1024 * 1024;

/// What three nodes write at most while the stories run: images, logs, volumes.
const CLUSTER: u64 = 4096;

/// What a first run of every test compiles beside that.
const COMPILED: u64 = 16 * 1024;

/// Refuses to start a cluster that would die of it.
pub(crate) fn refuse_full(directory: &Path) -> Result<()> {
    match shortage(directory, free_mebibytes(directory)?, CLUSTER) {
        Some(shortage) => {
            bail!("{shortage}\nhint: `cargo clean` in checkouts that you no longer use")
        }
        None => Ok(()),
    }
}

/// Says before an hour of tests that it may end on a full disk; what is compiled already needs no more room.
pub(crate) fn warn_if_short(directory: &Path) -> Result<()> {
    let wanted = CLUSTER + COMPILED;
    if let Some(shortage) = shortage(directory, free_mebibytes(directory)?, wanted) {
        eprintln!("warning: {shortage} when nothing is compiled yet");
    }
    Ok(())
}

fn shortage(directory: &Path, free: u64, wanted: u64) -> Option<String> {
    let directory = directory.display();
    (free < wanted)
        .then(|| format!("{free} MiB are free where {directory} lies, and {wanted} MiB are needed"))
}

fn free_mebibytes(directory: &Path) -> Result<u64> {
    let disk = rustix::fs::statvfs(directory)
        .with_context(|| format!("ask how full the disk of {} is", directory.display()))?;
    Ok(disk.f_bavail.saturating_mul(disk.f_frsize) / MIB)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_named_with_what_it_lacks() {
        let told = shortage(Path::new("/cache"), CLUSTER - 1, CLUSTER).unwrap();
        assert!(
            told.contains("4095 MiB are free where /cache lies"),
            "{told}"
        );
        assert_eq!(shortage(Path::new("/cache"), CLUSTER, CLUSTER), None);
    }
}

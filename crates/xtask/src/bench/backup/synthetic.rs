//! A database of bbolt that says it is larger than it is: the file has holes for pages that nothing leads to, which etcd takes for
//! free ones and sends with a snapshot like all others.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// Bytes of a meta page that are checked, from its header on.
const CHECKED: std::ops::Range<usize> = 16..72;
const PAGE_SIZE: std::ops::Range<usize> = 24..28;
const PAGES: std::ops::Range<usize> = 56..64;
const META: usize = 80;

/// Lets a database that nothing has open be of so many MiB.
pub(super) fn grow(database: &Path, mebibytes: u32) -> Result<()> {
    let file = File::options().read(true).write(true).open(database)?;
    let mut first = [0; META];
    file.read_exact_at(&mut first, 0)?;
    let size = first.get(PAGE_SIZE).context("no page")?.try_into()?;
    let size = u64::from(u32::from_le_bytes(size));
    ensure!(size >= 512, "{} is no database", database.display());
    let bytes = u64::from(mebibytes) << 20;
    for page in [0, size] {
        let mut meta = [0; META];
        file.read_exact_at(&mut meta, page)?;
        let pages = (bytes / size).to_le_bytes();
        meta.get_mut(PAGES)
            .context("no page")?
            .copy_from_slice(&pages);
        let sum = fnv(meta.get(CHECKED).unwrap_or_default()).to_le_bytes();
        let end = meta.get_mut(CHECKED.end..).context("no page")?;
        end.copy_from_slice(&sum);
        file.write_all_at(&meta, page)?;
    }
    file.set_len(bytes)?;
    Ok(())
}

/// 64-bit FNV-1a, by which bbolt knows a torn meta page.
fn fnv(bytes: &[u8]) -> u64 {
    let step = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, step)
}

//! Flips bytes in the database file of one member, where the volumes lie on this machine.
//!
//! What must not happen here: a member that serves data which was never written. etcd reads its file through memory and
//! believes it, so a bit that flips in a value is returned to any client, and the clients would rightly complain about
//! etcd. Therefore both meta pages are hit, and their process dies before it looks: bbolt knows them by their checksums,
//! and does not open a file without one. The log stays as it is, so that the gate lets the member through to fail.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use anyhow::Result;

/// bbolt has its two meta pages at the beginning, of the size that the kernel's have.
const METAS: usize = 2 * 4096;

/// Turns every bit of both meta pages; how many bytes that were.
pub(crate) fn flip(path: &Path) -> Result<usize> {
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let mut bytes = [0; METAS];
    file.read_exact_at(&mut bytes, 0)?;
    for byte in &mut bytes {
        *byte = !*byte;
    }
    file.write_all_at(&bytes, 0)?;
    file.sync_data()?;
    Ok(METAS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_meta_pages_are_other_ones_and_nothing_else_is() {
        let path = std::env::temp_dir().join(format!("chaos-flip-{}", std::process::id()));
        let before: Vec<u8> = (0..=u8::MAX).cycle().take(METAS + 4096).collect();
        std::fs::write(&path, &before).unwrap();
        let flipped = flip(&path).unwrap();
        let after = std::fs::read(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert_eq!(flipped, METAS);
        let (metas, rest) = after.split_at(METAS);
        assert!(
            metas
                .iter()
                .zip(&before)
                .all(|(after, before)| after != before)
        );
        assert_eq!(Some(rest), before.get(METAS..));
    }
}

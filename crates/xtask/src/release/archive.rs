//! A tar in a gzip whose bytes follow from its content alone.

use anyhow::Result;
use flate2::{Compression, GzBuilder};
use tar::{Builder, EntryType, Header};

/// One file.
pub(super) struct Entry {
    pub(super) path: String,
    mode: u32,
    content: Vec<u8>,
}

impl Entry {
    pub(super) fn text(path: &str, content: Vec<u8>) -> Self {
        Self {
            path: path.to_owned(),
            mode: 0o644,
            content,
        }
    }

    pub(super) fn program(path: &str, content: Vec<u8>) -> Self {
        Self {
            mode: 0o755,
            ..Self::text(path, content)
        }
    }
}

/// Times are zero and owners are root; the order is the caller's.
pub(super) fn pack(entries: &[Entry]) -> Result<Vec<u8>> {
    let gzip = GzBuilder::new()
        .mtime(0)
        .write(Vec::new(), Compression::best());
    let mut tar = Builder::new(gzip);
    for entry in entries {
        let mut header = Header::new_gnu();
        header.set_entry_type(EntryType::Regular);
        header.set_mode(entry.mode);
        header.set_size(u64::try_from(entry.content.len())?);
        header.set_mtime(0);
        header.set_uid(0);
        header.set_gid(0);
        tar.append_data(&mut header, &entry.path, entry.content.as_slice())?;
    }
    Ok(tar.into_inner()?.finish()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_gets_in() {
        let packed = pack(&[Entry::program("a", b"b".to_vec())]).unwrap();
        assert_eq!(packed[4..8], [0; 4], "the time of the gzip");
        let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(packed.as_slice()));
        for entry in tar.entries().unwrap() {
            let entry = entry.unwrap();
            let header = entry.header();
            assert_eq!(
                (header.mtime().unwrap(), header.mode().unwrap()),
                (0, 0o755)
            );
        }
    }
}

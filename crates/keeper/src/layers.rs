//! What a snapshot is wrapped in that something else made: gzip, zstd, age, or several of them, told by the first bytes of
//! each. A name says nothing that can be relied on.

use std::io::{Cursor, Read};
use std::path::PathBuf;

use age::armor::ArmoredReader;
use archive::work::Cause;
use flate2::read::MultiGzDecoder;

use crate::decode::{decompress, decrypt};
use crate::fault::{Explain as _, Fault, Result};

/// More are not made by anything, but for one who wants to keep a machine busy.
const MOST: usize = 4;
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const AGE: &[u8] = b"age-encryption.org/";
const ARMORED_AGE: &[u8] = b"-----BEGIN AGE ENCRYPTED FILE-----";

/// What is inside all of it.
pub(crate) fn unwrap(
    source: impl Read + 'static,
    identities: &[PathBuf],
    url: &str,
) -> Result<Box<dyn Read>> {
    let mut source: Box<dyn Read> = Box::new(source);
    for _ in 0..MOST {
        let (begin, whole) = peek(source, url)?;
        source = if begin.starts_with(GZIP) {
            Box::new(MultiGzDecoder::new(whole))
        } else if begin.starts_with(ZSTD) {
            decompress(whole)?
        } else if begin.starts_with(AGE) || begin.starts_with(ARMORED_AGE) {
            decrypt(ArmoredReader::new(whole), identities, url)?
        } else {
            return Ok(whole);
        };
    }
    let message = format!("{url} is wrapped more than {MOST} times in gzip, zstd or age");
    Err(Fault::new(Cause::Damaged, message))
}

/// The first bytes, and all of it.
fn peek(mut source: Box<dyn Read>, url: &str) -> Result<(Vec<u8>, Box<dyn Read>)> {
    let mut begin = Vec::new();
    let most = u64::try_from(ARMORED_AGE.len()).unwrap_or(u64::MAX);
    let read = source.by_ref().take(most).read_to_end(&mut begin);
    read.explain(Cause::Damaged, format!("decode {url}"))?;
    let whole = Cursor::new(begin.clone()).chain(source);
    Ok((begin, Box::new(whole)))
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn gzip(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(bytes).unwrap();
        encoder.finish().unwrap()
    }

    fn zstd(bytes: &[u8]) -> Vec<u8> {
        zstd::encode_all(bytes, 1).unwrap()
    }

    fn unwrapped(bytes: Vec<u8>) -> std::result::Result<Vec<u8>, String> {
        let source = unwrap(Cursor::new(bytes), &[], "s3://b/f").map_err(|it| it.message);
        let mut all = Vec::new();
        let read = source?.read_to_end(&mut all);
        read.map(|_| all).map_err(|error| error.to_string())
    }

    #[test]
    fn what_it_is_wrapped_in_is_told_by_its_content() {
        let plain = b"whatever it is".to_vec();
        // As some archivers do, in two members.
        let twice = [gzip(b"whatever "), gzip(b"it is")].concat();
        for wrapped in [
            plain.clone(),
            gzip(&plain),
            zstd(&plain),
            gzip(&zstd(&plain)),
            twice,
        ] {
            assert_eq!(unwrapped(wrapped).as_ref(), Ok(&plain));
        }
        assert_eq!(unwrapped(Vec::new()), Ok(Vec::new()));
        assert_eq!(unwrapped(vec![0x1f]), Ok(vec![0x1f]));
    }

    #[test]
    fn what_is_cut_or_wrapped_without_end_is_rejected() {
        let plain = vec![7; 100_000];
        for wrapped in [gzip(&plain), zstd(&plain)] {
            let short = wrapped[..wrapped.len() - 3].to_vec();
            assert!(unwrapped(short).is_err());
        }
        let endless = (0..6).fold(plain, |inside, _| gzip(&inside));
        assert!(unwrapped(endless).unwrap_err().contains("more than 4"));
    }

    #[test]
    fn damaged_wrappings_never_panic() {
        let samples = [
            gzip(b"abc"),
            zstd(b"abc"),
            b"age-encryption.org/v1\n-> X25519 ".to_vec(),
        ];
        hostile::never_panics(&samples, |input| unwrapped(input.to_vec()).is_ok());
    }
}

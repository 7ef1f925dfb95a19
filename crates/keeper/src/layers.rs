//! What a snapshot is wrapped in that something else made: gzip, zstd, age, or several of them, told by the first bytes of
//! each. A name says nothing that can be relied on.

use std::io::{self, Cursor, Read};
use std::path::PathBuf;

use age::armor::ArmoredReader;
use archive::work::Cause;
use flate2::read::MultiGzDecoder;

use crate::decode::{decompress, decrypt};
use crate::fault::{Explain as _, Fault, Result};

const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];
const AGE: &[u8] = b"age-encryption.org/";
const ARMORED_AGE: &[u8] = b"-----BEGIN AGE ENCRYPTED FILE-----";

#[derive(Clone, Copy, PartialEq, Eq)]
enum Layer {
    Gzip,
    Zstd,
    Age,
}

impl Layer {
    fn of(begin: &[u8]) -> Option<Self> {
        let begins = |magic: &[u8]| begin.starts_with(magic);
        if begins(GZIP) {
            Some(Self::Gzip)
        } else if begins(ZSTD) {
            Some(Self::Zstd)
        } else if begins(AGE) || begins(ARMORED_AGE) {
            Some(Self::Age)
        } else {
            None
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Age => "age",
        }
    }
}

/// What is inside all of it. Nothing is wrapped twice in the same, but by one who wants to fill a machine: each layer costs
/// memory of its own.
pub(crate) fn unwrap(
    source: impl Read + 'static,
    identities: &[PathBuf],
    url: &str,
) -> Result<Box<dyn Read>> {
    let mut source: Box<dyn Read> = Box::new(source);
    let mut seen = Vec::new();
    loop {
        let (begin, whole) = peek(source, url)?;
        let Some(layer) = Layer::of(&begin) else {
            return Ok(whole);
        };
        if seen.contains(&layer) {
            let message = format!("{url} is wrapped more than once in {}", layer.name());
            return Err(Fault::new(Cause::Damaged, message));
        }
        seen.push(layer);
        source = match layer {
            Layer::Gzip => Box::new(MultiGzDecoder::new(whole)),
            Layer::Zstd => decompress(whole)?,
            Layer::Age => {
                let lines = Lines {
                    source: whole,
                    length: begin.starts_with(ARMORED_AGE).then_some(0),
                };
                decrypt(ArmoredReader::new(lines), identities, url)?
            }
        };
    }
}

/// Characters of a line of armor at most; there are 64 in each. Lines are held in memory.
const LINE: usize = 1024;

/// Text, whose lines must end.
struct Lines<R> {
    source: R,
    /// Bytes since the last line break; `None` where it is no text.
    length: Option<usize>,
}

impl<R: Read> Read for Lines<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let number = self.source.read(into)?;
        let read = into.get(..number).unwrap_or_default();
        if let Some(length) = &mut self.length {
            for byte in read {
                *length = if *byte == b'\n' { 0 } else { *length + 1 };
                if *length > LINE {
                    return Err(io::Error::other("a line of its armor has no end"));
                }
            }
        }
        Ok(number)
    }
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
        for twice in [gzip(&gzip(&plain)), zstd(&gzip(&zstd(&plain)))] {
            assert!(unwrapped(twice).unwrap_err().contains("more than once"));
        }
    }

    #[test]
    fn headers_and_lines_that_do_not_end_are_not_held_in_memory() {
        let stanza = "-> X25519 aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\naaaa\n";
        let long = format!("age-encryption.org/v1\n{}", stanza.repeat(20_000));
        let message = unwrapped(long.into_bytes()).unwrap_err();
        assert!(message.contains("has no end"), "{message}");
        for end in [0, 1_000_000] {
            let begin = String::from_utf8_lossy(ARMORED_AGE);
            let long = format!("{begin}{}{}", "\n".repeat(end.min(1)), "A".repeat(100_000));
            let message = unwrapped(long.into_bytes()).unwrap_err();
            assert!(message.contains("has no end"), "{message}");
        }
    }

    #[test]
    fn damaged_wrappings_never_panic() {
        let armored = b"-----BEGIN AGE ENCRYPTED FILE-----\nYWdlLWVuY3J5cHRpb24ub3JnL3YxCg==\n";
        let samples = [
            gzip(b"abc"),
            zstd(b"abc"),
            b"age-encryption.org/v1\n-> X25519 ".to_vec(),
            armored.to_vec(),
        ];
        hostile::never_panics(&samples, |input| unwrapped(input.to_vec()).is_ok());
    }
}

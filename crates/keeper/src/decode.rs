//! Bytes of the store become a snapshot again, checked at every step: the stored bytes against their sum, whatever comes out
//! of them against the snapshot's own hash and against the manifest. A file is complete only if all of that held.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufReader, Read, Write as _};
use std::path::{Path, PathBuf};
use std::rc::Rc;

use age::DecryptError;
use archive::hex;
use archive::manifest::{Compression, Manifest, Sum};
use archive::stream::{Facts, Reader};
use archive::work::Cause;
use bytes::{Buf as _, Bytes};
use object_store::ObjectMeta;
use object_store::path::Path as ObjectPath;
use sha2::{Digest as _, Sha256};
use tokio::sync::mpsc;

use crate::fault::{Explain as _, Fault, Result};
use crate::read::Reading;
use crate::store::Store;
use crate::volume::has_room;

/// Pieces that may lie between the store and the decoder.
const AHEAD: usize = 16;

/// The files of a directory that hold identities; none if it is not there. Those that begin with a dot are the kubelet's.
pub(crate) fn identities(directory: &Path) -> Result<Vec<PathBuf>> {
    let listed = match std::fs::read_dir(directory) {
        Ok(listed) => listed,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error).explain(Cause::Identity, directory.to_string_lossy()),
    };
    let paths = listed.map(|entry| entry.map(|entry| entry.path()));
    let paths: io::Result<Vec<PathBuf>> = paths.collect();
    let mut paths = paths.explain(Cause::Identity, directory.to_string_lossy())?;
    let is_hidden = |path: &Path| {
        path.file_name()
            .is_none_or(|n| n.to_string_lossy().starts_with('.'))
    };
    paths.retain(|path| path.is_file() && !is_hidden(path));
    paths.sort_unstable();
    Ok(paths)
}

/// Reads the data of a base and compares it with its sum, no more.
pub(crate) async fn check(store: &Store, data: &str, manifest: &Manifest) -> Result<()> {
    let (pieces, unwanted) = mpsc::channel(1);
    // A receiver that is there and takes nothing would be waited for.
    drop(unwanted);
    let object = download(store, &data.into(), pieces).await?;
    compare(&store.url(data), object, &manifest.stored)
}

/// Brings the snapshot of a base into a file, which is synced; without one it is only read and compared.
pub(crate) async fn bring(
    store: &Store,
    data: &str,
    manifest: &Manifest,
    identities: Vec<PathBuf>,
    to: Option<&Path>,
) -> Result<Facts> {
    let url = store.url(data);
    let (of, to, address) = (manifest.clone(), to.map(Path::to_owned), url.clone());
    let decoding = move |source| decode(source, &of, &identities, to.as_deref(), &address);
    let (object, decoded) = pass(store, &data.into(), decoding).await?;
    // What was stored comes first: where it is damaged, anything may be wrong with what is in it.
    compare(&url, object, &manifest.stored)?;
    let facts = decoded?;
    let is_same = facts.raw == manifest.raw
        && facts.trailer == manifest.trailer
        && (facts.revision, facts.compact_revision)
            == (manifest.revision, manifest.compact_revision);
    if !is_same {
        let message = format!("{url} is not the snapshot that its manifest is of");
        return Err(Fault::new(Cause::Damaged, message));
    }
    Ok(facts)
}

/// An object as it was read.
pub(crate) struct Object {
    pub(crate) meta: ObjectMeta,
    pub(crate) sum: Sum,
}

/// Reads an object through a decoder, which runs on a thread of its own; `None` where there is none.
pub(crate) async fn pass<T: Send + 'static>(
    store: &Store,
    name: &ObjectPath,
    decode: impl FnOnce(Pieces) -> Result<T> + Send + 'static,
) -> Result<(Option<Object>, Result<T>)> {
    let (sender, pieces) = mpsc::channel(AHEAD);
    let source = Pieces {
        pieces,
        now: Bytes::new(),
    };
    let decoding = tokio::task::spawn_blocking(move || decode(source));
    let downloaded = download(store, name, sender).await;
    let decoded = decoding.await.explain(Cause::Request, "decode")?;
    Ok((downloaded?, decoded))
}

/// Reads all of an object, whether or not the pieces are still wanted.
async fn download(
    store: &Store,
    name: &ObjectPath,
    pieces: mpsc::Sender<Bytes>,
) -> Result<Option<Object>> {
    let Some(mut reading) = Reading::begin(store, name).await? else {
        return Ok(None);
    };
    let (mut hash, mut bytes) = (Sha256::new(), 0_u64);
    while let Some(piece) = reading.next().await? {
        hash.update(&piece);
        bytes = bytes.saturating_add(u64::try_from(piece.len()).unwrap_or(u64::MAX));
        // A decoder that has given up says why itself.
        drop(pieces.send(piece).await);
    }
    let sha256 = hex(&hash.finalize());
    let sum = Sum { bytes, sha256 };
    let meta = reading.meta;
    Ok(Some(Object { meta, sum }))
}

/// What was read of a base is what was written.
fn compare(url: &str, object: Option<Object>, stored: &Sum) -> Result<()> {
    let damaged = |message| Err(Fault::new(Cause::Damaged, message));
    let Some(Object { sum, .. }) = object else {
        return damaged(format!(
            "{url} is missing, though there is a manifest of it"
        ));
    };
    if sum.bytes != stored.bytes {
        let (bytes, expected) = (sum.bytes, stored.bytes);
        return damaged(format!(
            "{url} is damaged: it has {bytes} bytes, and {expected} were written"
        ));
    }
    if sum.sha256 != stored.sha256 {
        return damaged(format!(
            "{url} is damaged: its SHA-256 is not that of what was written"
        ));
    }
    Ok(())
}

/// Pieces that come over a channel, to be read.
pub(crate) struct Pieces {
    pieces: mpsc::Receiver<Bytes>,
    now: Bytes,
}

impl Read for Pieces {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while self.now.is_empty() {
            match self.pieces.blocking_recv() {
                Some(piece) => self.now = piece,
                None => return Ok(0),
            }
        }
        let number = into.len().min(self.now.len());
        if let Some(into) = into.get_mut(..number) {
            self.now.copy_to_slice(into);
        }
        Ok(number)
    }
}

fn decode(
    source: Pieces,
    of: &Manifest,
    identities: &[PathBuf],
    to: Option<&Path>,
    url: &str,
) -> Result<Facts> {
    let source: Box<dyn Read> = if of.encrypted {
        decrypt(source, identities, url)?
    } else {
        Box::new(source)
    };
    let source = match of.compression {
        Compression::None => source,
        Compression::Zstd => decompress(source)?,
    };
    let (file, facts) = write(source, Reader::new(), to, url)?;
    if let Some(file) = file {
        file.sync_all().explain(Cause::Request, writing(to))?;
    }
    Ok(facts)
}

fn writing(to: Option<&Path>) -> String {
    let to = to.map(Path::display);
    to.map_or_else(String::new, |to| format!("write {to}"))
}

/// Writes a snapshot into a file, if there is to be one, and reads its facts meanwhile. Nothing is synced yet.
pub(crate) fn write(
    mut source: impl Read,
    mut reader: Reader,
    to: Option<&Path>,
    url: &str,
) -> Result<(Option<File>, Facts)> {
    let writing = writing(to);
    let file = to.map(File::create).transpose();
    let mut file = file.explain(Cause::Request, &writing)?;
    let mut buffer = vec![0; 256 << 10];
    let (mut written, mut expected) = (0, None);
    loop {
        let number = source
            .read(&mut buffer)
            .explain(Cause::Damaged, format!("decode {url}"))?;
        let bytes = buffer.get(..number).unwrap_or_default();
        if bytes.is_empty() {
            break;
        }
        reader.push(bytes).explain(Cause::Damaged, url)?;
        let Some(file) = &mut file else {
            continue;
        };
        if expected.is_none() {
            expected = reader.expected();
            if let Some(expected) = expected {
                has_room(file, expected, &writing)?;
            }
        }
        // What lies behind the last page of a copied file is not of the snapshot, and may have no end.
        let room = expected.unwrap_or(u64::MAX).saturating_sub(written);
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let bytes = bytes.get(..room).unwrap_or(bytes);
        file.write_all(bytes).explain(Cause::Request, &writing)?;
        written = written.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
    }
    let facts = reader.finish().explain(Cause::Damaged, url)?;
    Ok((file, facts))
}

pub(crate) fn decompress(source: impl Read + 'static) -> Result<Box<dyn Read>> {
    let decoder = zstd::Decoder::new(source);
    Ok(Box::new(decoder.explain(Cause::Request, "decompress")?))
}

pub(crate) fn decrypt(
    source: impl Read + 'static,
    identities: &[PathBuf],
    url: &str,
) -> Result<Box<dyn Read>> {
    let mut keys: Vec<Box<dyn age::Identity>> = Vec::new();
    for path in identities {
        let what = format!("read the identity {}", path.display());
        let file = File::open(path).explain(Cause::Identity, &what)?;
        let file = age::IdentityFile::from_buffer(BufReader::new(file));
        let file = file.explain(Cause::Identity, &what)?;
        keys.extend(file.into_identities().explain(Cause::Identity, &what)?);
    }
    let what = format!("decrypt {url}");
    let left = Rc::new(Cell::new(HEADER));
    let limited = Limited {
        source,
        left: Rc::clone(&left),
    };
    // Line by line: otherwise the header is read once more for each byte of it.
    let decrypted = age::Decryptor::new_buffered(BufReader::new(limited));
    let decrypted = decrypted.and_then(|d| d.decrypt(keys.iter().map(AsRef::as_ref)));
    let reader = decrypted.map_err(|error| {
        let cause = match &error {
            DecryptError::NoMatchingKeys | DecryptError::KeyDecryptionFailed => Cause::Identity,
            _other => Cause::Damaged,
        };
        Fault::of(cause, &what, &error)
    })?;
    left.set(u64::MAX);
    Ok(Box::new(reader))
}

/// Bytes of the header of age at most: it is held in memory. That of 500 recipients.
const HEADER: u64 = 64 << 10;

/// Gives no more than so many bytes.
struct Limited<R> {
    source: R,
    left: Rc<Cell<u64>>,
}

impl<R: Read> Read for Limited<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = self.left.get();
        if left == 0 {
            return Err(io::Error::other("the header of age has no end"));
        }
        let most = usize::try_from(left).unwrap_or(usize::MAX).min(into.len());
        let number = self.source.read(into.get_mut(..most).unwrap_or_default())?;
        let read = u64::try_from(number).unwrap_or(u64::MAX);
        self.left.set(left.saturating_sub(read));
        Ok(number)
    }
}

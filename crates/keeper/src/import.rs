//! Brings a snapshot that something else made: `etcdctl`, a job of kubeadm's users, a copied database file. There is no manifest
//! of it: its facts are read from the file itself, and what lies on the volume in the end has etcd's hash at its end, as every
//! other.

use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

use archive::layout;
use archive::manifest::{self, Sum, seal};
use archive::stream::{Damage, Facts, Reader};
use archive::work::{Base, Cause, Fetched, Import};
use jiff::Timestamp;
use object_store::ObjectMeta;
use object_store::path::Path as ObjectPath;
use serde::{Deserialize, Serialize};

use crate::args::Args;
use crate::decode::{self, Pieces, identities, pass};
use crate::fault::{Explain as _, Fault, Result};
use crate::layers;
use crate::store::Store;
use crate::volume::{PART, READY, SNAPSHOT, make, put_in_place, remove, sum_of, write_ready};

/// `ready.json` of such a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Brought {
    /// What the store said of it. Something else may write it once more under the same name.
    seen: Seen,
    raw: Sum,
    fetched: Fetched,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Seen {
    bytes: u64,
    modified: Timestamp,
    tag: Option<String>,
}

impl Seen {
    fn of(meta: &ObjectMeta) -> Result<Self> {
        let seconds = meta.last_modified.timestamp();
        let modified = Timestamp::from_second(seconds);
        Ok(Self {
            bytes: meta.size,
            modified: modified.explain(Cause::Store, "read the time of its last change")?,
            tag: meta.e_tag.clone(),
        })
    }
}

/// Brings it, or finds that it is there.
pub(crate) async fn import(args: &Args, store: &Store, task: &Import) -> Result<Fetched> {
    let what = "name the file";
    let name = layout::file(&store.path, &task.name).explain(Cause::Request, what)?;
    let name = ObjectPath::parse(name).explain(Cause::Request, what)?;
    let url = store.url(name.as_ref());
    let meta = store.head(&name).await?.ok_or_else(|| absent(&url))?;
    let seen = Seen::of(&meta)?;
    let identities = identities(&args.identity)?;
    let Some(into) = task.into.as_deref().map(Path::new) else {
        let brought = bring(store, &name, task, identities, None).await?;
        return Ok(brought.fetched);
    };
    make(into)?;
    if let Some(brought) = find(into).filter(|brought| brought.seen == seen) {
        return Ok(brought.fetched);
    }
    // Whatever was there is of something else, or not whole.
    remove(&into.join(READY))?;
    let part = into.join(PART);
    let brought = match bring(store, &name, task, identities, Some(&part)).await {
        Ok(brought) => brought,
        Err(fault) => {
            remove(&part)?;
            return Err(fault);
        }
    };
    put_in_place(&part, &into.join(SNAPSHOT))?;
    let text = seal(&brought).explain(Cause::Request, "say that it is ready")?;
    write_ready(into, &text)?;
    Ok(brought.fetched)
}

fn absent(url: &str) -> Fault {
    Fault::new(Cause::Damaged, format!("there is no {url}"))
}

/// What was brought before, if it is still as it was.
fn find(into: &Path) -> Option<Brought> {
    let ready = std::fs::read(into.join(READY)).ok()?;
    let brought: Brought = manifest::open(&ready).ok()?;
    (sum_of(&into.join(SNAPSHOT)).as_ref() == Some(&brought.raw)).then_some(brought)
}

async fn bring(
    store: &Store,
    name: &ObjectPath,
    task: &Import,
    identities: Vec<PathBuf>,
    to: Option<&Path>,
) -> Result<Brought> {
    let url = store.url(name.as_ref());
    let hashless = task.skip_hash_check;
    let (to, address) = (to.map(Path::to_owned), url.clone());
    let decoding = move |source| decode(source, hashless, &identities, to.as_deref(), &address);
    let (object, decoded) = pass(store, name, decoding).await?;
    let object = object.ok_or_else(|| absent(&url))?;
    // As stored comes first: where that is damaged, anything may be wrong with what is in it.
    let expected = task.sha256.as_ref();
    if expected.is_some_and(|expected| *expected != object.sum.sha256) {
        let found = &object.sum.sha256;
        let message = format!("{url} is not the file that is meant: its SHA-256 is {found}");
        return Err(Fault::new(Cause::Damaged, message));
    }
    let facts = decoded.map_err(hinted)?;
    let seen = Seen::of(&object.meta)?;
    let base = Base {
        id: task.name.clone(),
        url,
        time: seen.modified,
        revision: facts.revision,
        compact_revision: facts.compact_revision,
        stored_bytes: object.sum.bytes,
        raw_bytes: facts.raw.bytes,
        etcd_version: facts.version.unwrap_or_default(),
    };
    let fetched = Fetched {
        base,
        trailer: facts.trailer,
        auth: Some(facts.auth),
        rewound: None,
    };
    let raw = facts.raw;
    Ok(Brought { seen, raw, fetched })
}

/// What is to be done where only etcd's own hash is missing.
fn hinted(fault: Fault) -> Fault {
    if !fault.message.ends_with(&Damage::NoHash.to_string()) {
        return fault;
    }
    let message = format!(
        "{}, which etcdctl writes: where it is the file of a member that was stopped before it was copied, write skipHashCheck: true",
        fault.message
    );
    Fault::new(fault.cause, message)
}

fn decode(
    source: Pieces,
    hashless: bool,
    identities: &[PathBuf],
    to: Option<&Path>,
    url: &str,
) -> Result<Facts> {
    let source = layers::unwrap(source, identities, url)?;
    let reader = if hashless {
        Reader::without_hash()
    } else {
        Reader::new()
    };
    let (file, facts) = decode::write(source, reader, to, url)?;
    if let (Some(mut file), Some(to)) = (file, to) {
        let writing = format!("write {}", to.display());
        if hashless {
            end(&mut file, &facts).explain(Cause::Request, &writing)?;
        }
        file.sync_all().explain(Cause::Request, &writing)?;
    }
    Ok(facts)
}

/// Gives the file the end that its facts are of, so that whatever happens to it on the volume is noticed.
pub(crate) fn end(file: &mut File, facts: &Facts) -> std::io::Result<()> {
    let hash: Vec<u8> = hash_of(&facts.trailer);
    let length = u64::try_from(hash.len()).unwrap_or(u64::MAX);
    file.set_len(facts.raw.bytes.saturating_sub(length))?;
    file.seek(SeekFrom::End(0))?;
    file.write_all(&hash)
}

/// The bytes of hexadecimal digits.
fn hash_of(digits: &str) -> Vec<u8> {
    let digits: Vec<u32> = digits
        .chars()
        .filter_map(|digit| digit.to_digit(16))
        .collect();
    let pairs = digits.chunks_exact(2);
    let bytes = pairs.map(|pair| pair.iter().fold(0, |byte, digit| byte * 16 + digit));
    bytes.filter_map(|byte| u8::try_from(byte).ok()).collect()
}

//! What is in a timeline, read from the store. The listing is the index: a base is there if its manifest is. A manifest that
//! is damaged is named, and never used or deleted.

use archive::layout::{self, Layout};
use archive::manifest::{self, Manifest, VerifiedRecord};
use archive::work::{Cause, Depth, Listed};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;

use crate::fault::{Fault, Result};
use crate::store::Store;

/// Reads of small objects at once.
const AT_ONCE: usize = 8;

/// A base, and when it was found to be good.
pub(crate) struct Entry {
    pub(crate) manifest: Manifest,
    pub(crate) verified: Option<Timestamp>,
    /// Names of the records that say so, from the directory of the timeline.
    pub(crate) records: Vec<String>,
}

/// All bases of a timeline.
pub(crate) struct Bases {
    /// Newest first.
    pub(crate) all: Vec<Entry>,
    /// What is wrong with those that cannot be read.
    pub(crate) damaged: Vec<Fault>,
}

impl Bases {
    /// The newest ones, for the operator.
    pub(crate) fn newest(&self, number: usize) -> Vec<Listed> {
        let listed = self.all.iter().take(number).map(|entry| Listed {
            id: entry.manifest.id.clone(),
            time: entry.manifest.time,
            revision: entry.manifest.revision,
            bytes: entry.manifest.stored.bytes,
            verified: entry.verified,
        });
        listed.collect()
    }
}

/// The base of an ID, or the newest one. A damaged manifest is an error here: an older base is not what was asked for.
pub(crate) async fn find(store: &Store, at: &Layout, id: Option<&str>) -> Result<Option<Manifest>> {
    let names = store.list(&at.bases()).await?;
    let parse = |name: &String| layout::parse_manifest(name).map(|(r, id)| (r, id.to_owned()));
    let bases: Vec<_> = names
        .iter()
        .filter_map(|name| Some((parse(name)?, name)))
        .collect();
    let newest = bases.iter().map(|((revision, _), _)| *revision).max();
    let is_it = |base: &(i64, String)| match id {
        Some(id) => base.1 == id,
        None => Some(base.0) == newest,
    };
    let mut found: Vec<Manifest> = Vec::new();
    for (_, name) in bases.iter().filter(|(base, _)| is_it(base)) {
        found.extend(read(store, at, name).await??);
    }
    Ok(found.into_iter().max_by_key(|manifest| manifest.time))
}

/// A manifest. The outer error is the store's, the inner one tells of damage; `None` if it is gone since it was listed.
async fn read(store: &Store, at: &Layout, name: &str) -> Result<Result<Option<Manifest>>> {
    let whole = at.of(&format!("base/{name}"));
    let Some(text) = store.get(&whole).await? else {
        return Ok(Ok(None));
    };
    Ok(Manifest::open(name, &text).map(Some).map_err(|reason| {
        let message = format!("{} is damaged: {reason}", store.url(&whole));
        Fault::new(Cause::Damaged, message)
    }))
}

/// Reads all manifests of a timeline, and which of the bases were verified.
pub(crate) async fn all(store: &Store, at: &Layout) -> Result<Bases> {
    let names = store.list(&at.bases()).await?;
    let names = names
        .iter()
        .filter(|name| layout::parse_manifest(name).is_some());
    let read = names.map(|name| read(store, at, name));
    let read: Vec<_> = stream::iter(read).buffered(AT_ONCE).try_collect().await?;
    let records = store.list(&at.verifications()).await?;
    let mut bases = Bases {
        all: Vec::new(),
        damaged: Vec::new(),
    };
    for one in read {
        match one {
            Ok(Some(manifest)) => bases.all.push(entry(store, at, manifest, &records).await?),
            Ok(None) => {}
            Err(fault) => bases.damaged.push(fault),
        }
    }
    let newest =
        |entry: &Entry| std::cmp::Reverse((entry.manifest.time, entry.manifest.id.clone()));
    bases.all.sort_by_key(newest);
    Ok(bases)
}

/// A trial that only compared checksums does not count as verified: no etcd ran on it.
async fn entry(
    store: &Store,
    at: &Layout,
    manifest: Manifest,
    records: &[String],
) -> Result<Entry> {
    let own =
        |name: &&String| layout::parse_verified(name).is_some_and(|(id, _)| id == manifest.id);
    let mut names: Vec<String> = records.iter().filter(own).cloned().collect();
    names.sort_unstable();
    let names: Vec<String> = names
        .iter()
        .map(|name| format!("verified/{name}"))
        .collect();
    let mut verified = None;
    for name in names.iter().rev() {
        let text = store.get(&at.of(name)).await?;
        let record = text.and_then(|text| manifest::open::<VerifiedRecord>(&text).ok());
        let good = record.filter(|r| r.depth != Depth::ChecksumOnly && r.id == manifest.id);
        if let Some(record) = good {
            verified = Some(record.time);
            break;
        }
    }
    Ok(Entry {
        manifest,
        verified,
        records: names,
    })
}

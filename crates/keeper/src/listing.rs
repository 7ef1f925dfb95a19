//! What is in a timeline, read from the store. The listing is the index: a base is there if its manifest is. A manifest that
//! is damaged is named, and never used or deleted. A base that failed its last trial is not the newest of anything.

use archive::layout::{self, Layout};
use archive::manifest::{BadRecord, Manifest};
use archive::work::{Cause, Listed};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;

use crate::fault::{Fault, Result};
use crate::records::Records;
use crate::store::Store;

/// Reads of small objects at once.
const AT_ONCE: usize = 8;

/// A base, and when it was found to be good.
pub(crate) struct Entry {
    pub(crate) manifest: Manifest,
    pub(crate) verified: Option<Timestamp>,
    /// Its last trial failed.
    pub(crate) damaged: bool,
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
            damaged: entry.damaged,
        });
        listed.collect()
    }
}

/// The base of an ID, or the newest one that did not fail its trial. A damaged manifest is an error here: an older base is not
/// what was asked for.
pub(crate) async fn find(store: &Store, at: &Layout, id: Option<&str>) -> Result<Option<Manifest>> {
    let names = store.list(&at.bases()).await?;
    let parse = |name: &String| layout::parse_manifest(name).map(|(r, id)| (r, id.to_owned()));
    let bases = names.iter().filter_map(|name| Some((parse(name)?, name)));
    let bases = match id {
        Some(id) => bases.filter(|(base, _)| base.1 == id).collect::<Vec<_>>(),
        None => newest(store, at, bases.collect()).await?,
    };
    let mut found: Vec<Manifest> = Vec::new();
    for (_, name) in bases {
        found.extend(read(store, at, name).await??);
    }
    Ok(found.into_iter().max_by_key(|manifest| manifest.time))
}

/// Those of the newest revision, of those that did not fail their trial. That none is left is an error.
async fn newest<'a>(
    store: &Store,
    at: &Layout,
    all: Vec<(Parsed, &'a String)>,
) -> Result<Vec<(Parsed, &'a String)>> {
    let records = Records::list(store, at).await?;
    let there = !all.is_empty();
    let mut good = Vec::new();
    for base in all {
        let failed = records.is_damaged(store, at, &base.0.1).await?;
        good.extend((!failed).then_some(base));
    }
    if there && good.is_empty() {
        let bases = store.url(&at.bases());
        let message = format!("no base in {bases} stood its trial: name the one that is meant");
        return Err(Fault::new(Cause::Damaged, message));
    }
    let newest = good.iter().map(|(base, _)| base.0).max();
    good.retain(|(base, _)| Some(base.0) == newest);
    Ok(good)
}

/// Revision and ID, as the name of a manifest has them.
type Parsed = (i64, String);

/// Whether there is a manifest of this ID, whatever is in it.
pub(crate) async fn has(store: &Store, at: &Layout, id: &str) -> Result<bool> {
    let names = store.list(&at.bases()).await?;
    let mut bases = names.iter().filter_map(|name| layout::parse_manifest(name));
    Ok(bases.any(|(_, base)| base == id))
}

/// A manifest. The outer error is the store's, the inner one tells of damage; `None` if it is gone since it was listed.
async fn read(store: &Store, at: &Layout, name: &str) -> Result<Result<Option<Manifest>>> {
    let whole = at.of(&format!("base/{name}"));
    let text = match store.get(&whole).await {
        Ok(Some(text)) => text,
        Ok(None) => return Ok(Ok(None)),
        Err(fault) if fault.cause == Cause::Damaged => return Ok(Err(fault)),
        Err(fault) => return Err(fault),
    };
    Ok(Manifest::open(name, &text).map(Some).map_err(|reason| {
        // A newer keeper can read it: that is said, and nothing is recorded of the backup.
        if let BadRecord::Newer(_) = reason {
            return Fault::new(Cause::Request, format!("{}: {reason}", store.url(&whole)));
        }
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
    let records = Records::list(store, at).await?;
    let mut bases = Bases {
        all: Vec::new(),
        damaged: Vec::new(),
    };
    for one in read {
        match one {
            Ok(Some(manifest)) => {
                let state = records.of(store, at, &manifest.id).await?;
                bases.all.push(Entry {
                    manifest,
                    verified: state.verified,
                    damaged: state.damaged,
                    records: state.names,
                });
            }
            Ok(None) => {}
            Err(fault) => bases.damaged.push(fault),
        }
    }
    let newest =
        |entry: &Entry| std::cmp::Reverse((entry.manifest.time, entry.manifest.id.clone()));
    bases.all.sort_by_key(newest);
    Ok(bases)
}

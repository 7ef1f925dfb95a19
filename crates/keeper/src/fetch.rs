//! Brings a base to a directory: `snapshot.db`, and then `ready.json`, without which the first is rubbish.

use std::path::{Path, PathBuf};

use archive::layout::{self, Layout};
use archive::manifest::{self, Manifest, seal};
use archive::work::{Cause, Fetch, Fetched, Place};

use crate::args::Args;
use crate::decode::{bring, identities};
use crate::fault::{Explain as _, Fault, Result};
use crate::holder::holder;
use crate::listing;
use crate::rewind::{rewind, unwritten};
use crate::store::Store;
use crate::volume::{PART, READY, SNAPSHOT, make, put_in_place, remove, sum_of, write_ready};

/// Brings a base, or finds that it is there.
pub(crate) async fn fetch(args: &Args, store: &Store, task: &Fetch) -> Result<Fetched> {
    let place = timeline(store, &task.place).await?;
    let at = Layout::new(&store.path, &place).explain(Cause::Request, "name the base")?;
    let id = task.id.as_deref();
    let manifest = match task.revision {
        Some(revision) => holder(store, &at, id, revision).await?,
        None => base(store, &at, id).await?,
    };
    let data = at.of(&manifest.data);
    let identities = identities(&args.identity)?;
    // Where it is the newest of the base, the base is used as it is.
    let earlier = task.revision.filter(|it| *it != manifest.revision);
    match (&task.into, earlier) {
        (Some(into), Some(revision)) => {
            let to = (identities, Path::new(into));
            return rewind(store, &data, &manifest, revision, to).await;
        }
        (Some(into), None) => put(store, &data, &manifest, identities, Path::new(into)).await?,
        (None, _) => drop(bring(store, &data, &manifest, identities, None).await?),
    }
    Ok(Fetched {
        base: manifest.base(store.url(&data)),
        rewound: earlier.map(|revision| unwritten(&manifest, revision)),
        trailer: manifest.trailer,
        auth: manifest.source.auth_enabled,
    })
}

/// Brings it to its directory, unless it is there.
async fn put(
    store: &Store,
    data: &str,
    manifest: &Manifest,
    identities: Vec<PathBuf>,
    into: &Path,
) -> Result<()> {
    make(into)?;
    if is_there(into, manifest) {
        return Ok(());
    }
    // Whatever was there is of something else, or not whole.
    remove(&into.join(READY))?;
    let part = into.join(PART);
    if let Err(fault) = bring(store, data, manifest, identities, Some(&part)).await {
        remove(&part)?;
        return Err(fault);
    }
    put_in_place(&part, &into.join(SNAPSHOT))?;
    let text = seal(manifest).explain(Cause::Request, "say that it is ready")?;
    write_ready(into, &text)
}

/// A base that must be there.
pub(crate) async fn base(store: &Store, at: &Layout, id: Option<&str>) -> Result<Manifest> {
    let found = listing::find(store, at, id).await?;
    found.ok_or_else(|| {
        let bases = store.url(&at.bases());
        let message = match id {
            Some(id) => format!("there is no base {id} in {bases}"),
            None => format!("there is no base in {bases}"),
        };
        Fault::new(Cause::Damaged, message)
    })
}

/// The place with its cluster ID. Where none is given, the store must have one only.
async fn timeline(store: &Store, place: &Place) -> Result<Place> {
    if !place.cluster_id.is_empty() {
        return Ok(place.clone());
    }
    let directory = layout::cluster_directory(&store.path, place);
    let directory = directory.explain(Cause::Request, "name the cluster")?;
    let mut found = store.directories(&directory).await?;
    found.retain(|name| layout::is_cluster_id(name));
    match found.as_slice() {
        [only] => Ok(Place {
            cluster_id: only.clone(),
            ..place.clone()
        }),
        [] => {
            let message = format!("there is no backup in {}", store.url(&directory));
            Err(Fault::new(Cause::Damaged, message))
        }
        several => {
            let (url, ids) = (store.url(&directory), several.join(", "));
            let message = format!("{url} holds several clusters, name one of them: {ids}");
            Err(Fault::new(Cause::Request, message))
        }
    }
}

/// Whether this very base was brought before, and is still as it was: what was damaged since is brought once more.
fn is_there(into: &Path, manifest: &Manifest) -> bool {
    let ready = std::fs::read(into.join(READY)).unwrap_or_default();
    let is_same = manifest::open::<Manifest>(&ready).is_ok_and(|ready| ready == *manifest);
    is_same && sum_of(&into.join(SNAPSHOT)).as_ref() == Some(&manifest.raw)
}

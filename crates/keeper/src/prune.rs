//! Deletes what is no longer kept. The manifest goes first, so that no base is listed whose data is gone; what the store
//! does not let go (a lock, missing rights) is told and is no failure.

use archive::layout::{self, Layout};
use archive::retention::{Kept, no_longer_kept};
use archive::work::{Keep, MadeBy};
use jiff::Timestamp;

use crate::fault::{Result, one_line};
use crate::listing::{Bases, Entry};
use crate::store::Store;

/// How it went.
#[derive(Default)]
pub(crate) struct Pruned {
    pub(crate) number: u32,
    /// Why some were not.
    pub(crate) refused: Vec<String>,
}

impl Pruned {
    /// One line, of what was not deleted and of what cannot be read.
    pub(crate) fn unpruned(&self) -> Option<String> {
        (!self.refused.is_empty()).then(|| one_line(&self.refused.join("; ")))
    }
}

/// Deletes the bases of an object that it no longer keeps, now that it has made another, from the store and from `bases`.
pub(crate) async fn prune(
    store: &Store,
    at: &Layout,
    bases: &mut Bases,
    (object, made): (&MadeBy, &str),
    keep: &Keep,
) -> Pruned {
    let kept = |entry: &Entry| Kept {
        id: entry.manifest.id.clone(),
        made_by: entry.manifest.made_by.clone(),
        time: entry.manifest.time,
        verified: entry.verified,
        damaged: entry.damaged,
    };
    let all: Vec<Kept> = bases.all.iter().map(kept).collect();
    let gone = no_longer_kept(&all, object, keep, made, Timestamp::now());
    let mut pruned = Pruned::default();
    for damaged in &bases.damaged {
        pruned.refused.push(damaged.message.clone());
    }
    for id in gone {
        let Some(place) = bases.all.iter().position(|entry| entry.manifest.id == id) else {
            continue;
        };
        match delete(store, at, bases.all.get(place)).await {
            Ok(()) => {
                bases.all.remove(place);
                pruned.number = pruned.number.saturating_add(1);
            }
            Err(fault) => pruned.refused.push(fault.message),
        }
    }
    pruned
}

async fn delete(store: &Store, at: &Layout, entry: Option<&Entry>) -> Result<()> {
    let Some(entry) = entry else {
        return Ok(());
    };
    let manifest = &entry.manifest;
    // A name that cannot be made was never written.
    if let Ok(name) = layout::manifest(manifest.revision, &manifest.id) {
        store.delete(&at.of(&name)).await?;
    }
    store.delete(&at.of(&manifest.data)).await?;
    for record in &entry.records {
        store.delete(&at.of(record)).await?;
    }
    Ok(())
}

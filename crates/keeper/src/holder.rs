//! Which base holds a revision: all that history has left since its last compaction, up to its newest.

use archive::layout::{self, Layout};
use archive::manifest::Manifest;
use archive::work::Cause;

use crate::fault::{Fault, Result};
use crate::fetch;
use crate::listing;
use crate::records::Records;
use crate::store::Store;

/// The base that holds a revision: the one that is named, or that of which least is to be dropped.
pub(crate) async fn holder(
    store: &Store,
    at: &Layout,
    id: Option<&str>,
    revision: i64,
) -> Result<Manifest> {
    if let Some(id) = id {
        let named = fetch::base(store, at, Some(id)).await?;
        if holds(&named, revision) {
            return Ok(named);
        }
        let (first, last) = (first(&named), named.revision);
        let message = format!(
            "base {id} in {} holds the revisions {first} to {last}, and not {revision}",
            store.url(&at.bases())
        );
        return Err(Fault::new(Cause::Request, message));
    }
    search(store, at, revision).await
}

async fn search(store: &Store, at: &Layout, revision: i64) -> Result<Manifest> {
    let names = store.list(&at.bases()).await?;
    let records = Records::list(store, at).await?;
    let bases = names.iter().filter_map(|name| layout::parse_manifest(name));
    let mut bases: Vec<(i64, &str)> = bases.collect();
    bases.sort_unstable();
    let later = bases.partition_point(|(newest, _)| *newest < revision);
    let (earlier, later) = bases.split_at_checked(later).unwrap_or_default();
    let mut unreadable = None;
    let mut after = None;
    for (_, id) in later {
        if records.is_damaged(store, at, id).await? {
            continue;
        }
        match listing::find(store, at, Some(id)).await {
            Ok(Some(base)) if holds(&base, revision) => return Ok(base),
            // What a later one holds begins later still.
            Ok(Some(base)) => {
                after = Some((first(&base), base.id));
                break;
            }
            Ok(None) => {}
            Err(fault) if fault.cause == Cause::Damaged => unreadable = Some(fault),
            Err(fault) => return Err(fault),
        }
    }
    if let Some(fault) = unreadable {
        return Err(fault);
    }
    let mut before = None;
    for (newest, id) in earlier.iter().rev() {
        if !records.is_damaged(store, at, id).await? {
            before = Some((*newest, (*id).to_owned()));
            break;
        }
    }
    let url = store.url(&at.bases());
    Err(refusal(revision, &url, (before, after)))
}

fn holds(base: &Manifest, revision: i64) -> bool {
    (first(base)..=base.revision).contains(&revision)
}

/// The first revision that a base holds.
fn first(base: &Manifest) -> i64 {
    base.compact_revision.max(1)
}

/// A revision that can be had instead, and of which base.
type Nearest = Option<(i64, String)>;

fn refusal(revision: i64, url: &str, (before, after): (Nearest, Nearest)) -> Fault {
    let tell = |side: &str, nearest: Nearest| match nearest {
        Some((nearest, id)) => format!("the nearest {side} it is {nearest} (base {id})"),
        None => format!("there is none {side} it"),
    };
    let (before, after) = (tell("before", before), tell("after", after));
    let message = format!("no base in {url} holds revision {revision}: {before}, {after}");
    Fault::new(Cause::Request, message)
}

//! Deletes the log that no base needs any more, whichever object made the base; and what members said of rows that are gone.

use archive::layout::{Layout, parse_manifest};
use archive::log::{self, Segment, parse_seal};
use futures::{StreamExt as _, stream};

use crate::fault::Result;
use crate::store::Store;

/// Deletions at once: a day of capture is thousands of objects.
const AT_ONCE: usize = 16;

/// What the store did not let go, and why. A store that does not let one go says so of each: the first is enough.
pub(crate) async fn prune_log(store: &Store, at: &Layout) -> Result<Option<String>> {
    let names = store.list(&at.of(log::DIRECTORY)).await?;
    let segments: Vec<Segment> = names.iter().filter_map(|it| Segment::parse(it)).collect();
    let seals = store.list(&at.of(log::SEALS)).await?;
    // The names are enough, and those of manifests that cannot be read count as well. They are listed last: a base that is
    // made meanwhile needs what comes after it.
    let bases = store.list(&at.bases()).await?;
    let bases = bases.iter().filter_map(|name| parse_manifest(name));
    let bases: Vec<i64> = bases.map(|(revision, _)| revision).collect();
    let Some(oldest) = bases.iter().min() else {
        return Ok(None);
    };
    let unneeded = log::unneeded(&bases, &segments).into_iter();
    let unneeded = unneeded.filter_map(|it| Some(format!("{}/{}", log::DIRECTORY, it.name()?)));
    let is_old = |name: &&String| parse_seal(name).is_some_and(|seal| seal < *oldest);
    let seals = seals.iter().filter(is_old);
    let seals = seals.map(|name| format!("{}/{name}", log::SEALS));
    let deleted = stream::iter(unneeded.chain(seals))
        .map(async |name| store.delete(&at.of(&name)).await)
        .buffer_unordered(AT_ONCE);
    let refused = deleted.filter_map(async |deleted| deleted.err());
    let refused: Vec<_> = refused.collect().await;
    Ok(refused.into_iter().next().map(|fault| fault.message))
}

//! Makes a base: a member's snapshot goes through to the store once, in pieces, and is known by its manifest afterwards.
//! Nothing counts before that: a data object without a manifest is rubbish.

use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::time::Duration;

use archive::layout::{self, Layout};
use archive::manifest::{Compression, Manifest, Sum, TimelineRecord, seal};
use archive::stream::{Facts, Reader};
use archive::work::{Cause, Keep, Made, Snapshot};
use bytes::Bytes;
use jiff::Timestamp;
use tokio::sync::{mpsc, watch};

use crate::args::Args;
use crate::encode::{Encoded, Encoder, Recipients};
use crate::fault::{Explain as _, Fault, Result};
use crate::listing;
use crate::member::{Known, meet};
use crate::prune::{Pruned, prune};
use crate::prune_log::prune_log;
use crate::store::Store;
use crate::upload::Upload;

/// How long a member may take for each piece.
const IDLE: Duration = Duration::from_secs(30);
/// Pieces of a snapshot, of 32 KiB, that may wait for the encoder, and blocks that may wait for the store.
const PIECES: usize = 32;
const BLOCKS: usize = 4;
/// Bases that are told to the operator.
const NEWEST: usize = 10;

/// Makes a base, or finds that it is there.
pub(crate) async fn snapshot(
    args: &Args,
    store: &Store,
    task: &Snapshot,
    mut stopped: watch::Receiver<bool>,
) -> Result<Made> {
    let at = Layout::new(&store.path, &task.place).explain(Cause::Request, "name the base")?;
    let encrypted = !task.recipients.is_empty();
    let compression = if task.compress {
        Compression::Zstd
    } else {
        Compression::None
    };
    // Another attempt may still be at work, and a pod of the same one on a node that does not respond: no two of them write the
    // same object, and each manifest names its own.
    let own = format!("{}-{}-{:08x}", task.id, task.attempt, made_up());
    let data = layout::data(&own, compression, encrypted);
    let data = data.explain(Cause::Request, "name the base")?;
    let recipients = Recipients::parse(&task.recipients)?;
    if let Some(there) = listing::find(store, &at, Some(&task.id)).await? {
        return made(store, &at, task, there, false).await;
    }

    let known = meet(&task.member, &task.place, &args.member_tls).await?;
    begin_timeline(store, &at, task, &known).await?;
    let encoder = Encoder::new(task.compress, &recipients)?;
    let mut upload = Upload::begin(store, &at.of(&data)).await?;
    let copied = tokio::select! {
        biased;
        _ = stopped.wait_for(|stopped| *stopped) => Err(crate::ended()),
        copied = copy(&known, encoder, &mut upload) => copied,
    };
    let (facts, stored) = match copied {
        Ok(copied) => copied,
        Err(reason) => return Err(upload.abort(reason).await),
    };
    // What another one finished meanwhile is the base, and this is rubbish. That it stays where it cannot be deleted does no
    // harm.
    if let Some(there) = listing::find(store, &at, Some(&task.id)).await? {
        drop(store.delete(&at.of(&data)).await);
        return made(store, &at, task, there, false).await;
    }
    let manifest = Manifest {
        id: task.id.clone(),
        data,
        time: Timestamp::now(),
        revision: facts.revision,
        compact_revision: facts.compact_revision,
        raw: facts.raw,
        stored,
        trailer: facts.trailer,
        compression,
        encrypted,
        recipients: task.recipients.clone(),
        source: known.source().await,
        made_by: task.made_by.clone(),
        hash_kv: known.hash(facts.revision).await,
    };
    let name = layout::manifest(manifest.revision, &manifest.id);
    let name = name.explain(Cause::Request, "name the base")?;
    let text = seal(&manifest).explain(Cause::Request, "record the base")?;
    store.put(&at.of(&name), text).await?;
    made(store, &at, task, manifest, true).await
}

/// A number that another process hardly has: the seed that the standard library takes from the kernel.
fn made_up() -> u64 {
    RandomState::new().build_hasher().finish() >> 32
}

/// Records what the data of this place is of, where that is not recorded yet.
async fn begin_timeline(store: &Store, at: &Layout, task: &Snapshot, known: &Known) -> Result<()> {
    if store.get(&at.timeline()).await?.is_some() {
        return Ok(());
    }
    let record = TimelineRecord {
        namespace: task.place.namespace.clone(),
        cluster: task.place.cluster.clone(),
        cluster_id: task.place.cluster_id.clone(),
        timeline: task.timeline.clone(),
        etcd_version: known.status.version.clone(),
        time: Timestamp::now(),
    };
    let text = seal(&record).explain(Cause::Request, "record the timeline")?;
    store.put(&at.timeline(), text).await
}

/// Brings all of a snapshot to the store: it is read and summed, encoded, and sent, each while the others go on. The data object
/// is completed only if the snapshot was whole.
async fn copy(known: &Known, encoder: Encoder, upload: &mut Upload) -> Result<(Facts, Sum)> {
    let (to_encoder, raw) = mpsc::channel(PIECES);
    let (to_store, mut blocks) = mpsc::channel(BLOCKS);
    let encoding = tokio::task::spawn_blocking(move || encoder.run(raw, &to_store));
    let storing = async {
        while let Some(Encoded { bytes, raw }) = blocks.recv().await {
            upload.write(&bytes, raw).await?;
        }
        Ok(())
    };
    let encoding = async { encoding.await.explain(Cause::Request, "encode")? };
    // Whichever fails first says why; the others end because nothing comes, or nothing is taken, any more.
    let ((), facts, sum) = tokio::try_join!(storing, read(known, to_encoder), encoding)?;
    upload.finish().await?;
    Ok((facts, sum))
}

/// Reads the member's snapshot, and closes it as soon as the last byte is there.
async fn read(known: &Known, to: mpsc::Sender<Bytes>) -> Result<Facts> {
    let mut reader = Reader::new();
    let broken = |reason| {
        let what = format!("read the snapshot of member {:x}", known.status.member_id);
        Fault::of(Cause::Member, &what, &reason)
    };
    let opened = known.member.snapshot(IDLE).await;
    let mut pieces = opened.explain(Cause::Member, "open a snapshot")?;
    while let Some(piece) = pieces
        .next()
        .await
        .explain(Cause::Member, "read the snapshot")?
    {
        reader.push(&piece).map_err(broken)?;
        if to.send(piece).await.is_err() {
            // The encoder has given up, and says why.
            return std::future::pending().await;
        }
    }
    reader.finish().map_err(broken)
}

/// Prunes, if this base is new, and tells what there is. The base is safe by now: what fails here is told, and is no failure.
async fn made(
    store: &Store,
    at: &Layout,
    task: &Snapshot,
    manifest: Manifest,
    is_new: bool,
) -> Result<Made> {
    let base = manifest.base(store.url(&at.of(&manifest.data)));
    let mut bases = match listing::all(store, at).await {
        Ok(bases) => bases,
        Err(fault) => {
            return Ok(Made {
                base,
                pruned: 0,
                unpruned: Some(fault.message),
                newest: Vec::new(),
            });
        }
    };
    let pruned = match &task.keep {
        Some(keep) if is_new => {
            let made = (&task.made_by, task.id.as_str());
            let mut pruned = prune(store, at, &mut bases, made, keep).await;
            let log = if *keep == Keep::default() {
                Ok(None)
            } else {
                prune_log(store, at).await
            };
            let refused = log.unwrap_or_else(|fault| Some(fault.message));
            pruned.refused.extend(refused);
            pruned
        }
        _all => Pruned::default(),
    };
    Ok(Made {
        base,
        pruned: pruned.number,
        unpruned: pruned.unpruned(),
        newest: bases.newest(NEWEST),
    })
}

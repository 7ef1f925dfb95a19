//! Tries a base: restores it in a scratch directory, starts etcd on it, and compares what that says with the manifest. What
//! came of it is recorded in the store: that the base is good, or what is wrong with it. What only kept it from being tried is
//! an error, and recorded nowhere.

use std::path::{Path, PathBuf};

use archive::layout::{self, Layout};
use archive::manifest::{DamagedRecord, Manifest, VerifiedRecord, seal};
use archive::work::{Cause, Depth, Verified, Verify};
use jiff::Timestamp;

use crate::args::Args;
use crate::decode::{bring, check, identities};
use crate::fault::{Explain as _, Fault, Result, one_line};
use crate::fetch::base;
use crate::listing;
use crate::records::{Records, answer};
use crate::store::Store;
use crate::trial::Trial;

/// How far a base was tried, and how many keys it has.
type Tried = (Depth, Option<u64>);

/// Tries a base and records what came of it.
pub(crate) async fn verify(args: &Args, store: &Store, task: &Verify) -> Result<Verified> {
    let at = Layout::new(&store.path, &task.place).explain(Cause::Request, "name the base")?;
    let id = match &task.id {
        Some(id) => id.clone(),
        None => base(store, &at, None).await?.id,
    };
    if let Some(run) = &task.run {
        let records = Records::list(store, &at).await?;
        let known = records.answer(store, &at, (&id, run)).await?;
        if let Some(known) = known {
            return known;
        }
    }
    if !listing::has(store, &at, &id).await? {
        // As if it was damaged; but there is nothing that a record could be about.
        let bases = store.url(&at.bases());
        let message = format!("there is no base {id} in {bases} any more");
        return Err(Fault::new(Cause::Damaged, message));
    }
    match tried(args, store, &at, &id).await {
        Ok((manifest, (depth, keys))) => {
            let record = VerifiedRecord {
                id,
                revision: manifest.revision,
                time: Timestamp::now(),
                depth,
                keys,
                run: task.run.clone(),
            };
            let name = layout::verified(&record.id, record.time);
            let name = name.explain(Cause::Request, "name it")?;
            let text = seal(&record).explain(Cause::Request, "record it")?;
            store.put(&at.of(&name), text).await?;
            Ok(answer(&record))
        }
        Err(fault) if fault.cause == Cause::Damaged => {
            Err(mark(store, &at, (&id, task.run.as_ref()), fault).await?)
        }
        Err(fault) => Err(fault),
    }
}

/// Records the damage, and gives it back to be told. What cannot be recorded is damaged all the same.
async fn mark(
    store: &Store,
    at: &Layout,
    (id, run): (&str, Option<&String>),
    fault: Fault,
) -> Result<Fault> {
    if !listing::has(store, at, id).await? {
        let message = format!("base {id} was deleted while it was tried");
        return Err(Fault::new(Cause::Store, message));
    }
    let record = DamagedRecord {
        id: id.to_owned(),
        time: Timestamp::now(),
        message: fault.message.clone(),
        run: run.cloned(),
    };
    let name = layout::damaged(id, record.time).explain(Cause::Request, "name it")?;
    let text = seal(&record).explain(Cause::Request, "record it")?;
    let Err(unrecorded) = store.put(&at.of(&name), text).await else {
        return Ok(fault);
    };
    let message = format!("{}; this cannot be recorded: {unrecorded}", fault.message);
    Ok(Fault::new(Cause::Damaged, one_line(&message)))
}

async fn tried(args: &Args, store: &Store, at: &Layout, id: &str) -> Result<(Manifest, Tried)> {
    let manifest = base(store, at, Some(id)).await?;
    let data = at.of(&manifest.data);
    let keys = identities(&args.identity)?;
    if manifest.encrypted && keys.is_empty() {
        check(store, &data, &manifest).await?;
        return Ok((manifest, (Depth::ChecksumOnly, None)));
    }
    let scratch = Scratch::new(&args.scratch, id)?;
    let file = scratch.0.join("snapshot.db");
    bring(store, &data, &manifest, keys, Some(&file)).await?;
    let tried = restore(args, &scratch.0, &file, &manifest, &store.url(&data)).await?;
    Ok((manifest, tried))
}

async fn restore(
    args: &Args,
    scratch: &Path,
    file: &Path,
    manifest: &Manifest,
    url: &str,
) -> Result<Tried> {
    let trial = Trial::start(args, scratch, file, manifest).await;
    let mut trial = trial.map_err(|fault| at(url, &fault))?;
    let tried = compare(&mut trial, manifest)
        .await
        .map_err(|fault| at(url, &fault));
    trial.end().await;
    tried
}

/// Puts the address of the base before what is wrong with it.
fn at(url: &str, fault: &Fault) -> Fault {
    Fault::new(fault.cause, format!("{url}: {}", fault.message))
}

/// What etcd says about it.
async fn compare(trial: &mut Trial, manifest: &Manifest) -> Result<Tried> {
    let differs = |what: &str, is: String, should: String| {
        let message = format!("restored, it has {what} {is}, and should have {should}");
        Err(Fault::new(Cause::Damaged, message))
    };
    let revision = trial.revision().await?;
    if revision < manifest.revision {
        return differs(
            "revision",
            revision.to_string(),
            manifest.revision.to_string(),
        );
    }
    let keys = Some(trial.keys().await?);
    let Some(told) = manifest.hash_kv else {
        return Ok((Depth::Restored, keys));
    };
    // What a lease that ran out meanwhile deleted is above the revision whose hash is asked for.
    let hash = trial.hash(told.revision, told.compact_revision).await?;
    // Hashes over different spans of history cannot be compared.
    if hash.compact_revision != told.compact_revision {
        return Ok((Depth::Restored, keys));
    }
    if hash.hash != told.hash {
        return differs("hash", hash.hash.to_string(), told.hash.to_string());
    }
    Ok((Depth::Hash, keys))
}

/// A directory that goes with the work.
struct Scratch(PathBuf);

impl Scratch {
    fn new(below: &Path, id: &str) -> Result<Self> {
        let path = below.join(format!("verify-{id}"));
        let made = match std::fs::remove_dir_all(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            _gone => std::fs::create_dir_all(&path),
        };
        made.explain(Cause::Request, format!("make {}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // The volume goes with the pod; a trial that is done is not undone by what is left of it.
        drop(std::fs::remove_dir_all(&self.0));
    }
}

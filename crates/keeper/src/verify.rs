//! Tries a base: restores it in a scratch directory, starts etcd on it, and compares what that says with the manifest. What
//! was found good is recorded in the store; what was not is an error that names the base.

use std::path::{Path, PathBuf};

use archive::layout::{self, Layout};
use archive::manifest::{Manifest, VerifiedRecord, seal};
use archive::work::{Cause, Depth, Verified, Verify};
use jiff::Timestamp;

use crate::args::Args;
use crate::decode::{bring, check, identities};
use crate::fault::{Explain as _, Fault, Result};
use crate::fetch::base;
use crate::store::Store;
use crate::trial::Trial;

/// Tries a base and records that it is good.
pub(crate) async fn verify(args: &Args, store: &Store, task: &Verify) -> Result<Verified> {
    let at = Layout::new(&store.path, &task.place).explain(Cause::Request, "name the base")?;
    let manifest = base(store, &at, task.id.as_deref()).await?;
    let data = at.of(&manifest.data);
    let keys = identities(&args.identity)?;
    let (depth, number) = if manifest.encrypted && keys.is_empty() {
        check(store, &data, &manifest).await?;
        (Depth::ChecksumOnly, None)
    } else {
        let scratch = Scratch::new(&args.scratch, &manifest.id)?;
        let file = scratch.0.join("snapshot.db");
        bring(store, &data, &manifest, keys, Some(&file)).await?;
        restore(args, &scratch.0, &file, &manifest, &store.url(&data)).await?
    };
    let record = VerifiedRecord {
        id: manifest.id.clone(),
        revision: manifest.revision,
        time: Timestamp::now(),
        depth,
        keys: number,
    };
    let name = layout::verified(&record.id, record.time).explain(Cause::Request, "name it")?;
    let text = seal(&record).explain(Cause::Request, "record it")?;
    store.put(&at.of(&name), text).await?;
    Ok(Verified {
        id: record.id,
        revision: record.revision,
        depth,
        time: record.time,
        keys: number,
    })
}

async fn restore(
    args: &Args,
    scratch: &Path,
    file: &Path,
    manifest: &Manifest,
    url: &str,
) -> Result<(Depth, Option<u64>)> {
    let trial = Trial::start(args, scratch, file).await;
    let mut trial = trial.map_err(|fault| at(url, &fault))?;
    let tried = compare(&trial, manifest)
        .await
        .map_err(|fault| at(url, &fault));
    trial.end().await;
    tried
}

/// Puts the address of the base before what is wrong with it.
fn at(url: &str, fault: &Fault) -> Fault {
    Fault::new(fault.cause, format!("{url}: {}", fault.message))
}

/// What etcd says about it, as far as it answers: where users are asked who they are, it tells its revision only.
async fn compare(trial: &Trial, manifest: &Manifest) -> Result<(Depth, Option<u64>)> {
    let differs = |what: &str, is: String, should: String| {
        let message = format!("restored, it has {what} {is}, and should have {should}");
        Err(Fault::new(Cause::Damaged, message))
    };
    let revision = trial.revision().await?;
    if revision != manifest.revision {
        return differs(
            "revision",
            revision.to_string(),
            manifest.revision.to_string(),
        );
    }
    if manifest.source.auth_enabled == Some(true) {
        return Ok((Depth::Restored, None));
    }
    let keys = Some(trial.keys().await?);
    let Some(told) = manifest.hash_kv else {
        return Ok((Depth::Restored, keys));
    };
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

//! The database as it was at an earlier revision: a snapshot holds all history since its last compaction, so that what etcd
//! would have given at any revision in between is in it. Rows of the bucket `key` up to that revision are those of then, one
//! by one; etcd starts on the result at exactly that revision, and its hash is the same.
//!
//! What has no history is that of the snapshot: users, roles, and the version of the data. Alarms are dropped, because they
//! are of a member that is no more. Leases have no history either. Those of the snapshot stay, with their time to live; one
//! that ended since has none that is known, though a key of then may hang on it, which would never expire: it is made once
//! more with [`LEASE_SECONDS`], and named. The consistent index stays as well: `etcdutl snapshot restore`, the only way in
//! which such a file is used, sets its own.

mod key;

use std::collections::{BTreeMap, BTreeSet};
use std::io::{Seek, Write};

use sha2::{Digest as _, Sha256};

use crate::bolt::{Broken, Bucket, Database, Rows, Source, Unwritten, Writer};
use key::{Revision, lease_row, parse_value};

/// Time to live of a lease that ended after the revision, of which nothing else is known: long enough to look at what hangs
/// on it, and short enough that no lock stays.
pub const LEASE_SECONDS: u64 = 3600;

/// Digest of a key: keys may be long.
type Digested = [u8; 16];

/// What was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// Revision at which etcd starts on it.
    pub revision: u64,
    /// Rows of keys.
    pub rows: u64,
    /// Leases that were made once more, because keys hang on them.
    pub leases: BTreeSet<u64>,
}

/// What cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum Unmade {
    /// The snapshot does not hold that revision.
    #[error("revision {asked} is not in it: it holds {from} to {to}")]
    Outside {
        /// What was asked for.
        asked: u64,
        /// That of its last compaction.
        from: u64,
        /// Its newest one.
        to: u64,
    },
    /// A row is missing, or is none of etcd.
    #[error("{what} at revision {at}")]
    Row {
        /// What is wrong.
        what: &'static str,
        /// About where.
        at: u64,
    },
    /// It has no such bucket.
    #[error("it has no bucket {0}")]
    NoBucket(&'static str),
    /// The snapshot cannot be read.
    #[error(transparent)]
    Read(#[from] Broken),
    /// The result cannot be written.
    #[error(transparent)]
    Write(#[from] Unwritten),
}

/// Writes the database of a revision; what it was written to, and what was made.
pub fn materialise<S: Source, W: Write + Seek>(
    base: &Database<S>,
    revision: u64,
    to: W,
) -> Result<(W, Made), Unmade> {
    let mut writer = Writer::new(to, base.page_size())?;
    let buckets = base.buckets()?;
    let named = |name: &'static str| {
        let mut all = buckets.iter();
        let found = all.find(|bucket| bucket.name == name.as_bytes());
        found.ok_or(Unmade::NoBucket(name))
    };
    let (keys, leases) = (named("key")?, named("lease")?);
    let compacted = compacted(base.rows(named("meta")?)?)?;
    let mut history = History::new(revision, compacted, known(base.rows(leases)?)?);
    for bucket in &buckets {
        match bucket.name.as_slice() {
            b"key" | b"lease" => {}
            b"alarm" => writer.bucket(b"alarm").finish()?,
            _other => copy(&mut writer, base, bucket)?,
        }
    }
    copy_keys(&mut writer, base.rows(keys)?, &mut history)?;
    let lost = history.lost();
    copy_leases(&mut writer, base.rows(leases)?, &lost)?;
    let made = Made {
        revision,
        rows: history.rows,
        leases: lost,
    };
    Ok((writer.finish()?, made))
}

/// Revision up to which history is, or is about to be, compacted away.
fn compacted<S: Source>(mut rows: Rows<'_, S>) -> Result<u64, Unmade> {
    let mut compacted = 0;
    while let Some((key, value)) = rows.read()? {
        if matches!(key, b"finishedCompactRev" | b"scheduledCompactRev") {
            let revision = Revision::parse(value).map(|revision| revision.main);
            compacted = compacted.max(revision.unwrap_or(0));
        }
    }
    Ok(compacted)
}

/// Leases of the snapshot.
fn known<S: Source>(mut rows: Rows<'_, S>) -> Result<BTreeSet<u64>, Unmade> {
    let mut known = BTreeSet::new();
    while let Some((key, _)) = rows.read()? {
        known.extend(key.try_into().map(u64::from_be_bytes));
    }
    Ok(known)
}

fn copy<S: Source, W: Write + Seek>(
    writer: &mut Writer<W>,
    base: &Database<S>,
    bucket: &Bucket,
) -> Result<(), Unmade> {
    let mut rows = base.rows(bucket)?;
    let mut filling = writer.bucket(&bucket.name);
    while let Some((key, value)) = rows.read()? {
        filling.row(key, value)?;
    }
    Ok(filling.finish()?)
}

fn copy_keys<S: Source, W: Write + Seek>(
    writer: &mut Writer<W>,
    mut rows: Rows<'_, S>,
    history: &mut History,
) -> Result<(), Unmade> {
    let mut filling = writer.bucket(b"key");
    while let Some((key, value)) = rows.read()? {
        match history.take(key, value)? {
            Take::Row => filling.row(key, value)?,
            Take::Nothing => {}
            Take::NoMore => break,
        }
    }
    history.end()?;
    Ok(filling.finish()?)
}

/// Those of the snapshot, and between them those that are made once more.
fn copy_leases<S: Source, W: Write + Seek>(
    writer: &mut Writer<W>,
    mut rows: Rows<'_, S>,
    lost: &BTreeSet<u64>,
) -> Result<(), Unmade> {
    let mut filling = writer.bucket(b"lease");
    let mut lost = lost.iter().map(|id| lease_row(*id)).peekable();
    while let Some((key, value)) = rows.read()? {
        while let Some((id, row)) = lost.next_if(|(id, _)| id.as_slice() < key) {
            filling.row(&id, &row)?;
        }
        filling.row(key, value)?;
    }
    for (id, row) in lost {
        filling.row(&id, &row)?;
    }
    Ok(filling.finish()?)
}

/// What is done with a row.
enum Take {
    Row,
    Nothing,
    /// All that follow are of later revisions.
    NoMore,
}

/// What is known of the history while it passes. Of each key whose lease is not in the snapshot some fifty bytes are kept.
struct History {
    asked: u64,
    compacted: u64,
    known: BTreeSet<u64>,
    /// Keys as they are at this point, that hang on a lease which is not known.
    hanging: BTreeMap<Digested, u64>,
    /// Revision of the last row, of any.
    newest: u64,
    rows: u64,
}

impl History {
    fn new(asked: u64, compacted: u64, known: BTreeSet<u64>) -> Self {
        Self {
            asked,
            compacted,
            known,
            hanging: BTreeMap::new(),
            newest: 0,
            rows: 0,
        }
    }

    /// Whether a row is of the revision, or of one before it.
    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<Take, Unmade> {
        let at = self.newest;
        let odd = |what| Unmade::Row { what, at };
        let revision = Revision::parse(key).ok_or_else(|| odd("a row has no revision"))?;
        // Each revision has a row, and what was compacted away is before the compaction.
        let is_next = revision
            .main
            .checked_sub(self.newest.max(self.compacted).max(1));
        if is_next.is_some_and(|ahead| ahead > 1) {
            return Err(odd("history has a gap"));
        }
        self.newest = revision.main;
        if revision.main > self.asked {
            // Where it is not there at all, it is told what is.
            let is_there = self.asked >= self.compacted.max(1);
            return Ok(if is_there {
                Take::NoMore
            } else {
                Take::Nothing
            });
        }
        let (key, lease) = parse_value(value).ok_or_else(|| odd("a row is not one of etcd"))?;
        self.rows += 1;
        if lease != 0 && !revision.deletes && !self.known.contains(&lease) {
            self.hanging.insert(digest(key), lease);
        } else if !self.hanging.is_empty() {
            self.hanging.remove(&digest(key));
        }
        Ok(Take::Row)
    }

    /// After the last row.
    fn end(&self) -> Result<(), Unmade> {
        let from = self.compacted.max(1);
        let to = self.newest.max(from);
        if (from..=to).contains(&self.asked) {
            return Ok(());
        }
        Err(Unmade::Outside {
            asked: self.asked,
            from,
            to,
        })
    }

    fn lost(&self) -> BTreeSet<u64> {
        self.hanging.values().copied().collect()
    }
}

fn digest(key: &[u8]) -> Digested {
    let mut digested = Digested::default();
    for (to, from) in digested.iter_mut().zip(Sha256::digest(key)) {
        *to = from;
    }
    digested
}

#[cfg(test)]
mod tests;

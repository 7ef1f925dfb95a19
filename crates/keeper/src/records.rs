//! What the store says of trials: `verified/` and `damaged/`, one object for each trial, beside the bases. The last trial of a
//! base counts. One that only compared checksums neither makes a base verified nor clears it: no etcd ran on it.

use archive::layout::{self, Layout};
use archive::manifest::{self, DamagedRecord, VerifiedRecord};
use archive::work::{Cause, Depth, Verified};
use jiff::Timestamp;

use crate::fault::{Fault, Result};
use crate::store::Store;

/// The names of all records of a timeline.
pub(crate) struct Records {
    verified: Vec<String>,
    damaged: Vec<String>,
}

/// What is known of a base.
#[derive(Default)]
pub(crate) struct State {
    /// When it was last found to be good.
    pub(crate) verified: Option<Timestamp>,
    /// It was not, since.
    pub(crate) damaged: bool,
    /// Names of its records, from the directory of the timeline.
    pub(crate) names: Vec<String>,
}

impl Records {
    /// All there are.
    pub(crate) async fn list(store: &Store, at: &Layout) -> Result<Self> {
        Ok(Self {
            verified: store.list(&at.verifications()).await?,
            damaged: store.list(&at.damages()).await?,
        })
    }

    /// What they say of a base. Those that say that it is good are read; that it is damaged, the name tells.
    pub(crate) async fn of(&self, store: &Store, at: &Layout, id: &str) -> Result<State> {
        let (good, bad) = (own(&self.verified, id), own(&self.damaged, id));
        let mut state = State::default();
        let damaged = bad.first().map(|(time, _)| *time);
        for (time, name) in &good {
            // A record in the same second as one of damage does not outweigh it.
            if damaged.is_some_and(|damaged| damaged >= *time) {
                break;
            }
            let record = read::<VerifiedRecord>(store, at, &format!("verified/{name}")).await?;
            let full =
                |record: &VerifiedRecord| record.depth != Depth::ChecksumOnly && record.id == id;
            if let Some(record) = record.filter(full) {
                state.verified = Some(record.time);
                break;
            }
        }
        state.damaged = damaged.is_some() && state.verified.is_none();
        let good = good.iter().map(|(_, name)| format!("verified/{name}"));
        let bad = bad.iter().map(|(_, name)| format!("damaged/{name}"));
        state.names = good.chain(bad).collect();
        Ok(state)
    }

    /// Whether its last trial failed. Nothing is read of one that never did.
    pub(crate) async fn is_damaged(&self, store: &Store, at: &Layout, id: &str) -> Result<bool> {
        if own(&self.damaged, id).is_empty() {
            return Ok(false);
        }
        Ok(self.of(store, at, id).await?.damaged)
    }

    /// What came of this very verification, if it has a record already.
    pub(crate) async fn answer(
        &self,
        store: &Store,
        at: &Layout,
        (id, run): (&str, &str),
    ) -> Result<Option<Result<Verified>>> {
        for (_, name) in own(&self.damaged, id) {
            let record = read::<DamagedRecord>(store, at, &format!("damaged/{name}")).await?;
            if let Some(record) = record.filter(|it| it.run.as_deref() == Some(run)) {
                return Ok(Some(Err(Fault::new(Cause::Damaged, record.message))));
            }
        }
        for (_, name) in own(&self.verified, id) {
            let record = read::<VerifiedRecord>(store, at, &format!("verified/{name}")).await?;
            if let Some(record) = record.filter(|it| it.run.as_deref() == Some(run)) {
                return Ok(Some(Ok(answer(&record))));
            }
        }
        Ok(None)
    }
}

/// What the operator is told of a base that is good.
pub(crate) fn answer(record: &VerifiedRecord) -> Verified {
    Verified {
        id: record.id.clone(),
        revision: record.revision,
        depth: record.depth,
        time: record.time,
        keys: record.keys,
    }
}

/// The records of a base with their times, newest first.
fn own<'a>(names: &'a [String], id: &str) -> Vec<(Timestamp, &'a str)> {
    let own = names.iter().filter_map(|name| {
        let (of, time) = layout::parse_record(name)?;
        (of == id).then_some((time, name.as_str()))
    });
    let mut own: Vec<_> = own.collect();
    own.sort_unstable_by(|one, other| other.cmp(one));
    own
}

/// A record; `None` where it is gone since it was listed, or cannot be read.
async fn read<T: serde::de::DeserializeOwned>(
    store: &Store,
    at: &Layout,
    name: &str,
) -> Result<Option<T>> {
    match store.get(&at.of(name)).await {
        Ok(text) => Ok(text.and_then(|text| manifest::open::<T>(&text).ok())),
        Err(fault) if fault.cause == Cause::Damaged => Ok(None),
        Err(fault) => Err(fault),
    }
}

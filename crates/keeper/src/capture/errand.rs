//! What the member is asked beside the watch: how far it is, how long leases were granted for, and for its hash. None of it
//! enters the log of etcd, and none holds up the watch.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use archive::log::{Mark, SEALS, SealRecord, seal_name};
use archive::manifest;
use archive::work::Cause;
use etcd::BoxFuture;
use futures::stream::FuturesUnordered;
use jiff::Timestamp;

use super::Capture;
use crate::fault::{Explain as _, Fault, Result};
use crate::member::Known;

/// Questions about leases at once.
const AT_ONCE: usize = 16;
/// A lease that is not answered for in this time is in the log by its ID alone.
const PATIENCE: Duration = Duration::from_secs(2);
/// Leases that are remembered. One that is asked for twice is in the log twice.
const REMEMBERED: usize = 100_000;

/// What was answered.
pub(super) enum Answer {
    Mark(Result<Option<Mark>>),
    Lease { id: i64, ttl: Option<i64> },
    Seal(Result<()>),
}

/// Questions that are under way, each for itself.
pub(super) type Errands = FuturesUnordered<BoxFuture<'static, Answer>>;

/// Asks how far the member is. A clock that was set back meanwhile gives no mark.
pub(super) async fn mark(known: &Known) -> Result<Option<Mark>> {
    let sent = Timestamp::now().as_millisecond();
    let read = known.member.read_linearizable().await;
    let revision = read.explain(Cause::Member, "ask for the newest revision")?;
    let answered = Timestamp::now().as_millisecond().saturating_add(1);
    let mark = Mark {
        revision,
        sent,
        answered,
    };
    Ok((sent < answered).then_some(mark))
}

/// Asks for the hash up to a revision, and records it.
pub(super) async fn seal(capture: Capture, known: Arc<Known>, revision: i64) -> Result<()> {
    // A member that leads or is alone is not asked, and one that has compacted more cannot say.
    let Some(hash_kv) = known.hash(revision).await else {
        return Ok(());
    };
    let record = SealRecord {
        cluster_id: capture.request.place.cluster_id.clone(),
        timeline: capture.request.timeline.clone(),
        hash_kv,
        member: format!("{:x}", known.status.member_id),
        time: Timestamp::now(),
    };
    let text = manifest::seal(&record).explain(Cause::Request, "record a hash")?;
    let unnamed = || Fault::new(Cause::Member, "the member has a revision below 0");
    let name = seal_name(revision).ok_or_else(unnamed)?;
    let name = capture.at.of(&format!("{SEALS}/{name}"));
    capture.store.put(&name, text).await
}

/// Leases that were seen.
#[derive(Default)]
pub(super) struct Leases {
    known: BTreeSet<i64>,
    unasked: VecDeque<i64>,
    pub(super) under_way: usize,
}

impl Leases {
    /// A row has this lease.
    pub(super) fn see(&mut self, id: i64) {
        if self.known.len() >= REMEMBERED {
            self.known.clear();
        }
        if id != 0 && self.known.insert(id) {
            self.unasked.push_back(id);
        }
    }

    /// Whether an answer is missing.
    pub(super) fn is_waiting(&self) -> bool {
        self.under_way > 0 || !self.unasked.is_empty()
    }

    /// Asks for as many as may be asked for at once.
    pub(super) fn ask(&mut self, known: &Arc<Known>, errands: &Errands) {
        while self.under_way < AT_ONCE
            && let Some(id) = self.unasked.pop_front()
        {
            let member = known.member.clone().with_deadline(PATIENCE);
            self.under_way += 1;
            errands.push(Box::pin(async move {
                let ttl = member.lease_granted(id).await.ok().flatten();
                Answer::Lease { id, ttl }
            }));
        }
    }
}

//! One watch, from its begin until it breaks: what comes becomes segments, which are closed at each interval.

use std::sync::Arc;
use std::time::Duration;

use archive::log::{FORMAT, Header, KeyValue, Mark, Row};
use archive::work::Cause;
use etcd::Watch;
use futures::StreamExt as _;
use tokio::sync::watch;
use tokio::time::{Instant, MissedTickBehavior, interval, timeout_at};

use super::errand::{self, Answer, Errands, Leases};
use super::follow::{Follow, News, Whole};
use super::segment::{Form, Open};
use super::{Capture, Memory};
use crate::fault::{Fault, Result};
use crate::member::Known;

/// A segment is closed when it has so many bytes, though the interval is not over: it is put at once.
const LARGEST: u64 = 8 << 20;
/// A watch that brings nothing for so long, though it is asked for progress, is broken.
const STALLED: Duration = Duration::from_secs(30);
/// How long the end of a segment waits for leases.
const LEASES: Duration = Duration::from_secs(1);

/// Why a watch ended, where that is no fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// The keeper was asked to end.
    Stopped,
    /// What came next was compacted away, up to this revision.
    Compacted(i64),
    /// The history is another one.
    Forked,
    /// No more may wait for the store.
    Full,
}

/// A watch and what came of it.
pub(super) struct Round<'a> {
    pub(super) capture: &'a Capture,
    pub(super) memory: &'a mut Memory,
    pub(super) known: Arc<Known>,
    open: Option<Open>,
    /// A moment whose revision did not come yet.
    pending: Option<Mark>,
    /// The newest moment whose revision came.
    reached: Option<Mark>,
    errands: Errands,
    leases: Leases,
    heard: Instant,
    is_asked: bool,
}

impl<'a> Round<'a> {
    /// With a member that was at a moment when it was met.
    pub(super) fn new(
        capture: &'a Capture,
        memory: &'a mut Memory,
        known: Arc<Known>,
        mark: Option<Mark>,
    ) -> Self {
        Self {
            capture,
            memory,
            known,
            open: None,
            pending: mark,
            reached: None,
            errands: Errands::new(),
            leases: Leases::default(),
            heard: Instant::now(),
            is_asked: false,
        }
    }

    /// Goes on until something ends it. Whatever whole revisions came are kept.
    pub(super) async fn run(
        mut self,
        follow: Follow,
        watch: Watch,
        stopped: watch::Receiver<bool>,
    ) -> Result<End> {
        let ended = self.follow(follow, watch, stopped).await;
        let closed = self.close().await;
        let end = ended?;
        closed.map(|()| end)
    }

    async fn follow(
        &mut self,
        mut follow: Follow,
        mut watch: Watch,
        mut stopped: watch::Receiver<bool>,
    ) -> Result<End> {
        let every = Duration::from_millis(self.capture.request.interval_milliseconds);
        let mut ticks = interval(every);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = stopped.wait_for(|stopped| *stopped) => return Ok(End::Stopped),
                _ = ticks.tick() => {
                    if self.heard.elapsed() > STALLED.max(every * 3) {
                        let message = "the member sent nothing, though it was asked for progress";
                        return Err(Fault::new(Cause::Member, message));
                    }
                    watch.ask_progress();
                    self.ask();
                }
                news = follow.next(&mut watch) => {
                    self.heard = Instant::now();
                    match news? {
                        News::Revisions(all) => self.take(&all).await?,
                        News::Compacted(revision) => return Ok(End::Compacted(revision)),
                        News::Forked => return Ok(End::Forked),
                    }
                    if self.capture.spool.is_full() {
                        return Ok(End::Full);
                    }
                }
                Some(answer) = self.errands.next() => self.answered(answer).await?,
            }
        }
    }

    /// Asks how far the member is, and now and then for its hash.
    fn ask(&mut self) {
        if !self.is_asked && self.pending.is_none() {
            self.is_asked = true;
            let known = Arc::clone(&self.known);
            let asked = async move { Answer::Mark(errand::mark(&known).await) };
            self.errands.push(Box::pin(asked));
        }
        let every = Duration::from_secs(self.capture.request.seal_seconds);
        let is_due = self.memory.sealed.is_none_or(|at| at.elapsed() >= every);
        if let Some((revision, Some(_))) = self.memory.position
            && is_due
        {
            self.memory.sealed = Some(Instant::now());
            let (capture, known) = (self.capture.clone(), Arc::clone(&self.known));
            let asked = async move { Answer::Seal(errand::seal(capture, known, revision).await) };
            self.errands.push(Box::pin(asked));
        }
    }

    async fn answered(&mut self, answer: Answer) -> Result<()> {
        match answer {
            Answer::Mark(mark) => {
                self.is_asked = false;
                self.pending = mark?;
                self.moment().await
            }
            Answer::Lease { id, ttl } => {
                self.lease(id, ttl)?;
                self.leases.ask(&self.known, &self.errands);
                Ok(())
            }
            Answer::Seal(sealed) => {
                if let Err(fault) = sealed {
                    self.capture.say(&fault.message);
                }
                Ok(())
            }
        }
    }

    fn lease(&mut self, id: i64, ttl: Option<i64>) -> Result<()> {
        self.leases.under_way = self.leases.under_way.saturating_sub(1);
        match (ttl, &mut self.open) {
            (Some(ttl), Some(open)) => open.lease(id, ttl),
            // It was gone, or its row is in a segment that could not wait for it.
            _unlearned => Ok(()),
        }
    }

    /// Writes revisions that are complete.
    async fn take(&mut self, all: &[Whole]) -> Result<()> {
        for whole in all {
            if self.open.is_none() {
                self.open = Some(self.begin(whole.revision)?);
            }
            if let Some(open) = &mut self.open {
                open.revision(whole)?;
            }
            self.memory.last = whole.revision;
            for row in &whole.rows {
                if let Row::Put(value) = row {
                    let lease = KeyValue::parse(value).map_or(0, |read| read.lease);
                    self.leases.see(lease);
                }
            }
            self.leases.ask(&self.known, &self.errands);
            let is_large = |open: &Open| open.bytes >= LARGEST;
            if self.open.as_ref().is_some_and(is_large) {
                self.close().await?;
            }
        }
        self.moment().await
    }

    fn begin(&self, first: i64) -> Result<Open> {
        let request = &self.capture.request;
        let before = self.memory.position.filter(|it| it.0 == first - 1);
        let header = Header {
            format: FORMAT,
            cluster_id: request.place.cluster_id.clone(),
            timeline: request.timeline.clone(),
            first,
            before: before.and_then(|(_, hash)| hash),
        };
        let form = Form {
            compress: request.compress,
            recipients: &self.capture.recipients,
            path: self.capture.spool.draft(),
        };
        Open::new(form, &header, self.reached.as_ref())
    }

    /// Where the revision of a moment came, the segment ends with it.
    async fn moment(&mut self) -> Result<()> {
        let last = self.memory.last;
        let Some(mark) = self.pending.take_if(|mark| mark.revision <= last) else {
            return Ok(());
        };
        self.reached = Some(mark);
        if let Some(open) = &mut self.open {
            open.mark(&mark)?;
        } else if self.is_silent_for_long() {
            self.open = Some(self.begin(last + 1)?);
        }
        self.close().await
    }

    /// Nothing was written to etcd for so long that the store is told that, so that it knows what the time since means.
    fn is_silent_for_long(&self) -> bool {
        let every = Duration::from_secs(self.capture.request.seal_seconds);
        let is_linked = matches!(self.memory.position, Some((_, Some(_))));
        is_linked && self.memory.closed.elapsed() >= every
    }

    /// Ends the open segment, after the leases in it, and hands it to the store.
    async fn close(&mut self) -> Result<()> {
        let until = Instant::now() + LEASES;
        while self.open.is_some() && self.leases.is_waiting() {
            match timeout_at(until, self.errands.next()).await {
                Ok(Some(Answer::Lease { id, ttl })) => {
                    self.lease(id, ttl)?;
                    self.leases.ask(&self.known, &self.errands);
                }
                Ok(Some(Answer::Mark(mark))) => {
                    self.is_asked = false;
                    self.pending = mark?;
                }
                Ok(Some(Answer::Seal(_))) => {}
                Ok(None) | Err(_) => break,
            }
        }
        let Some(open) = self.open.take() else {
            return Ok(());
        };
        let segment = open.close()?;
        self.memory.position = Some((segment.last, Some(segment.hash)));
        self.memory.closed = Instant::now();
        self.capture.spool.add(segment)
    }
}

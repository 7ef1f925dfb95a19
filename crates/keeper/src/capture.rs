//! Captures: every change of a cluster goes to the store, within an interval, until the process is asked to end. It begins
//! where the store ends, by which keeper it was written; what it cannot close by watching it closes with a base. Nothing that is in the
//! store is changed.

mod deliver;
mod errand;
mod follow;
mod round;
mod segment;
mod spool;

use std::io::Write as _;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use archive::layout::{Layout, parse_manifest};
use archive::log::{self, Begin, Held, Segment};
use archive::manifest::Manifest;
use archive::work::{Cause, Kind, MadeBy, Snapshot};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use jiff::Timestamp;
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::args::Args;
use crate::encode::Recipients;
use crate::fault::{Explain as _, Fault, Result};
use crate::hide;
use crate::member::{Known, meet};
use crate::snapshot::snapshot;
use crate::store::{self, Store};
use follow::Follow;
use round::{End, Round};
use spool::Spool;

/// How long a watch may take for an answer, as far as etcd is concerned; that it brings nothing at all is seen by the round.
const IDLE: Duration = Duration::from_mins(5);
/// Pauses between two watches.
const FIRST_PAUSE: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How long the end may wait for the store.
const DRAIN: Duration = Duration::from_secs(10);
/// Reads of manifests at once.
const AT_ONCE: usize = 8;

/// What a keeper that captures works with.
#[derive(Clone)]
struct Capture {
    request: Arc<log::Request>,
    store: Store,
    at: Layout,
    recipients: Arc<Recipients>,
    spool: Arc<Spool>,
    secrets: PathBuf,
}

/// What it knows from one watch to the next.
struct Memory {
    /// The last revision of the newest segment, and the hash of its rows.
    position: Option<(i64, Option<u32>)>,
    /// The newest revision that came.
    last: i64,
    /// History was compacted up to this revision at least.
    compacted: i64,
    /// When a member was last asked for its hash.
    sealed: Option<Instant>,
    /// When a segment was last closed.
    closed: Instant,
    /// How often members were met.
    met: usize,
}

/// Captures until the process is asked to end. An error is one that no other attempt can help.
pub(crate) async fn capture(args: &Args, stopped: watch::Receiver<bool>) -> Result<()> {
    let capture = Capture::new(args)?;
    let delivering = deliver::deliver(&capture);
    tokio::pin!(delivering);
    let ended = tokio::select! {
        ended = capture.rounds(args, &stopped) => ended,
        () = &mut delivering => Ok(()),
    };
    // What came is brought to the store; what the store does not take in time is captured again by the next keeper.
    tokio::select! {
        () = capture.spool.emptied() => {}
        () = &mut delivering => {}
        () = tokio::time::sleep(DRAIN) => {
            let bytes = capture.spool.bytes();
            capture.say(&format!("{bytes} bytes wait in the spool for the store"));
        }
    }
    ended
}

impl Capture {
    fn new(args: &Args) -> Result<Self> {
        let request: log::Request =
            serde_json::from_str(&args.request).explain(Cause::Request, "read the request")?;
        let wrong = |message: &str| Err(Fault::new(Cause::Request, message));
        if request.interval_milliseconds == 0 || request.seal_seconds == 0 {
            return wrong("an interval must be longer than zero");
        }
        if request.members.is_empty() {
            return wrong("there is no member that may be asked");
        }
        let store = store::open(&request.store, args)?;
        let at = Layout::new(&store.path, &request.place);
        let at = at.explain(Cause::Request, "name the log")?;
        let recipients = Recipients::parse(&request.recipients)?;
        let spool = Spool::open(&args.spool, &request.place.cluster_id, request.spool_bytes)?;
        Ok(Self {
            request: Arc::new(request),
            store,
            at,
            recipients: Arc::new(recipients),
            spool: Arc::new(spool),
            secrets: args.store_secrets.clone(),
        })
    }

    /// One watch after the other.
    async fn rounds(&self, args: &Args, stopped: &watch::Receiver<bool>) -> Result<()> {
        let mut memory = Memory {
            position: None,
            last: 0,
            compacted: 0,
            sealed: None,
            closed: Instant::now(),
            met: 0,
        };
        let mut pause = FIRST_PAUSE;
        loop {
            let begun = Instant::now();
            match self.round(args, &mut memory, stopped).await {
                Ok(End::Stopped) => return Ok(()),
                Ok(End::Forked) => return Err(self.forked(&memory)),
                Ok(End::Compacted(revision)) => memory.compacted = revision,
                Ok(End::Full) => {
                    let bytes = self.spool.bytes();
                    self.say(&format!("the spool is full with {bytes} bytes: no more is watched before the store takes them"));
                    if self.has_room(stopped.clone()).await {
                        return Ok(());
                    }
                }
                Err(fault) if fault.cause == Cause::Request => return Err(fault),
                Err(fault) => self.say(&fault.message),
            }
            if begun.elapsed() > LONGEST_PAUSE {
                pause = FIRST_PAUSE;
            }
            let mut asked = stopped.clone();
            if timeout(pause, asked.wait_for(|stopped| *stopped))
                .await
                .is_ok()
            {
                return Ok(());
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Begins where the store ends, and watches until something ends it.
    async fn round(
        &self,
        args: &Args,
        memory: &mut Memory,
        stopped: &watch::Receiver<bool>,
    ) -> Result<End> {
        let known = Arc::new(self.meet(args, memory).await?);
        let mark = errand::mark(&known).await?;
        let now = known.member.read_linearizable().await;
        let now = now.explain(Cause::Member, "ask for the newest revision")?;
        let (after, hash) = match self.begin(memory, now).await? {
            Begin::Watch { after, hash } => (after, hash),
            Begin::Forked { stored, member } => {
                self.say(&format!(
                    "the store has revision {stored}, and the member is at {member}"
                ));
                return Ok(End::Forked);
            }
            Begin::Base { after } => (self.base(args, &known, after, stopped).await?, None),
        };
        memory.position = Some((after, hash));
        memory.last = after;
        // Of the revision up to which history was compacted, etcd has only what is left: it cannot be compared any more.
        let follow = Follow::new(after, hash.filter(|_| memory.compacted < after));
        let watch = known.member.watch(follow.from(), IDLE).await;
        let watch = watch.explain(Cause::Member, "watch")?;
        self.say(&format!("captures what follows revision {after}"));
        let round = Round::new(self, memory, known, mark);
        round.run(follow, watch, stopped.clone()).await
    }

    /// The next member that can be asked, followers first: what they are asked holds up no client.
    async fn meet(&self, args: &Args, memory: &mut Memory) -> Result<Known> {
        let members = &self.request.members;
        let first = memory.met % members.len().max(1);
        memory.met += 1;
        let order = members.iter().cycle().skip(first).take(members.len());
        let mut leader = None;
        let mut failed = Fault::new(Cause::Request, "there is no member that may be asked");
        for member in order {
            match meet(member, &self.request.place, &args.member_tls).await {
                Ok(known) if known.status.leader != known.status.member_id => return Ok(known),
                Ok(known) => leader = Some(known),
                Err(fault) => failed = fault,
            }
        }
        leader.ok_or(failed)
    }

    /// Where to begin with a member that is at a revision.
    async fn begin(&self, memory: &Memory, now: i64) -> Result<Begin> {
        if let Some((after, hash)) = memory.position
            && (memory.compacted..=now).contains(&after)
            && now - after <= log::MOST_BEHIND
        {
            return Ok(Begin::Watch { after, hash });
        }
        let names = self.store.list(&self.at.of(log::DIRECTORY)).await?;
        let mut segments: Vec<Segment> = names.iter().filter_map(|it| Segment::parse(it)).collect();
        // What waits for the store will be there.
        segments.extend(self.spool.segments());
        let bases = self.bases().await?;
        Ok(log::begin(&bases, &segments, now, memory.compacted))
    }

    async fn bases(&self) -> Result<Vec<Held>> {
        let names = self.store.list(&self.at.bases()).await?;
        let names = names.iter().filter(|name| parse_manifest(name).is_some());
        let read = names.map(async |name| -> Result<Option<Held>> {
            let whole = self.at.of(&format!("base/{name}"));
            let text = self.store.get(&whole).await?;
            let manifest = text.and_then(|text| Manifest::open(name, &text).ok());
            Ok(manifest.map(|it| Held {
                compact: it.compact_revision,
                revision: it.revision,
            }))
        });
        let read: Vec<_> = stream::iter(read).buffered(AT_ONCE).try_collect().await?;
        Ok(read.into_iter().flatten().collect())
    }

    /// Makes a base; its revision. What lies between the log and its history is gone, and is said.
    async fn base(
        &self,
        args: &Args,
        known: &Known,
        after: Option<i64>,
        stopped: &watch::Receiver<bool>,
    ) -> Result<i64> {
        let id = format!("{:x}", known.status.member_id);
        let member = self.request.members.iter().find(|it| it.id == id);
        let gone = || {
            Fault::new(
                Cause::Member,
                "the member is not one of those that may be asked",
            )
        };
        let time = Timestamp::now().as_millisecond();
        let task = Snapshot {
            id: format!("capture-{time}-{}", std::process::id()),
            attempt: 0,
            place: self.request.place.clone(),
            timeline: self.request.timeline.clone(),
            member: member.cloned().ok_or_else(gone)?,
            compress: self.request.compress,
            recipients: self.request.recipients.clone(),
            made_by: MadeBy {
                kind: Kind::Needed,
                ..self.request.made_by.clone()
            },
            keep: None,
        };
        let made = snapshot(args, &self.store, &task, stopped.clone()).await?;
        let (revision, compact) = (made.base.revision, made.base.compact_revision);
        self.say(&format!("made a base of revision {revision}"));
        if let Some(after) = after
            && compact > after + 1
        {
            self.say(&format!(
                "revisions {} to {} are in no backup: they were compacted before they were captured",
                after + 1,
                compact - 1
            ));
        }
        Ok(revision)
    }

    /// Waits until the store has taken enough of the spool; whether the keeper was asked to end meanwhile.
    async fn has_room(&self, mut stopped: watch::Receiver<bool>) -> bool {
        tokio::select! {
            _ = stopped.wait_for(|stopped| *stopped) => true,
            () = self.spool.half_empty() => false,
        }
    }

    fn forked(&self, memory: &Memory) -> Fault {
        let place = self.store.url(self.at.root());
        let last = memory.last;
        let message = format!(
            "{place} has another history than the cluster up to revision {last}: nothing more is captured into it. Restore what is \
             missing from there, and give the cluster a place of its own"
        );
        Fault::new(Cause::Damaged, message)
    }

    /// One line of the log of the container.
    fn say(&self, text: &str) {
        let text = hide::strike(text, &self.secrets);
        drop(writeln!(std::io::stdout(), "{text}"));
    }
}

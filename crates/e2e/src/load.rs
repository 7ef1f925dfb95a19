//! Clients at work while a story plays: one writes, one reads what was written last, both as a client library
//! does it: straight to the members, and on to the next one when one fails. They have a thread of their own, so
//! that what a story does in between is not measured.
//!
//! What must not happen here: a write that was acknowledged and is not checked at the end.

mod client;
mod floor;
mod traffic;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result, ensure};
use tokio::sync::oneshot;

use self::floor::Floor;
use self::traffic::{Progress, Traffic};
use crate::cluster::Cluster;
use crate::story::tell;
use crate::wait::{MINUTE, until};

/// The longest gap between two writes that succeed, while three or more members are looked after.
pub const LIMIT: Duration = Duration::from_secs(1);

/// Clients that are at work; they end with it.
pub struct Load {
    title: String,
    progress: Arc<Progress>,
    floor: Floor,
    ended: oneshot::Receiver<Result<Tally>>,
}

/// What came of it.
#[derive(Debug)]
pub struct Report {
    title: String,
    /// Writes that were acknowledged. All of them were read again at the end.
    pub writes: u64,
    /// The longest time between two of them.
    pub write_gap: Gap,
    /// Reads that were answered, each confirmed by a quorum.
    pub reads: u64,
    /// The longest time between two of them.
    pub read_gap: Gap,
    /// Reads that no member answered.
    pub failed_reads: u64,
    /// The longest time in which this machine could not write to its own disk.
    pub floor: Duration,
}

/// The longest time without a success.
#[derive(Clone, Copy, Debug, Default)]
pub struct Gap {
    /// How long.
    pub longest: Duration,
    /// When it began, after the clients did.
    pub began: Duration,
}

/// What the clients counted, and what must never be.
struct Tally {
    writes: u64,
    write_gap: Gap,
    reads: u64,
    read_gap: Gap,
    failed_reads: u64,
    /// Acknowledged and not there.
    lost: Vec<String>,
    /// Reads that did not see what had been acknowledged before they began.
    stale: Vec<String>,
}

impl Load {
    /// Begins, and returns once a first write was acknowledged.
    pub async fn start(cluster: &Cluster) -> Result<Self> {
        Self::start_part(cluster, "").await
    }

    /// The same for one part of a story.
    pub async fn start_part(cluster: &Cluster, part: &str) -> Result<Self> {
        // A story plays in the thread that bears its name.
        let thread = std::thread::current();
        let story = thread.name().unwrap_or("a story");
        let title = [story, part].join(" ").trim_end().to_owned();
        let progress = Arc::new(Progress::default());
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?;
        let traffic = Traffic {
            namespace: cluster.stage.namespace.clone(),
            cluster: cluster.name.clone(),
            credentials: cluster.credentials(&cluster.pods().await?).await?,
            run: format!("load/{}", now.as_millis()),
            progress: Arc::clone(&progress),
        };
        let (sender, ended) = oneshot::channel();
        let thread = std::thread::Builder::new().name("load".to_owned());
        // It ends when it is told to, and says so through the channel.
        drop(thread.spawn(move || {
            // There is no receiver when the story has failed.
            sender.send(traffic.run()).unwrap_or_default();
        })?);
        let load = Self {
            title,
            progress,
            floor: Floor::start()?,
            ended,
        };
        until("a first write is acknowledged", MINUTE, || async {
            Ok(load.progress.acknowledged() > 0)
        })
        .await?;
        Ok(load)
    }

    /// How many writes were acknowledged so far.
    pub fn writes(&self) -> u64 {
        self.progress.acknowledged()
    }

    /// Ends, and reads again all that was acknowledged.
    ///
    /// # Panics
    ///
    /// When an acknowledged write is gone, or a read did not see one: no story may go on after that.
    pub async fn finish(mut self) -> Result<Report> {
        self.progress.stop();
        let ended = (&mut self.ended).await.context("the clients panicked")?;
        let tally = ended.context("what was written could not be checked")?;
        let title = self.title.clone();
        assert_none(&tally.lost, "acknowledged writes are LOST", &title);
        assert_none(&tally.stale, "reads were STALE", &title);
        tell(&format!(
            "load {title}: {} writes, longest gap {} ms, {} reads, longest read gap {} ms, {} reads failed; floor {} ms",
            tally.writes,
            tally.write_gap.longest.as_millis(),
            tally.reads,
            tally.read_gap.longest.as_millis(),
            tally.failed_reads,
            self.floor.longest().as_millis()
        ));
        Ok(Report {
            title,
            writes: tally.writes,
            write_gap: tally.write_gap,
            reads: tally.reads,
            read_gap: tally.read_gap,
            failed_reads: tally.failed_reads,
            floor: self.floor.longest(),
        })
    }
}

fn assert_none(found: &[String], what: &str, title: &str) {
    let some: Vec<&String> = found.iter().take(5).collect();
    assert!(
        found.is_empty(),
        "{title}: {} {what}, such as {some:?}",
        found.len()
    );
}

impl Drop for Load {
    fn drop(&mut self) {
        self.progress.stop();
    }
}

impl Report {
    /// Whether clients could always write, but for this long at most, and for what this machine alone cost.
    pub fn assert_gap(&self, limit: Duration) -> Result<()> {
        let Gap { longest, began } = self.write_gap;
        ensure!(
            longest <= limit.saturating_add(self.floor),
            "{}: no write for {} ms, from {:.1} s on; the limit is {} ms beside a floor of {} ms",
            self.title,
            longest.as_millis(),
            began.as_secs_f32(),
            limit.as_millis(),
            self.floor.as_millis()
        );
        Ok(())
    }
}

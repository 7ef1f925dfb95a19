//! What the clients do: write, read, and in the end look for every write that was acknowledged.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use etcd::{Consistency, Credentials, KeyValue};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

use super::client::{Addresses, Client};
use super::{Gap, Tally};
use crate::wait::MINUTE;

/// Time between two writes, and between two reads.
const PERIOD: Duration = Duration::from_millis(30);
/// After so long another member is asked to write as well: several times what a write takes, and a fraction of the limit.
const LATE: Duration = Duration::from_millis(250);
/// How many clients look for what was written.
const SEARCHERS: u64 = 8;

/// What the story and its clients know of each other.
#[derive(Default)]
pub(super) struct Progress {
    stopped: AtomicBool,
    acknowledged: AtomicU64,
}

impl Progress {
    pub(super) fn stop(&self) {
        self.stopped.store(true, Ordering::SeqCst);
    }

    pub(super) fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::SeqCst)
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::SeqCst)
    }
}

/// The clients of one cluster.
pub(super) struct Traffic {
    pub(super) namespace: String,
    pub(super) cluster: String,
    /// What is presented, where the cluster has TLS when it begins.
    pub(super) credentials: Option<Arc<Credentials>>,
    /// What the keys of this load begin with.
    pub(super) run: String,
    pub(super) progress: Arc<Progress>,
}

impl Traffic {
    /// Until it is stopped; then everything is looked for.
    pub(super) fn run(self) -> Result<Tally> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .context("no runtime")?;
        runtime.block_on(async {
            let client = kube::Client::try_default().await?;
            let place = (self.namespace.as_str(), self.cluster.as_str());
            let addresses = Addresses::new(client, place, self.credentials.clone());
            let addresses = Arc::new(addresses);
            tokio::select! {
                () = addresses.keep_current() => anyhow::bail!("the addresses are no longer looked up"),
                tally = self.work(&addresses) => tally,
            }
        })
    }

    async fn work(&self, addresses: &Arc<Addresses>) -> Result<Tally> {
        let (write_gap, (read_gap, reads)) = tokio::join!(
            self.write(Client::new(addresses)),
            self.read(Client::new(addresses), addresses)
        );
        let writes = self.progress.acknowledged();
        Ok(Tally {
            writes,
            write_gap,
            reads: reads.answered,
            read_gap,
            failed_reads: reads.failed,
            lost: self.search(addresses, writes).await?,
            stale: reads.stale,
        })
    }

    /// Writes numbered keys. What was not acknowledged is written again under the same number, so that it does not
    /// matter whether it was carried out.
    async fn write(&self, mut client: Client) -> Gap {
        let mut ticks = ticks();
        let mut clock = Clock::start();
        while !self.progress.is_stopped() {
            let number = self.progress.acknowledged().saturating_add(1);
            let text = self.text(number);
            if !write_once(&mut client, &text).await {
                continue;
            }
            if number == 1 {
                // Whatever was before is not part of the story.
                clock = Clock::start();
            }
            clock.success();
            self.progress.acknowledged.store(number, Ordering::SeqCst);
            ticks.tick().await;
        }
        clock.success();
        clock.gap
    }

    /// Reads what was acknowledged last before the read began: no member may answer without it.
    async fn read(&self, mut client: Client, addresses: &Addresses) -> (Gap, Reads) {
        let mut reads = Reads::default();
        let mut ticks = ticks();
        while self.progress.acknowledged() == 0 && !self.progress.is_stopped() {
            ticks.tick().await;
        }
        let mut clock = Clock::start();
        while !self.progress.is_stopped() {
            let text = self.text(self.progress.acknowledged());
            match read_once(&mut client, &text, addresses.count()).await {
                Some(found) if is_there(found.as_ref(), &text) => {
                    reads.answered = reads.answered.saturating_add(1);
                    clock.success();
                }
                Some(found) => reads.stale.push(format!("{text}: {found:?}")),
                None => reads.failed = reads.failed.saturating_add(1),
            }
            ticks.tick().await;
        }
        clock.success();
        (clock.gap, reads)
    }

    /// Every key that was acknowledged and is not there now.
    async fn search(&self, addresses: &Arc<Addresses>, writes: u64) -> Result<Vec<String>> {
        let mut searchers = JoinSet::new();
        for first in 1..=SEARCHERS {
            let numbers = (first..=writes).step_by(usize::try_from(SEARCHERS)?);
            let texts: Vec<String> = numbers.map(|number| self.text(number)).collect();
            searchers.spawn(search(Client::new(addresses), texts));
        }
        let mut lost = Vec::new();
        while let Some(found) = searchers.join_next().await {
            lost.extend(found??);
        }
        Ok(lost)
    }

    /// Key and value are the same.
    fn text(&self, number: u64) -> String {
        format!("{}/{number}", self.run)
    }
}

#[derive(Default)]
struct Reads {
    answered: u64,
    failed: u64,
    stale: Vec<String>,
}

/// One write, to the member that answered last, and to another one as well where that keeps the client waiting. An attempt
/// that is lost on the way, as those are that a follower passes to a leader which is just handing over, then costs what
/// [`LATE`] is, and the rest of a gap is the cluster's. Key and value are the same, so that twice does no harm.
async fn write_once(client: &mut Client, text: &str) -> bool {
    let Some(first) = client.member().await else {
        return false;
    };
    let mut first = pin!(first.put(text.as_bytes(), text.as_bytes()));
    if let Ok(answer) = tokio::time::timeout(LATE, &mut first).await {
        if answer.is_err() {
            client.failed();
        }
        return answer.is_ok();
    }
    client.failed();
    let Some(second) = client.member().await else {
        return first.await.is_ok();
    };
    let mut second = pin!(second.put(text.as_bytes(), text.as_bytes()));
    tokio::select! {
        Ok(_) = &mut first => return true,
        Ok(_) = &mut second => return true,
        else => client.failed(),
    }
    false
}

/// One read by a client that tries every member once; `None` if none answers.
async fn read_once(client: &mut Client, key: &str, attempts: usize) -> Option<Option<KeyValue>> {
    for _attempt in 0..attempts.max(1) {
        let member = client.member().await?;
        match member.get(key.as_bytes(), Consistency::Linearizable).await {
            Ok(found) => return Some(found),
            Err(_) => client.failed(),
        }
    }
    None
}

async fn search(mut client: Client, texts: Vec<String>) -> Result<Vec<String>> {
    let begin = Instant::now();
    let mut lost = Vec::new();
    for text in texts {
        let found = loop {
            if let Some(found) = read_once(&mut client, &text, 1).await {
                break found;
            }
            ensure!(begin.elapsed() < MINUTE, "no member answers");
        };
        if !is_there(found.as_ref(), &text) {
            lost.push(format!("{text}: {found:?}"));
        }
    }
    Ok(lost)
}

fn is_there(found: Option<&KeyValue>, text: &str) -> bool {
    found.is_some_and(|found| found.value == text.as_bytes())
}

fn ticks() -> tokio::time::Interval {
    let mut ticks = tokio::time::interval(PERIOD);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Remembers the longest time between two successes.
struct Clock {
    begin: Instant,
    last: Instant,
    gap: Gap,
}

impl Clock {
    fn start() -> Self {
        let now = Instant::now();
        Self {
            begin: now,
            last: now,
            gap: Gap::default(),
        }
    }

    fn success(&mut self) {
        let now = Instant::now();
        let longest = now.duration_since(self.last);
        if longest > self.gap.longest {
            self.gap = Gap {
                longest,
                began: self.last.duration_since(self.begin),
            };
        }
        self.last = now;
    }
}

//! A client that writes all the time and moves to the next member when one fails, as any etcd client does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{JoinHandle, spawn};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use etcd::{Consistency, Member};

use super::{Etcd, Watch};
use crate::cluster::Target;
use crate::tools::wait_until;

const PAUSE: Duration = Duration::from_millis(20);
const PATIENCE: Duration = Duration::from_mins(1);

/// A writer at work.
pub(crate) struct Writer {
    news: Arc<News>,
    thread: JoinHandle<Result<Written>>,
}

/// What it came to.
pub(crate) struct Written {
    pub(crate) attempts: u64,
    pub(crate) acknowledged: u64,
    /// The longest time without an acknowledged write.
    pub(crate) gap: Duration,
    /// Keys that were acknowledged and are not there.
    pub(crate) lost: Vec<String>,
    /// How long each acknowledged write took.
    pub(crate) times: Vec<Duration>,
}

impl Written {
    /// Of a hundred acknowledged writes one took longer.
    pub(crate) fn slowest_of_a_hundred(&self) -> Duration {
        let mut times = self.times.clone();
        times.sort();
        let index = times.len().saturating_sub(1) * 99 / 100;
        times.get(index).copied().unwrap_or_default()
    }
}

#[derive(Default)]
struct News {
    stop: AtomicBool,
    acknowledged: AtomicU64,
}

impl Writer {
    /// Writes to the only cluster of a namespace; returns once a first write was acknowledged.
    pub(crate) fn start(target: &Target, namespace: &str) -> Result<Self> {
        let client = Client {
            etcd: Etcd::of(target, namespace)?,
            pods: Watch::start(target, namespace, "pods")?,
            failures: BTreeMap::new(),
            current: None,
        };
        let news = Arc::new(News::default());
        let told = Arc::clone(&news);
        let thread = spawn(move || write(client, &told));
        let writer = Self { news, thread };
        wait_until("a first write is acknowledged", PATIENCE, || {
            Ok(writer.acknowledged() > 0)
        })?;
        Ok(writer)
    }

    /// Ends, and looks for all that was acknowledged; nothing may be lost.
    pub(crate) fn stop(self) -> Result<Written> {
        let written = self.stop_and_count()?;
        let first = written.lost.first();
        ensure!(
            first.is_none(),
            "LOST: {first:?} was acknowledged and is not there"
        );
        Ok(written)
    }

    /// How many writes were acknowledged so far.
    pub(crate) fn acknowledged(&self) -> u64 {
        self.news.acknowledged.load(Ordering::SeqCst)
    }

    /// Ends, and looks for all that was acknowledged.
    pub(crate) fn stop_and_count(self) -> Result<Written> {
        self.news.stop.store(true, Ordering::SeqCst);
        self.thread
            .join()
            .unwrap_or_else(|_| bail!("the writer panicked"))
    }
}

/// Writes numbered keys, one after the other. What was not acknowledged is written again under the same number, so that
/// it does not matter whether it was carried out.
fn write(mut client: Client, news: &News) -> Result<Written> {
    let run = format!("writer/{:?}", Instant::now());
    let key = |number: u64| format!("{run}/{number}");
    let mut written = Written {
        attempts: 0,
        acknowledged: 0,
        gap: Duration::ZERO,
        lost: Vec::new(),
        times: Vec::new(),
    };
    let mut last = Instant::now();
    while !news.stop.load(Ordering::SeqCst) {
        let key = key(written.acknowledged + 1);
        let Some(member) = client.member() else {
            continue;
        };
        written.attempts += 1;
        let put = member.put(key.as_bytes(), key.as_bytes());
        let asked = Instant::now();
        if client.etcd.run(put).is_err() {
            client.failed();
            continue;
        }
        if written.acknowledged > 0 {
            written.gap = written.gap.max(last.elapsed());
        }
        last = Instant::now();
        written.times.push(asked.elapsed());
        written.acknowledged += 1;
        news.acknowledged
            .store(written.acknowledged, Ordering::SeqCst);
        client.etcd.rest(PAUSE);
    }
    written.gap = written.gap.max(last.elapsed());
    for key in (1..=written.acknowledged).map(key) {
        if !client.finds(&key)? {
            written.lost.push(key);
        }
    }
    Ok(written)
}

/// It stays with a member that answers.
struct Client {
    etcd: Etcd,
    pods: Watch,
    failures: BTreeMap<String, Instant>,
    current: Option<String>,
}

impl Client {
    /// The one that answered last, else the one whose last failure is the longest ago.
    fn member(&mut self) -> Option<Member> {
        self.pods.wait(Duration::ZERO);
        // A client does not know that a pod is about to end.
        let members: BTreeMap<String, Member> = self
            .pods
            .objects
            .values()
            .filter_map(|pod| self.etcd.address(pod))
            .map(|member| (member.target().address.clone(), member))
            .collect();
        self.failures
            .retain(|address, _| members.contains_key(address));
        let stays = self.current.take().filter(|it| members.contains_key(it));
        let next = || {
            let longest_ago = |address: &&String| self.failures.get(*address).copied();
            members.keys().min_by_key(longest_ago).cloned()
        };
        let chosen = stays.or_else(next);
        let failure = chosen.as_ref().and_then(|it| self.failures.get(it));
        if chosen.is_none() || failure.is_some_and(|failure| failure.elapsed() < PAUSE) {
            self.etcd.rest(PAUSE);
        }
        self.current.clone_from(&chosen);
        members.get(&chosen?).cloned()
    }

    fn failed(&mut self) {
        if let Some(address) = self.current.take() {
            self.failures.insert(address, Instant::now());
        }
    }

    fn finds(&mut self, key: &str) -> Result<bool> {
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE {
            let Some(member) = self.member() else {
                continue;
            };
            let read = member.get(key.as_bytes(), Consistency::Linearizable);
            match self.etcd.run(read) {
                Ok(found) => return Ok(found.is_some_and(|found| found.value == key.as_bytes())),
                Err(_) => self.failed(),
            }
        }
        bail!("no member answers, so {key} could not be looked for")
    }
}

//! A client that writes all the time and moves to the next member when one fails, as any etcd client does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{JoinHandle, sleep, spawn};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use etcd::{Consistency, Member};
use serde_json::Value;

use crate::cluster::Target;
use crate::live::Etcd;

const KEY: &[u8] = b"counter";
const PAUSE: Duration = Duration::from_millis(10);

/// A writer at work.
pub(super) struct Writer {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Result<Written>>,
}

/// What it came to.
pub(super) struct Written {
    pub(super) attempts: u64,
    pub(super) acknowledged: u64,
    /// The longest time without an acknowledged write.
    pub(super) gap: Duration,
}

impl Writer {
    pub(super) fn start(target: &Target, pods: &BTreeMap<String, Value>) -> Result<Self> {
        let etcd = Etcd::new(target)?;
        let members: Vec<Member> = pods.values().filter_map(|pod| etcd.member(pod)).collect();
        ensure!(!members.is_empty(), "no member has an address");
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = spawn(move || write(&etcd, &members, &told));
        Ok(Self { stop, thread })
    }

    pub(super) fn stop(self) -> Result<Written> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .unwrap_or_else(|_| bail!("the writer panicked"))
    }
}

/// Writes 1, 2, 3 … one after the other. A number that was not acknowledged may still have been written, so at the end
/// the key must hold the last acknowledged one or a later one.
fn write(etcd: &Etcd, members: &[Member], stop: &AtomicBool) -> Result<Written> {
    let mut written = Written {
        attempts: 0,
        acknowledged: 0,
        gap: Duration::ZERO,
    };
    let (mut turn, mut last_number, mut last_time) = (members.iter().cycle(), 0, Instant::now());
    let mut member = turn.next().context("nobody to write to")?;
    while !stop.load(Ordering::Relaxed) {
        written.attempts += 1;
        let number = written.attempts;
        if etcd
            .run(member.put(KEY, number.to_string().as_bytes()))
            .is_ok()
        {
            written.acknowledged += 1;
            written.gap = written.gap.max(last_time.elapsed());
            (last_number, last_time) = (number, Instant::now());
        } else {
            member = turn.next().unwrap_or(member);
        }
        sleep(PAUSE);
    }
    let found = members.iter().find_map(|member| {
        let read = etcd.run(member.get(KEY, Consistency::Linearizable));
        let value = String::from_utf8(read.ok()??.value).ok()?;
        value.parse::<u64>().ok()
    });
    let found = found.context("the counter cannot be read")?;
    ensure!(
        (last_number..=written.attempts).contains(&found),
        "{last_number} was acknowledged, but {found} is stored"
    );
    Ok(written)
}

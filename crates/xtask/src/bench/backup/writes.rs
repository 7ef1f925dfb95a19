//! A client that writes every 20 ms, and its longest pause.

use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::house::Etcd;

const PAUSE: Duration = Duration::from_millis(20);

/// The one that leads.
pub(super) fn leader(members: &[Etcd]) -> Result<&Etcd> {
    let runtime = runtime()?;
    let leads = |etcd: &&Etcd| {
        let status = runtime.block_on(etcd.member().status());
        status.is_ok_and(|status| status.leader == status.member_id)
    };
    members.iter().find(leads).context("no member leads")
}

/// The longest time between two writes that were acknowledged, while something else is done, or nothing.
pub(super) fn longest_gap<T: Send>(
    leader: &Etcd,
    time: Duration,
    meanwhile: impl FnOnce() -> Result<T> + Send,
) -> Result<Duration> {
    let until = Instant::now() + time;
    std::thread::scope(|scope| {
        let other = scope.spawn(meanwhile);
        let longest = write(leader, until)?;
        let other = other
            .join()
            .ok()
            .context("what was done meanwhile broke off")?;
        other.map(|_done| longest)
    })
}

fn write(leader: &Etcd, until: Instant) -> Result<Duration> {
    let runtime = runtime()?;
    let member = leader.member();
    runtime.block_on(member.put(b"written", b"0"))?;
    let (mut longest, mut last) = (Duration::ZERO, Instant::now());
    while Instant::now() < until {
        std::thread::sleep(PAUSE);
        // One that failed is a longer gap.
        if runtime.block_on(member.put(b"written", b"1")).is_ok() {
            longest = longest.max(last.elapsed());
            last = Instant::now();
        }
    }
    Ok(longest.max(last.elapsed()))
}

pub(super) fn runtime() -> Result<tokio::runtime::Runtime> {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    Ok(builder.enable_all().build()?)
}

//! A client that writes all the while: unique keys, what was acknowledged is remembered, and so is the
//! longest time without an acknowledgement.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use etcd::{Consistency, Member};
use tokio::task::JoinHandle;

use crate::cluster::Cluster;
use crate::story::tell;

/// How long one write may take before the next member is tried.
const DEADLINE: Duration = Duration::from_millis(700);
/// Time between two writes.
const PERIOD: Duration = Duration::from_millis(30);

/// A client that is writing.
pub struct Writer {
    cluster: Cluster,
    stop: Arc<AtomicBool>,
    task: JoinHandle<Written>,
}

/// What a client wrote.
#[derive(Debug, Default)]
pub struct Written {
    /// Keys whose write was acknowledged.
    pub acknowledged: Vec<String>,
    /// Writes that were not.
    pub failed: usize,
    /// Longest time without an acknowledgement.
    pub longest_gap: Duration,
}

impl Writer {
    /// Begins to write.
    pub fn start(cluster: &Cluster) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let task = tokio::spawn(write(cluster.clone(), Arc::clone(&stop)));
        Self {
            cluster: cluster.clone(),
            stop,
            task,
        }
    }

    /// Ends, and reads back every key that was acknowledged.
    pub async fn stop(self) -> Result<Written> {
        self.stop.store(true, Ordering::SeqCst);
        let written = self.task.await?;
        ensure!(
            !written.acknowledged.is_empty(),
            "no write was acknowledged at all"
        );
        let member = self.cluster.any_member().await?;
        for key in &written.acknowledged {
            let read = member
                .get(key.as_bytes(), Consistency::Linearizable)
                .await?;
            ensure!(read.is_some(), "LOST: {key} was acknowledged and is gone");
        }
        tell(&format!(
            "{}: {} writes acknowledged and all there, {} not acknowledged, longest gap {:.2} s",
            self.cluster.name,
            written.acknowledged.len(),
            written.failed,
            written.longest_gap.as_secs_f32()
        ));
        Ok(written)
    }
}

async fn write(cluster: Cluster, stop: Arc<AtomicBool>) -> Written {
    let mut written = Written::default();
    let mut members: Vec<Member> = Vec::new();
    let mut last = Instant::now();
    let mut ticks = tokio::time::interval(PERIOD);
    let mut number = 0_usize;
    while !stop.load(Ordering::SeqCst) {
        ticks.tick().await;
        if members.is_empty() {
            let found = cluster.members().await.unwrap_or_default();
            members = found
                .into_values()
                .map(|member| member.with_deadline(DEADLINE))
                .collect();
        }
        let Some(member) = members.last() else {
            continue;
        };
        number = number.saturating_add(1);
        let key = format!("writer/{number}");
        if member.put(key.as_bytes(), b"x").await.is_ok() {
            written.acknowledged.push(key);
            written.longest_gap = written.longest_gap.max(last.elapsed());
            last = Instant::now();
        } else {
            written.failed = written.failed.saturating_add(1);
            members.pop();
        }
    }
    written.longest_gap = written.longest_gap.max(last.elapsed());
    written
}

//! Another program fills the database: keys that no client reads and no watcher sees, written over and over until etcd
//! refuses. Nearly all of it is history, which can be forgotten; what is left of it is deleted, which etcd allows without
//! space, too.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use e2e::{Cluster, MINUTE, until};
use etcd::{Cause, Member};
use tokio::task::JoinSet;

use crate::members::places;
use crate::wire::Connection;

/// What a member's file may take. The clients of a few minutes need a small part of it.
pub(crate) const QUOTA: &str = "16Mi";
/// The operator keeps the last 1000 revisions, so there must be far more than those.
const VALUE: usize = 8 << 10;
const KEYS: usize = 32;
/// The operator may make room meanwhile.
const PATIENCE: Duration = MINUTE;
/// How long one write may take.
const DEADLINE: Duration = Duration::from_secs(5);
/// How soon another member is asked when one fails.
const PAUSE: Duration = Duration::from_millis(200);
/// What every key begins with, and the end of their range.
const PREFIX: (&str, &str) = ("fill/", "fill0");

/// Until etcd says that there is no space; how much that took.
pub(crate) async fn fill(cluster: &Cluster) -> Result<String> {
    let begin = Instant::now();
    let mut written = 0;
    while begin.elapsed() < PATIENCE {
        match fill_some(cluster, &mut written).await {
            Ok(true) => {
                let took = begin.elapsed().as_secs_f32();
                return Ok(format!("no space after {written} writes in {took:.1} s"));
            }
            Ok(false) => {}
            // Who led does so no more, or is not there.
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
    bail!("{written} writes did not fill the quota")
}

/// Deletes all of it.
pub(crate) async fn forget(cluster: &Cluster) -> Result<()> {
    until("the filler is deleted", PATIENCE, || async {
        let leader = cluster.leader().await?;
        let places = places(cluster).await?;
        let place = places.iter().find(|place| place.pod == leader);
        let place = place.context("the leader has no address")?;
        let deleted = async { Connection::open(place).await?.forget(PREFIX).await };
        match deleted.await {
            Ok(()) => Ok(true),
            Err(failure) => bail!("{failure:?}"),
        }
    })
    .await
    .map(drop)
}

/// A write of every key; whether one was refused for lack of space.
async fn fill_some(cluster: &Cluster, written: &mut usize) -> Result<bool> {
    let leader = cluster.leader().await?;
    let member = cluster.member(&leader).await?.with_deadline(DEADLINE);
    let mut writes: JoinSet<_> = (0..KEYS).map(|key| write(member.clone(), key)).collect();
    let mut full = false;
    while let Some(done) = writes.join_next().await {
        if done?? {
            *written += 1;
        } else {
            full = true;
        }
    }
    Ok(full)
}

/// Whether it was taken; not if there is no space.
async fn write(member: Member, key: usize) -> Result<bool> {
    let key = format!("{}{key}", PREFIX.0);
    match member.put(key.as_bytes(), &[b'.'; VALUE]).await {
        Ok(_) => Ok(true),
        Err(error) if matches!(error.cause, Cause::NoSpace) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

//! The checksums by which members are compared. They cost a read of the whole database, so they are asked for rarely:
//! when the rules have a reason to, and otherwise once an hour, beside the looks.

use std::time::{Duration, Instant};

use api::{EtcdCluster, Reason};
use futures::future::join_all;
use plan::Observed;
use plan::cluster::Due;
use plan::observed::{Hash, Process};
use plan::status::Outcome;

use super::targets;
use crate::backoff::Pace;
use crate::context::{Context, Hashed};

/// Half a second for each GiB.
const DEADLINE: Duration = Duration::from_secs(15);
/// Seconds between two comparisons of a cluster that seems well.
const HOUR: u64 = 3600;
/// Between two comparisons within that hour, where the first found nothing to compare.
const AGAIN: Pace = Pace {
    free: 0,
    first: Duration::from_mins(10),
    longest: Duration::from_mins(10),
};

/// Asks where there is a reason to; and again with the next look until the answers are alike.
pub(super) async fn look(observed: &mut Observed, cluster: &EtcdCluster, ctx: &Context) {
    let uid = observed.cluster.uid.clone();
    let hour = hour(observed);
    let due = if is_told(cluster) {
        Due::Told
    } else if ctx.compared.is_due(&uid, hour) {
        Due::ByTheClock
    } else {
        Due::No
    };
    if !plan::cluster::compares(observed, due) {
        return;
    }
    let Some(revision) = plan::cluster::common_revision(observed).filter(|r| *r > 0) else {
        return;
    };
    let work = hashes(observed, revision, cluster, ctx);
    let hashed = if plan::cluster::compares(observed, Due::No) || due == Due::Told {
        // Something is wrong, or was: what is decided now depends on it.
        work.await
    } else {
        beside(&uid, observed, work, ctx)
    };
    for (ordinal, member_id, hash) in hashed {
        if let Some(pod) = observed.pods.get_mut(&ordinal)
            && let Process::Serving(serving) = &mut pod.process
            && serving.member_id == member_id
        {
            serving.hash = Some(hash);
        }
    }
    if plan::cluster::is_alike(observed) {
        ctx.compared.remember(&uid, hour);
    }
}

/// Begins a comparison, or returns what one found that was begun at an earlier look. One that found nothing, because
/// there was nothing to compare, is not repeated with every look.
fn beside(
    uid: &str,
    observed: &Observed,
    work: impl Future<Output = Vec<Hashed>> + Send + 'static,
    ctx: &Context,
) -> Vec<Hashed> {
    if let Some(seen) = ctx.hashing.look(uid) {
        return seen.result.unwrap_or_default();
    }
    let now = Instant::now();
    if ctx.attempts.held(uid, &"hash", now).is_none() {
        let outcome = Outcome::NotNow("compared".to_owned());
        ctx.attempts.note(uid, &"hash", (outcome, AGAIN), now);
        // Where all places are taken, the next look tries again.
        let _begun = ctx.hashing.start(uid, ((), observed.now), work, vec![]);
    }
    vec![]
}

/// The status says that data differs; whether it still does is asked until it does not.
fn is_told(cluster: &EtcdCluster) -> bool {
    let conditions = cluster.status.iter().flat_map(|status| &status.conditions);
    let reason = Reason::DataInconsistent.to_string();
    conditions.into_iter().any(|told| told.reason == reason)
}

/// Hours begin at another moment for each cluster, so that not all are read at once.
fn hour(observed: &Observed) -> u64 {
    let spread = observed.cluster.uid.bytes().fold(0_u64, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u64::from(byte))
    });
    let now = u64::try_from(observed.now.as_second()).unwrap_or_default();
    now.saturating_add(spread % HOUR) / HOUR
}

/// Asks every member that serves; needs nothing of the look any more once it has begun.
fn hashes(
    observed: &Observed,
    revision: u64,
    cluster: &EtcdCluster,
    ctx: &Context,
) -> impl Future<Output = Vec<Hashed>> + Send + use<> {
    let asked = i64::try_from(revision).unwrap_or(i64::MAX);
    let questions = targets(cluster, ctx)
        .into_iter()
        .filter_map(|(ordinal, target)| {
            let serving = observed.pods.get(&ordinal).and_then(|pod| pod.serving())?;
            let member = ctx.member(&target).with_deadline(DEADLINE);
            Some(hash(member, (ordinal, serving.member_id), asked))
        });
    let questions: Vec<_> = questions.collect();
    async move { join_all(questions).await.into_iter().flatten().collect() }
}

async fn hash(member: etcd::Member, (ordinal, id): (u32, u64), asked: i64) -> Option<Hashed> {
    let answer = member.hash_kv(asked).await.ok()?;
    let hash = Hash {
        revision: u64::try_from(answer.revision).ok()?,
        compacted: answer.compact_revision,
        hash: answer.hash,
    };
    Some((ordinal, id, hash))
}

//! The checksums by which members are compared. They cost a read of the whole database, so they are asked for rarely:
//! when the rules have a reason to, and otherwise once an hour.

use std::time::Duration;

use api::{EtcdCluster, Reason};
use futures::future::join_all;
use plan::Observed;
use plan::cluster::Due;
use plan::observed::{Hash, Process};

use super::targets;
use crate::context::Context;

/// Half a second for each GiB.
const DEADLINE: Duration = Duration::from_secs(15);
/// Seconds between two comparisons of a cluster that seems well.
const HOUR: u64 = 3600;

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
    for (ordinal, hash) in hashes(observed, revision, cluster, ctx).await {
        if let Some(pod) = observed.pods.get_mut(&ordinal)
            && let Process::Serving(serving) = &mut pod.process
        {
            serving.hash = Some(hash);
        }
    }
    if plan::cluster::is_alike(observed) {
        ctx.compared.remember(&uid, hour);
    }
}

/// The status says that data differs; whether it still does is asked until it does not.
fn is_told(cluster: &EtcdCluster) -> bool {
    let conditions = cluster.status.iter().flat_map(|status| &status.conditions);
    let reason = Reason::DataDiffers.to_string();
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

async fn hashes(
    observed: &Observed,
    revision: u64,
    cluster: &EtcdCluster,
    ctx: &Context,
) -> Vec<(u32, Hash)> {
    let mut targets = targets(cluster, ctx);
    let serves = |ordinal: &u32| observed.pods.get(ordinal).and_then(|pod| pod.serving());
    targets.retain(|ordinal, _| serves(ordinal).is_some());
    let asked = i64::try_from(revision).unwrap_or(i64::MAX);
    let answers = targets.iter().map(|(ordinal, target)| async {
        let member = ctx.member(target).with_deadline(DEADLINE);
        let answer = member.hash_kv(asked).await.ok()?;
        let hash = Hash {
            revision: u64::try_from(answer.revision).ok()?,
            compacted: answer.compact_revision,
            hash: answer.hash,
        };
        Some((*ordinal, hash))
    });
    join_all(answers).await.into_iter().flatten().collect()
}

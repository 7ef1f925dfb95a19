//! What members do that run and may not keep up: a read that a quorum must confirm, and what etcd counts of itself. Asked
//! only of those who give a reason to; a page of metrics is long.

use std::collections::BTreeMap;
use std::time::Duration;

use api::EtcdCluster;
use etcd::Ended;
use futures::future::join_all;
use plan::Observed;
use plan::observed::{Process, Vitals, Writes, doubts};

use super::targets;
use crate::context::{Context, Dial};

/// A member that keeps up answers within milliseconds.
const DEADLINE: Duration = Duration::from_secs(2);

pub(super) async fn look(observed: &mut Observed, cluster: &EtcdCluster, ctx: &Context) {
    let asked = doubts(observed);
    let mut targets = targets(cluster, ctx);
    targets.retain(|ordinal, _| asked.contains(ordinal));
    let answers = targets.iter().map(|(ordinal, target)| async {
        let vitals = vitals(observed, *ordinal, target, ctx).await;
        (
            *ordinal,
            reads(observed, *ordinal, target, ctx).await,
            vitals,
        )
    });
    let answers = join_all(answers).await;
    let mut seen = BTreeMap::new();
    for (ordinal, reads, vitals) in answers {
        if let Some(pod) = observed.pods.get_mut(&ordinal)
            && let Process::Serving(serving) = &mut pod.process
        {
            serving.reads = reads;
        }
        seen.extend(vitals.map(|vitals| (ordinal, vitals)));
    }
    ctx.watched.note(observed, &seen);
}

/// Whether it answers a read that a quorum must confirm; it may have been asked before.
async fn reads(observed: &Observed, ordinal: u32, dial: &Dial, ctx: &Context) -> Option<bool> {
    let serving = observed.pods.get(&ordinal)?.serving()?;
    if serving.reads.is_some() {
        return serving.reads;
    }
    let member = ctx.member(dial).with_deadline(DEADLINE);
    Some(member.read_linearizable().await.is_ok())
}

/// What it counts; of one that serves its own word, which is there without its metrics, counts first.
async fn vitals(observed: &Observed, ordinal: u32, dial: &Dial, ctx: &Context) -> Option<Vitals> {
    let answer = etcd::metrics(ctx.connect.as_ref(), &dial.target, &dial.security, DEADLINE).await;
    let metrics = answer
        .inspect_err(|error| tracing::debug!(%error, "no metrics"))
        .ok();
    let serving = observed.pods.get(&ordinal).and_then(|pod| pod.serving());
    let counted = metrics.unwrap_or_default();
    Some(Vitals {
        applied: serving
            .map(|serving| serving.applied_index)
            .or(counted.applied)?,
        led: serving
            .map(|serving| serving.leader != 0)
            .or(counted.has_leader)?,
        busy: counted.busy > 0,
        log: counted.log.map(writes),
        database: counted.database.map(writes),
    })
}

fn writes(ended: Ended) -> Writes {
    Writes {
        count: ended.count,
        millis: u64::try_from(ended.took.as_millis()).unwrap_or(u64::MAX),
    }
}

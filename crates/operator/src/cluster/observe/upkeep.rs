//! What became of the long calls that were begun at an earlier look.

use std::time::{Duration, Instant};

use plan::Observed;
use plan::observed::{Upkeep, UpkeepTask};
use plan::status::Outcome;

use crate::backoff::Pace;
use crate::context::Context;

/// A call that failed, or did not end in time, may do so again: it is not begun again for a while.
const FAILED: Pace = Pace {
    free: 0,
    first: Duration::from_mins(1),
    longest: Duration::from_mins(10),
};

pub(super) fn look(observed: &mut Observed, ctx: &Context) {
    let uid = &observed.cluster.uid;
    let Some(seen) = ctx.upkeep.look(uid) else {
        return;
    };
    if let Some(Err(why)) = &seen.result {
        let what = match seen.what {
            UpkeepTask::Defragment { ordinal } => {
                format!("{} cannot be defragmented", observed.member_name(ordinal))
            }
            UpkeepTask::Compact { .. } => "the history cannot be compacted".to_owned(),
        };
        tracing::warn!(name = observed.cluster.name, what, why, "upkeep failed");
        let outcome = Outcome::Failed(format!("{what}: {why}"));
        let what = attempt_of(observed, seen.what);
        ctx.attempts
            .note(uid, &what, (outcome, FAILED), Instant::now());
        return;
    }
    observed.etcd.upkeep = Some(Upkeep {
        task: seen.what,
        since: seen.since,
        done: seen.result.is_some(),
    });
}

/// What counts as the same call when it is begun again. An edit of the spec may have mended what made it fail.
pub(crate) fn attempt_of(
    observed: &Observed,
    task: UpkeepTask,
) -> (i64, &'static str, Option<u32>) {
    let generation = observed.cluster.generation;
    match task {
        UpkeepTask::Defragment { ordinal } => (generation, "defragment", Some(ordinal)),
        UpkeepTask::Compact { .. } => (generation, "compact", None),
    }
}

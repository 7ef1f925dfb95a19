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
    longest: Duration::from_hours(1),
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
        let what = attempt_of(seen.what);
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

/// What counts as the same call when it is begun again.
pub(crate) fn attempt_of(task: UpkeepTask) -> (&'static str, Option<u32>) {
    match task {
        UpkeepTask::Defragment { ordinal } => ("defragment", Some(ordinal)),
        UpkeepTask::Compact { .. } => ("compact", None),
    }
}

//! What became of the long calls that were begun at an earlier look.

use plan::observed::{Upkeep, UpkeepTask};
use plan::status::Outcome;
use plan::why::Space;
use plan::{Decision, Observed, Step};

use crate::context::Context;

pub(super) fn look(observed: &mut Observed, ctx: &Context) {
    let uid = &observed.cluster.uid;
    let Some(seen) = ctx.upkeep.look(uid) else {
        return;
    };
    let member = match seen.what {
        UpkeepTask::Defragment { ordinal } => Some(observed.member_name(ordinal)),
        UpkeepTask::Compact { .. } => None,
    };
    if let Some(Err(why)) = &seen.result {
        let what = Space::Failed(member);
        tracing::warn!(name = observed.cluster.name, %what, why, "upkeep failed");
        let outcome = Outcome::Failed(why.clone());
        let decision = Decision::act(step_of(seen.what), what);
        ctx.refused.note(observed, &decision, &outcome);
        return;
    }
    if seen.result.is_some() {
        let decision = Decision::act(step_of(seen.what), Space::Repeated(member));
        ctx.refused.note(observed, &decision, &Outcome::Done);
    }
    observed.etcd.upkeep = Some(Upkeep {
        task: seen.what,
        since: seen.since,
        done: seen.result.is_some(),
    });
}

/// The step that began the call. Which member it was is known by its ordinal.
fn step_of(task: UpkeepTask) -> Step {
    match task {
        UpkeepTask::Defragment { ordinal } => Step::Defragment { id: 0, ordinal },
        UpkeepTask::Compact { revision } => Step::Compact { revision },
    }
}

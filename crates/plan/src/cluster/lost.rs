//! A listed member whose volume turns out to be empty, damaged or rolled back: its data is gone, whatever its pod does.

use crate::cluster::answers::starting;
use crate::cluster::replace;
use crate::cluster::shrink;
use crate::decision::{Decision, LATER, Step};
use crate::observed::{MemberList, Observed};
use crate::why::Repair;

/// Invariant: a member ID is granted at most once. A blank volume whose member was not added for this very wait
/// gets a new member, and the old one goes first.
pub(super) fn remove_lost(observed: &Observed, list: &MemberList) -> Option<Decision> {
    observed.pods.iter().find_map(|(ordinal, pod)| {
        let report = observed.needs_new_member(*ordinal)?;
        let member = observed.member_of(*ordinal)?;
        // A member that was let through for this very wait may have started since the gate was asked.
        if observed.may_join(*ordinal, pod, report) {
            return None;
        }
        let name = observed.member_name(*ordinal);
        if let Some(open) = observed.open_grant() {
            // One that cannot come back is removed by the rule for those, which comes later.
            let dead = replace::why_dead(observed, open).is_some();
            return (!dead).then(|| starting(observed, open));
        }
        if let Some(first) = shrink::announce(observed, list, (*ordinal, member)) {
            return Some(first);
        }
        Some(if observed.can_lose(list, member) {
            let step = Step::RemoveMember {
                id: member.id,
                ordinal: *ordinal,
                nonce: report.nonce.clone(),
            };
            let why = Repair::Lost {
                member: name,
                state: report.state,
                id: member.id,
            };
            Decision::act(step, why)
        } else {
            Decision::wait(Repair::LostWithQuorum(name, report.state), LATER)
        })
    })
}

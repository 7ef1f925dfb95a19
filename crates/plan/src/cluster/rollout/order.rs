//! The order in which members get another template: which one tries it, and which one follows.

use super::Rollout;
use super::spare::{Turn, is_well, turn};
use crate::observed::{MemberList, Observed, Pod, Proven};

/// The first of these that the others can spare. A member that runs something is recorded first: a picture in which its pod
/// still stands then leads to the restart of no other member.
pub(super) fn next(rollout: &Rollout<'_>, candidates: &[u32], template: &str) -> Option<Turn> {
    let observed = rollout.observed;
    if observed.is_refused_template(template) {
        return None;
    }
    // A node that is not ready ends no pod.
    let mut candidates = candidates
        .iter()
        .filter(|ordinal| observed.is_on_a_live_node(**ordinal));
    let turn = candidates.find_map(|ordinal| turn(observed, rollout.list, *ordinal))?;
    Some(match turn {
        Turn::Restart { ordinal, uid } if runs_a_member(observed, ordinal) => {
            Turn::Announce { ordinal, uid }
        }
        Turn::Restart { .. } | Turn::MoveLeader { .. } | Turn::Announce { .. } => turn,
    })
}

fn runs_a_member(observed: &Observed, ordinal: u32) -> bool {
    let pod = observed.pods.get(&ordinal);
    observed.member_of(ordinal).is_some() && pod.is_some_and(|pod| !pod.runs_nothing())
}

/// The member that tries the target first. It is always recorded before its restart.
pub(super) fn first(rollout: &Rollout<'_>) -> Option<Turn> {
    let observed = rollout.observed;
    let candidates = candidates(observed, rollout.list, rollout.target);
    // A node that is not ready ends no pod, and the template would have to wait for it in the StatefulSet.
    let mut members = candidates.into_iter().filter(|ordinal| {
        observed.member_of(*ordinal).is_some() && observed.is_on_a_live_node(*ordinal)
    });
    Some(match turn(observed, rollout.list, members.next()?)? {
        Turn::Restart { ordinal, uid } => Turn::Announce { ordinal, uid },
        other @ (Turn::MoveLeader { .. } | Turn::Announce { .. }) => other,
    })
}

/// Pods that were made from another template, in the order in which they are restarted: members that are unwell,
/// then followers, then the leader.
pub(super) fn candidates(observed: &Observed, list: &MemberList, template: &str) -> Vec<u32> {
    let mut all: Vec<u32> = observed
        .pods
        .iter()
        .filter(|(_, pod)| pod.template != template && !pod.terminating)
        .map(|(ordinal, _)| *ordinal)
        .collect();
    all.sort_by_key(|ordinal| {
        let member = observed.member_of(*ordinal);
        let well = member.is_some_and(|member| is_well(observed, list, *ordinal, member));
        let leads = member.is_some_and(|member| observed.leader() == Some(member.id));
        (leads, well, std::cmp::Reverse(*ordinal))
    });
    all
}

/// In the window before the trial's pod was made, another pod may have been made from the same template. If it runs
/// nothing it is recreated, from the proven one: a change that does not come up reaches one member.
pub(super) fn stray<'a>(
    observed: &'a Observed,
    proven: &Proven,
    target: &str,
) -> Option<(u32, &'a Pod)> {
    let restored = observed.objects.template.as_ref() == Some(&proven.template);
    if proven.template == target || !restored {
        return None;
    }
    let trial = observed.cluster.latched.trial();
    let strays = |ordinal: u32, pod: &Pod| {
        let tries = trial.is_some_and(|trial| trial.member == observed.member_name(ordinal));
        let other = pod.template != proven.template;
        let strays = other && (trial.is_some() || pod.template == target);
        strays && !tries && pod.runs_nothing() && !pod.terminating
    };
    let mut pods = observed.pods.iter().map(|(ordinal, pod)| (*ordinal, pod));
    pods.find(|(ordinal, pod)| strays(*ordinal, pod))
}

//! Who is not waited for. The pods on a node that is `NotReady` are excused; but stopping its pod may be the end of
//! that fact, where the volume names no node and the next pod finds none. So it is recorded before anything stops.

use super::{is_asked_for, is_gone_for_good};
use crate::observed::{NodeState, Observed, Pod, Process};

/// Seconds within which the scheduler finds a node for a pod, should there be one: who can speak again is heard.
const PLACED: i64 = 15;

/// It cannot report: that is proved, or the user who asked for the recovery does not want to wait for its node, or that
/// was so when the recovery began and no node has taken it since.
pub(super) fn is_excused(observed: &Observed, ordinal: u32) -> bool {
    is_gone_for_good(observed, ordinal)
        || is_away(observed, ordinal)
        || has_stayed_away(observed, ordinal)
}

/// How many ordinals are heard: the pods that the StatefulSet makes, and every voter that is not to leave. A StatefulSet
/// that was scaled by hand must not hide the longest log.
pub(super) fn expected(observed: &Observed) -> u32 {
    let latched = &observed.cluster.latched;
    let stays = |member: &str| {
        !latched
            .retiring
            .iter()
            .any(|leaves| leaves.member == member)
    };
    let voters = latched.voters.iter().filter(|voter| stays(&voter.member));
    let voters = voters.filter_map(|voter| {
        api::names::ordinal(&observed.cluster.name, &voter.member)?.checked_add(1)
    });
    voters.max().max(observed.objects.replicas).unwrap_or(0)
}

/// The names to record when everything is about to be stopped.
pub(super) fn excused(observed: &Observed) -> Vec<String> {
    let all = 0..expected(observed);
    let away = all.filter(|n| is_away(observed, *n) || has_stayed_away(observed, *n));
    away.map(|n| observed.member_name(n)).collect()
}

/// By its node, at this moment.
fn is_away(observed: &Observed, ordinal: u32) -> bool {
    let pod = observed.pods.get(&ordinal);
    let quiet = pod.is_none_or(|pod| pod.process == Process::Unknown);
    let binding = observed.node_bindings.get(&ordinal).filter(|_| quiet);
    binding.is_some_and(|binding| match binding.state {
        NodeState::Ready => false,
        NodeState::NotReady(_) => is_asked_for(observed),
        NodeState::OutOfService | NodeState::Deleted => {
            binding.took_volume() || is_asked_for(observed)
        }
    })
}

/// It was recorded, and its next pod cannot speak either.
fn has_stayed_away(observed: &Observed, ordinal: u32) -> bool {
    let name = observed.member_name(ordinal);
    let recovery = observed.cluster.latched.recovery.as_ref();
    let pod = observed.pods.get(&ordinal);
    let Some(pod) = pod.filter(|pod| pod.process == Process::Unknown) else {
        return false;
    };
    recovery.is_some_and(|recovery| recovery.excused.contains(&name))
        && match observed.node_bindings.get(&ordinal) {
            Some(binding) => binding.state != NodeState::Ready,
            None => is_homeless(observed, pod, PLACED),
        }
}

/// No node has taken it for so many seconds.
pub(super) fn is_homeless(observed: &Observed, pod: &Pod, seconds: i64) -> bool {
    let age = observed.now.duration_since(pod.created);
    !pod.scheduled && age.as_secs() >= seconds
}

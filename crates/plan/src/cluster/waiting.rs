//! Nothing can be done, and the cluster is not as asked for: which member or pod is waited for, and what it does.

use api::Reason;

use crate::cluster::answers::requeue_by_pod_age;
use crate::decision::{Decision, LATER, SETTLED};
use crate::observed::{MemberList, Observed, describe, parse_id};

/// No member could give a confirmed member list: nothing is known, so nothing is done.
pub(super) fn unreachable(observed: &Observed) -> Decision {
    let states: Vec<String> = observed
        .pods
        .iter()
        .map(|(ordinal, pod)| format!("{} {}", observed.member_name(*ordinal), describe(pod)))
        .collect();
    let why = if states.is_empty() {
        "no pod exists yet".to_owned()
    } else {
        format!("no quorum responds: {}", states.join(", "))
    };
    let soonest = observed
        .pods
        .keys()
        .map(|ordinal| requeue_by_pod_age(observed, *ordinal))
        .min();
    Decision::wait(Reason::EtcdUnreachable, why, soonest.unwrap_or(SETTLED))
}

/// Not converged, and no action is possible: report what is waited for.
pub(super) fn incomplete(observed: &Observed, list: &MemberList) -> Option<Decision> {
    let size = observed.cluster.intent.as_ref().ok()?.size;
    (0..size).find_map(|ordinal| {
        let name = observed.member_name(ordinal);
        let member = observed.member_of(ordinal);
        let pod = observed.pods.get(&ordinal);
        // Reported by the rule for objects that cannot be written; nothing else need wait for it.
        if member.is_none() && observed.is_withheld(ordinal) {
            return None;
        }
        if let Some(member) = member.filter(|member| !member.learner)
            && observed.is_healthy(member)
        {
            // It still answers, but it is about to go.
            return pod.filter(|pod| pod.terminating).map(|_| {
                let why = format!("{name} serves, but its pod is being deleted");
                Decision::wait(Reason::MemberUnhealthy, why, LATER)
            });
        }
        if let Some(held) = left_behind(observed, list, ordinal) {
            return Some(held);
        }
        let what = pod.map_or_else(|| "has no pod".to_owned(), describe);
        let reason = match (member, pod) {
            (Some(member), _) if !member.learner => Reason::MemberUnhealthy,
            (Some(_), _) => Reason::StartingMember,
            (None, Some(_)) if observed.needs_new_member(ordinal).is_some() => Reason::AddingMember,
            (None, _) => Reason::StartingPods,
        };
        Some(Decision::wait(
            reason,
            format!("{name} {what}"),
            requeue_by_pod_age(observed, ordinal),
        ))
    })
}

/// A volume that was kept by an earlier object holds data of a member that was removed since: it is never read again,
/// and it was not recorded that it may be set aside.
fn left_behind(observed: &Observed, list: &MemberList, ordinal: u32) -> Option<Decision> {
    let report = observed.pods.get(&ordinal)?.held()?;
    let data = report.data.as_ref()?;
    let ours = parse_id(&data.cluster_id) == Some(list.cluster_id);
    let id = parse_id(&data.member_id)?;
    let listed = list.members.iter().any(|member| member.id == id);
    (ours && !listed && observed.member_of(ordinal).is_none()).then(|| {
        let why = format!(
            "{} holds data of member {id:x}, which was removed: delete the claim {} and the pod, and it joins again",
            observed.member_name(ordinal),
            api::names::claim(&observed.cluster.name, ordinal)
        );
        Decision::wait(Reason::VolumeRejected, why, LATER)
    })
}

//! Nothing can be done, and the cluster is not as asked for: which member or pod is waited for, and what it does.

use crate::cluster::answers::requeue_by_pod_age;
use crate::decision::{Decision, LATER, SETTLED};
use crate::observed::{MemberList, Observed, parse_id};
use crate::why::Incomplete;

/// No member could give a confirmed member list: nothing is known, so nothing is done.
pub(super) fn unreachable(observed: &Observed) -> Decision {
    let pods = observed.pods.keys();
    let pods = pods.map(|n| (observed.member_name(*n), observed.doing(*n)));
    let why = Incomplete::NoQuorum(pods.collect());
    let soonest = observed
        .pods
        .keys()
        .map(|ordinal| requeue_by_pod_age(observed, *ordinal))
        .min();
    Decision::wait(why, soonest.unwrap_or(SETTLED))
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
            let going = pod.filter(|pod| pod.terminating);
            return going.map(|_| Decision::wait(Incomplete::PodDeleted(name), LATER));
        }
        if let Some(held) = left_behind(observed, list, ordinal) {
            return Some(held);
        }
        let doing = observed.doing(ordinal);
        let why = match (member, pod) {
            (Some(member), _) if !member.learner => Incomplete::Voter(name, doing),
            (Some(_), _) => Incomplete::Learner(name, doing),
            (None, Some(_)) if observed.needs_new_member(ordinal).is_some() => {
                Incomplete::NoMember(name, doing)
            }
            (None, _) => Incomplete::Pod(name, doing),
        };
        Some(Decision::wait(why, requeue_by_pod_age(observed, ordinal)))
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
        let why = Incomplete::LeftBehind {
            member: observed.member_name(ordinal),
            claim: api::names::claim(&observed.cluster.name, ordinal),
            id,
        };
        Decision::wait(why, LATER)
    })
}

//! Who can be spared, and how it is done: one at a time, leadership first.

use api::Reason;

use super::progress;
use crate::cluster::membership::MAX_LAG;
use crate::decision::{Decision, Step};
use crate::observed::{Member, MemberList, Observed, Pod, quorum};

/// Restarts a member, after leadership was moved off it; `None` while the others cannot spare it.
pub(super) fn restart(observed: &Observed, list: &MemberList, ordinal: u32) -> Option<Decision> {
    let pod = observed.pods.get(&ordinal)?;
    if !can_spare(observed, list, ordinal, pod) {
        return None;
    }
    let name = observed.member_name(ordinal);
    let member = observed.member_of(ordinal);
    let leads = member.filter(|member| observed.leader() == Some(member.id));
    let heir = leads.and_then(|leader| heir(observed, list, leader, pod));
    let (step, why) = if let Some(heir) = heir {
        let step = Step::MoveLeader {
            to: heir.id,
            ordinal,
        };
        let heir = &heir.name;
        (
            step,
            format!("{name} leads and is to be restarted; {heir} leads instead"),
        )
    } else {
        let uid = pod.uid.clone();
        (
            Step::RestartPod { ordinal, uid },
            format!("restarting {name}"),
        )
    };
    let why = progress(observed, list, &why);
    Some(Decision::act(step, Reason::RollingOut, why))
}

/// The most advanced of the others, best one that will not be restarted itself.
fn heir<'a>(
    observed: &Observed,
    list: &'a MemberList,
    leader: &Member,
    leaving: &Pod,
) -> Option<&'a Member> {
    let others = list.voters().filter(|voter| voter.id != leader.id);
    let healthy = others.filter(|voter| observed.is_healthy(voter));
    healthy.max_by_key(|voter| {
        let pod = observed
            .ordinal_of(voter)
            .and_then(|ordinal| observed.pods.get(&ordinal));
        let stays = pod.is_some_and(|pod| pod.template != leaving.template);
        let applied = observed
            .serving_as(voter.id)
            .map_or(0, |serving| serving.applied_index);
        (stays, applied)
    })
}

/// Invariant 1: whatever becomes of this pod, the others are a quorum, and all of them are well if it was.
fn can_spare(observed: &Observed, list: &MemberList, ordinal: u32, pod: &Pod) -> bool {
    // What runs nothing cannot be missed.
    if pod.runs_nothing() {
        return true;
    }
    let Some(member) = observed.member_of(ordinal) else {
        return pod.is_unstarted();
    };
    if observed.open_grant().is_some() || list.learners().any(|learner| learner.id != member.id) {
        return false;
    }
    let others = || list.voters().filter(|voter| voter.id != member.id);
    if others().any(|voter| observed.is_away(voter)) {
        return false;
    }
    let healthy = others().filter(|voter| observed.is_healthy(voter)).count();
    let enough = healthy >= quorum(list.voters().count());
    if observed.is_healthy(member) && !member.learner {
        let all_well = others().all(|voter| {
            observed
                .ordinal_of(voter)
                .is_some_and(|ordinal| is_well(observed, list, ordinal, voter))
        });
        // A single member has nobody to stand in for it.
        (enough || list.voters().count() == 1) && all_well
    } else {
        enough
    }
}

/// The pod of a voter cannot start.
pub(in crate::cluster) fn has_stopped(observed: &Observed, list: &MemberList) -> bool {
    let ordinals = list.voters().filter_map(|voter| observed.ordinal_of(voter));
    let mut pods = ordinals.filter_map(|ordinal| observed.pods.get(&ordinal));
    pods.any(Pod::runs_nothing)
}

/// It takes part, has caught up, answers a linearizable read, and clients are led to it.
pub(super) fn is_well(
    observed: &Observed,
    list: &MemberList,
    ordinal: u32,
    member: &Member,
) -> bool {
    let Some(pod) = observed.pods.get(&ordinal) else {
        return false;
    };
    let Some(serving) = pod
        .serving()
        .filter(|serving| serving.member_id == member.id)
    else {
        return false;
    };
    let leader = observed
        .leader()
        .and_then(|leader| observed.serving_as(leader));
    let head = leader.map_or(u64::MAX, |leader| leader.raft_index);
    let caught_up = head.saturating_sub(serving.applied_index) <= MAX_LAG;
    let alone = list.voters().count() == 1;
    observed.is_healthy(member)
        && caught_up
        && serving.reads == Some(true)
        && (pod.ready || alone)
        && !pod.terminating
}

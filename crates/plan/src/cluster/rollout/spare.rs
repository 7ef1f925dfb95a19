//! Which member can be spared, and how that is done: one at a time, leadership first.

use crate::observed::{MAX_LAG, Member, MemberList, Observed, Pod, quorum};

/// How a member makes way for its successor on another template.
pub(super) enum Turn {
    /// It leads: leadership is transferred first.
    MoveLeader {
        /// Ordinal of the leader.
        ordinal: u32,
        /// ID of the member that leads instead.
        to: u64,
        /// Its name.
        name: String,
    },
    /// Its restart is recorded first.
    Announce {
        /// Its ordinal.
        ordinal: u32,
        /// UID of its pod.
        uid: String,
    },
    /// Its pod is restarted.
    Restart {
        /// Its ordinal.
        ordinal: u32,
        /// UID of its pod.
        uid: String,
    },
}

/// Restarts a member, after leadership was moved off it; `None` while the others cannot spare it.
pub(super) fn turn(observed: &Observed, list: &MemberList, ordinal: u32) -> Option<Turn> {
    let pod = observed.pods.get(&ordinal)?;
    if !can_spare(observed, list, ordinal, pod) {
        return None;
    }
    let member = observed.member_of(ordinal);
    let leads = member.filter(|member| observed.leader() == Some(member.id));
    let transferee = leads.and_then(|leader| transferee(observed, list, leader, pod));
    Some(match transferee {
        Some(transferee) => Turn::MoveLeader {
            ordinal,
            to: transferee.id,
            name: transferee.name.clone(),
        },
        None => Turn::Restart {
            ordinal,
            uid: pod.uid.clone(),
        },
    })
}

/// The most advanced of the others, best one that will not be restarted itself.
fn transferee<'a>(
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
        // A single member has no other to stand in for it.
        (enough || list.voters().count() == 1) && all_well
    } else {
        enough
    }
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

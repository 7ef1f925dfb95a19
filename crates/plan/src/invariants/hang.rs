//! What must hold for members that hang: a restart before a replacement, and a healthy quorum of the others for both.

use super::{Violation, ensure, facts, keeps_quorum};
use crate::observed::{Latched, Member, Observed, parse_id};

/// A member is recorded only if it is seen to hang, with the pod that it hangs in: the next pod of that name is the proof that it
/// was restarted.
pub(super) fn check_written(observed: &Observed, new: &Latched) -> Result<(), Violation> {
    let old = &observed.cluster.latched.hung;
    for intent in new.hung.iter().filter(|intent| !old.contains(intent)) {
        let list = observed.etcd.members.as_ref().ok_or(Violation::Unknown)?;
        let id = parse_id(&intent.member_id);
        let member = list.voters().find(|voter| Some(voter.id) == id);
        let member = member.ok_or(Violation::Unknown)?;
        ensure(facts::hangs(observed, member), Violation::Unknown)?;
        let ordinal = observed.ordinal_of(member).ok_or(Violation::Unknown)?;
        let pod = observed.pods.get(&ordinal).ok_or(Violation::Unknown)?;
        let exact = pod.uid == intent.pod_uid && observed.member_name(ordinal) == intent.member;
        ensure(
            exact && intent.time.0 <= observed.now,
            Violation::NotAskedFor,
        )?;
        ensure(keeps_quorum(observed, list, member.id), Violation::Quorum)?;
    }
    Ok(())
}

/// It was recorded that the member in this very pod hangs.
pub(super) fn is_written(observed: &Observed, uid: &str) -> bool {
    let latched = &observed.cluster.latched;
    let tries = latched.trial().is_some_and(|t| t.pod_uid == uid);
    !tries && latched.hung.iter().any(|intent| intent.pod_uid == uid)
}

/// One that hangs takes no part, so a quorum of the others is enough; but nothing else is under way.
pub(super) fn check_restart(observed: &Observed, member: &Member) -> Result<(), Violation> {
    let list = observed.etcd.members.as_ref().ok_or(Violation::Unknown)?;
    ensure(facts::hangs(observed, member), Violation::Unknown)?;
    ensure(facts::no_grant_is_open(observed), Violation::OpenGrant)?;
    ensure(
        list.learners().all(facts::never_started),
        Violation::Learner,
    )?;
    // The member that was recorded for a restart is back from it: on what is proven, or, where that is another member, on
    // what it tries, while any pod that is recreated gets what is proven.
    let latched = &observed.cluster.latched;
    let back = latched.trial().is_none_or(|trial| {
        let mut pods = observed.pods.iter().filter(|(_, pod)| !pod.terminating);
        let proven = latched.proven.as_ref().map(|proven| &proven.template);
        let itself = observed.ordinal_of(member).map(|n| observed.member_name(n));
        let other = itself.as_ref() != Some(&trial.member);
        let restored = proven.is_some() && observed.objects.template.as_ref() == proven;
        (proven == Some(&trial.template) || (other && restored))
            && pods.any(|(ordinal, pod)| {
                observed.member_name(*ordinal) == trial.member && pod.template == trial.template
            })
    });
    ensure(back, Violation::NotAskedFor)?;
    let mut others = list.voters().filter(|voter| voter.id != member.id);
    let away = others.any(|voter| facts::is_away(observed, voter));
    ensure(!away, Violation::Quorum)?;
    ensure(keeps_quorum(observed, list, member.id), Violation::Quorum)
}

/// It hangs, and another pod of its name was made since that was recorded of this very member.
pub(super) fn hangs_again(observed: &Observed, id: u64, ordinal: u32) -> bool {
    let Some(pod) = observed.pods.get(&ordinal) else {
        return false;
    };
    let member = facts::member_of(observed, ordinal).filter(|m| m.id == id);
    let hung = &observed.cluster.latched.hung;
    member.is_some_and(|member| facts::hangs(observed, member))
        && hung
            .iter()
            .any(|intent| parse_id(&intent.member_id) == Some(id) && intent.pod_uid != pod.uid)
}

//! What must hold for the replacement of a member that cannot come back.

use super::departed::Departure;
use super::{Violation, ensure, facts, hang, keeps_quorum, maintain};
use crate::observed::{MemberList, NodeState, Observed, Pod, Process};

/// Only a member that is known to be unable to return is removed, and only if the others can do without it.
pub(super) fn check_removal(
    observed: &Observed,
    list: &MemberList,
    id: u64,
    ordinal: u32,
) -> Result<(), Violation> {
    let runs = facts::serving_as(observed, id).is_some();
    let outvoted = maintain::is_outvoted(observed, list, id);
    let dead = !runs && is_dead(observed, ordinal);
    let hangs = hang::hangs_again(observed, id, ordinal);
    ensure(
        dead || outvoted || hangs || is_late(observed, id),
        Violation::Unknown,
    )?;
    let other = facts::open_grants(observed).any(|open| open != ordinal);
    ensure(!other, Violation::OpenGrant)?;
    ensure(keeps_quorum(observed, list, id), Violation::Quorum)
}

/// It has no vote, and for longer than its owner waits nothing of the leader's data has come.
fn is_late(observed: &Observed, id: u64) -> bool {
    let (Some(known), Ok(intent)) = (
        observed.cluster.latched.learners.get(&id),
        &observed.cluster.intent,
    ) else {
        return false;
    };
    let long = observed.now.duration_since(known.since).as_secs() >= intent.join_patience;
    let list = observed.etcd.members.iter();
    let mut learners = list.flat_map(MemberList::learners);
    let Some(learner) = learners.find(|learner| learner.id == id) else {
        return false;
    };
    let pod = observed
        .ordinal_of(learner)
        .and_then(|n| observed.pods.get(&n));
    let bytes = pod.and_then(|pod| pod.received);
    long && bytes.is_none_or(|bytes| known.received.is_some_and(|known| bytes <= known))
}

/// A fact says that what ran there is gone, or has been out of reach for longer than its owner waits; silence alone
/// is none.
pub(super) fn is_dead(observed: &Observed, ordinal: u32) -> bool {
    let answers = |pod: &Pod| pod.process != Process::Unknown;
    if observed.pods.get(&ordinal).is_some_and(answers) {
        return false;
    }
    let lost = observed.claims.get(&ordinal).map(|claim| &claim.lost);
    let patience = observed.cluster.intent.as_ref().map(|i| i.node_patience);
    let binding = observed.node_bindings.get(&ordinal);
    let stuck = binding.is_some_and(|binding| binding.elsewhere == Some(false));
    let gone = match binding.map(|binding| binding.state) {
        // A volume that can be used elsewhere gets the time that a node gets.
        Some(NodeState::Deleted | NodeState::OutOfService) => {
            let free = binding.is_some_and(|binding| binding.elsewhere == Some(true));
            let since = binding.and_then(|binding| binding.gone_since);
            let waited = since.map(|since| observed.now.duration_since(since).as_secs());
            let long = patience.is_ok_and(|most| waited.is_some_and(|waited| waited >= most));
            stuck || (free && long)
        }
        Some(NodeState::NotReady(since)) => {
            patience.is_ok_and(|most| observed.now.duration_since(since).as_secs() >= most)
        }
        Some(NodeState::Ready) | None => false,
    };
    let broken = observed.pods.get(&ordinal).is_some_and(|pod| {
        let proven = observed.cluster.latched.proven.as_ref();
        let target = observed.cluster.target.as_ref();
        let tried = target.filter(|target| target.template == pod.template);
        let served = proven.is_some_and(|proven| {
            let same = tried.is_some_and(|target| target.intent.version == proven.version);
            proven.template == pod.template || same
        });
        pod.broken.is_some() && served
    });
    gone || broken || lost.is_some_and(Option::is_some)
}

/// A pod goes so only after its member, and only while its claim goes with it. One whose node may still stop it in
/// good order is asked to.
pub(super) fn check_free(
    observed: &Observed,
    ordinal: u32,
    uid: &str,
    force: bool,
) -> Result<(), Violation> {
    let pod = observed.pods.get(&ordinal).ok_or(Violation::Unknown)?;
    ensure(pod.uid == uid, Violation::Unknown)?;
    let binding = observed.node_bindings.get(&ordinal);
    let away = binding.is_some_and(|binding| binding.state != NodeState::Ready);
    ensure(!force || away, Violation::Unknown)?;
    // What runs from before the fence must not go on beside what is recovered.
    let latched = &observed.cluster.latched;
    if latched.recovery.is_some() {
        return ensure(pod.fence < latched.fence, Violation::NotAskedFor);
    }
    let left = Departure::all(observed).any(|leaves| {
        let claim = leaves.claim(observed);
        let claim_goes = claim.is_some_and(|claim| claim.terminating);
        leaves.ordinal == ordinal && leaves.has_left(observed) && claim_goes
    });
    let listed = facts::member_of(observed, ordinal).is_some();
    ensure(left && !listed, Violation::DataBeforeMember)
}

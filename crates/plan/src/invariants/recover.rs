//! What must hold for a recovery from lost quorum.

use api::v1alpha1::status::RecoveryIntent;
use gate::State;

use super::proof::{check_choice, founded, is_gone, is_proved};
use super::{Violation, ensure, facts};
use crate::observed::{Latched, NodeState, Observed, Pod, Process, parse_id};

/// It begins by a person's word for this very cluster, or by proof, and only in another incarnation; it names a survivor once;
/// it ends when that survivor serves another cluster.
pub(super) fn check_latch(observed: &Observed, new: &Latched) -> Result<(), Violation> {
    let old = &observed.cluster.latched;
    ensure(new.fence >= old.fence, Violation::Forgets)?;
    match (&old.recovery, &new.recovery) {
        (None, None) => ensure(new.fence == old.fence, Violation::Forgets),
        (None, Some(begun)) => {
            let named = parse_id(&begun.cluster_id);
            let asked = observed.cluster.recover.is_some() && observed.cluster.recover == named;
            let serves = observed.etcd.members.is_some() || facts::is_led(observed);
            ensure(named == old.cluster_id && !serves, Violation::Unknown)?;
            ensure(asked || is_proved(observed), Violation::NotAskedFor)?;
            ensure(
                observed.cluster.unavailable_since.is_some(),
                Violation::Unknown,
            )?;
            ensure(are_away(observed, &begun.excused, &[]), Violation::Unknown)?;
            ensure(new.trial().is_none(), Violation::Unproven)?;
            let raised = new.incarnation > old.incarnation && new.fence == Some(new.incarnation);
            ensure(raised && begun.survivor.is_none(), Violation::Forgets)
        }
        (Some(before), Some(now)) => {
            let same = before.cluster_id == now.cluster_id && old.cluster_id == new.cluster_id;
            ensure(same, Violation::Forgets)?;
            if let (Some(lost), None) = (&before.survivor, &now.survivor) {
                // Another one is chosen only where the first can never serve, and only in another incarnation.
                ensure(is_gone(observed, lost), Violation::SecondBootstrap)?;
                ensure(new.trial().is_none(), Violation::Unproven)?;
                let away = are_away(observed, &now.excused, &before.excused);
                ensure(away, Violation::Unknown)?;
                let raised = new.incarnation > old.incarnation;
                return ensure(
                    raised && new.fence == Some(new.incarnation),
                    Violation::Forgets,
                );
            }
            let still = new.fence == old.fence && new.incarnation == old.incarnation;
            ensure(still && before.excused == now.excused, Violation::Forgets)?;
            let kept = before.survivor.is_none() || before.survivor == now.survivor;
            ensure(kept, Violation::SecondBootstrap)?;
            let chosen = now.survivor.as_ref().filter(|_| before.survivor.is_none());
            let Some(chosen) = chosen else {
                return Ok(());
            };
            ensure(all_have_reported(observed, before), Violation::Unknown)?;
            check_choice(observed, before, chosen)
        }
        (Some(_), None) => {
            let continues = new.cluster_id.is_some() && new.cluster_id == founded(observed);
            ensure(
                continues && new.incarnation == old.incarnation,
                Violation::Forgets,
            )
        }
    }
}

/// A node that does not exist or is out of service, with the only place where the volume can be used; or, where a person
/// gave the word, any that is not well.
fn is_away(observed: &Observed, ordinal: u32) -> bool {
    let asked = observed.cluster.recover.is_some()
        && observed.cluster.recover == observed.cluster.latched.cluster_id;
    let binding = observed.node_bindings.get(&ordinal);
    binding.is_some_and(|binding| match binding.state {
        NodeState::Ready => false,
        NodeState::NotReady(_) => asked,
        NodeState::OutOfService | NodeState::Deleted => asked || binding.elsewhere == Some(false),
    })
}

/// A member that is recorded as out of reach is so by its node at this moment, or was when that was first written.
fn are_away(observed: &Observed, excused: &[String], before: &[String]) -> bool {
    let mut excused = excused.iter();
    excused.all(|name| {
        let ordinal = api::names::ordinal(&observed.cluster.name, name);
        ordinal.is_some_and(|ordinal| {
            let pod = observed.pods.get(&ordinal);
            let quiet = pod.is_none_or(|pod| pod.process == Process::Unknown);
            quiet && (before.contains(name) || is_away(observed, ordinal))
        })
    })
}

/// Every pod with a volume has reported what is on it, or is known to be out of reach: for good, or, where a user asked
/// for the recovery, for now; or was so when this began, and no node that is well has taken it since. The claims above
/// the StatefulSet's replicas were kept of members that left before, unless a voter of now had one.
fn all_have_reported(observed: &Observed, recovery: &RecoveryIntent) -> bool {
    let latched = &observed.cluster.latched;
    let kept = |ordinal: u32| {
        let name = observed.member_name(ordinal);
        let voted = latched.voters.iter().any(|voter| voter.member == name);
        let leaves = latched.retiring.iter().any(|leaves| leaves.member == name);
        let above = observed.objects.replicas.is_some_and(|n| ordinal >= n);
        above && (leaves || !voted)
    };
    let mut claims = observed.claims.iter().filter(|(n, _)| !kept(**n));
    claims.all(|(ordinal, claim)| {
        let pod = observed.pods.get(ordinal);
        let nowhere = match observed.node_bindings.get(ordinal) {
            Some(binding) => binding.state != NodeState::Ready,
            None => pod.is_none_or(|pod| !pod.scheduled),
        };
        let written = recovery.excused.contains(&observed.member_name(*ordinal));
        pod.is_some_and(|pod| pod.held().is_some())
            || is_away(observed, *ordinal)
            || (written && nowhere)
            || claim.lost.is_some()
            || claim.terminating
    })
}

/// One survivor, the one that was recorded, on the claim that was recorded, while nothing of the old cluster
/// can run: every pod bears the fence and none of them runs etcd.
pub(super) fn check_grant(
    observed: &Observed,
    ordinal: u32,
    pod: &Pod,
    (token, member_id, cluster_id): (&str, &str, &str),
) -> Result<(), Violation> {
    let latched = &observed.cluster.latched;
    let recovery = latched.recovery.as_ref().ok_or(Violation::NotAskedFor)?;
    let survivor = recovery.survivor.as_ref();
    let survivor = survivor.ok_or(Violation::SecondBootstrap)?;
    let claim = observed.claims.get(&ordinal).ok_or(Violation::Unknown)?;
    let written =
        survivor.member == observed.member_name(ordinal) && survivor.claim_uid == claim.uid;
    ensure(written, Violation::SecondBootstrap)?;
    let report = pod.held().filter(|report| report.state == State::Fenced);
    let data = report.and_then(|report| report.data.as_ref());
    let data = data.ok_or(Violation::Unknown)?;
    let same = data.member_id == member_id && data.cluster_id == cluster_id;
    let lost = parse_id(cluster_id) == parse_id(&recovery.cluster_id);
    ensure(same && lost, Violation::NotThisWait)?;
    let fresh = format!("{}-{}", observed.cluster.uid, latched.incarnation);
    ensure(token == fresh, Violation::SecondBootstrap)?;
    let fence = latched.fence.ok_or(Violation::Unknown)?;
    let stopped = |pod: &Pod| {
        let runs = matches!(
            pod.process,
            Process::Refusing(_) | Process::Starting | Process::Serving(_)
        );
        pod.fence.is_some_and(|of| of >= fence) && !runs
    };
    ensure(observed.pods.values().all(stopped), Violation::OpenGrant)
}

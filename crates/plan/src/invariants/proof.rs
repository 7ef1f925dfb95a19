//! What proves that a quorum is lost, who holds most of what is left, and who goes on with it.

use api::names;
use api::v1alpha1::memory::ReplaceStage;
use api::v1alpha1::status::{RecoveryIntent, Survivor};
use gate::{Data, Report, State};

use super::{Violation, ensure, facts};
use crate::observed::{NodeState, Observed, Pod, Process, parse_id, quorum};

/// So many voters are proved to be gone that the others are no quorum; each of the others has been heard, holds data of
/// the cluster, all that it ever had, on a volume of its own; and there is one.
pub(super) fn is_proved(observed: &Observed) -> bool {
    let voters = voters(observed);
    let left = voters.iter().filter(|n| !is_lost(observed, **n));
    let mut count = 0_usize;
    for ordinal in left {
        let pod = observed.pods.get(ordinal);
        if !pod.is_some_and(|pod| holds_its_data(observed, *ordinal, pod)) {
            return false;
        }
        count = count.saturating_add(1);
    }
    (1..quorum(voters.len())).contains(&count)
}

/// The ordinals that voted when the list was last read; every one that has a pod where that was never recorded.
fn voters(observed: &Observed) -> Vec<u32> {
    let cluster = &observed.cluster;
    let known = cluster.latched.voters.iter();
    let mut known: Vec<u32> = known
        .filter_map(|voter| names::ordinal(&cluster.name, &voter.member))
        .collect();
    known.sort_unstable();
    known.dedup();
    if cluster.latched.voters.is_empty() {
        let live = observed.objects.replicas;
        known.extend(0..live.or(cluster.latched.replicas).unwrap_or(0));
    }
    known
}

/// A fact proves that what this voter had is gone: no claim, nothing on the volume that can be read, no volume, no node.
/// Of one that is to leave nothing is proved: it may have been removed since.
fn is_lost(observed: &Observed, ordinal: u32) -> bool {
    let name = observed.member_name(ordinal);
    let mut retiring = observed.cluster.latched.retiring.iter();
    if retiring.any(|leaves| leaves.member == name) {
        return false;
    }
    let Some(claim) = observed.claims.get(&ordinal) else {
        return true;
    };
    let process = observed.pods.get(&ordinal).map(|pod| &pod.process);
    match process {
        Some(Process::Held(report)) => matches!(report.state, State::Empty | State::Damaged),
        Some(Process::Refusing(_) | Process::Starting | Process::Serving(_)) => false,
        Some(Process::Unknown) | None => {
            // A volume that another node can use, or of which that is not known, is not gone with its node.
            let binding = observed.node_bindings.get(&ordinal);
            let binding = binding.filter(|binding| binding.elsewhere == Some(false));
            let node = binding.map(|binding| binding.state);
            let no_node = matches!(node, Some(NodeState::Deleted | NodeState::OutOfService));
            claim.lost.is_some() || no_node
        }
    }
}

/// No quorum serves, and what every voter had is gone; and no other claim of the cluster can hold any of it. While the members are
/// stopped for the backup, the claims count of which that was seen before.
pub(super) fn is_everything_lost(observed: &Observed) -> bool {
    let latched = &observed.cluster.latched;
    let serves = observed.etcd.members.is_some() || facts::is_led(observed);
    if serves || observed.cluster.unavailable_since.is_none() {
        return false;
    }
    let fetches = latched.replace.as_deref();
    let fetches =
        fetches.filter(|it| it.stage == ReplaceStage::Fetching && observed.pods.is_empty());
    let recorded = |ordinal: &u32| {
        let claim = observed.claims.get(ordinal);
        let (Some(fetches), Some(claim)) = (fetches, claim) else {
            return false;
        };
        fetches.without_data.contains(&claim.uid)
    };
    let lost = |ordinal: &u32| is_lost(observed, *ordinal) || recorded(ordinal);
    let voters = voters(observed);
    let mut pods = observed.pods.values();
    let none_shows = pods.all(|pod| match &pod.process {
        Process::Unknown => true,
        Process::Refusing(_) | Process::Starting | Process::Serving(_) => false,
        Process::Held(report) => matches!(report.state, State::Empty | State::Damaged),
    });
    let mut others = observed.claims.iter().filter(|(n, _)| !voters.contains(n));
    let none_hides = others.all(|(ordinal, claim)| {
        let mut left = latched.retiring.iter();
        lost(ordinal) || left.any(|left| left.claim_uid == claim.uid)
    });
    // Who voted is not known where the memory was wiped: then every claim there is counts.
    let known = !voters.is_empty() || fetches.is_some_and(|it| !it.without_data.is_empty());
    known && voters.iter().all(lost) && none_shows && none_hides
}

/// The agents on these claims say at this look that there is nothing etcd could start from.
pub(super) fn is_shown_without_data(observed: &Observed, claims: &[String]) -> bool {
    claims.iter().all(|uid| {
        let mut all = observed.claims.iter();
        let found = all.find(|(_, claim)| claim.uid == *uid);
        let pod = found.and_then(|(ordinal, _)| observed.pods.get(ordinal));
        let report = pod.and_then(Pod::held);
        report.is_some_and(|report| matches!(report.state, State::Empty | State::Damaged))
    })
}

/// It runs, or its agent shows data of this cluster that is all its own and all that it had.
fn holds_its_data(observed: &Observed, ordinal: u32, pod: &Pod) -> bool {
    match &pod.process {
        Process::Unknown => false,
        Process::Refusing(_) | Process::Starting | Process::Serving(_) => true,
        Process::Held(report) => {
            let data = report.data.as_ref();
            let ours = data.is_some_and(|data| {
                parse_id(&data.cluster_id) == observed.cluster.latched.cluster_id
            });
            let whole = report.state != State::RolledBack;
            ours && whole && !is_of_another_member(observed, ordinal, report)
        }
    }
}

/// The volume of another member, on a claim that was made for this one.
fn is_of_another_member(observed: &Observed, ordinal: u32, report: &Report) -> bool {
    let identity = report.data.as_ref().and_then(|data| data.identity.as_ref());
    let pod = identity.and_then(|identity| identity.pod.as_ref());
    let other = pod.is_some_and(|pod| *pod != observed.member_name(ordinal));
    let made_for_it = observed
        .claims
        .get(&ordinal)
        .is_some_and(|claim| claim.ours);
    report.state == State::Mismatch && other && made_for_it
}

/// Nothing of the survivor that was chosen can ever serve: its claim is another one, or it is proved to be gone.
pub(super) fn is_gone(observed: &Observed, survivor: &Survivor) -> bool {
    let Some(ordinal) = names::ordinal(&observed.cluster.name, &survivor.member) else {
        return false;
    };
    let claim = observed.claims.get(&ordinal).map(|claim| &claim.uid);
    claim != Some(&survivor.claim_uid) || is_lost(observed, ordinal)
}

/// No pod shows a longer log of the lost cluster than the one that is chosen, and none with as long a log had a vote
/// where the chosen one had none: etcd does not go on from what a learner has.
pub(super) fn check_choice(
    observed: &Observed,
    recovery: &RecoveryIntent,
    chosen: &Survivor,
) -> Result<(), Violation> {
    let voters = voters(observed);
    let shown = |ordinal: &u32, pod: &Pod| {
        let report = pod.held()?;
        let data = report.data.as_ref()?;
        let lost = parse_id(&data.cluster_id) == parse_id(&recovery.cluster_id);
        let fenced = report.state == State::Fenced;
        // Never let through under this object, its agent knows no fence; what it holds counts nevertheless.
        let unrun = matches!(report.state, State::OtherObject | State::Unidentified);
        let voted = fenced && voters.contains(ordinal);
        (lost && (fenced || unrun)).then(|| (rank(data), voted, fenced))
    };
    let ordinal = names::ordinal(&observed.cluster.name, &chosen.member);
    let own = ordinal.and_then(|n| shown(&n, observed.pods.get(&n)?));
    let (log, voted, fenced) = own.ok_or(Violation::LastCopy)?;
    let mut all = observed.pods.iter().filter_map(|(n, pod)| shown(n, pod));
    let longest = all.all(|(other, had_vote, _)| (other, had_vote) <= (log, voted));
    ensure(fenced && longest, Violation::LastCopy)
}

/// How far a log goes.
fn rank(data: &Data) -> (u64, u64) {
    (data.term, data.index)
}

/// The other cluster that the chosen survivor serves, behind the fence and with a leader.
pub(super) fn founded(observed: &Observed) -> Option<u64> {
    let latched = &observed.cluster.latched;
    let recovery = latched.recovery.as_ref()?;
    let survivor = &recovery.survivor.as_ref()?.member;
    let pods = observed.pods.iter();
    let mut pods = pods.filter(|(n, _)| observed.member_name(**n) == *survivor);
    let (_, pod) = pods.next()?;
    let behind = pod.fence.is_some_and(|of| Some(of) >= latched.fence);
    let serving = pod.serving().filter(|s| behind && s.leader != 0)?;
    let old = parse_id(&recovery.cluster_id);
    (Some(serving.cluster_id) != old).then_some(serving.cluster_id)
}

//! How a cluster begins. Invariant 2: once. Invariant 14: a cluster that is to begin with a backup begins with that backup, or not at all; and nothing is written to a
//! volume that a member may be using.

use api::v1alpha1::memory::ReplaceStage;
use gate::{Action, Report, State};

use super::{Violation, ensure, facts, in_place};
use crate::decision::Fetch;
use crate::observed::{JobState, Latched, Observed, Pod, Process};

/// The one bootstrap, of the pod, the claim and the wait that were recorded for it.
pub(super) fn check_first(
    observed: &Observed,
    (ordinal, pod): (u32, &Pod),
    report: &Report,
) -> Result<(), Violation> {
    let latched = &observed.cluster.latched;
    let intent = latched.bootstrap.as_ref();
    let intent = intent.ok_or(Violation::SecondBootstrap)?;
    let claim = observed.claims.get(&ordinal).ok_or(Violation::Unknown)?;
    let written =
        intent.pod_uid == pod.uid && intent.nonce == report.nonce && intent.claim_uid == claim.uid;
    let first = latched.cluster_id.is_none() && !observed.objects.client_service;
    ensure(written && first, Violation::SecondBootstrap)
}

/// It was recorded what is brought to which claim, there is no pod, and no member was ever let through.
pub(super) fn check_fetch(observed: &Observed, fetch: &Fetch) -> Result<(), Violation> {
    let latched = &observed.cluster.latched;
    let stage = facts::stage_of_replace(latched);
    if stage.is_some_and(|stage| stage != ReplaceStage::Ended) {
        return in_place::check_fetch(observed, fetch);
    }
    let restore = latched.restore.as_ref().ok_or(Violation::NotAskedFor)?;
    let recorded = restore.wish == fetch.wish.hash
        && restore.claim_uid == fetch.claim_uid
        && restore.attempt == fetch.attempt
        && restore.member == observed.member_name(fetch.ordinal)
        && restore.fetched.is_none();
    ensure(recorded, Violation::NotAskedFor)?;
    let claim = observed.claims.get(&fetch.ordinal);
    let claim = claim.ok_or(Violation::Unknown)?;
    let there = claim.uid == fetch.claim_uid && !claim.terminating;
    ensure(there, Violation::Unknown)?;
    ensure(!fetch.check, Violation::NotAskedFor)?;
    let unformed = latched.cluster_id.is_none()
        && latched.bootstrap.is_none()
        && !observed.objects.client_service;
    ensure(unformed && observed.pods.is_empty(), Violation::LastCopy)
}

/// The Job that was seen.
pub(super) fn check_end(observed: &Observed, name: &str, uid: &str) -> Result<(), Violation> {
    let job = observed.restore.job.as_ref().ok_or(Violation::Unknown)?;
    ensure(job.name == name && job.uid == uid, Violation::Unknown)
}

/// No backup is asked for, and none was brought.
pub(super) fn check_begins_empty(observed: &Observed) -> Result<(), Violation> {
    let asked = observed.restore.wish.is_some();
    let brought = observed.cluster.latched.restore.is_some();
    // Nor does a Job stand on its volume.
    let busy = observed.restore.job.is_some();
    ensure(!asked && !brought && !busy, Violation::Restore)
}

/// What was brought lies on this volume, and nothing else does; or it makes way for that.
pub(super) fn check_grant(
    observed: &Observed,
    (ordinal, pod): (u32, &Pod),
    report: &Report,
    action: &Action,
) -> Result<(), Violation> {
    let Action::Restore {
        token,
        directory,
        trailer,
        ..
    } = action
    else {
        return Err(Violation::NotThisWait);
    };
    if observed.cluster.latched.cluster_id.is_some() {
        return in_place::check_grant(observed, (ordinal, report), (token, directory, trailer));
    }
    check_first(observed, (ordinal, pod), report)?;
    let restore = observed.cluster.latched.restore.as_ref();
    let restore = restore.ok_or(Violation::Restore)?;
    let fetched = restore.fetched.as_ref().ok_or(Violation::Restore)?;
    let claim = observed.claims.get(&ordinal).ok_or(Violation::Unknown)?;
    let same = restore.claim_uid == claim.uid
        && restore.member == observed.member_name(ordinal)
        && *directory == gate::restore_directory(&restore.wish)
        && *trailer == fetched.trailer;
    ensure(same, Violation::Restore)?;
    let busy = observed.restore.job.as_ref();
    let busy = busy.is_some_and(|job| matches!(job.state, JobState::Active(_)));
    ensure(!busy, Violation::LastCopy)?;
    ensure(report.state == State::Empty, Violation::LastCopy)
}

/// What a cluster began with does not change once it has formed. What a member was let through with is taken back only
/// together with that permission, in another incarnation, and while no member runs.
pub(super) fn check_latch(observed: &Observed, new: &Latched) -> Result<(), Violation> {
    let old = &observed.cluster.latched;
    if old.restore == new.restore {
        return Ok(());
    }
    // It is another cluster that begins, in the place of the one before.
    let stage = facts::stage_of_replace(old);
    if stage == Some(ReplaceStage::Bootstrapping) && new.recovery.is_none() {
        return Ok(());
    }
    // Data that was kept is no backup.
    let resumed = new.cluster_id.is_some() && new.restore.is_none() && old.bootstrap.is_none();
    ensure(
        old.cluster_id.is_none() && (new.cluster_id.is_none() || resumed),
        Violation::Forgets,
    )?;
    let (Some(_), Some(_)) = (&old.restore, &old.bootstrap) else {
        return Ok(());
    };
    let running = observed.pods.values().any(|pod| {
        matches!(
            pod.process,
            Process::Refusing(_) | Process::Starting | Process::Serving(_)
        )
    });
    let raised = new.incarnation > old.incarnation && new.bootstrap.is_none();
    ensure(raised && !running, Violation::SecondBootstrap)
}

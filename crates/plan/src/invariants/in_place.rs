//! A backup takes the place of the data of a cluster that has formed. Invariant 15: only where an EtcdRestore names that very
//! cluster, once for each, and with what was read before; and from there on nothing of the old data runs, until it is proved
//! that what was brought serves, or that nothing was begun with it.

use api::v1alpha1::cluster::OnEverythingLost;
use api::v1alpha1::memory::{FetchedMemory, ReplaceMemory, ReplaceStage};
use gate::{Report, State};

use super::proof::{founded, is_everything_lost, is_shown_without_data};
use super::{Violation, ensure, facts};
use crate::decision::Fetch;
use crate::observed::{Latched, Observed, Pod, Process, Wanted, parse_id};

/// How far it goes with a record, and whether it begins or ends a recovery by itself, which is judged here then.
pub(super) fn check_latch(observed: &Observed, new: &Latched) -> Result<bool, Violation> {
    let old = &observed.cluster.latched;
    let (before, now) = match (old.replace.as_deref(), new.replace.as_deref()) {
        (None, None) => return Ok(false),
        (Some(_), None) => return Err(Violation::Forgets),
        (before, Some(now)) => (before, now),
    };
    if before == Some(now) {
        return Ok(false);
    }
    let last = before.map_or(0, |before| before.record);
    ensure(now.record > last, Violation::Forgets)?;
    let ended = before.map_or(&[][..], |before| &before.ended);
    let going = before.filter(|before| before.stage != ReplaceStage::Ended);
    let Some(before) = going else {
        return check_begin(observed, new, (ended, now)).map(|()| false);
    };
    ensure(before.by == now.by, Violation::Forgets)?;
    check_stage(observed, new, (before, now))
}

/// One that did not end before, and names the cluster.
fn check_begin(
    observed: &Observed,
    new: &Latched,
    (ended, now): (&[String], &ReplaceMemory),
) -> Result<(), Violation> {
    let old = &observed.cluster.latched;
    ensure(!ended.contains(&now.by), Violation::SecondBootstrap)?;
    ensure(is_named(observed, now), Violation::NotAskedFor)?;
    let fresh = now.stage == ReplaceStage::Checking && now.checked.is_none();
    ensure(fresh && now.ended == ended, Violation::Forgets)?;
    ensure(same_lineage(old, new), Violation::Forgets)?;
    ensure(is_nothing_recovered(observed), Violation::Unknown)
}

/// No quorum is being recovered; or no member was chosen for it, and none that runs or reports has data of the cluster.
fn is_nothing_recovered(observed: &Observed) -> bool {
    let latched = &observed.cluster.latched;
    let Some(recovery) = &latched.recovery else {
        return true;
    };
    let mut pods = observed.pods.values();
    let none_has = pods.all(|pod| match &pod.process {
        Process::Refusing(_) | Process::Starting | Process::Serving(_) => false,
        Process::Unknown => true,
        Process::Held(report) => {
            let data = report.data.as_ref();
            let of = data.and_then(|data| parse_id(&data.cluster_id));
            of.is_none() || of != parse_id(&recovery.cluster_id)
        }
    });
    recovery.survivor.is_none() && none_has
}

/// From one stage to the next, or back.
fn check_stage(
    observed: &Observed,
    new: &Latched,
    (before, now): (&ReplaceMemory, &ReplaceMemory),
) -> Result<bool, Violation> {
    let old = &observed.cluster.latched;
    match (before.stage, now.stage) {
        (ReplaceStage::Checking, ReplaceStage::Checking) => {
            ensure(same_lineage(old, new), Violation::Forgets)?;
        }
        (ReplaceStage::Checking, ReplaceStage::Fetching) => {
            ensure(same_lineage(old, new), Violation::Forgets)?;
            ensure(is_nothing_recovered(observed), Violation::Unknown)?;
            ensure(is_named(observed, now), Violation::NotAskedFor)?;
            let seen = is_shown_without_data(observed, &now.without_data);
            ensure(seen, Violation::LastCopy)?;
            let read = now.checked.is_some() && now.checked == before.checked;
            ensure(read, Violation::Restore)?;
        }
        (ReplaceStage::Fetching, ReplaceStage::Fetching) => {
            ensure(same_lineage(old, new), Violation::Forgets)?;
            ensure(now.checked == before.checked, Violation::Restore)?;
            ensure(now.without_data == before.without_data, Violation::LastCopy)?;
        }
        (ReplaceStage::Fetching, ReplaceStage::Bootstrapping) => {
            check_bootstrap(observed, new, now)?;
            return Ok(true);
        }
        (ReplaceStage::Checking | ReplaceStage::Fetching, ReplaceStage::Ended) => {
            ensure(same_lineage(old, new), Violation::Forgets)?;
            ensure(now.ended.contains(&now.by), Violation::SecondBootstrap)?;
            let still = before.stage == ReplaceStage::Fetching && observed.restore.job.is_some();
            ensure(!still, Violation::LastCopy)?;
        }
        (ReplaceStage::Bootstrapping, ReplaceStage::Ended) if new.recovery.is_none() => {
            // What it began with may be what it had begun with before.
            let began =
                old.cluster_id != new.cluster_id && new.restore.as_deref() == before.seed.as_ref();
            ensure(began && now.failure.is_none(), Violation::Restore)?;
            ensure(now.ended.contains(&now.by), Violation::SecondBootstrap)?;
        }
        (ReplaceStage::Bootstrapping, ReplaceStage::Fetching | ReplaceStage::Ended) => {
            check_back(observed, new, before)?;
            let over = now.stage == ReplaceStage::Fetching || now.ended.contains(&now.by);
            ensure(over, Violation::SecondBootstrap)?;
            return Ok(true);
        }
        (ReplaceStage::Ended, _)
        | (ReplaceStage::Fetching | ReplaceStage::Bootstrapping, ReplaceStage::Checking)
        | (ReplaceStage::Checking | ReplaceStage::Bootstrapping, ReplaceStage::Bootstrapping) => {
            return Err(Violation::Forgets);
        }
    }
    if let Some(fetched) = now.seed.as_ref().and_then(|seed| seed.fetched.as_ref()) {
        ensure(is_what_was_read(now, fetched), Violation::Restore)?;
    }
    Ok(false)
}

/// An EtcdRestore that was seen at this look names the cluster that is there; or the spec leaves it to the operator, and no
/// voter's data can come back.
fn is_named(observed: &Observed, replace: &ReplaceMemory) -> bool {
    let cluster = observed.cluster.latched.cluster_id;
    if cluster.is_some_and(|id| replace.by == format!("lost-{id:x}")) {
        let intent = observed.cluster.intent.as_ref();
        let left = intent.is_ok_and(|intent| {
            intent.on_everything_lost == OnEverythingLost::FromBackup && intent.size > 0
        });
        let offer = observed.restore.offer.as_ref();
        let ours = offer.is_some_and(|offer| offer.request.replaces == cluster);
        return left && ours && is_everything_lost(observed);
    }
    let mut requests = observed.restore.requests.iter();
    cluster.is_some() && requests.any(|it| it.uid == replace.by && it.replaces == cluster)
}

fn same_lineage(old: &Latched, new: &Latched) -> bool {
    old.cluster_id == new.cluster_id
        && old.recovery == new.recovery
        && old.incarnation == new.incarnation
        && old.fence == new.fence
        && old.restore == new.restore
}

fn is_what_was_read(replace: &ReplaceMemory, fetched: &FetchedMemory) -> bool {
    let checked = replace.checked.as_ref();
    checked.is_some_and(|checked| {
        let (read, brought) = (&checked.restored, &fetched.restored);
        let same_base = match (&checked.base_trailer, &fetched.base_trailer) {
            (None, None) => checked.trailer == fetched.trailer,
            (Some(read), Some(brought)) => read == brought,
            (None, Some(_)) | (Some(_), None) => false,
        };
        same_base && read.backup == brought.backup && read.revision == brought.revision
    })
}

/// No pod and no Job stands, the backup lies on the volume that is recorded, and all data up to now is fenced.
fn check_bootstrap(
    observed: &Observed,
    new: &Latched,
    now: &ReplaceMemory,
) -> Result<(), Violation> {
    let old = &observed.cluster.latched;
    ensure(is_named(observed, now), Violation::NotAskedFor)?;
    let before = old.replace.as_ref().and_then(|before| before.seed.as_ref());
    ensure(before == now.seed.as_ref(), Violation::Restore)?;
    let seed = now.seed.as_ref().ok_or(Violation::Restore)?;
    let fetched = seed.fetched.as_ref().ok_or(Violation::Restore)?;
    ensure(is_what_was_read(now, fetched), Violation::Restore)?;
    let quiet = observed.pods.is_empty() && observed.restore.job.is_none();
    ensure(quiet, Violation::LastCopy)?;
    let mut claims = observed.claims.iter();
    let stands = claims.any(|(ordinal, claim)| {
        observed.member_name(*ordinal) == seed.member
            && claim.uid == seed.claim_uid
            && !claim.terminating
    });
    ensure(stands, Violation::Unknown)?;
    check_fence(observed, new)?;
    let recovery = new.recovery.as_ref().ok_or(Violation::Forgets)?;
    let survivor = recovery.survivor.as_ref().ok_or(Violation::Restore)?;
    let chosen = survivor.member == seed.member && survivor.claim_uid == seed.claim_uid;
    ensure(chosen, Violation::Restore)
}

/// Another incarnation, behind another fence, of the cluster that was named.
fn check_fence(observed: &Observed, new: &Latched) -> Result<(), Violation> {
    let old = &observed.cluster.latched;
    let raised = new.incarnation > old.incarnation && new.fence == Some(new.incarnation);
    ensure(raised, Violation::Forgets)?;
    let named = new.recovery.as_ref();
    let named = named.and_then(|recovery| parse_id(&recovery.cluster_id));
    let same = new.cluster_id == old.cluster_id && named == old.cluster_id;
    ensure(same && new.restore == old.restore, Violation::Forgets)?;
    ensure(new.trial().is_none(), Violation::Unproven)
}

/// The member that was to begin has begun nothing: its volume is another one, or its agent waits, and not behind a permission
/// to begin.
fn check_back(observed: &Observed, new: &Latched, before: &ReplaceMemory) -> Result<(), Violation> {
    check_fence(observed, new)?;
    let recovery = new.recovery.as_ref().ok_or(Violation::Forgets)?;
    ensure(recovery.survivor.is_none(), Violation::SecondBootstrap)?;
    ensure(founded(observed).is_none(), Violation::SecondBootstrap)?;
    let runs = |pod: &Pod| {
        matches!(
            pod.process,
            Process::Refusing(_) | Process::Starting | Process::Serving(_)
        )
    };
    ensure(
        !observed.pods.values().any(runs),
        Violation::SecondBootstrap,
    )?;
    let seed = before.seed.as_ref().ok_or(Violation::Restore)?;
    let ordinal = api::names::ordinal(&observed.cluster.name, &seed.member);
    let ordinal = ordinal.ok_or(Violation::Unknown)?;
    let claim = observed.claims.get(&ordinal);
    let lost = claim.is_none_or(|claim| {
        claim.uid != seed.claim_uid || claim.terminating || claim.lost.is_some()
    });
    let pod = observed.pods.get(&ordinal);
    let idle = pod.is_some_and(|pod| pod.held().is_some() && !facts::is_granted(pod));
    ensure(lost || idle, Violation::SecondBootstrap)
}

/// A Job that only reads touches nothing; one that writes does so to the volume that is recorded, of which it brings what was
/// read, while no pod stands.
pub(super) fn check_fetch(observed: &Observed, fetch: &Fetch) -> Result<(), Violation> {
    let replace = observed.cluster.latched.replace.as_ref();
    let replace = replace.ok_or(Violation::NotAskedFor)?;
    ensure(is_named(observed, replace), Violation::NotAskedFor)?;
    if fetch.check {
        let reads = replace.stage == ReplaceStage::Checking && replace.by == fetch.claim_uid;
        return ensure(reads, Violation::NotAskedFor);
    }
    let seed = replace.seed.as_ref().ok_or(Violation::NotAskedFor)?;
    let recorded = replace.stage == ReplaceStage::Fetching
        && seed.wish == fetch.wish.hash
        && seed.claim_uid == fetch.claim_uid
        && seed.attempt == fetch.attempt
        && seed.member == observed.member_name(fetch.ordinal)
        && seed.fetched.is_none();
    ensure(recorded, Violation::NotAskedFor)?;
    let (id, revision) = match &fetch.wish.wanted {
        Wanted::Backup { id, revision, .. } => (id.as_ref(), *revision),
        Wanted::File { key, .. } => (Some(key), None),
    };
    let read = replace.checked.as_ref();
    let read = read.is_some_and(|it| {
        // Asked for as the newest it is that of the backup, which its ID says.
        let same = revision.is_none_or(|revision| revision == it.restored.revision);
        same && (revision.is_some() || it.base_trailer.is_none()) && id == Some(&it.restored.backup)
    });
    ensure(read, Violation::Restore)?;
    let claim = observed.claims.get(&fetch.ordinal);
    let claim = claim.ok_or(Violation::Unknown)?;
    let there = claim.uid == fetch.claim_uid && !claim.terminating;
    ensure(there, Violation::Unknown)?;
    ensure(observed.pods.is_empty(), Violation::LastCopy)
}

/// The member that was recorded, on the volume that was recorded, with what was brought there, while nothing runs and every
/// pod is behind the fence.
pub(super) fn check_grant(
    observed: &Observed,
    (ordinal, report): (u32, &Report),
    (token, directory, trailer): (&str, &str, &str),
) -> Result<(), Violation> {
    let latched = &observed.cluster.latched;
    let replace = latched.replace.as_ref().ok_or(Violation::Restore)?;
    let now = facts::stage_of_replace(latched) == Some(ReplaceStage::Bootstrapping);
    ensure(now, Violation::Restore)?;
    let seed = replace.seed.as_ref().ok_or(Violation::Restore)?;
    let fetched = seed.fetched.as_ref().ok_or(Violation::Restore)?;
    let claim = observed.claims.get(&ordinal).ok_or(Violation::Unknown)?;
    let survivor = latched
        .recovery
        .as_ref()
        .and_then(|it| it.survivor.as_ref());
    let survivor = survivor.ok_or(Violation::SecondBootstrap)?;
    let same = seed.claim_uid == claim.uid
        && survivor.claim_uid == claim.uid
        && seed.member == observed.member_name(ordinal)
        && directory == gate::restore_directory(&seed.wish)
        && trailer == fetched.trailer;
    ensure(same, Violation::Restore)?;
    let fresh = format!("{}-{}", observed.cluster.uid, latched.incarnation);
    ensure(token == fresh, Violation::SecondBootstrap)?;
    ensure(observed.restore.job.is_none(), Violation::LastCopy)?;
    let makes_way = matches!(report.state, State::Empty | State::Fenced);
    ensure(makes_way, Violation::LastCopy)?;
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

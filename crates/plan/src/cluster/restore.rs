//! A cluster that begins with a backup. No pod stands on the volume of its first member while a Job brings the backup to it, so
//! that every kind of volume can be mounted; then the pods come back, and the first member bootstraps with what lies there, by
//! the same rules as one that begins empty. Until the cluster has formed nothing but that copy can be lost, so that every
//! trouble leads back to bringing it once more; and none leads to a cluster that begins empty.

use std::time::Duration;

use api::EtcdVersion;
use api::v1alpha1::memory::{FetchedMemory, RestoreMemory};
use api::v1alpha1::restore::{RemadeLeases, Restored};
use api::v1alpha1::status::BootstrapIntent;
use archive::materialise::LEASE_SECONDS;
use archive::work::{Answer, Done, Fetched, Rewound};
use gate::State;
use jiff::SignedDuration;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::backup::{JobState, sentence};
use crate::decision::{Decision, Fetch, LATER, Step};
use crate::observed::{FetchJob, Latched, Observed, Process, RestoreWish};
use crate::why::Restore;

/// The first attempt that failed is followed by another one after so many seconds, and each later one after twice as many.
const AGAIN: i64 = 10;
/// No attempt waits longer.
const LONGEST: i64 = 600;

pub(super) fn decide(observed: &Observed) -> Option<Decision> {
    if observed.cluster.latched.cluster_id.is_some() {
        return left_over(observed);
    }
    match observed.bringing() {
        None if observed.restore.wish.is_none() => observed.restore.job.as_deref().map(gone),
        None => begin(observed),
        Some(restore) if restore.fetched.is_some() => use_it(observed, restore),
        Some(restore) => bring(observed, restore),
    }
}

/// The cluster is to stop, or its data is to end: a Job that still stands on a volume would hold it.
pub(super) fn stopped(observed: &Observed) -> Option<Decision> {
    let stops = observed
        .cluster
        .intent
        .as_ref()
        .is_ok_and(|intent| intent.size == 0);
    let job = observed.restore.job.as_deref();
    let latched = &observed.cluster.latched;
    // What takes the place of the data may be brought while the cluster is stopped.
    let wanted = latched.is_being_replaced() && !latched.ending;
    let job = job.filter(|_| (stops || latched.ending) && !wanted)?;
    (job.state != JobState::Leaving).then(|| end(job))
}

/// The cluster has formed: what brought its data is not needed any more.
fn left_over(observed: &Observed) -> Option<Decision> {
    let job = observed.restore.job.as_deref()?;
    let over = !observed.cluster.latched.is_being_replaced();
    (over && job.state != JobState::Leaving).then(|| end(job))
}

/// Nothing is recorded: the first pod that waits on an empty volume is chosen. Where a member runs already, its data is the
/// cluster's.
fn begin(observed: &Observed) -> Option<Decision> {
    let wish = observed.restore.wish.as_ref()?;
    if observed.objects.client_service || observed.pods.values().any(runs) {
        return None;
    }
    if let Some(intent) = &observed.cluster.latched.bootstrap {
        return forgotten(observed, intent);
    }
    let wish = match wish {
        Ok(wish) => wish,
        Err(why) => return Some(Decision::refuse(Restore::Unknown(why.clone()))),
    };
    if let Some(recalled) = recall(observed, wish) {
        return Some(recalled);
    }
    let (member, claim_uid) = observed.pods.iter().find_map(|(ordinal, pod)| {
        let empty = pod.held().is_some_and(|held| held.state == State::Empty);
        let claim = observed.claims.get(ordinal);
        let claim = claim.filter(|claim| !claim.terminating && claim.lost.is_none())?;
        (empty && !pod.terminating).then(|| (observed.member_name(*ordinal), claim.uid.clone()))
    })?;
    let why = Restore::Chosen(member.clone());
    let restore = RestoreMemory {
        wish: wish.hash.clone(),
        member,
        claim_uid,
        ..RestoreMemory::default()
    };
    Some(record(observed, Some(restore), why))
}

/// The status was wiped after a member was chosen, which its claim still tells, and not what it was to begin with. Where it
/// was not let through yet, or in vain, the backup is brought once more.
fn forgotten(observed: &Observed, intent: &BootstrapIntent) -> Option<Decision> {
    let ordinal = api::names::ordinal(&observed.cluster.name, &intent.member)?;
    let pod = observed.pods.get(&ordinal)?;
    let idle = pod.held().is_some() && !pod.is_granted();
    idle.then(|| start_over(observed, &intent.member))
}

fn runs(pod: &crate::observed::Pod) -> bool {
    matches!(
        pod.process,
        Process::Refusing(_) | Process::Starting | Process::Serving(_)
    )
}

/// The status was wiped while a Job was bringing this very backup.
fn recall(observed: &Observed, wish: &RestoreWish) -> Option<Decision> {
    let job = observed.restore.job.as_ref()?;
    let restore = RestoreMemory {
        wish: job.wish.clone(),
        member: job.member.clone(),
        claim_uid: job.claim_uid.clone(),
        attempt: job.attempt,
        ..RestoreMemory::default()
    };
    let stands = job.wish == wish.hash && observed.seed(&restore).is_some();
    if stands && job.state != JobState::Leaving {
        let why = Restore::Recalled(job.member.clone());
        return Some(record(observed, Some(restore), why));
    }
    Some(gone(job))
}

/// Where the rest of the way leads is judged by what the Job says.
fn bring(observed: &Observed, restore: &RestoreMemory) -> Option<Decision> {
    if let Some(over) = over(observed, restore) {
        return Some(over);
    }
    // An older status was restored, from before it was brought.
    if let Some(intent) = &observed.cluster.latched.bootstrap {
        return forgotten(observed, intent);
    }
    if !observed.pods.is_empty() {
        let why = Restore::PodsStopping(observed.pods.len());
        return Some(Decision::wait(why, LATER));
    }
    let Some(job) = &observed.restore.job else {
        return Some(fetch(observed, restore));
    };
    let this = (&job.wish, &job.claim_uid, job.attempt)
        == (&restore.wish, &restore.claim_uid, restore.attempt);
    if !this {
        return Some(gone(job));
    }
    Some(match &job.state {
        JobState::Leaving => Decision::wait(Restore::JobEnding(job.name.clone()), LATER),
        JobState::Active(trouble) => {
            let why = Restore::Fetching(job.name.clone(), trouble.clone());
            Decision::wait(why, LATER)
        }
        JobState::Answered(Answer::Done(Done::Fetch(fetched))) => there(observed, restore, fetched),
        JobState::Answered(Answer::Done(Done::Snapshot(_) | Done::Verify(_))) => {
            let why = "its Job did something else than that";
            failed(observed, restore, why.to_owned())
        }
        JobState::Answered(Answer::Failed { cause, message }) => {
            failed(observed, restore, sentence(*cause, message))
        }
        JobState::Stuck(why) => {
            let why = format!("the pod of Job {} does not start: {why}", job.name);
            failed(observed, restore, why)
        }
        JobState::Lost(why) => failed(observed, restore, format!("Job {}: {why}", job.name)),
    })
}

/// What was recorded holds no longer: its volume is gone, something else is asked for, or nothing.
fn over(observed: &Observed, restore: &RestoreMemory) -> Option<Decision> {
    // A member that runs may have bootstrapped with it: that is judged by the rules for the first member.
    if observed.seed(restore).is_none() && !observed.pods.values().any(runs) {
        return Some(start_over(observed, &restore.member));
    }
    if observed.cluster.latched.bootstrap.is_some() {
        return None;
    }
    match &observed.restore.wish {
        None => {
            let job = observed.restore.job.as_deref();
            // A cluster that begins empty must not share its volume with it.
            Some(job.map_or_else(|| record(observed, None, Restore::Dropped), gone))
        }
        Some(Ok(wish)) if wish.hash != restore.wish => {
            let restore = RestoreMemory {
                wish: wish.hash.clone(),
                member: restore.member.clone(),
                claim_uid: restore.claim_uid.clone(),
                ..RestoreMemory::default()
            };
            Some(record(observed, Some(restore), Restore::Changed))
        }
        // What cannot be told any more is gone on with: the EtcdBackup may have been deleted since.
        Some(Ok(_) | Err(_)) => None,
    }
}

/// No client was let in, so that nothing but the copy was lost; what it may have begun can never join what comes next.
fn start_over(observed: &Observed, member: &str) -> Decision {
    let latched = &observed.cluster.latched;
    let begun = u64::from(latched.bootstrap.is_some());
    let latched = Latched {
        incarnation: latched.incarnation.saturating_add(begun),
        bootstrap: None,
        restore: None,
        ..latched.clone()
    };
    let why = Restore::SeedLost(member.to_owned());
    Decision::act(Step::Latch(latched), why)
}

/// Creates the Job, unless the last attempt has only just failed.
fn fetch(observed: &Observed, restore: &RestoreMemory) -> Decision {
    if let Some(left) = rests(observed, restore) {
        let why = restore.failure.clone().unwrap_or_default();
        return Decision::wait(Restore::Failed(why), left);
    }
    let wish = match &observed.restore.wish {
        Some(Ok(wish)) => RestoreWish::clone(wish),
        Some(Err(why)) => return Decision::refuse(Restore::Unknown(why.clone())),
        None => return record(observed, None, Restore::Dropped),
    };
    let ordinal = api::names::ordinal(&observed.cluster.name, &restore.member);
    let step = Fetch {
        ordinal: ordinal.unwrap_or(0),
        claim_uid: restore.claim_uid.clone(),
        attempt: restore.attempt,
        wish,
        check: false,
    };
    let why = Restore::Fetches(restore.member.clone());
    Decision::act(Step::Fetch(Box::new(step)), why)
}

/// How long until the next attempt. A clock that ran ahead when it was recorded prolongs no rest.
pub(super) fn rests(observed: &Observed, restore: &RestoreMemory) -> Option<Duration> {
    let failed_at = restore.failed_at.as_ref()?.0;
    let doubled = u32::try_from(restore.attempt.saturating_sub(1)).unwrap_or(0);
    let rest = AGAIN.saturating_mul(1_i64.checked_shl(doubled.min(10)).unwrap_or(1024));
    let until = failed_at.checked_add(SignedDuration::from_secs(rest.min(LONGEST)));
    let left = until.ok()?.duration_since(observed.now).as_secs();
    let left = u64::try_from(left).ok().filter(|left| *left > 0)?;
    (left <= LONGEST.unsigned_abs()).then(|| Duration::from_secs(left))
}

fn failed(observed: &Observed, restore: &RestoreMemory, why: String) -> Decision {
    record(
        observed,
        Some(after_failure(observed, restore, why.clone())),
        Restore::Failed(why),
    )
}

/// The same backup is brought once more: what lies on the volume is taken for it only if it is.
fn after_failure(observed: &Observed, restore: &RestoreMemory, why: String) -> RestoreMemory {
    RestoreMemory {
        attempt: restore.attempt.saturating_add(1),
        failed_at: Some(Time(observed.now)),
        failure: Some(why),
        fetched: None,
        ..restore.clone()
    }
}

fn there(observed: &Observed, restore: &RestoreMemory, fetched: &Fetched) -> Decision {
    let base = &fetched.base;
    let brought = brought(fetched);
    let why = Restore::Fetched(base.id.clone(), brought.restored.revision);
    let restore = RestoreMemory {
        failed_at: None,
        failure: None,
        fetched: Some(brought),
        ..restore.clone()
    };
    record(observed, Some(restore), why)
}

/// What is remembered of it.
pub(super) fn brought(fetched: &Fetched) -> FetchedMemory {
    let base = &fetched.base;
    let rewound = fetched.rewound.as_ref();
    let written = rewound.map(|it| it.bytes).filter(|bytes| *bytes > 0);
    FetchedMemory {
        restored: Restored {
            backup: base.id.clone(),
            revision: rewound.map_or(base.revision, |it| it.revision),
            time: Time(base.time),
            bytes: i64::try_from(written.unwrap_or(base.raw_bytes)).unwrap_or(i64::MAX),
            url: base.url.clone(),
            leases: rewound.and_then(leases),
        },
        trailer: fetched.trailer.clone(),
        etcd_version: base.etcd_version.clone(),
        auth: fetched.auth,
        base_trailer: rewound.map(|it| it.base_trailer.clone()),
    }
}

fn leases(rewound: &Rewound) -> Option<RemadeLeases> {
    (rewound.leases > 0).then(|| RemadeLeases {
        count: i64::try_from(rewound.leases).unwrap_or(i64::MAX),
        ttl_seconds: i64::try_from(LEASE_SECONDS).unwrap_or(i64::MAX),
        some: rewound.some_leases.clone(),
    })
}

/// It lies on the volume: the Job goes, and what would not work is told before anything begins with it. The rest is that of a
/// cluster that begins empty.
fn use_it(observed: &Observed, restore: &RestoreMemory) -> Option<Decision> {
    let fetched = restore.fetched.as_ref()?;
    if let Some(over) = over(observed, restore).or_else(|| in_vain(observed, restore)) {
        return Some(over);
    }
    let job = observed.restore.job.as_ref();
    if let Some(job) = job.filter(|job| job.state != JobState::Leaving) {
        return Some(end(job));
    }
    if observed.cluster.latched.bootstrap.is_some() {
        return None;
    }
    unusable(observed, fetched).map(Decision::refuse)
}

/// The agent that was granted it could not use it, and waits once more: a snapshot that is damaged, a volume that is full.
/// It bootstrapped nothing, and another incarnation keeps it so.
fn in_vain(observed: &Observed, restore: &RestoreMemory) -> Option<Decision> {
    let (ordinal, _) = observed.seed(restore)?;
    let report = observed.pods.get(&ordinal)?.held()?;
    let why = report.failed.as_ref()?.why.clone();
    let latched = &observed.cluster.latched;
    let granted = latched.bootstrap.as_ref()?;
    let latched = Latched {
        incarnation: latched.incarnation.saturating_add(1),
        bootstrap: None,
        restore: Some(Box::new(after_failure(observed, restore, why.clone()))),
        ..latched.clone()
    };
    (granted.nonce != report.nonce)
        .then(|| Decision::act(Step::Latch(latched), Restore::Failed(why)))
}

/// Why etcd could not run on it, or the operator not with it.
fn unusable(observed: &Observed, fetched: &FetchedMemory) -> Option<Restore> {
    let intent = observed.cluster.intent.as_ref().ok()?;
    let (wrote, asked) = (EtcdVersion::parse(&fetched.etcd_version), intent.version);
    if let Some(wrote) = wrote.filter(|wrote| wrote.minor > asked.minor) {
        return Some(Restore::Newer { wrote, asked });
    }
    let locks_out = fetched.auth == Some(true) && intent.auth != Some(true);
    locks_out.then(|| Restore::NeedsAuth(fetched.restored.backup.clone()))
}

/// The Job of something else.
fn gone(job: &FetchJob) -> Decision {
    match &job.state {
        JobState::Leaving => Decision::wait(Restore::JobEnding(job.name.clone()), LATER),
        _ended_or_not => end(job),
    }
}

fn end(job: &FetchJob) -> Decision {
    let step = Step::EndFetch {
        name: job.name.clone(),
        uid: job.uid.clone(),
    };
    Decision::act(step, Restore::EndsJob(job.name.clone()))
}

fn record(observed: &Observed, restore: Option<RestoreMemory>, why: Restore) -> Decision {
    let latched = Latched {
        restore: restore.map(Box::new),
        ..observed.cluster.latched.clone()
    };
    Decision::act(Step::Latch(latched), why)
}

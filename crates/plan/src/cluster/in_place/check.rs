//! Before anything is touched: the backup is read once, and what could not work is told while the cluster serves on.

use api::v1alpha1::memory::{FetchedMemory, ReplaceMemory, ReplaceStage, RestoreMemory};
use api::{EtcdVersion, Plane};

use super::job::{Said, end, said};
use super::{Asked, after_failure, asked, called_off, is_being_recovered, needed, record, usable};
use crate::backup::JobState;
use crate::cluster::recover;
use crate::cluster::restore::{brought, rests};
use crate::decision::{Decision, Fetch, Step};
use crate::observed::{FetchJob, Observed, RestoreWish};
use crate::why::{Blocked, InPlace};

/// The cluster serves on: only what is done is answered, and never what is waited for.
pub(super) fn check(
    observed: &Observed,
    replace: &ReplaceMemory,
    cluster_id: u64,
) -> Option<Decision> {
    if is_being_recovered(observed) {
        return None;
    }
    let request = match asked(observed, replace, cluster_id) {
        Asked::There(request) => request,
        Asked::Unheard => return None,
        Asked::Gone => return Some(called_off(observed, replace)),
    };
    let wish = match &request.wish {
        Ok(wish) => wish,
        Err(why) => return blocked(observed, replace, Blocked::Unknown(why.clone())),
    };
    let seed = replace.seed.clone().filter(|seed| seed.wish == wish.hash);
    let seed = seed.unwrap_or_else(|| RestoreMemory {
        wish: wish.hash.clone(),
        ..RestoreMemory::default()
    });
    let checked = replace.checked.as_ref();
    let checked = checked.filter(|_| replace.seed.as_ref() == Some(&seed));
    let job = observed.restore.job.as_deref();
    if let Some(checked) = checked {
        return match job.filter(|job| job.state != JobState::Leaving) {
            Some(job) => Some(end(job)),
            None => stop(observed, replace, (&seed, checked)),
        };
    }
    let Some(job) = job else {
        return read(replace, observed, &seed, wish);
    };
    if (&job.wish, &job.claim_uid, job.attempt) != (&seed.wish, &replace.by, seed.attempt) {
        return (job.state != JobState::Leaving).then(|| end(job));
    }
    judge_check(observed, (replace, wish), seed, job)
}

/// Creates the Job that reads it, unless the last attempt has only just failed.
fn read(
    replace: &ReplaceMemory,
    observed: &Observed,
    seed: &RestoreMemory,
    wish: &RestoreWish,
) -> Option<Decision> {
    if rests(observed, seed).is_some() {
        return None;
    }
    let step = Fetch {
        ordinal: 0,
        claim_uid: replace.by.clone(),
        attempt: seed.attempt,
        wish: wish.clone(),
        check: true,
    };
    Some(Decision::act(Step::Fetch(Box::new(step)), InPlace::Checks))
}

fn judge_check(
    observed: &Observed,
    (replace, wish): (&ReplaceMemory, &RestoreWish),
    seed: RestoreMemory,
    job: &FetchJob,
) -> Option<Decision> {
    let why = match said(job) {
        Said::Nothing => return None,
        Said::Done(fetched) => {
            let checked = brought(fetched);
            let id = checked.restored.backup.clone();
            let why = InPlace::Checked(id, checked.restored.revision);
            let replace = ReplaceMemory {
                seed: Some(RestoreMemory {
                    attempt: 0,
                    failed_at: None,
                    failure: None,
                    ..seed
                }),
                checked: Some(checked),
                skip_hash_check: Some(wish.skips_hash()).filter(|skips| *skips),
                failure: None,
                ..replace.clone()
            };
            return Some(record(observed, replace, why));
        }
        Said::Failed(why) => why,
    };
    let blocked = Blocked::Unread(why.clone());
    let replace = ReplaceMemory {
        seed: Some(after_failure(observed, &seed, why)),
        checked: None,
        failure: Some(blocked.to_string()),
        ..replace.clone()
    };
    Some(record(observed, replace, InPlace::Blocked(blocked)))
}

/// It was found whole. Members are stopped only for what can be used.
fn stop(
    observed: &Observed,
    replace: &ReplaceMemory,
    (seed, checked): (&RestoreMemory, &FetchedMemory),
) -> Option<Decision> {
    if let Some(why) = unusable(observed, checked) {
        return blocked(observed, replace, why);
    }
    let Some((member, claim_uid)) = choose(observed, checked) else {
        return blocked(observed, replace, Blocked::NoSeed);
    };
    let why = InPlace::Stops(member.clone());
    let (without_data, gone) = if replace.is_by_loss() {
        recover::lost_claims(observed)
    } else {
        (Vec::new(), Vec::new())
    };
    let replace = ReplaceMemory {
        stage: ReplaceStage::Fetching,
        without_data,
        gone,
        seed: Some(RestoreMemory {
            member,
            claim_uid,
            ..seed.clone()
        }),
        failure: None,
        ..replace.clone()
    };
    Some(record(observed, replace, why))
}

/// Told once, and looked at again whenever anything changes.
fn blocked(observed: &Observed, replace: &ReplaceMemory, why: Blocked) -> Option<Decision> {
    let told = Some(why.to_string());
    (replace.failure != told).then(|| {
        let replace = ReplaceMemory {
            failure: told,
            ..replace.clone()
        };
        record(observed, replace, InPlace::Blocked(why))
    })
}

/// Why etcd could not run on it, the operator not with it, or no volume holds it.
fn unusable(observed: &Observed, checked: &FetchedMemory) -> Option<Blocked> {
    let cluster = &observed.cluster;
    // Where the memory was wiped and no member serves, what was proven is not known until one does.
    let taken_over = match &cluster.latched.proven {
        Some(proven) => proven.template.is_empty(),
        None => observed.objects.predecessor,
    };
    let Some(intent) = cluster.intent.as_ref().ok().filter(|_| !taken_over) else {
        return Some(Blocked::NotReady);
    };
    let (wrote, asked) = (EtcdVersion::parse(&checked.etcd_version), intent.version);
    if let Some(wrote) = wrote.filter(|wrote| wrote.minor > asked.minor) {
        return Some(Blocked::Newer { wrote, asked });
    }
    // Users of the backup count from the first moment, and the operator is known by its certificate only.
    let is_known = intent.auth == Some(true) && observed.runs().client == Plane::Tls;
    if checked.auth == Some(true) && !is_known {
        return Some(Blocked::NeedsAuth(checked.restored.backup.clone()));
    }
    let needs = needed(checked);
    let mut claims = observed.claims.values();
    claims
        .all(|claim| claim.capacity.is_some_and(|capacity| capacity < needs))
        .then_some(Blocked::Room(needs))
}

/// A volume that is there: first of those on which a member runs, then by ordinal.
fn choose(observed: &Observed, checked: &FetchedMemory) -> Option<(String, String)> {
    let usable = usable(observed, Some(checked));
    let runs = |ordinal: &u32| {
        let pod = observed.pods.get(ordinal);
        pod.is_some_and(|pod| pod.serving().is_some())
    };
    let first = usable.iter().find(|(ordinal, _)| runs(ordinal));
    let (ordinal, uid) = first.or(usable.first())?;
    Some((observed.member_name(*ordinal), uid.clone()))
}

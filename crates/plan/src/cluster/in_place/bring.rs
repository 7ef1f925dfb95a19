//! No pod runs, and a Job brings the backup beside the data of one member. The data is what it was.

use api::v1alpha1::memory::{FetchedMemory, ReplaceMemory, ReplaceStage, RestoreMemory};
use api::v1alpha1::status::Survivor;
use archive::work::Fetched;

use super::job::{Said, gone, said, under_way, without_job};
use super::{
    Asked, TRIES, after_failure, asked, behind_a_fence, called_off, give_up, next_seed, record,
};
use crate::backup::JobState;
use crate::cluster::restore::{brought, rests};
use crate::decision::{Decision, Fetch, LATER, Step};
use crate::observed::{Latched, Observed, RestoreWish, format_id};
use crate::why::InPlace;

/// No pod runs. Where nothing was begun yet, it can be called off.
pub(super) fn bring(observed: &Observed, replace: &ReplaceMemory, cluster_id: u64) -> Decision {
    let wish = match asked(observed, replace, cluster_id) {
        Asked::There(request) => request.wish.as_deref(),
        Asked::Unheard => {
            return Decision::wait(InPlace::Unheard(replace.who()), LATER);
        }
        Asked::Gone => return without_job(observed, || called_off(observed, replace)),
    };
    let (Some(seed), Some(checked)) = (&replace.seed, &replace.checked) else {
        return without_job(observed, || called_off(observed, replace));
    };
    if seed.attempt >= TRIES {
        let why = seed.failure.clone().unwrap_or_default();
        return without_job(observed, || give_up(observed, replace, why));
    }
    if observed.seed(seed).is_none() {
        return without_job(observed, || another_seed(observed, replace, seed));
    }
    if !observed.pods.is_empty() {
        let why = InPlace::PodsStopping(observed.pods.len());
        return Decision::wait(why, LATER);
    }
    if let Some(fetched) = &seed.fetched {
        return without_job(observed, || {
            begin_with(observed, replace, (seed, fetched), cluster_id)
        });
    }
    let Some(job) = observed.restore.job.as_deref() else {
        return fetch(observed, replace, (seed, checked), wish);
    };
    let this = (&job.wish, &job.member, &job.claim_uid, job.attempt)
        == (&seed.wish, &seed.member, &seed.claim_uid, seed.attempt);
    if !this {
        return gone(job);
    }
    match said(job) {
        Said::Nothing => under_way(job),
        Said::Failed(why) if matches!(job.state, JobState::Stuck(_)) => {
            elsewhere(observed, replace, seed, why)
        }
        Said::Failed(why) => failed(observed, replace, seed, why),
        Said::Done(fetched) => there(observed, replace, (seed, checked), fetched),
    }
}

fn fetch(
    observed: &Observed,
    replace: &ReplaceMemory,
    (seed, checked): (&RestoreMemory, &FetchedMemory),
    wish: Result<&RestoreWish, &String>,
) -> Decision {
    if let Some(left) = rests(observed, seed) {
        let why = seed.failure.clone().unwrap_or_default();
        return Decision::wait(InPlace::Failed(why), left);
    }
    let wish = match wish {
        Ok(wish) => wish.clone().pinned(&checked.restored, &seed.wish),
        Err(why) => return failed(observed, replace, seed, why.clone()),
    };
    let ordinal = api::names::ordinal(&observed.cluster.name, &seed.member);
    let step = Fetch {
        ordinal: ordinal.unwrap_or(0),
        claim_uid: seed.claim_uid.clone(),
        attempt: seed.attempt,
        wish,
        check: false,
    };
    let why = InPlace::Fetches(seed.member.clone());
    Decision::act(Step::Fetch(Box::new(step)), why)
}

fn there(
    observed: &Observed,
    replace: &ReplaceMemory,
    (seed, checked): (&RestoreMemory, &FetchedMemory),
    fetched: &Fetched,
) -> Decision {
    let fetched = brought(fetched);
    if !is_of_what_was_read(checked, &fetched) {
        let why = "what was brought is not what was read before".to_owned();
        return failed(observed, replace, seed, why);
    }
    let restored = &fetched.restored;
    let why = InPlace::Fetched(restored.backup.clone(), restored.revision);
    let replace = ReplaceMemory {
        seed: Some(RestoreMemory {
            failed_at: None,
            failure: None,
            fetched: Some(fetched),
            ..seed.clone()
        }),
        ..replace.clone()
    };
    record(observed, replace, why)
}

/// The very backup, as of the very revision. A file as of an earlier one is made of the backup where it is brought to, and has a
/// hash of its own.
fn is_of_what_was_read(checked: &FetchedMemory, fetched: &FetchedMemory) -> bool {
    let of = |it: &FetchedMemory| {
        let base = it.base_trailer.as_ref().unwrap_or(&it.trailer);
        (base.clone(), it.restored.revision)
    };
    of(checked) == of(fetched)
}

/// It is brought once more, to another volume where that may be the cause.
fn failed(
    observed: &Observed,
    replace: &ReplaceMemory,
    seed: &RestoreMemory,
    why: String,
) -> Decision {
    let replace = ReplaceMemory {
        seed: Some(after_failure(observed, seed, why.clone())),
        ..replace.clone()
    };
    record(observed, replace, InPlace::Failed(why))
}

/// Its pod never started: the volume may be one that cannot be mounted, and the next is tried.
fn elsewhere(
    observed: &Observed,
    replace: &ReplaceMemory,
    seed: &RestoreMemory,
    why: String,
) -> Decision {
    let failed = after_failure(observed, seed, why.clone());
    let (member, claim_uid) =
        next_seed(observed, seed).unwrap_or_else(|| (seed.member.clone(), seed.claim_uid.clone()));
    let replace = ReplaceMemory {
        seed: Some(RestoreMemory {
            member,
            claim_uid,
            ..failed
        }),
        ..replace.clone()
    };
    record(observed, replace, InPlace::Failed(why))
}

fn another_seed(observed: &Observed, replace: &ReplaceMemory, seed: &RestoreMemory) -> Decision {
    let lost = seed.member.clone();
    let Some((member, claim_uid)) = next_seed(observed, seed) else {
        let why = format!("the volume of {lost} is gone, and there is no other");
        return give_up(observed, replace, why);
    };
    let replace = ReplaceMemory {
        seed: Some(RestoreMemory {
            member,
            claim_uid,
            fetched: None,
            ..seed.clone()
        }),
        ..replace.clone()
    };
    record(observed, replace, InPlace::AnotherSeed(lost))
}

/// Recorded before any pod comes back: all data up to now is held back, and this member begins without it.
fn begin_with(
    observed: &Observed,
    replace: &ReplaceMemory,
    (seed, fetched): (&RestoreMemory, &FetchedMemory),
    cluster_id: u64,
) -> Decision {
    let survivor = Survivor {
        member: seed.member.clone(),
        claim_uid: seed.claim_uid.clone(),
    };
    let id = fetched.restored.backup.clone();
    let why = InPlace::Bootstraps(seed.member.clone(), id);
    let replace = ReplaceMemory {
        stage: ReplaceStage::Bootstrapping,
        record: replace.record.saturating_add(1),
        ..replace.clone()
    };
    let latched = Latched {
        joins: Vec::new(),
        retiring: Vec::new(),
        compacted: None,
        replace: Some(Box::new(replace)),
        ..behind_a_fence(observed, Some(survivor), format_id(cluster_id))
    };
    Decision::act(Step::Latch(latched), why)
}

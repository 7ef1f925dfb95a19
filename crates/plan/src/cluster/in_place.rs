//! A backup that takes the place of the data of a cluster that has formed, because an EtcdRestore names that very cluster. It
//! is read once while the cluster serves. Then every pod goes, a Job brings it beside the data of one member, and that member
//! bootstraps another cluster with it, behind a fence that holds all older data back; the others join as after a recovery.
//! Until then the data is what it was, and every way back leads there.

mod bootstrap;
mod bring;
mod check;
mod job;

use api::v1alpha1::memory::{FetchedMemory, ReplaceMemory, ReplaceStage, RestoreMemory};
use api::v1alpha1::status::{RecoveryIntent, Survivor};
use gate::State;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::cluster::recover::{self, Loss};
use crate::decision::{Decision, Step};
use crate::observed::{Latched, Observed, Pod, ReplaceRequest, format_id};
use crate::why::InPlace;

/// So many attempts to bring it and to begin with it; then the cluster goes on as it was.
const TRIES: i32 = 3;
/// Bytes of a new log, beside the data.
const NEW_LOG: u64 = 64 << 20;

pub(super) fn decide(observed: &Observed) -> Option<Decision> {
    let latched = &observed.cluster.latched;
    let cluster_id = latched.cluster_id.filter(|_| !latched.ending)?;
    match latched.replace.as_deref() {
        None => begin(observed, None, cluster_id),
        Some(replace) => match replace.stage {
            ReplaceStage::Checking => check::check(observed, replace, cluster_id),
            ReplaceStage::Fetching => Some(bring::bring(observed, replace, cluster_id)),
            ReplaceStage::Bootstrapping => bootstrap::bootstrap(observed, replace),
            ReplaceStage::Ended => begin(observed, Some(replace), cluster_id),
        },
    }
}

/// The oldest that names this cluster, and was not carried out before. Where quorum is being recovered, another cluster is
/// about to take the place of the one that it names, unless there is nothing to recover.
fn begin(observed: &Observed, last: Option<&ReplaceMemory>, cluster_id: u64) -> Option<Decision> {
    if is_being_recovered(observed) {
        return None;
    }
    let ended = last.map_or(&[][..], |last| &last.ended);
    let request =
        named(observed, ended, cluster_id).or_else(|| by_itself(observed, ended, cluster_id))?;
    let replace = ReplaceMemory {
        by: request.uid.clone(),
        name: request.name.clone(),
        record: last.map_or(0, |last| last.record),
        ended: ended.to_vec(),
        ..ReplaceMemory::default()
    };
    let why = InPlace::Begins(replace.who());
    Some(record(observed, replace, why))
}

fn is_being_recovered(observed: &Observed) -> bool {
    observed.cluster.latched.recovery.is_some() && !recover::is_without_survivor(observed)
}

fn named<'a>(
    observed: &'a Observed,
    ended: &[String],
    cluster_id: u64,
) -> Option<&'a ReplaceRequest> {
    let mut requests = observed.restore.requests.iter();
    requests.find(|it| it.replaces == Some(cluster_id) && !ended.contains(&it.uid))
}

/// Without an EtcdRestore, where the spec says so and no member's data can come back.
fn by_itself<'a>(
    observed: &'a Observed,
    ended: &[String],
    cluster_id: u64,
) -> Option<&'a ReplaceRequest> {
    let request = offered(observed, cluster_id)?;
    let proved = recover::loss(observed) == Loss::Proved && recover::is_sustained(observed);
    let can = request.wish.is_ok() && proved && !ended.contains(&request.uid);
    can.then_some(request)
}

/// A backup of this very etcd cluster, where the spec leaves it to the operator.
fn offered(observed: &Observed, cluster_id: u64) -> Option<&ReplaceRequest> {
    let offer = observed.restore.offer.as_deref();
    let request = offer.map(|offer| &offer.request)?;
    let ours = request.replaces == Some(cluster_id);
    (ours && recover::is_left_to_the_operator(observed)).then_some(request)
}

/// What an EtcdRestore still says.
enum Asked<'a> {
    There(&'a ReplaceRequest),
    Gone,
    Unheard,
}

fn asked<'a>(observed: &'a Observed, replace: &ReplaceMemory, cluster_id: u64) -> Asked<'a> {
    if replace.is_by_loss() {
        return still_lost(observed, replace, cluster_id);
    }
    let mut requests = observed.restore.requests.iter();
    match requests.find(|it| it.uid == replace.by) {
        Some(request) if request.replaces == Some(cluster_id) => Asked::There(request),
        None if observed.restore.unheard => Asked::Unheard,
        Some(_) | None => Asked::Gone,
    }
}

/// What the spec and the proof say that stand for an EtcdRestore. A person's own comes before it, as long as nothing was touched.
fn still_lost<'a>(observed: &'a Observed, replace: &ReplaceMemory, cluster_id: u64) -> Asked<'a> {
    let reads = replace.stage == ReplaceStage::Checking;
    if reads && named(observed, &replace.ended, cluster_id).is_some() {
        return Asked::Gone;
    }
    let Some(request) = offered(observed, cluster_id) else {
        return Asked::Gone;
    };
    match recover::loss(observed) {
        Loss::Proved => Asked::There(request),
        Loss::Unknown => Asked::Unheard,
        Loss::No => Asked::Gone,
    }
}

fn called_off(observed: &Observed, replace: &ReplaceMemory) -> Decision {
    let why = InPlace::CalledOff(replace.who());
    ended(observed, replace, why)
}

fn give_up(observed: &Observed, replace: &ReplaceMemory, why: String) -> Decision {
    ended(observed, replace, InPlace::GivenUp(why))
}

/// The data is what it was. Where a member was to begin without it already, what it had is recovered as after a lost quorum,
/// from the longest log of all.
fn ended(observed: &Observed, replace: &ReplaceMemory, why: InPlace) -> Decision {
    let begun = replace.stage == ReplaceStage::Bootstrapping;
    let mut over = replace.ended.clone();
    over.push(replace.by.clone());
    let replace = ReplaceMemory {
        stage: ReplaceStage::Ended,
        record: replace.record.saturating_add(1),
        seed: None,
        checked: None,
        failure: Some(why.to_string()),
        ended: over,
        ..replace.clone()
    };
    let latched = if begun {
        behind_a_fence(observed, None, lost(observed))
    } else {
        observed.cluster.latched.clone()
    };
    let latched = Latched {
        replace: Some(Box::new(replace)),
        ..latched
    };
    Decision::act(Step::Latch(latched), why)
}

fn lost(observed: &Observed) -> String {
    let latched = &observed.cluster.latched;
    latched.cluster_id.map(format_id).unwrap_or_default()
}

fn behind_a_fence(observed: &Observed, survivor: Option<Survivor>, cluster_id: String) -> Latched {
    let latched = &observed.cluster.latched;
    let next = latched.incarnation.saturating_add(1);
    Latched {
        incarnation: next,
        fence: Some(next),
        recovery: Some(RecoveryIntent {
            cluster_id,
            survivor,
            excused: Vec::new(),
        }),
        ..latched.clone().undisturbed()
    }
}

fn after_failure(observed: &Observed, seed: &RestoreMemory, why: String) -> RestoreMemory {
    RestoreMemory {
        attempt: seed.attempt.saturating_add(1),
        failed_at: Some(Time(observed.now)),
        failure: Some(why),
        fetched: None,
        ..seed.clone()
    }
}

/// The next one, in the order of ordinals.
fn next_seed(observed: &Observed, seed: &RestoreMemory) -> Option<(String, String)> {
    let usable = usable(observed, None);
    let last = api::names::ordinal(&observed.cluster.name, &seed.member);
    let next = usable.iter().find(|(ordinal, _)| Some(*ordinal) > last);
    let (ordinal, uid) = next.or(usable.first())?;
    Some((observed.member_name(*ordinal), uid.clone()))
}

/// Volumes of members that can be mounted, as far as is known, and are large enough.
fn usable(observed: &Observed, checked: Option<&FetchedMemory>) -> Vec<(u32, String)> {
    let size = observed.cluster.intent.as_ref().map(|intent| intent.size);
    let size = size.ok().filter(|size| *size > 0).unwrap_or(u32::MAX);
    let needs = checked.map_or(0, needed);
    let claims = observed.claims.iter().filter(|(ordinal, claim)| {
        let stands = claim.ours && !claim.terminating && claim.lost.is_none();
        let room = claim.capacity.is_none_or(|capacity| capacity >= needs);
        let held = observed.pods.get(ordinal).and_then(Pod::held);
        let whole = held.is_none_or(|report| may_begin(report.state));
        **ordinal < size && stands && room && whole && observed.is_on_a_live_node(**ordinal)
    });
    claims
        .map(|(ordinal, claim)| (*ordinal, claim.uid.clone()))
        .collect()
}

/// A pod behind the fence shows data that makes way, or none.
fn may_begin(state: State) -> bool {
    matches!(state, State::Empty | State::Fenced)
}

/// Bytes of the snapshot, of the data that is made of it, and of its log.
fn needed(checked: &FetchedMemory) -> u64 {
    let bytes = u64::try_from(checked.restored.bytes).unwrap_or(0);
    bytes.saturating_mul(2).saturating_add(NEW_LOG)
}

fn record(observed: &Observed, replace: ReplaceMemory, why: InPlace) -> Decision {
    let replace = ReplaceMemory {
        record: replace.record.saturating_add(1),
        ..replace
    };
    let latched = Latched {
        replace: Some(Box::new(replace)),
        ..observed.cluster.latched.clone()
    };
    Decision::act(Step::Latch(latched), why)
}

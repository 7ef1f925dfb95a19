//! Every pod is behind the fence, and one member begins with what was brought to its volume.

use api::v1alpha1::memory::{ReplaceMemory, ReplaceStage, RestoreMemory};
use gate::{Action, Grant, Report};

use super::{TRIES, after_failure, behind_a_fence, give_up, lost, may_begin, next_seed};
use crate::cluster::answers::requeue_by_pod_age;
use crate::cluster::bootstrap::bump;
use crate::cluster::recover;
use crate::decision::{Decision, LATER, SOON, Step};
use crate::observed::{Latched, Observed, Pod, Process};
use crate::why::InPlace;

/// One member begins with what was brought. That another cluster serves is seen by the rule for that.
pub(super) fn bootstrap(observed: &Observed, replace: &ReplaceMemory) -> Option<Decision> {
    let stopped = |size: u32| size == 0;
    let intent = observed.cluster.intent.as_ref();
    if intent.is_ok_and(|intent| stopped(intent.size)) {
        return None;
    }
    let seed = replace.seed.as_ref()?;
    let member = seed.member.clone();
    let Some((ordinal, _)) = observed.seed(seed) else {
        // What still runs on a volume that goes proves nothing for long, and what it has goes with it.
        if observed.pods.values().any(runs) {
            return Some(Decision::wait(InPlace::Awaited(member), LATER));
        }
        let why = format!("the volume of {member} was lost");
        return Some(begin_again(observed, replace, seed, why));
    };
    if recover::has_successor(observed) {
        return None;
    }
    if let Some(fence) = recover::fence(observed) {
        return Some(fence);
    }
    let Some(pod) = observed.pods.get(&ordinal) else {
        let requeue = requeue_by_pod_age(observed, ordinal).min(LATER);
        return Some(Decision::wait(InPlace::Awaited(member), requeue));
    };
    let Some(report) = pod.held() else {
        let requeue = requeue_by_pod_age(observed, ordinal).min(LATER);
        return Some(Decision::wait(InPlace::Starts(member), requeue));
    };
    if pod.is_granted() {
        return Some(Decision::wait(InPlace::Starts(member), SOON));
    }
    if let Some(failed) = &report.failed {
        return Some(begin_again(observed, replace, seed, failed.why.clone()));
    }
    if !may_begin(report.state) {
        let why = format!("{member} does not begin on its volume: {}", report.detail);
        return Some(begin_again(observed, replace, seed, why));
    }
    Some(grant(observed, replace, (ordinal, pod), report))
}

fn runs(pod: &Pod) -> bool {
    matches!(
        pod.process,
        Process::Refusing(_) | Process::Starting | Process::Serving(_)
    )
}

fn grant(
    observed: &Observed,
    replace: &ReplaceMemory,
    (ordinal, pod): (u32, &Pod),
    report: &Report,
) -> Decision {
    let name = observed.member_name(ordinal);
    let seed = replace.seed.clone().unwrap_or_default();
    let trailer = seed.fetched.map(|fetched| fetched.trailer);
    let grant = Grant {
        nonce: report.nonce.clone(),
        cluster_uid: observed.cluster.uid.clone(),
        incarnation: observed.cluster.latched.incarnation,
        action: Action::Restore {
            token: observed.token(),
            initial_cluster: format!("{name}={}", observed.peer_url(ordinal)),
            directory: gate::restore_directory(&seed.wish),
            trailer: trailer.unwrap_or_default(),
            skip_hash_check: replace.skip_hash_check == Some(true),
            bump_revision: bump(observed),
        },
    };
    let step = Step::Grant {
        ordinal,
        pod_uid: pod.uid.clone(),
        grant,
    };
    Decision::act(step, InPlace::Grants(name))
}

/// Nothing serves yet, so that the data from before is all there is. What was begun can never join what comes next.
fn begin_again(
    observed: &Observed,
    replace: &ReplaceMemory,
    seed: &RestoreMemory,
    why: String,
) -> Decision {
    let failed = after_failure(observed, seed, why.clone());
    let next = next_seed(observed, seed).filter(|_| failed.attempt < TRIES);
    let Some((member, claim_uid)) = next else {
        return give_up(observed, replace, why);
    };
    let replace = ReplaceMemory {
        stage: ReplaceStage::Fetching,
        record: replace.record.saturating_add(1),
        seed: Some(RestoreMemory {
            member,
            claim_uid,
            ..failed
        }),
        ..replace.clone()
    };
    let latched = Latched {
        replace: Some(Box::new(replace)),
        ..behind_a_fence(observed, None, lost(observed))
    };
    Decision::act(Step::Latch(latched), InPlace::Failed(why))
}

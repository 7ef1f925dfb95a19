//! Size 0. The data is kept, or deleted where the owner's policy says so: that is recorded first, because a
//! cluster that lost some of its volumes must not be started again on the rest.

use api::Reason;
use api::v1alpha1::cluster::Retention;

use crate::decision::{Decision, LATER, SETTLED, Step};
use crate::observed::{Claim, Latched, Observed};

pub(super) fn decide(observed: &Observed) -> Option<Decision> {
    let intent = observed.cluster.intent.as_ref().ok()?;
    let latched = &observed.cluster.latched;
    if intent.size != 0 && !latched.ending {
        return None;
    }
    if !observed.pods.is_empty() {
        let why = format!("{} pods are still stopping", observed.pods.len());
        return Some(Decision::wait(Reason::Stopping, why, LATER));
    }
    let discards = intent.storage.when_stopped == Retention::Delete;
    let used = observed
        .claims
        .values()
        .any(|claim| observed.has_used(claim));
    if latched.ending || (discards && used) {
        return Some(end(observed));
    }
    Some(Decision {
        step: Step::Nothing,
        reason: Reason::Stopped,
        why: if discards && observed.claims.is_empty() {
            "spec.size is 0: no member runs, and the data was deleted by spec.storage.claimPolicy.whenStopped"
                .to_owned()
        } else {
            "spec.size is 0: no member runs, the data is retained".to_owned()
        },
        requeue: SETTLED,
        forbidden: None,
    })
}

fn end(observed: &Observed) -> Decision {
    let old = &observed.cluster.latched;
    if !old.ending {
        let latched = Latched {
            ending: true,
            ..old.clone()
        };
        let why = "stopped: the data will be deleted by spec.storage.claimPolicy.whenStopped";
        return Decision::act(Step::Latch(latched), Reason::Stopping, why);
    }
    let used = |claim: &Claim| observed.has_used(claim);
    let claims = observed.claims.iter();
    let claims = claims.filter(|(_, claim)| used(claim) && !claim.terminating);
    let deleted = claims.map(|(ordinal, claim)| {
        let step = Step::DeleteClaim {
            ordinal: *ordinal,
            uid: claim.uid.clone(),
        };
        let name = api::names::claim(&observed.cluster.name, *ordinal);
        let left = observed.claims.len();
        let why = format!(
            "deleting {name} by spec.storage.claimPolicy.whenStopped; {left} claims remain"
        );
        Decision::act(step, Reason::Stopping, why)
    });
    if let Some(next) = observed.first_awake(deleted) {
        return next;
    }
    if observed.claims.values().any(used) || observed.objects.client_service {
        let why = "the last claims and the client Service are being deleted";
        return Decision::wait(Reason::Stopping, why, LATER);
    }
    let latched = Latched {
        incarnation: old.incarnation.saturating_add(1),
        replicas: None,
        ..Latched::default()
    };
    let why = "the data is deleted; the next start bootstraps a new incarnation";
    Decision::act(Step::Latch(latched), Reason::Stopping, why)
}

//! Size 0. The data is kept, or deleted where the owner's policy says so: that is recorded first, because a
//! cluster that lost some of its volumes must not be started again on the rest.

use api::v1alpha1::cluster::Retention;

use crate::decision::{Decision, LATER, SETTLED, Step};
use crate::observed::{Claim, Latched, Observed};
use crate::why::Stop;

pub(super) fn decide(observed: &Observed) -> Option<Decision> {
    let intent = observed.cluster.intent.as_ref().ok()?;
    let latched = &observed.cluster.latched;
    if intent.size != 0 && !latched.ending {
        return None;
    }
    if !observed.pods.is_empty() {
        let why = Stop::PodsStopping(observed.pods.len());
        return Some(Decision::wait(why, LATER));
    }
    let discards = intent.storage.when_stopped == Retention::Delete;
    let used = observed
        .claims
        .values()
        .any(|claim| observed.has_used(claim));
    if latched.ending || (discards && used) {
        return Some(end(observed));
    }
    let why = if discards && observed.claims.is_empty() {
        Stop::Deleted
    } else {
        Stop::Retained
    };
    Some(Decision::rest(why, SETTLED))
}

fn end(observed: &Observed) -> Decision {
    let old = &observed.cluster.latched;
    if !old.ending {
        let latched = Latched {
            ending: true,
            ..old.clone()
        };
        return Decision::act(Step::Latch(latched), Stop::Ending);
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
        Decision::act(step, Stop::DeletingClaim(name, observed.claims.len()))
    });
    if let Some(next) = observed.first_awake(deleted) {
        return next;
    }
    if observed.claims.values().any(used) || observed.objects.client_service {
        return Decision::wait(Stop::Terminating, LATER);
    }
    let latched = Latched {
        incarnation: old.incarnation.saturating_add(1),
        replicas: None,
        ..Latched::default()
    };
    Decision::act(Step::Latch(latched), Stop::Ended)
}

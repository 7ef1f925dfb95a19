//! Larger volumes: the claims first, as far as their class can, then the StatefulSet around its running pods, then
//! etcd's quota, once every volume has grown. A claim that grows disturbs nothing and may be the cure for a full disk, so
//! that it waits for nothing; the rest waits until every member is well.

use crate::admit;
use crate::decision::{Decision, LATER, Step};
use crate::observed::{Claim, Latched, MemberList, Observed};
use crate::why::{Small, Volumes};

/// Where a decision would be to wait, or to leave it to a person, claims are asked to grow first: what is waited for may
/// be a member without room on its disk. Nothing else is held up if the API server refuses it.
pub(super) fn grow_meanwhile(observed: &Observed, decision: Decision) -> Decision {
    let waits = match &decision.step {
        Step::Wait => true,
        Step::Refuse => false,
        _acts => return decision,
    };
    match growth(observed) {
        Some(growth) if waits => {
            let why = Volumes::Meanwhile {
                growth: Box::new(growth.why),
                wait: Box::new(decision.why),
            };
            Decision::act(growth.step, why)
        }
        Some(growth) => growth,
        None => decision,
    }
}

/// The next claim that is smaller than is asked for and can grow, whether or not a member answers.
fn growth(observed: &Observed) -> Option<Decision> {
    let wanted = observed
        .cluster
        .target
        .as_ref()?
        .intent
        .storage
        .size
        .value()?;
    let replicas = observed.objects.replicas?;
    let small = observed
        .claims
        .range(..replicas)
        .filter(|(ordinal, claim)| {
            let small = claim.requested.is_some_and(|size| size < wanted);
            let stays = !claim.terminating && claim.lost.is_none() && observed.has_used(claim);
            let leaves = observed
                .leaving()
                .any(|leaving| leaving.ordinal == **ordinal);
            small && stays && !leaves && claim.expandable == Some(true)
        });
    let mut asked = small.map(|(ordinal, claim)| expand(observed, *ordinal, claim));
    asked.find(|decision| !observed.rests(&decision.step))
}

pub(super) fn grow(observed: &Observed, list: &MemberList) -> Option<Decision> {
    let target = observed.cluster.target.as_ref()?;
    let wanted = target.intent.storage.size.value()?;
    let small = claims_of(observed, list)
        .filter(|(_, claim)| claim.requested.is_some_and(|size| size < wanted));
    // One that cannot be expanded holds up no other.
    let small = small.map(|(ordinal, claim)| expand(observed, ordinal, claim));
    if let Some(next) = observed.first_awake(small) {
        return Some(next);
    }
    // The volumes of the members need no StatefulSet that says the same.
    let rest = [recreate(observed, wanted), follow(observed, list, wanted)];
    observed.first_awake(rest.into_iter().flatten())
}

/// The StatefulSet is recreated with larger claim templates.
fn recreate(observed: &Observed, wanted: u64) -> Option<Decision> {
    let of_template = observed.objects.claim_template;
    // A recreated StatefulSet is rendered, and of a release that cannot be reached nothing may be.
    let reachable = observed.cluster.target.as_ref()?.refused.is_none();
    let calm = !observed.is_any_leaving() && reachable;
    if of_template.is_none_or(|size| size >= wanted) || !calm {
        return None;
    }
    let uid = observed.objects.set_uid.clone()?;
    let step = Step::OrphanPods { uid };
    Some(Decision::act(step, Volumes::RecreatesSet))
}

/// The claims of members, by ordinal.
fn claims_of<'a>(
    observed: &'a Observed,
    list: &'a MemberList,
) -> impl Iterator<Item = (u32, &'a Claim)> {
    let members = list.members.iter();
    members.filter_map(|member| {
        let ordinal = observed.ordinal_of(member)?;
        Some((ordinal, observed.claims.get(&ordinal)?))
    })
}

/// The volumes follow their claims, and etcd's quota follows the volumes.
fn follow(observed: &Observed, list: &MemberList, wanted: u64) -> Option<Decision> {
    let claims = || claims_of(observed, list);
    let growing = claims().find(|(_, claim)| claim.capacity.is_some_and(|size| size < wanted));
    if let Some((ordinal, claim)) = growing {
        let small = |claim: &Claim| claim.capacity.is_some_and(|size| size < wanted);
        let (all, left) = (claims().count(), claims().filter(|(_, c)| small(c)).count());
        let why = Volumes::Growing {
            done: all.saturating_sub(left),
            all,
            wanted,
            claim: api::names::claim(&observed.cluster.name, ordinal),
            has: claim.capacity.unwrap_or_default(),
        };
        return Some(Decision::wait(why, LATER));
    }
    let reached = observed.cluster.latched.storage.unwrap_or(0);
    (reached < wanted).then(|| {
        let latched = Latched {
            storage: Some(wanted),
            ..observed.cluster.latched.clone()
        };
        Decision::act(Step::Latch(latched), Volumes::Grown(wanted))
    })
}

fn expand(observed: &Observed, ordinal: u32, claim: &Claim) -> Decision {
    let name = api::names::claim(&observed.cluster.name, ordinal);
    let size = observed
        .cluster
        .target
        .as_ref()
        .map(|target| target.intent.storage.size.to_string());
    let size = size.unwrap_or_default();
    let small = Small {
        claim: name.clone(),
        class: claim.class.clone(),
        size: size.clone(),
    };
    match admit::growth(small, claim.expandable) {
        Ok(()) => {
            let why = Volumes::Expanding(name, size.clone());
            let step = Step::ExpandClaim {
                ordinal,
                uid: claim.uid.clone(),
                size,
            };
            Decision::act(step, why)
        }
        Err(why) => Decision::refuse(why),
    }
}

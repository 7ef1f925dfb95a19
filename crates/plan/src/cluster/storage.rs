//! Larger volumes: the claims first, as far as their class can, then the StatefulSet around its running pods, then
//! etcd's quota, once every volume has grown. A claim that grows disturbs nothing and may be the cure for a full disk, so
//! that it waits for nothing; the rest waits until every member is well.

use api::Reason;

use crate::decision::{Decision, LATER, Step};
use crate::observed::{Claim, Latched, MemberList, Observed};

/// Where a decision would be to wait, or to leave it to a person, claims are asked to grow first: what is waited for may
/// be a member without room on its disk. Nothing else is held up if the API server refuses it.
pub(super) fn grow_meanwhile(observed: &Observed, decision: Decision) -> Decision {
    let reason = match &decision.step {
        Step::Wait => decision.reason,
        Step::Refuse => Reason::ExpandingVolumes,
        _acts => return decision,
    };
    growth(observed).map_or(decision, |growth| Decision { reason, ..growth })
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
    let why = "the StatefulSet is recreated with larger claim templates; its pods keep running";
    let step = Step::OrphanPods { uid };
    Some(Decision::act(step, Reason::ExpandingVolumes, why))
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
        let why = format!(
            "{} of {all} volumes have {}: waiting for {}, which has {}",
            all.saturating_sub(left),
            human(wanted),
            api::names::claim(&observed.cluster.name, ordinal),
            human(claim.capacity.unwrap_or_default())
        );
        return Some(Decision::wait(Reason::ExpandingVolumes, why, LATER));
    }
    let reached = observed.cluster.latched.storage.unwrap_or(0);
    (reached < wanted).then(|| {
        let latched = Latched {
            storage: Some(wanted),
            ..observed.cluster.latched.clone()
        };
        let why = format!("every volume has {}", human(wanted));
        Decision::act(Step::Latch(latched), Reason::ExpandingVolumes, why)
    })
}

/// A size as people write it.
fn human(bytes: u64) -> String {
    let whole = [(1_u64 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi")];
    let unit = whole
        .into_iter()
        .find(|(unit, _)| bytes.is_multiple_of(*unit) && bytes > 0);
    unit.map_or_else(
        || format!("{bytes} bytes"),
        |(unit, name)| format!("{}{name}", bytes / unit),
    )
}

fn expand(observed: &Observed, ordinal: u32, claim: &Claim) -> Decision {
    let name = api::names::claim(&observed.cluster.name, ordinal);
    let size = observed
        .cluster
        .target
        .as_ref()
        .map(|target| target.intent.storage.size.to_string());
    let size = size.unwrap_or_default();
    let class = claim.class.as_deref().unwrap_or("the default class");
    match claim.expandable {
        Some(true) => {
            let why = format!("expanding {name} to {size}");
            let step = Step::ExpandClaim {
                ordinal,
                uid: claim.uid.clone(),
                size,
            };
            Decision::act(step, Reason::ExpandingVolumes, why)
        }
        Some(false) => {
            let why = format!(
                "spec.storage.size is {size}, but {class}, the StorageClass of {name}, does not allow volume expansion: set allowVolumeExpansion: true there, or revert the change"
            );
            Decision::refuse(Reason::ChangeRefused, why)
        }
        None => {
            let why = format!(
                "spec.storage.size is {size}, but {class}, the StorageClass of {name}, does not exist, so it is not known whether it allows volume expansion: recreate it, or revert the change"
            );
            Decision::refuse(Reason::ChangeRefused, why)
        }
    }
}

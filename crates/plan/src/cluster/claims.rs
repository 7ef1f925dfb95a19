//! What becomes of the claims. Every claim of ours is wanted, leaving, kept or garbage; what no member uses any more goes,
//! and only where the owner's policy says so and a quorum says who is a member.

use api::v1alpha1::cluster::Retention;
use api::v1alpha1::status::RetireIntent;

use crate::cluster::answers::record_leaving;
use crate::decision::Decision;
use crate::observed::{Claim, MemberList, NO_MEMBER, Observed, parse_id, quorum};
use crate::why::Leave;

/// What becomes of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// A member uses it, or is to.
    Wanted,
    /// It is being deleted, or is about to be.
    Leaving,
    /// Nothing uses it, and it stays: by the owner's policy, or because it is not known whose it is.
    Kept,
    /// No member uses it, none is to, and the owner's policy is to delete what is not used.
    Garbage,
}

/// What becomes of a claim of this object; `None` for one that is not ours, and while the spec makes no sense.
pub fn fate(observed: &Observed, ordinal: u32, claim: &Claim) -> Option<Fate> {
    let intent = observed.cluster.intent.as_ref().ok()?;
    if !claim.ours {
        return None;
    }
    if claim.terminating || observed.cluster.latched.ending {
        return Some(Fate::Leaving);
    }
    let mut leaving = observed.leaving();
    let written = leaving.find(|leaving| leaving.claim.is_some_and(|of| of.uid == claim.uid));
    if let Some(leaving) = written {
        let goes = observed.goes(&leaving);
        return Some(if goes { Fate::Leaving } else { Fate::Kept });
    }
    if ordinal < intent.size || observed.member_of(ordinal).is_some() {
        return Some(Fate::Wanted);
    }
    let known = observed.own_list().is_some_and(|list| {
        // A member whose address names no pod of ours may be any of them.
        let ordinals = list.members.iter();
        ordinals
            .map(|member| observed.ordinal_of(member))
            .all(|n| n.is_some())
    });
    let deletes = intent.storage.when_scaled == Retention::Delete && intent.size > 0;
    Some(if known && deletes && is_of_this_cluster(observed, claim) {
        Fate::Garbage
    } else {
        Fate::Kept
    })
}

/// Nothing of another cluster can be on it: it says so itself, or there never was another one under this object.
fn is_of_this_cluster(observed: &Observed, claim: &Claim) -> bool {
    let latched = &observed.cluster.latched;
    // After a recovery a claim above the size may be of a member that could not be heard, whatever is written on it.
    if latched.fence.is_some() {
        return false;
    }
    let lineage = claim.lineage.as_ref();
    let written = lineage.and_then(|lineage| lineage.cluster_id.as_ref());
    let incarnation = lineage.map_or(1, |lineage| lineage.incarnation);
    match written.map(|id| parse_id(id)) {
        Some(id) => id == latched.cluster_id,
        None => incarnation == latched.incarnation && !latched.resumed,
    }
}

/// Garbage is recorded before it goes, like the claim of a member that leaves; and so is a claim that is kept and
/// may hold the data of a voter that was removed, so that the agent of a pod which gets it later knows.
pub(super) fn sweep(observed: &Observed, list: &MemberList) -> Option<Decision> {
    if observed.healthy_voters() < quorum(list.voters().count()) {
        return None;
    }
    if let Some(stuck) = release(observed) {
        return Some(stuck);
    }
    let intent = observed.cluster.intent.as_ref().ok()?;
    let keeps = intent.storage.when_scaled == Retention::Retain;
    observed.claims.iter().find_map(|(ordinal, claim)| {
        let member = observed.member_name(*ordinal);
        let mut known = observed.cluster.latched.voters.iter();
        let voted = known.find(|known| known.member == member);
        let (member_id, why) = match (fate(observed, *ordinal, claim)?, voted) {
            (Fate::Garbage, _) => (
                NO_MEMBER.to_owned(),
                Leave::Unused(api::names::claim(&observed.cluster.name, *ordinal)),
            ),
            // What is recorded goes by the policy, so that only what the policy keeps is.
            (Fate::Kept, Some(voted)) if keeps && !is_written(observed, claim) => {
                (voted.member_id.clone(), Leave::Retained(member.clone()))
            }
            _other => return None,
        };
        let intent = RetireIntent {
            member,
            member_id,
            claim_uid: claim.uid.clone(),
            replaced: None,
        };
        Some(record_leaving(observed, intent, why))
    })
}

/// A claim is being deleted and a pod without a member still holds it, though nothing is recorded of that: the status
/// was wiped, or a person deleted it. The pod is made to go as that of a member that was replaced.
fn release(observed: &Observed) -> Option<Decision> {
    observed.own_list()?;
    observed.claims.iter().find_map(|(ordinal, claim)| {
        let pod = observed.pods.get(ordinal)?;
        let unused = observed.member_of(*ordinal).is_none() && pod.serving().is_none();
        let stuck = claim.ours && claim.terminating && unused && !is_written(observed, claim);
        stuck.then(|| {
            let replaced = "its claim is being deleted".to_owned();
            let intent = RetireIntent {
                member: observed.member_name(*ordinal),
                member_id: NO_MEMBER.to_owned(),
                claim_uid: claim.uid.clone(),
                replaced: Some(replaced),
            };
            let claim = api::names::claim(&observed.cluster.name, *ordinal);
            record_leaving(observed, intent, Leave::ClaimInUse(claim))
        })
    })
}

fn is_written(observed: &Observed, claim: &Claim) -> bool {
    let mut written = observed.cluster.latched.retiring.iter();
    written.any(|intent| intent.claim_uid == claim.uid)
}

/// A claim was recorded to go and is wanted again, or is to be kept after all.
pub(super) fn is_spared(observed: &Observed, intent: &RetireIntent, ordinal: u32) -> bool {
    let spec = observed.cluster.intent.as_ref();
    let keeps = spec.is_ok_and(|spec| spec.storage.when_scaled == Retention::Retain);
    let wanted = spec.is_ok_and(|spec| ordinal < spec.size);
    intent.member_id == NO_MEMBER && intent.replaced.is_none() && (keeps || wanted)
}

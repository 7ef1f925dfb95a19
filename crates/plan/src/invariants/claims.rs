//! What must hold before a claim that no member uses is recorded to be deleted.

use api::v1alpha1::cluster::Retention;
use api::v1alpha1::status::RetireIntent;

use super::facts::has_quorum;
use super::{Violation, ensure};
use crate::observed::{Latched, Observed, parse_id};

/// A claim is recorded only if a confirmed member list has no member for it, above the size, by the owner's policy, and
/// if it can hold nothing of another cluster.
pub(super) fn check_written(observed: &Observed, new: &Latched) -> Result<(), Violation> {
    let old = &observed.cluster.latched.retiring;
    let mut added = new.retiring.iter().filter(|intent| !old.contains(intent));
    // One that cannot be used is exchanged for another, whatever its ordinal.
    added.try_for_each(|intent| match &intent.replaced {
        None if parse_id(&intent.member_id) == Some(0) => check_unused(observed, intent),
        _of_a_member => Ok(()),
    })
}

fn check_unused(observed: &Observed, intent: &RetireIntent) -> Result<(), Violation> {
    let latched = &observed.cluster.latched;
    let list = observed.etcd.members.as_ref().ok_or(Violation::Unknown)?;
    ensure(
        latched.cluster_id == Some(list.cluster_id),
        Violation::Unknown,
    )?;
    let ordinal = api::names::ordinal(&observed.cluster.name, &intent.member);
    let ordinal = ordinal.ok_or(Violation::Unknown)?;
    for member in &list.members {
        let of = observed.ordinal_of(member).ok_or(Violation::Unknown)?;
        ensure(of != ordinal, Violation::DataBeforeMember)?;
    }
    let claim = observed.claims.get(&ordinal).ok_or(Violation::Unknown)?;
    ensure(claim.uid == intent.claim_uid, Violation::Unknown)?;
    let spec = observed.cluster.intent.as_ref();
    let spec = spec.map_err(|_invalid| Violation::NotAskedFor)?;
    let deletes = spec.storage.when_scaled == Retention::Delete;
    ensure(
        deletes && spec.size > 0 && ordinal >= spec.size,
        Violation::NotAskedFor,
    )?;
    let lineage = claim.lineage.clone().unwrap_or_else(|| api::Lineage {
        incarnation: 1,
        ..api::Lineage::default()
    });
    let known = lineage.cluster_id.as_deref().and_then(parse_id);
    // Before a cluster has formed nothing is on a claim, unless it was there before the object.
    let unused = known.is_none() && !latched.resumed;
    let this = known == latched.cluster_id || unused;
    ensure(
        this && lineage.incarnation <= latched.incarnation,
        Violation::LastCopy,
    )?;
    ensure(
        known.is_some() || lineage.incarnation == latched.incarnation,
        Violation::LastCopy,
    )?;
    // After a recovery it may be of a voter that was not heard.
    ensure(latched.fence.is_none(), Violation::LastCopy)?;
    let healthy = has_quorum(observed, list);
    ensure(claim.ours && healthy, Violation::LastCopy)
}

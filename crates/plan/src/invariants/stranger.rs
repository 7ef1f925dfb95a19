//! Invariant 7: what another pod said at the address of the one that was asked is not known of that one.

use gate::Report;

use super::{Violation, ensure};
use crate::observed::{Latched, Observed, Pod, parse_id};

/// The report of the very pod that was asked.
pub(super) fn own_report(pod: &Pod) -> Result<&Report, Violation> {
    let report = pod.held().ok_or(Violation::Unknown)?;
    ensure(report.pod_uid == pod.uid, Violation::Unknown)?;
    Ok(report)
}

/// What is recorded for the first time was said by a pod of this cluster.
pub(super) fn check_latch(observed: &Observed, new: &Latched) -> Result<(), Violation> {
    let old = &observed.cluster.latched;
    let nonce_of = |nonce: &str| {
        let mut pods = observed.pods.values();
        pods.any(|pod| own_report(pod).is_ok_and(|report| report.nonce == nonce))
    };
    let begins = new
        .bootstrap
        .as_ref()
        .filter(|_| old.bootstrap != new.bootstrap);
    ensure(
        begins.is_none_or(|intent| nonce_of(&intent.nonce)),
        Violation::Unknown,
    )?;
    let mut joins = new.joins.iter().filter(|join| !old.joins.contains(join));
    ensure(joins.all(|join| nonce_of(&join.nonce)), Violation::Unknown)?;
    match new.cluster_id {
        Some(id) if old.cluster_id.is_none() => ensure(is_said(observed, id), Violation::Unknown),
        _as_before => Ok(()),
    }
}

/// A pod holds data of this cluster, or a member that the list has under the peer URL of a pod of ours.
fn is_said(observed: &Observed, id: u64) -> bool {
    let held = |pod: &Pod| {
        let data = own_report(pod).ok().and_then(|report| report.data.as_ref());
        data.is_some_and(|data| parse_id(&data.cluster_id) == Some(id))
    };
    let list = observed.etcd.members.as_ref();
    let list = list.filter(|list| list.cluster_id == id);
    let mut listed = list.iter().flat_map(|list| &list.members);
    observed.pods.values().any(held)
        || listed.any(|member| {
            let ordinal = observed.ordinal_of(member);
            ordinal.is_some_and(|ordinal| observed.pods.contains_key(&ordinal))
        })
}

//! Data that an earlier object of this name kept: looked at on every volume before anything is
//! decided, then taken over as a whole. Never a reason to start over beside it.

use api::Reason;
use gate::{Action, Grant, State};

use crate::cluster::patience;
use crate::decision::{Decision, Step};
use crate::observed::{Observed, Pod, format_id, parse_id};

pub(super) fn decide(observed: &Observed) -> Option<Decision> {
    if observed.cluster.latched.cluster_id.is_some() {
        return grant(observed);
    }
    // Once somebody may found a cluster, or one serves, there is nothing left to take over.
    let begun = observed.cluster.latched.bootstrap.is_some()
        || observed.pods.values().any(|pod| pod.serving().is_some());
    let kept = kept_ordinals(observed);
    if begun || kept.is_empty() {
        return None;
    }
    silent(observed, &kept).or_else(|| latch(observed, &kept))
}

/// Ordinals whose volume was there before this object, or turned out to hold something.
fn kept_ordinals(observed: &Observed) -> Vec<u32> {
    let kept = observed.claims.iter().filter(|(ordinal, claim)| {
        let held = observed.pods.get(ordinal).and_then(Pod::held);
        !claim.ours || held.is_some_and(|report| report.state != State::Empty)
    });
    kept.map(|(ordinal, _)| *ordinal).collect()
}

/// Every kept volume must have been looked at before anything is decided.
fn silent(observed: &Observed, kept: &[u32]) -> Option<Decision> {
    let held = |ordinal: &&u32| observed.pods.get(ordinal).and_then(Pod::held).is_none();
    let ordinal = *kept.iter().find(held)?;
    let why = format!(
        "waiting for {} to show what its volume holds, which was there before this object",
        observed.member_name(ordinal)
    );
    Some(Decision::wait(
        Reason::Resuming,
        why,
        patience(observed, ordinal),
    ))
}

fn latch(observed: &Observed, kept: &[u32]) -> Option<Decision> {
    let reports = || {
        kept.iter()
            .filter_map(|ordinal| observed.pods.get(ordinal)?.held())
    };
    let mut clusters: Vec<u64> = reports()
        .filter(|report| matches!(report.state, State::OtherObject | State::Unidentified))
        .filter_map(|report| parse_id(&report.data.as_ref()?.cluster_id))
        .collect();
    clusters.sort_unstable();
    clusters.dedup();
    match clusters.as_slice() {
        [cluster_id] => {
            let mut latched = observed.cluster.latched.clone();
            latched.cluster_id = Some(*cluster_id);
            latched.resumed = true;
            let why = format!("taking over the data of cluster {cluster_id:x}, which was kept");
            Some(Decision::act(Step::Latch(latched), Reason::Resuming, why))
        }
        [] if reports().all(|report| report.state == State::Empty) => None,
        [] => {
            let details: Vec<&str> = reports().map(|report| report.detail.as_str()).collect();
            let why = format!(
                "the volumes were there before this object and none can be used ({}): delete the claims to start over, or give the cluster another name",
                details.join("; ")
            );
            Some(Decision::refuse(Reason::VolumeHeld, why))
        }
        several => {
            let ids: Vec<String> = several.iter().map(|id| format_id(*id)).collect();
            let why = format!(
                "the volumes hold data of several clusters ({}): delete the claims that do not belong here",
                ids.join(", ")
            );
            Some(Decision::refuse(Reason::VolumeHeld, why))
        }
    }
}

/// Every member of the cluster that was taken over may start, in any order: their data is theirs. So may one whose
/// data is found to be that of the member which a quorum lists for it, should the status have been lost meanwhile.
fn grant(observed: &Observed) -> Option<Decision> {
    let latched = &observed.cluster.latched;
    // While quorum is recovered nothing of the old cluster may run: it would go on beside what is founded on its data.
    let cluster_id = latched.cluster_id.filter(|_| latched.recovery.is_none())?;
    observed.pods.iter().find_map(|(ordinal, pod)| {
        let report = pod
            .held()
            .filter(|_| !pod.is_granted() && !pod.terminating)?;
        let data = report.data.as_ref()?;
        let id = parse_id(&data.member_id)?;
        // A member that was removed never returns, and nobody runs twice.
        let may = match &observed.etcd.members {
            Some(_) => {
                let listed = observed.member_of(*ordinal).map(|member| member.id);
                listed == Some(id) && observed.serving_as(id).is_none()
            }
            None => observed.cluster.latched.resumed && !observed.is_led(),
        };
        let fits = matches!(report.state, State::OtherObject | State::Unidentified)
            && parse_id(&data.cluster_id) == Some(cluster_id)
            && may;
        fits.then(|| {
            let grant = Grant {
                nonce: report.nonce.clone(),
                cluster_uid: observed.cluster.uid.clone(),
                incarnation: observed.cluster.latched.incarnation,
                action: Action::Resume {
                    member_id: data.member_id.clone(),
                    cluster_id: data.cluster_id.clone(),
                },
            };
            let why = format!(
                "{} resumes on the data it kept",
                observed.member_name(*ordinal)
            );
            let step = Step::Grant {
                ordinal: *ordinal,
                pod_uid: pod.uid.clone(),
                grant,
            };
            Decision::act(step, Reason::Resuming, why)
        })
    })
}

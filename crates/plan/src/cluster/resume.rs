//! Data that an earlier object of this name kept: looked at on every volume before anything is
//! decided, then taken over as a whole. Never a reason to start over beside it.

use std::collections::BTreeSet;

use api::Transport;
use gate::{Action, Grant, Report, State};

use crate::cluster::answers::requeue_by_pod_age;
use crate::cluster::recover::is_gone_for_good;
use crate::decision::{Decision, Step};
use crate::observed::{Latched, Observed, Pod, parse_id};
use crate::why::{Found, Resume};

pub(super) fn decide(observed: &Observed) -> Option<Decision> {
    if observed.cluster.latched.cluster_id.is_some() {
        return grant(observed);
    }
    // Once a member may bootstrap a cluster, or one serves, there is nothing left to take over.
    let begun = observed.cluster.latched.bootstrap.is_some()
        || observed.pods.values().any(|pod| pod.serving().is_some());
    let kept = kept_ordinals(observed);
    // Every volume was seen to be empty before the pods were stopped for a backup.
    if begun || kept.is_empty() || observed.is_fetching() {
        return None;
    }
    silent(observed, &kept).or_else(|| match clusters(observed, &kept).as_slice() {
        [] => fenced(observed, &kept),
        [cluster_id] => {
            let first = unreadable(observed, &kept).or_else(|| settle_transport(observed, &kept));
            Some(first.unwrap_or_else(|| latch(observed, *cluster_id)))
        }
        _several => Some(refuse_several(observed, &kept)),
    })
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
    let why = Resume::Unreported(observed.member_name(ordinal));
    Some(Decision::wait(why, requeue_by_pod_age(observed, ordinal)))
}

/// The clusters whose data can be taken over as it is.
fn clusters(observed: &Observed, kept: &[u32]) -> Vec<u64> {
    let found = reports(observed, kept)
        .filter(|(_, report)| matches!(report.state, State::OtherObject | State::Unidentified));
    distinct(found)
}

fn reports<'a>(
    observed: &'a Observed,
    ordinals: &'a [u32],
) -> impl Iterator<Item = (u32, &'a Report)> {
    let held = ordinals.iter();
    held.filter_map(|ordinal| Some((*ordinal, observed.pods.get(ordinal)?.held()?)))
}

fn distinct<'a>(found: impl Iterator<Item = (u32, &'a Report)>) -> Vec<u64> {
    let ids = found.filter_map(|(_, report)| parse_id(&report.data.as_ref()?.cluster_id));
    let ids: BTreeSet<u64> = ids.collect();
    ids.into_iter().collect()
}

/// What was last written on the claims counts: a member that left keeps the claim of the time when it did. Claims that tell
/// nothing were made by hand; then the volume whose data is the latest tells it.
fn transport_of(observed: &Observed, kept: &[u32]) -> Transport {
    let claims = kept
        .iter()
        .filter_map(|ordinal| observed.claims.get(ordinal));
    let written = claims.filter_map(|claim| claim.lineage.as_ref());
    let written = written.filter(|it| it.cluster_id.is_some() || it.bootstrap.is_some());
    if let Some(latest) = written.max_by_key(|lineage| lineage.rank()) {
        return latest.transport;
    }
    let reports = reports(observed, kept).filter_map(|(_, report)| report.data.as_ref());
    let identities = reports.filter_map(|data| {
        let transport = data.identity.as_ref()?.transport.as_deref();
        let transport = transport.and_then(Transport::parse);
        Some(((data.term, data.index), transport.unwrap_or_default()))
    });
    identities.max().map(|(_, it)| it).unwrap_or_default()
}

/// Members find each other again only as they were listed, so the data starts on the schemes that it was stopped with,
/// whatever the new object says. What an earlier release or operator left was plaintext.
fn settle_transport(observed: &Observed, kept: &[u32]) -> Option<Decision> {
    let was = transport_of(observed, kept);
    (was != observed.transport()).then(|| {
        let latched = Latched {
            transport: Some(was),
            ..observed.cluster.latched.clone()
        };
        Decision::act(Step::Latch(latched), Resume::LastRunOn(was))
    })
}

/// Nothing of etcd runs in a pod that waits, so that the version can still be set.
fn unreadable(observed: &Observed, kept: &[u32]) -> Option<Decision> {
    let why = observed.why_unreadable(kept)?;
    Some(Decision::refuse(Resume::Unreadable(why)))
}

fn latch(observed: &Observed, cluster_id: u64) -> Decision {
    let mut latched = observed.cluster.latched.clone();
    latched.cluster_id = Some(cluster_id);
    latched.transport = Some(observed.transport());
    latched.resumed = true;
    latched.restore = None;
    Decision::act(Step::Latch(latched), Resume::Cluster(cluster_id))
}

/// What is on the volumes.
fn found(observed: &Observed, kept: &[u32]) -> Vec<Found> {
    let found = reports(observed, kept).map(|(ordinal, report)| Found {
        claim: api::names::claim(&observed.cluster.name, ordinal),
        report: report.clone(),
    });
    found.collect()
}

/// Data that a fence holds back, and nothing of what was made of it: quorum was being recovered when the status was
/// lost. Which cluster that was is known by the volumes, once every one of them has been looked at; from there on the
/// rules for lost quorum go on. Nothing begins beside data, and no message says to delete it.
fn fenced(observed: &Observed, kept: &[u32]) -> Option<Decision> {
    if reports(observed, kept).all(|(_, report)| report.state == State::Empty) {
        return None;
    }
    let held_back = reports(observed, kept).filter(|(_, report)| report.state == State::Fenced);
    if let [lost] = distinct(held_back).as_slice() {
        return Some(go_on_recovering(observed, *lost));
    }
    let why = Resume::NotStartable(found(observed, kept));
    Some(Decision::refuse(why))
}

/// No volume that is held back is used while another may have gone on already.
fn go_on_recovering(observed: &Observed, lost: u64) -> Decision {
    let replicas = observed.objects.replicas.unwrap_or(0);
    let unheard = (0..replicas).find(|ordinal| {
        let pod = observed.pods.get(ordinal);
        let heard = pod.is_some_and(|pod| pod.held().is_some() && !pod.is_granted());
        !heard && !is_gone_for_good(observed, *ordinal)
    });

    if let Some(ordinal) = unheard {
        let name = observed.member_name(ordinal);
        let why = Resume::WasRecoveringUnreported(lost, name);
        return Decision::wait(why, requeue_by_pod_age(observed, ordinal));
    }
    let mut latched = observed.cluster.latched.clone();
    latched.cluster_id = Some(lost);
    latched.transport = Some(observed.transport());
    latched.restore = None;
    Decision::act(Step::Latch(latched), Resume::WasRecovering(lost))
}

fn refuse_several(observed: &Observed, kept: &[u32]) -> Decision {
    Decision::refuse(Resume::SeveralClusters(found(observed, kept)))
}

/// Every member of the cluster that was taken over may start, in any order: their data is theirs. So may one whose
/// data is found to be that of the member which a quorum lists for it, should the status have been lost meanwhile.
fn grant(observed: &Observed) -> Option<Decision> {
    let latched = &observed.cluster.latched;
    // While quorum is recovered nothing of the old cluster may run: it would go on beside the cluster that is
    // bootstrapped from its data.
    let cluster_id = latched.cluster_id.filter(|_| latched.recovery.is_none())?;
    let mut grants = observed.pods.iter().filter_map(|(ordinal, pod)| {
        let report = pod
            .held()
            .filter(|_| !pod.is_granted() && !pod.terminating)?;
        let data = report.data.as_ref()?;
        let id = parse_id(&data.member_id)?;
        // A member that was removed never returns, and no member runs twice.
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
            let why = Resume::Member(observed.member_name(*ordinal));
            let step = Step::Grant {
                ordinal: *ordinal,
                pod_uid: pod.uid.clone(),
                grant,
            };
            Decision::act(step, why)
        })
    });
    // One that cannot be written holds up neither the others nor any rule below.
    grants.find(|decision| !observed.rests(&decision.step))
}

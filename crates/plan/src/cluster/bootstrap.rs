//! The first member. Which member may bootstrap the cluster is recorded before the grant is written, and the cluster ID
//! before any client can connect. So a cluster is bootstrapped at most once per incarnation, and a bootstrap that was
//! lost in between has lost no data.

use api::v1alpha1::status::BootstrapIntent;
use gate::{Action, Grant, Report, State};

use crate::cluster::answers::requeue_by_pod_age;
use crate::cluster::join::joins;
use crate::decision::BUMP;
use crate::decision::{Decision, LATER, SOON, Step};
use crate::observed::{Latched, Observed, Pod, Process, Proven, skips_hash};
use crate::why::Bootstrap;

pub(super) fn decide(observed: &Observed) -> Option<Decision> {
    let latched = &observed.cluster.latched;
    if latched.cluster_id.is_some() {
        return None;
    }
    let decision = formed(observed)
        .or_else(|| forgotten(observed))
        .or_else(|| match &latched.bootstrap {
            None => choose(observed),
            Some(intent) => pursue(observed, intent),
        });
    Some(decision.unwrap_or_else(|| wait_for_pods(observed)))
}

/// A member serves. The gate let it through because its data is this object's, so this is the
/// cluster. Members whose pods wait already may join: one write less later. A pod or a volume that is about to go
/// proves nothing for long: a cluster that is latched is never begun again.
fn formed(observed: &Observed) -> Option<Decision> {
    let list = observed.etcd.members.as_ref()?;
    let stays = |ordinal: &u32, pod: &Pod| {
        !pod.terminating
            && observed
                .claims
                .get(ordinal)
                .is_some_and(|claim| !claim.terminating)
    };
    let mut staying = observed
        .pods
        .iter()
        .filter(|(ordinal, pod)| stays(ordinal, pod));
    // Its member is listed under the peer URL of this very pod: another cluster's would not be.
    let (pod, serving) = staying.find_map(|(ordinal, pod)| {
        let serving = pod.serving()?;
        let listed = observed.member_of(*ordinal)?;
        (listed.id == serving.member_id).then_some((pod, serving))
    })?;
    let target = observed.cluster.target.as_ref()?;
    (serving.cluster_id == list.cluster_id).then(|| {
        let version = serving.version.unwrap_or(target.intent.version);
        let mut others = observed.pods.values();
        let sizes = observed.claims.values().filter_map(|claim| claim.requested);
        let latched = Latched {
            cluster_id: Some(list.cluster_id),
            transport: Some(pod.transport),
            transport_before: observed.other_transport(pod.transport),
            joins: joins(observed),
            proven: Some(Proven {
                template: pod.template.clone(),
                version,
                // A status may have been wiped in the middle of a rollout.
                everywhere: others.all(|other| other.template == pod.template),
                before: None,
            }),
            storage: sizes.min().or(target.intent.storage.size.value()),
            log_line: observed
                .cluster
                .latched
                .bootstrap
                .as_ref()
                .map(|_| version.minor),
            ..observed.cluster.latched.clone()
        };
        let why = Bootstrap::Formed(list.cluster_id);
        Decision::act(Step::Latch(latched), why)
    })
}

/// The status was wiped. Clients were let in once, so there is data somewhere; or etcd runs though no grant is
/// recorded: its data is ours. A pod that waits on an empty volume does not bootstrap beside it.
fn forgotten(observed: &Observed) -> Option<Decision> {
    let runs = observed.cluster.latched.bootstrap.is_none()
        && observed
            .pods
            .values()
            .any(|pod| matches!(pod.process, Process::Starting | Process::Serving(_)));
    (observed.objects.client_service || runs).then(|| Decision::wait(Bootstrap::Forgotten, LATER))
}

/// No member may bootstrap the cluster yet: the first pod that waits on an empty volume may.
fn choose(observed: &Observed) -> Option<Decision> {
    let intent = candidate(observed)?;
    let why = Bootstrap::Chosen(intent.member.clone());
    let latched = Latched {
        bootstrap: Some(intent),
        // The claims tell it from here on, should the object be deleted before the cluster has formed.
        transport: Some(observed.transport()),
        ..observed.cluster.latched.clone()
    };
    Some(Decision::act(Step::Latch(latched), why))
}

fn candidate(observed: &Observed) -> Option<BootstrapIntent> {
    observed.pods.iter().find_map(|(ordinal, pod)| {
        let report = observed
            .needs_new_member(*ordinal)
            .filter(|_| !pod.terminating && observed.can_be_found(pod))
            .filter(|_| begins_with(observed, *ordinal))?;
        let claim = observed
            .claims
            .get(ordinal)
            .filter(|claim| !claim.terminating)?;
        Some(BootstrapIntent {
            member: observed.member_name(*ordinal),
            pod_uid: pod.uid.clone(),
            claim_uid: claim.uid.clone(),
            nonce: report.nonce.clone(),
        })
    })
}

/// Where a backup was brought, the member bootstraps on whose volume it lies.
fn begins_with(observed: &Observed, ordinal: u32) -> bool {
    match observed.bringing() {
        Some(restore) => observed
            .seed(restore)
            .is_some_and(|(seed, _)| seed == ordinal),
        None => !observed.begins_with_backup(),
    }
}

fn pursue(observed: &Observed, intent: &BootstrapIntent) -> Option<Decision> {
    let (ordinal, pod) = observed
        .pods
        .iter()
        .find(|(ordinal, _)| observed.member_name(**ordinal) == intent.member)?;
    let Some(report) = observed.needs_new_member(*ordinal) else {
        let why = Bootstrap::Starts(intent.member.clone());
        return Some(Decision::wait(why, requeue_by_pod_age(observed, *ordinal)));
    };
    if report.nonce != intent.nonce || pod.uid != intent.pod_uid {
        return start_over(observed, intent);
    }
    if pod.is_granted() {
        let why = Bootstrap::Granted(intent.member.clone());
        return Some(Decision::wait(why, SOON));
    }
    let claim = observed.claims.get(ordinal).map(|claim| &claim.uid);
    if claim != Some(&intent.claim_uid) {
        let why = Bootstrap::ClaimReplaced(intent.member.clone());
        return Some(Decision::wait(why, SOON));
    }
    let step = Step::Grant {
        ordinal: *ordinal,
        pod_uid: pod.uid.clone(),
        grant: bootstrap_grant(observed, *ordinal, report),
    };
    let why = Bootstrap::Grants(intent.member.clone());
    Some(Decision::act(step, why))
}

/// The chosen one waits again, on an empty volume: whatever it began is lost. No client was let in, so
/// the cluster begins again, under another token: what was lost can never join it.
fn start_over(observed: &Observed, intent: &BootstrapIntent) -> Option<Decision> {
    let latched = Latched {
        incarnation: observed.cluster.latched.incarnation.saturating_add(1),
        bootstrap: Some(candidate(observed)?),
        transport: Some(observed.transport()),
        ..observed.cluster.latched.clone()
    };
    let why = Bootstrap::StartsOver(intent.member.clone());
    Some(Decision::act(Step::Latch(latched), why))
}

fn bootstrap_grant(observed: &Observed, ordinal: u32, report: &Report) -> Grant {
    let token = observed.token();
    let name = observed.member_name(ordinal);
    let initial_cluster = format!("{name}={}", observed.peer_url(ordinal));
    let brought = observed.bringing();
    let action = match brought.and_then(|it| Some((it, it.fetched.as_ref()?))) {
        Some((restore, fetched)) => Action::Restore {
            token,
            initial_cluster,
            directory: gate::restore_directory(&restore.wish),
            trailer: fetched.trailer.clone(),
            skip_hash_check: skips_hash_check(observed),
            bump_revision: bump(observed),
        },
        None => Action::Bootstrap {
            token,
            initial_cluster,
            discard: report.state == State::Damaged,
        },
    };
    Grant {
        nonce: report.nonce.clone(),
        cluster_uid: observed.cluster.uid.clone(),
        incarnation: observed.cluster.latched.incarnation,
        action,
    }
}

/// Clients that watched the cluster that was backed up notice that history was cut. The tools of older releases cannot.
pub(super) fn bump(observed: &Observed) -> u64 {
    let target = observed.cluster.target.as_ref();
    let version = target.map(|target| target.intent.version);
    let can = version.is_none_or(|version| version.minor > 5 || version.patch >= 10);
    if can { BUMP } else { 0 }
}

fn skips_hash_check(observed: &Observed) -> bool {
    let intent = observed.cluster.intent.as_ref().ok();
    let restore = intent.and_then(|intent| intent.restore.as_ref());
    restore.is_some_and(|restore| skips_hash(restore))
}

fn wait_for_pods(observed: &Observed) -> Decision {
    let soonest = observed
        .pods
        .keys()
        .map(|ordinal| requeue_by_pod_age(observed, *ordinal))
        .min();
    let problem = observed.pods.iter().find_map(|(ordinal, pod)| {
        let problem = pod.problem.as_ref()?;
        let name = observed.member_name(*ordinal);
        Some(Bootstrap::PodFails(name, problem.clone()))
    });
    let why = problem.unwrap_or(Bootstrap::NoPod);
    Decision::wait(why, soonest.unwrap_or(crate::decision::SETTLED))
}

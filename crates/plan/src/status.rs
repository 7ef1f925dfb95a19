//! The status: a pure function of what was seen, decided and done. Written on every path, and only
//! when it says something new.

pub mod accounts;
mod certificates;
mod members;
mod memory;
mod refusals;
mod verdicts;
mod voters;

use api::conditions::{ConditionType, Verdict};
use api::v1alpha1::former::FormerMemory;
use api::v1alpha1::restore::Restored;
use api::v1alpha1::status::{AuthStatus, EtcdClusterStatus, Phase};
use api::{Reason, conditions, labels, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

pub(crate) use refusals::refusals;

use crate::decision::{Decision, Step};
use crate::observed::{Answer, Attempt, Latched, Observed, UpkeepTask, format_id};
use crate::shape::decide_shape;

/// How long a cluster may be dark before that is a failure, in seconds.
const ELECTION: i64 = 5;

/// How a step went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done, or there was nothing to do.
    Done,
    /// Not yet: the API server or etcd asked to retry later.
    NotNow(String),
    /// It failed; what happened, on which object.
    Failed(String),
    /// Objects were written, each with its own answer.
    Applied(Vec<Attempt>),
}

/// The status, if it speaks of this very object: one that was restored with another is no memory of it.
pub fn of_object<'a>(status: &'a EtcdClusterStatus, uid: &str) -> Option<&'a EtcdClusterStatus> {
    let other = if let Some(memory) = &status.memory {
        memory.object_uid != uid
    } else {
        let of = status.former.object_uid.as_ref();
        of.is_some_and(|of| of != uid)
    };
    (!other).then_some(status)
}

/// The memory in a status.
pub fn latched(status: &EtcdClusterStatus) -> Latched {
    Latched {
        replicas: status.replicas.and_then(|count| u32::try_from(count).ok()),
        ..memory::read(&status.remembered())
    }
}

/// Since when a status says that no quorum serves.
pub fn unavailable_since(status: &EtcdClusterStatus) -> Option<jiff::Timestamp> {
    status.unavailable_since.as_ref().map(|since| since.0)
}

/// The first look of those in a row that found no quorum. Not the condition's own time: that one starts over when the
/// answer goes from unknown to no.
fn decide_unavailable_since(
    verdicts: &[Verdict],
    old: &EtcdClusterStatus,
    now: &Time,
) -> Option<Time> {
    let available = verdicts
        .iter()
        .find(|verdict| verdict.kind == ConditionType::Available)?;
    let expected = matches!(available.reason, Reason::Stopped | Reason::NotFormed);
    // Under an alarm there is a quorum all the same, and nothing of what this is for: no member is missed.
    let alarmed = matches!(available.reason, Reason::NoSpace | Reason::DataInconsistent);
    let serves = available.status == Some(true) || alarmed;
    (!serves && !expected).then(|| old.unavailable_since.clone().unwrap_or_else(|| now.clone()))
}

/// Kept where the EtcdBackup that made it was deleted.
fn newest_backup(observed: &Observed, old: &EtcdClusterStatus) -> Option<Time> {
    let backups = &observed.backups;
    let old = old.last_backup_time.clone();
    let old = old.filter(|time| !backups.damaged.contains(&time.0));
    backups.newest.map(Time).max(old)
}

/// Once the cluster has formed. Where the memory was wiped, what was told before stands.
fn restored(observed: &Observed, decision: &Decision, old: &EtcdClusterStatus) -> Option<Restored> {
    let latched = match &decision.step {
        Step::Latch(next) => next,
        _other => &observed.cluster.latched,
    };
    latched.cluster_id?;
    let fetched = latched.restore.as_ref().and_then(|it| it.fetched.as_ref());
    let restored = fetched.map(|fetched| fetched.restored.clone());
    restored.or_else(|| old.restored.clone())
}

/// Puts the memory of the object with this UID into its status, in the place of what the release before wrote, and leaves
/// the rest of it alone.
pub fn with_latched(old: &EtcdClusterStatus, uid: &str, latched: &Latched) -> EtcdClusterStatus {
    EtcdClusterStatus {
        cluster_id: latched.cluster_id.map(format_id),
        memory: Some(memory::write(latched, uid)),
        former: FormerMemory::default(),
        ..old.clone()
    }
}

/// The new status, or `None` when the old one still says it all.
pub fn decide_status(
    observed: &Observed,
    decision: &Decision,
    outcome: &Outcome,
    old: &EtcdClusterStatus,
) -> Option<EtcdClusterStatus> {
    if observed.is_no_news(&decision.step, outcome) {
        return None;
    }
    let cluster = &observed.cluster;
    let now = Time(observed.now);
    let beside = beside_notes(observed, decision, outcome);
    let told = beside.as_ref().unwrap_or(decision);
    let verdicts = verdicts::decide(observed, told, outcome);
    let mut new = EtcdClusterStatus {
        phase: Some(decide_phase(observed, told, old)),
        unavailable_since: decide_unavailable_since(&verdicts, old, &now),
        conditions: conditions::merge(&old.conditions, verdicts, cluster.generation, &now),
        members: members::decide(observed),
        ready_replicas: Some(i32::try_from(observed.healthy_voters()).unwrap_or(i32::MAX)),
        replicas: replicas(observed),
        selector: Some(labels::selector_text(&cluster.name)),
        leader_id: observed.leader().map(format_id),
        client_endpoints: client_endpoints(observed),
        certificates: certificates::decide(observed),
        auth: auth(observed, old),
        last_backup_time: newest_backup(observed, old),
        restored: restored(observed, decision, old),
        version: members::lowest_version(observed).or_else(|| old.version.clone()),
        observed_generation: Some(cluster.generation),
        ..with_latched(old, &cluster.uid, &done(observed, decision, outcome))
    };
    if new == *old {
        return None;
    }
    new.last_update_time = Some(now);
    Some(new)
}

/// Where every member serves, as far as there is a cluster.
fn client_endpoints(observed: &Observed) -> Vec<String> {
    let cluster = &observed.cluster;
    let formed = cluster.latched.cluster_id.is_some();
    let schemes = observed.client_schemes().into_iter().filter(|_| formed);
    let endpoint = |scheme| names::client_endpoint(scheme, &cluster.name, &cluster.namespace);
    schemes.map(endpoint).collect()
}

/// `None` where authentication is left as it is. While no member tells, it is what it was.
fn auth(observed: &Observed, old: &EtcdClusterStatus) -> Option<AuthStatus> {
    observed.auth_asked()?;
    let accounts = observed.etcd.auth.accounts.as_ref();
    let seen = accounts.map(|accounts| {
        let unmanaged = observed.unmanaged();
        AuthStatus {
            enabled: accounts.enabled,
            unmanaged_users: unmanaged.users.into_iter().collect(),
            unmanaged_roles: unmanaged.roles.into_iter().collect(),
        }
    });
    seen.or_else(|| old.auth.clone())
}

/// What is remembered of a step that went well. Losing it costs one more of the same, which does no harm.
fn done(observed: &Observed, decision: &Decision, outcome: &Outcome) -> Latched {
    let mut latched = observed.cluster.latched.clone();
    latched.voters = voters::remember(observed);
    latched.learners = voters::remember_learners(observed);
    match observed.upkeep_done().map(|upkeep| upkeep.task) {
        Some(UpkeepTask::Compact { revision }) => latched.compacted = Some(revision),
        Some(UpkeepTask::Defragment { ordinal }) => {
            let name = observed.member_name(ordinal);
            if latched.defragmenting() == Some(&name) {
                latched = latched.undisturbed();
            }
        }
        None => {}
    }
    match &decision.step {
        Step::Compact { revision } if *outcome == Outcome::Done => {
            latched.compacted = Some(*revision);
        }
        Step::Defragment { .. } if *outcome == Outcome::Done => latched = latched.undisturbed(),
        _other => {}
    }
    latched
}

/// A cluster that has settled stays Ready while only notes are written.
fn beside_notes(observed: &Observed, decision: &Decision, outcome: &Outcome) -> Option<Decision> {
    let written = |attempt: &Attempt| attempt.answer == Answer::Written;
    let noted = match (&decision.step, outcome) {
        (Step::ApplyObjects(_), Outcome::Applied(all)) => all.iter().all(written),
        _other => false,
    };
    if !noted || !observed.only_notes() {
        return None;
    }
    let mut rest = observed.clone();
    rest.objects.drifted.clear();
    Some(crate::decide(&rest)).filter(|rest| rest.step == Step::Nothing)
}

fn replicas(observed: &Observed) -> Option<i32> {
    let shape = decide_shape(observed).map(|shape| shape.replicas);
    let live = observed
        .objects
        .replicas
        .or(shape)
        .or(observed.cluster.latched.replicas)?;
    i32::try_from(live).ok()
}

/// One word. `Failed` is never final: the next look starts from the facts again.
fn decide_phase(observed: &Observed, decision: &Decision, status: &EtcdClusterStatus) -> Phase {
    if observed.cluster.deleting {
        return Phase::Deleting;
    }
    let old = status.phase;
    let beginning = !matches!(
        old,
        Some(
            Phase::Running | Phase::Scaling | Phase::Upgrading | Phase::Recovering | Phase::Failed
        )
    ) || observed.cluster.latched.cluster_id.is_none();
    match (&decision.step, decision.reason()) {
        (Step::Nothing, Reason::Stopped) => Phase::Stopped,
        (Step::Nothing, Reason::AsExpected) | (Step::Refuse, Reason::ChangeRefused) => {
            Phase::Running
        }
        (_, Reason::Stopping) => Phase::Scaling,
        (Step::Refuse, _) => Phase::Failed,
        (_, Reason::Restoring | Reason::RestoreBlocked) => Phase::Restoring,
        (_, Reason::Paused | Reason::Adopting) => old.unwrap_or(Phase::Creating),
        (_, Reason::EtcdUnreachable | Reason::QuorumLost) if !beginning => {
            dark(observed, status).unwrap_or(Phase::Failed)
        }
        (_, Reason::RolloutHalted) if !beginning && observed.etcd.members.is_none() => {
            dark(observed, status).unwrap_or(Phase::Failed)
        }
        _on_its_way if beginning => Phase::Creating,
        (
            _,
            Reason::MemberUnhealthy
            | Reason::MemberStalled
            | Reason::ExpandingVolumes
            | Reason::NoSpace
            | Reason::IssuingCertificates
            | Reason::ConfiguringAuth
            | Reason::Defragmenting,
        ) if old != Some(Phase::Recovering) => Phase::Running,
        (_, Reason::DataInconsistent) if old != Some(Phase::Recovering) => Phase::Failed,
        (_, Reason::RollingOut | Reason::RolloutHalted | Reason::Downgrading) => Phase::Upgrading,
        // Data that is taken over on the way onto the gate.
        (_, Reason::Resuming) if observed.cluster.latched.trial().is_some() => Phase::Upgrading,
        (Step::ApplyObjects(_), _) => old.unwrap_or(Phase::Creating),
        // Everything that could be done is done.
        (Step::Wait, Reason::WriteRefused | Reason::ForeignObject) => old
            .filter(|old| *old != Phase::Failed && !is_complete(observed))
            .unwrap_or(Phase::Running),
        (_, Reason::ReplacingMember | Reason::Recovering) | (Step::RemoveMember { .. }, _) => {
            Phase::Recovering
        }
        // Until the member that takes its place votes.
        _on_its_way if old == Some(Phase::Recovering) => Phase::Recovering,
        _on_its_way => Phase::Scaling,
    }
}

/// As many healthy voters as are asked for.
fn is_complete(observed: &Observed) -> bool {
    let size = observed.cluster.intent.as_ref().map(|intent| intent.size);
    let voters = u32::try_from(observed.healthy_voters()).unwrap_or(u32::MAX);
    size.is_ok_and(|size| size == voters)
}

/// An election takes a second or two and is no failure: until a cluster has been dark for longer, it is what it was.
fn dark(observed: &Observed, status: &EtcdClusterStatus) -> Option<Phase> {
    let since = unavailable_since(status).unwrap_or(observed.now);
    let still = observed.now.duration_since(since).as_secs() < ELECTION;
    status.phase.filter(|_| still)
}

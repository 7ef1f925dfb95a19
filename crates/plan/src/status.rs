//! The status: a pure function of what was seen, decided and done. Written on every path, and only
//! when it says something new.

mod members;
mod refusals;
mod verdicts;
mod voters;

use api::conditions::{ConditionType, Verdict};
use api::v1alpha1::status::{EtcdClusterStatus, Phase, ProvenTemplate};
use api::{EtcdVersion, Reason, conditions, labels, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

pub(crate) use refusals::refusals;

use crate::decision::{Decision, Step};
use crate::observed::{Attempt, Latched, Observed, Proven, UpkeepTask, format_id, parse_id};
use crate::shape::decide_shape;

/// How long a cluster may be dark before that is a failure, in seconds.
const ELECTION: i64 = 5;

/// How a step went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done, or there was nothing to do.
    Done,
    /// Not yet: whoever was asked said to come again.
    NotNow(String),
    /// It failed; what happened, on which object.
    Failed(String),
    /// Objects were written, each with its own answer.
    Applied(Vec<Attempt>),
}

/// The status, if it speaks of this very object: one that was restored with another is no memory of it.
pub fn of_object<'a>(status: &'a EtcdClusterStatus, uid: &str) -> Option<&'a EtcdClusterStatus> {
    let other = status.object_uid.as_ref().is_some_and(|of| of != uid);
    (!other).then_some(status)
}

/// The memory in a status.
pub fn latched(status: &EtcdClusterStatus) -> Latched {
    Latched {
        incarnation: status
            .incarnation
            .and_then(|life| u64::try_from(life).ok())
            .unwrap_or(1)
            .max(1),
        bootstrap: status.bootstrap.clone(),
        joins: status.joins.clone(),
        retiring: status.retiring.clone(),
        voters: status.voters.clone(),
        learners: voters::read_learners(&status.learners),
        cluster_id: status.cluster_id.as_deref().and_then(parse_id),
        resumed: status.resumed.unwrap_or(false),
        replicas: status.replicas.and_then(|count| u32::try_from(count).ok()),
        proven: status.proven.as_ref().and_then(|proven| {
            Some(Proven {
                template: proven.template.clone(),
                version: EtcdVersion::parse(&proven.version)?,
                everywhere: proven.everywhere,
                before: proven.before.as_deref().and_then(EtcdVersion::parse),
            })
        }),
        trial: status.trial.clone(),
        log_line: status.log_line.and_then(|line| u8::try_from(line).ok()),
        renewing: status.renewing_logs.unwrap_or(false),
        storage: status
            .storage_bytes
            .and_then(|bytes| u64::try_from(bytes).ok()),
        ending: status.ending.unwrap_or(false),
        fence: status.fence.and_then(|fence| u64::try_from(fence).ok()),
        recovery: status.recovery.clone(),
        compacted: status
            .compacted_revision
            .and_then(|revision| u64::try_from(revision).ok()),
        defragmenting: status.defragmenting.clone(),
        hung: status.hung.clone(),
    }
}

/// Since when a status says that no quorum serves.
pub fn dark_since(status: &EtcdClusterStatus) -> Option<jiff::Timestamp> {
    status.unavailable_since.as_ref().map(|since| since.0)
}

/// The first look of those in a row that found no quorum. Not the condition's own time: that one starts over when the
/// answer goes from unknown to no.
fn unavailable_since(verdicts: &[Verdict], old: &EtcdClusterStatus, now: &Time) -> Option<Time> {
    let available = verdicts
        .iter()
        .find(|verdict| verdict.kind == ConditionType::Available)?;
    let expected = matches!(available.reason, Reason::Stopped | Reason::NotFormed);
    // Under an alarm there is a quorum all the same, and nothing of what this is for: no member is missed.
    let alarmed = matches!(available.reason, Reason::NoSpace | Reason::DataDiffers);
    let serves = available.status == Some(true) || alarmed;
    (!serves && !expected).then(|| old.unavailable_since.clone().unwrap_or_else(|| now.clone()))
}

/// Puts a memory into a status, and leaves the rest of it alone.
pub fn with_latched(old: &EtcdClusterStatus, latched: &Latched) -> EtcdClusterStatus {
    EtcdClusterStatus {
        incarnation: i64::try_from(latched.incarnation).ok(),
        bootstrap: latched.bootstrap.clone(),
        joins: latched.joins.clone(),
        retiring: latched.retiring.clone(),
        voters: latched.voters.clone(),
        learners: voters::write_learners(&latched.learners),
        cluster_id: latched.cluster_id.map(format_id),
        resumed: latched.resumed.then_some(true),
        proven: latched.proven.as_ref().map(|proven| ProvenTemplate {
            template: proven.template.clone(),
            version: proven.version.to_string(),
            everywhere: proven.everywhere,
            before: proven.before.map(|before| before.to_string()),
        }),
        trial: latched.trial.clone(),
        log_line: latched.log_line.map(i32::from),
        renewing_logs: latched.renewing.then_some(true),
        storage_bytes: latched.storage.and_then(|bytes| i64::try_from(bytes).ok()),
        ending: latched.ending.then_some(true),
        fence: latched.fence.and_then(|fence| i64::try_from(fence).ok()),
        recovery: latched.recovery.clone(),
        compacted_revision: latched
            .compacted
            .and_then(|revision| i64::try_from(revision).ok()),
        defragmenting: latched.defragmenting.clone(),
        hung: latched.hung.clone(),
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
    let cluster = &observed.cluster;
    let now = Time(observed.now);
    let verdicts = verdicts::decide(observed, decision, outcome);
    let formed = cluster.latched.cluster_id.is_some();
    let mut new = EtcdClusterStatus {
        phase: Some(decide_phase(observed, decision, old)),
        unavailable_since: unavailable_since(&verdicts, old, &now),
        conditions: conditions::merge(&old.conditions, verdicts, cluster.generation, &now),
        members: members::decide(observed),
        ready_replicas: Some(i32::try_from(observed.healthy_voters()).unwrap_or(i32::MAX)),
        replicas: replicas(observed),
        selector: Some(labels::selector_text(&cluster.name)),
        leader_id: observed.leader().map(format_id),
        client_endpoints: formed
            .then(|| names::client_endpoint(&cluster.name, &cluster.namespace))
            .into_iter()
            .collect(),
        version: members::lowest_version(observed).or_else(|| old.version.clone()),
        observed_generation: Some(cluster.generation),
        object_uid: Some(cluster.uid.clone()),
        ..with_latched(old, &done(observed, decision, outcome))
    };
    if new == *old {
        return None;
    }
    new.last_update_time = Some(now);
    Some(new)
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
            latched.defragmenting = latched.defragmenting.filter(|member| *member != name);
        }
        None => {}
    }
    match &decision.step {
        Step::Compact { revision } if *outcome == Outcome::Done => {
            latched.compacted = Some(*revision);
        }
        Step::Defragment { .. } if *outcome == Outcome::Done => latched.defragmenting = None,
        _other => {}
    }
    latched
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
    match (&decision.step, decision.reason) {
        (Step::Nothing, Reason::Stopped) => Phase::Stopped,
        (Step::Nothing, Reason::AsExpected) | (Step::Refuse, Reason::Refused) => Phase::Running,
        (_, Reason::Stopping) => Phase::Scaling,
        (Step::Refuse, _) => Phase::Failed,
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
            | Reason::MemberHangs
            | Reason::Expanding
            | Reason::NoSpace
            | Reason::Defragmenting,
        ) if old != Some(Phase::Recovering) => Phase::Running,
        (_, Reason::DataDiffers) if old != Some(Phase::Recovering) => Phase::Failed,
        (_, Reason::RollingOut | Reason::RolloutHalted | Reason::Downgrading) => Phase::Upgrading,
        // Data that is taken over on the way onto the gate.
        (_, Reason::Resuming) if observed.cluster.latched.trial.is_some() => Phase::Upgrading,
        (Step::ApplyObjects(_), _) => old.unwrap_or(Phase::Creating),
        // Everything that could be done is done.
        (Step::Wait, Reason::WriteRefused | Reason::ForeignObject) => old
            .filter(|old| *old != Phase::Failed && !is_complete(observed))
            .unwrap_or(Phase::Running),
        (_, Reason::ReplacingMember | Reason::Recovering) | (Step::RemoveMember { .. }, _) => {
            Phase::Recovering
        }
        // Until whoever takes its place votes.
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
    let since = dark_since(status).unwrap_or(observed.now);
    let still = observed.now.duration_since(since).as_secs() < ELECTION;
    status.phase.filter(|_| still)
}

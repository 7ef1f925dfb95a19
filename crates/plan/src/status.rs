//! The status: a pure function of what was seen, decided and done. Written on every path, and only
//! when it says something new.

mod members;
mod verdicts;

use api::v1alpha1::status::{EtcdClusterStatus, Phase};
use api::{Reason, conditions, labels, names};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::decision::{Decision, Step};
use crate::observed::{Latched, Observed, format_id, parse_id};
use crate::shape::decide_shape;

/// How a step went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Done, or there was nothing to do.
    Done,
    /// Not yet: whoever was asked said to come again.
    NotNow(String),
    /// It failed; what happened, on which object.
    Failed(String),
    /// These objects carry our names but belong to somebody else, and were left alone.
    Foreign(String),
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
        cluster_id: status.cluster_id.as_deref().and_then(parse_id),
        resumed: status.resumed.unwrap_or(false),
        replicas: status.replicas.and_then(|count| u32::try_from(count).ok()),
    }
}

/// Puts a memory into a status, and leaves the rest of it alone.
pub fn with_latched(old: &EtcdClusterStatus, latched: &Latched) -> EtcdClusterStatus {
    EtcdClusterStatus {
        incarnation: i64::try_from(latched.incarnation).ok(),
        bootstrap: latched.bootstrap.clone(),
        joins: latched.joins.clone(),
        retiring: latched.retiring.clone(),
        cluster_id: latched.cluster_id.map(format_id),
        resumed: latched.resumed.then_some(true),
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
        phase: Some(decide_phase(observed, decision, old.phase)),
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
        ..with_latched(old, &cluster.latched)
    };
    if new == *old {
        return None;
    }
    new.last_update_time = Some(now);
    Some(new)
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
fn decide_phase(observed: &Observed, decision: &Decision, old: Option<Phase>) -> Phase {
    if observed.cluster.deleting {
        return Phase::Deleting;
    }
    let beginning = !matches!(
        old,
        Some(Phase::Running | Phase::Scaling | Phase::Upgrading | Phase::Failed)
    ) || observed.cluster.latched.cluster_id.is_none();
    match (&decision.step, decision.reason) {
        (Step::Nothing, Reason::Stopped) => Phase::Stopped,
        (Step::Nothing, _) | (Step::Refuse, Reason::Refused) => Phase::Running,
        (_, Reason::Stopping) => Phase::Scaling,
        (Step::Refuse, _) => Phase::Failed,
        (_, Reason::EtcdUnreachable | Reason::QuorumLost) if !beginning => Phase::Failed,
        _on_its_way if beginning => Phase::Creating,
        (_, Reason::MemberUnhealthy) => Phase::Running,
        (Step::ApplyObjects(_), _) => old.unwrap_or(Phase::Creating),
        _on_its_way => Phase::Scaling,
    }
}

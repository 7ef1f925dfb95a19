//! Report: the status, only when it says something new; events, only when something happened.

use api::EtcdCluster;
use api::v1alpha1::status::EtcdClusterStatus;
use kube::api::{Patch, PatchParams, PostParams};
use kube::core::error_boundary::InvalidObject;
use kube::runtime::controller::Action;
use kube::runtime::events::{Event, EventType};
use kube::{Api, Resource, ResourceExt};
use plan::status::{self, Outcome};
use plan::{Decision, Observed, Step, events};
use serde_json::json;

use crate::caches::Guarded;
use crate::cluster::{Error, place};
use crate::context::Context;

/// Longest action that the API server takes.
const MAX_ACTION: usize = 128;

/// Writes the status and tells what happened.
pub async fn report(
    cluster: &EtcdCluster,
    observed: &Observed,
    decision: &Decision,
    outcome: &Outcome,
    ctx: &Context,
) -> Result<(), Error> {
    let old = cluster.status.clone().unwrap_or_default();
    let new = match &decision.step {
        // A latch writes the status itself; the next look reports on it.
        Step::Latch(_) => None,
        _other => status::decide_status(observed, decision, outcome, &old),
    };
    let phase = new.as_ref().map_or(old.phase, |new| new.phase);
    let written = match new {
        Some(new) => write(cluster, new, ctx).await,
        None => Ok(()),
    };
    // What was done is told even if somebody else wrote the object in between, for no later look tells it;
    // a new phase is told once it is written.
    let phase = if written.is_ok() { phase } else { old.phase };
    for event in events::decide_events(observed, decision, outcome, (old.phase, phase)) {
        publish(cluster, &event, ctx).await;
    }
    written.map_err(Error::Status)
}

/// Replaces the status of exactly the object that was seen: the resourceVersion goes along.
pub async fn write(
    cluster: &EtcdCluster,
    status: EtcdClusterStatus,
    ctx: &Context,
) -> kube::Result<()> {
    let (namespace, name) = place(cluster);
    let mut new = cluster.clone();
    new.status = Some(status);
    let api: Api<EtcdCluster> = Api::namespaced(ctx.client.clone(), &namespace);
    api.replace_status(&name, &PostParams::default(), &new)
        .await
        .map(drop)
}

/// Events are best effort.
pub(crate) async fn publish(cluster: &EtcdCluster, event: &events::Event, ctx: &Context) {
    let published = Event {
        type_: if event.warning {
            EventType::Warning
        } else {
            EventType::Normal
        },
        reason: event.reason.to_string(),
        note: Some(event.message.clone()),
        // The recorder folds events that differ in the note only into one, which keeps the first
        // note: the second member that is added would never be told of. So the action differs, too.
        action: event.message.chars().take(MAX_ACTION).collect(),
        secondary: None,
    };
    if let Err(error) = ctx
        .recorder
        .publish(&published, &cluster.object_ref(&()))
        .await
    {
        tracing::debug!(name = %cluster.name_any(), %error, "an event was lost");
    }
}

/// An object that cannot be read gets a condition that says so; nothing of it is touched.
pub async fn malformed(ctx: &Context, invalid: &InvalidObject) -> Action {
    let meta = &invalid.metadata;
    let (namespace, name) = (
        meta.namespace.clone().unwrap_or_default(),
        meta.name.clone().unwrap_or_default(),
    );
    tracing::warn!(namespace, name, error = %invalid.error, "this object cannot be read and is left alone");
    let message = format!("the object cannot be read: {}", invalid.error);
    let now = crate::clock::now().to_string();
    let condition = |kind: &str, status: &str| {
        json!({"type": kind, "status": status, "reason": "InvalidSpec", "message": message,
               "lastTransitionTime": now, "observedGeneration": meta.generation})
    };
    let conditions = [condition("Degraded", "True"), condition("Ready", "False")];
    let body = json!({"status": {"phase": "Failed", "conditions": conditions}});
    let api: Api<Guarded> = Api::namespaced(ctx.client.clone(), &namespace);
    let patched = api
        .patch_status(&name, &PatchParams::default(), &Patch::Merge(&body))
        .await;
    if let Err(error) = patched {
        tracing::debug!(namespace, name, %error, "its status cannot be written either");
    }
    // A change of the object wakes us.
    Action::await_change()
}

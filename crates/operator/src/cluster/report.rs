//! Report: the status, only when it says something new; events, only when something happened.

mod accounts;

use std::time::{Duration, Instant};

use api::EtcdCluster;
use api::v1alpha1::status::EtcdClusterStatus;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::core::error_boundary::InvalidObject;
use kube::runtime::controller::Action;
use kube::runtime::events::{Event, EventType};
use kube::{Api, Resource, ResourceExt};
use plan::status::{self, Outcome};
use plan::{Decision, Observed, Step, events};
use serde_json::{Value, json};

use crate::backoff::Pace;
use crate::cluster::{Error, place};
use crate::context::Context;

/// The most bytes that the API server takes in the action of an event.
const MAX_ACTION: usize = 128;
/// And in its note.
const MAX_NOTE: usize = 1024;
/// A status that is refused because the cache is outdated: it usually is for milliseconds.
const STALE: Pace = Pace {
    free: 3,
    first: Duration::from_millis(250),
    longest: Duration::from_secs(10),
};

/// Writes the status and the events.
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
        Some(new) => {
            let written = write_unless_stale(cluster, new.clone(), ctx).await;
            if written.is_ok() {
                ctx.metrics.changed(&old, &new, observed.now);
            }
            written
        }
        None => Ok(()),
    };
    // What was done is reported even if the object was written in between, for no later look reports it; a new phase is
    // reported once it is written.
    let phase = if written.is_ok() { phase } else { old.phase };
    accounts::report(cluster, observed, (decision, outcome), ctx).await;
    for event in events::decide_events(observed, decision, outcome, (old.phase, phase)) {
        publish(cluster, &event, ctx).await;
    }
    written.map_err(Error::Status)
}

/// Where the cache still shows an object that was refused as outdated, the same write would be refused again. The watch
/// wakes us as soon as there is another one.
async fn write_unless_stale(
    cluster: &EtcdCluster,
    status: EtcdClusterStatus,
    ctx: &Context,
) -> kube::Result<()> {
    let uid = cluster.uid().unwrap_or_default();
    let what = ("status", cluster.resource_version());
    if let Some((_, outcome)) = ctx.attempts.held(&uid, &what, Instant::now()) {
        tracing::debug!(?outcome, "the status is not written: the cache is outdated");
        return Ok(());
    }
    let written = write(cluster, status, ctx).await;
    if let Err(kube::Error::Api(refused)) = &written
        && refused.code == 409
    {
        let outcome = Outcome::NotNow(refused.message.clone());
        let stale = (outcome, STALE);
        ctx.attempts.note(&uid, &what, stale, Instant::now());
    }
    written
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
    let written = api
        .replace_status(&name, &PostParams::default(), &new)
        .await?;
    if written.status.is_some_and(|status| status.memory.is_none()) {
        tracing::error!(
            namespace,
            name,
            "the API server drops status.memory: the installed CRD is older than the operator; apply the one of this release"
        );
    }
    Ok(())
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
        note: Some(cut(&event.message, MAX_NOTE)),
        // The recorder folds events that differ in the note only into one, which keeps the first
        // note: the second member that is added would never be reported. So the action differs, too.
        action: cut(&event.message, MAX_ACTION),
        secondary: None,
    };
    if let Err(error) = ctx
        .recorder
        .publish(&published, &cluster.object_ref(&()))
        .await
    {
        let (namespace, name) = place(cluster);
        let (reason, note) = (&published.reason, &event.message);
        tracing::warn!(namespace, name, %error, reason, note, "an event could not be written");
    }
}

/// The beginning of a text, in so many bytes at most and whole characters; dots say that something is missing.
fn cut(text: &str, most: usize) -> String {
    const DOTS: &str = "...";
    if text.len() <= most {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(most.saturating_sub(DOTS.len()));
    let (kept, _) = text.split_at_checked(end).unwrap_or_default();
    format!("{kept}{DOTS}")
}

/// An object that cannot be read gets a condition that says so, once; nothing of it is touched.
pub async fn malformed(ctx: &Context, invalid: &InvalidObject) -> Action {
    let meta = &invalid.metadata;
    let (namespace, name) = (
        meta.namespace.clone().unwrap_or_default(),
        meta.name.clone().unwrap_or_default(),
    );
    tracing::warn!(namespace, name, error = %invalid.error, "this object cannot be read and is left alone");
    if let Err(error) = tell_malformed(ctx, invalid, (&namespace, &name)).await {
        tracing::warn!(namespace, name, %error, "its status cannot be written");
        return Action::requeue(super::AFTER_A_FAILURE);
    }
    // A change of the object wakes us.
    Action::await_change()
}

/// What cannot be read as ours is read as any object: a condition that says the same already is not written again, for
/// the write would wake us.
async fn tell_malformed(
    ctx: &Context,
    invalid: &InvalidObject,
    (namespace, name): (&str, &str),
) -> kube::Result<()> {
    let kind = ApiResource::erase::<EtcdCluster>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(ctx.client.clone(), namespace, &kind);
    let Some(live) = api.get_opt(name).await? else {
        return Ok(());
    };
    let message = format!("the object cannot be read: {}", invalid.error);
    let now = crate::clock::now().to_string();
    let condition = |kind: &str, status: &str| {
        json!({"type": kind, "status": status, "reason": "InvalidSpec", "message": message,
               "lastTransitionTime": now, "observedGeneration": live.metadata.generation})
    };
    let conditions = [condition("Degraded", "True"), condition("Ready", "False")];
    let told = live.data.pointer("/status/conditions");
    let told = told.and_then(Value::as_array).map(Vec::as_slice);
    if told.is_some_and(|told| says_the_same(told, &conditions)) {
        return Ok(());
    }
    let body = json!({"status": {"phase": "Failed", "conditions": conditions}});
    api.patch_status(name, &PatchParams::default(), &Patch::Merge(&body))
        .await
        .map(drop)
}

/// But for the time.
fn says_the_same(told: &[Value], new: &[Value]) -> bool {
    let timeless = |condition: &Value| {
        let mut condition = condition.clone();
        if let Some(fields) = condition.as_object_mut() {
            fields.remove("lastTransitionTime");
        }
        condition
    };
    let told = told.iter().map(timeless);
    told.eq(new.iter().map(timeless))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_by_bytes_between_characters() {
        for (text, most, expected) in [
            ("short", 5, "short"),
            ("longer", 5, "lo..."),
            ("aéé", 5, "aéé"),
            ("aééé", 6, "aé..."),
            ("ééé", 5, "é..."),
        ] {
            let cut = cut(text, most);
            assert_eq!(cut, expected);
            assert!(cut.len() <= most);
        }
    }
}

//! What a user reads about an observation: the status and the events, as text.
#![expect(
    clippy::missing_panics_doc,
    clippy::unwrap_used,
    reason = "test code: a failure is the point"
)]

use std::fmt::Write;

use api::EtcdClusterStatus;
use api::v1alpha1::status::Phase;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use plan::events::decide_events;
use plan::status::{Outcome, decide_status};
use plan::{Observed, decide};

/// The status that follows, after a step that went so, in a cluster that was in this phase.
pub fn report(observed: &Observed, outcome: &Outcome, phase: Option<Phase>) -> String {
    let old = EtcdClusterStatus {
        phase,
        // If no member serves, that is not new.
        unavailable_since: Some(Time(jiff::Timestamp::UNIX_EPOCH)),
        ..EtcdClusterStatus::default()
    };
    let decision = decide(observed);
    let new = decide_status(observed, &decision, outcome, &old).unwrap();
    let mut text = String::new();
    writeln!(
        text,
        "phase {:?}, {:?} healthy",
        new.phase.unwrap(),
        new.ready_replicas.unwrap()
    )
    .unwrap();
    for condition in &new.conditions {
        let (kind, status) = (&condition.type_, &condition.status);
        writeln!(
            text,
            "{kind} {status} {}: {}",
            condition.reason, condition.message
        )
        .unwrap();
    }
    for member in &new.members {
        let id = member.id.as_deref().unwrap_or("-");
        let role = member
            .role
            .map_or_else(|| "-".to_owned(), |role| format!("{role:?}"));
        let message = member
            .message
            .as_ref()
            .map_or_else(String::new, |what| format!(": {what}"));
        writeln!(
            text,
            "member {} {id} {role} ready={}{message}",
            member.name, member.ready
        )
        .unwrap();
    }
    for event in decide_events(observed, &decision, outcome, (phase, new.phase)) {
        let kind = if event.warning { "Warning" } else { "Normal" };
        writeln!(text, "event {kind} {}: {}", event.reason, event.message).unwrap();
    }
    text
}

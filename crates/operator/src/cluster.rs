//! The reconcile: observe, decide, act, report. Nothing else.

pub mod act;
mod attempt;
pub mod farewell;
pub mod observe;
pub mod report;

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::EtcdCluster;
use kube::runtime::controller::Action;
use kube::{Resource, ResourceExt};
use plan::observed::{Answer, may_rest};
use plan::status::Outcome;
use plan::{Decision, Observed, Step};
use thiserror::Error;
use tracing::Instrument;

use crate::caches::Guarded;
use crate::context::Context;
use crate::metrics::outcome_word;

/// After a write the watch brings the news within milliseconds; this is how long we wait for it at most.
const AFTER_A_WRITE: Duration = Duration::from_millis(20);
/// The API server or etcd asked to retry later.
const NOT_NOW: Duration = Duration::from_millis(250);
/// A step that failed is tried again, but not at once.
const AFTER_A_FAILURE: Duration = Duration::from_secs(5);

/// Why a reconcile could not even begin or end; it is tried again.
#[derive(Debug, Error)]
pub enum Error {
    /// The caches are gone: the operator is stopping.
    #[error("the watch caches ended")]
    Caches(#[source] kube::runtime::reflector::store::WriterDropped),
    /// The objects of a cluster could not be rendered.
    #[error("the objects of the cluster cannot be rendered")]
    Render(#[source] serde_json::Error),
    /// The status could not be written.
    #[error("the status cannot be written")]
    Status(#[source] kube::Error),
}

/// One look at one cluster.
pub async fn reconcile(guarded: Arc<Guarded>, ctx: Arc<Context>) -> Result<Action, Error> {
    ctx.caches.ready().await.map_err(Error::Caches)?;
    let cluster = match &guarded.0 {
        Ok(cluster) => cluster,
        Err(invalid) => return Ok(report::malformed(&ctx, invalid).await),
    };
    let span = tracing::info_span!(
        "reconcile",
        namespace = cluster.meta().namespace.as_deref().unwrap_or_default(),
        cluster = %cluster.name_any(),
        generation = cluster.meta().generation,
        change = %change(cluster),
    );
    let look = Box::pin(look(cluster, &ctx).instrument(span));
    let done = ctx.lanes.run(look).await;
    ctx.health.beat();
    done
}

/// Which edit is being carried out, in all log lines of it and across restarts: of the UID as much as tells clusters apart.
fn change(cluster: &EtcdCluster) -> String {
    let uid: String = cluster.uid().unwrap_or_default().chars().take(8).collect();
    let generation = cluster.meta().generation.unwrap_or_default();
    format!("{uid}-{generation}")
}

/// The four calls.
async fn look(cluster: &EtcdCluster, ctx: &Context) -> Result<Action, Error> {
    let _look = ctx.metrics.begin_look();
    let observed = observe::observe(cluster, ctx).await?;
    ctx.board.note(&observed);
    let decision = plan::decide(&observed);
    tracing::debug!(step = ?decision.step, why = %decision.why, "decided");
    if let Some(forbidden) = &decision.forbidden {
        let (step, violation) = (&forbidden.step, &forbidden.violation);
        tracing::error!(?step, %violation, "a rule proposed a step that is not safe: this is a bug");
    }
    let begun = Instant::now();
    let tried = attempt::attempt(cluster, &observed, &decision, ctx).await;
    let outcome = tried.outcome;
    if tried.held.is_zero() {
        log(&decision, &outcome, begun.elapsed());
        let step = name(&decision.step);
        ctx.metrics.count(step, decision.reason(), &outcome);
        if !matches!(decision.step, Step::Nothing | Step::Wait | Step::Refuse) {
            ctx.metrics.time_step(step, begun.elapsed());
        }
    }
    report::report(cluster, &observed, &decision, &outcome, ctx).await?;
    let pause = pause(&decision, &outcome).saturating_add(jitter(&observed, &decision));
    // Where a step is held back, the cluster is looked at all the same: another step may be due.
    let held = tried.held.min(plan::decision::SETTLED);
    let (uid, generation) = (&observed.cluster.uid, observed.cluster.generation);
    let waited = ctx.waits.note(uid, generation, &decision, Instant::now());
    Ok(Action::requeue(pause.max(held).max(waited)))
}

/// A reconcile that could not end is tried again.
#[expect(clippy::needless_pass_by_value, reason = "the controller calls it so")]
pub fn on_error(guarded: Arc<Guarded>, error: &Error, _: Arc<Context>) -> Action {
    let name = guarded
        .meta()
        .name
        .as_deref()
        .unwrap_or_default()
        .to_owned();
    let pause = match error {
        // Another writer was faster: the next look knows more.
        Error::Status(kube::Error::Api(status)) if status.code == 409 => AFTER_A_WRITE,
        Error::Status(kube::Error::Api(status)) if status.code == 404 => AFTER_A_FAILURE,
        Error::Status(_) | Error::Caches(_) | Error::Render(_) => {
            let source = std::error::Error::source(error).map(ToString::to_string);
            tracing::warn!(name, %error, source, "reconcile failed, trying again");
            AFTER_A_FAILURE
        }
    };
    Action::requeue(pause)
}

fn pause(decision: &Decision, outcome: &Outcome) -> Duration {
    match outcome {
        Outcome::Done if decision.requeue.is_zero() => AFTER_A_WRITE,
        Outcome::Done => decision.requeue,
        Outcome::NotNow(_) => NOT_NOW,
        // It is left alone for a while; the next look goes on with the rest.
        Outcome::Failed(_) if may_rest(&decision.step) => NOT_NOW,
        Outcome::Failed(_) => AFTER_A_FAILURE,
        Outcome::Applied(attempts) if attempts.is_empty() => NOT_NOW,
        Outcome::Applied(attempts) => {
            let mut answers = attempts.iter().map(|attempt| &attempt.answer);
            if answers.all(|answer| *answer == Answer::Written) {
                AFTER_A_WRITE
            } else {
                // What was refused is left alone for a while; the next look goes on with the rest.
                NOT_NOW
            }
        }
    }
}

/// Settled clusters are looked at in turn, not all in one moment.
fn jitter(observed: &Observed, decision: &Decision) -> Duration {
    if decision.requeue < plan::decision::SETTLED {
        return Duration::ZERO;
    }
    let spread = observed.cluster.uid.bytes().fold(0_u64, |sum, byte| {
        sum.wrapping_mul(31).wrapping_add(u64::from(byte))
    });
    Duration::from_millis(spread % 1000)
}

/// `info` only when the world changed.
fn log(decision: &Decision, outcome: &Outcome, took: Duration) {
    let step = name(&decision.step);
    let (told, ms) = (outcome_word(outcome), took.as_millis());
    match outcome {
        Outcome::Done => match decision.step {
            Step::Nothing | Step::Wait | Step::Refuse => {}
            Step::RemoveFinalizer
            | Step::ApplyObjects(_)
            | Step::RestoreTemplate(_)
            | Step::Latch(_)
            | Step::Fetch(_)
            | Step::EndFetch { .. }
            | Step::Grant { .. }
            | Step::AddLearner { .. }
            | Step::UpdatePeer { .. }
            | Step::Promote { .. }
            | Step::RestartPod { .. }
            | Step::MoveLeader { .. }
            | Step::RetireMember { .. }
            | Step::DeleteClaim { .. }
            | Step::StopPod { .. }
            | Step::Downgrade { .. }
            | Step::ExpandClaim { .. }
            | Step::OrphanPods { .. }
            | Step::MarkRemoved { .. }
            | Step::RepeatGrant { .. }
            | Step::Compact { .. }
            | Step::Defragment { .. }
            | Step::Disarm { .. }
            | Step::IssueCertificates(_)
            | Step::RequestCertificate
            | Step::RotateAuthority(_)
            | Step::RefreshCertificates { .. }
            | Step::ChangeAuth(_)
            | Step::AddDebugContainer { .. }
            | Step::RemoveMember { .. } => {
                let reason = decision.reason();
                tracing::info!(step, %reason, outcome = told, ms, "{}", decision.why);
            }
        },
        Outcome::NotNow(what) => tracing::debug!(step, outcome = told, ms, what, "not now"),
        Outcome::Failed(what) => {
            tracing::warn!(step, outcome = told, ms, what, "step failed, trying again");
        }
        Outcome::Applied(attempts) => {
            let reason = decision.reason();
            tracing::info!(step, %reason, outcome = told, ms, "{}", decision.why);
            for attempt in attempts {
                let (object, answer) = (&attempt.wish, &attempt.answer);
                if *answer != Answer::Written {
                    tracing::warn!(step, %object, ?answer, "an object could not be written");
                }
            }
        }
    }
}

fn name(step: &Step) -> &'static str {
    match step {
        Step::Nothing => "Nothing",
        Step::Wait => "Wait",
        Step::Refuse => "Refuse",
        Step::RemoveFinalizer => "RemoveFinalizer",
        Step::ApplyObjects(_) => "ApplyObjects",
        Step::RestoreTemplate(_) => "RestoreTemplate",
        Step::Latch(_) => "Latch",
        Step::Fetch(_) => "Fetch",
        Step::EndFetch { .. } => "EndFetch",
        Step::Grant { .. } => "Grant",
        Step::AddLearner { .. } => "AddLearner",
        Step::UpdatePeer { .. } => "UpdatePeer",
        Step::Promote { .. } => "Promote",
        Step::RemoveMember { .. } => "RemoveMember",
        Step::RestartPod { .. } => "RestartPod",
        Step::MoveLeader { .. } => "MoveLeader",
        Step::RetireMember { .. } => "RetireMember",
        Step::DeleteClaim { .. } => "DeleteClaim",
        Step::StopPod { .. } => "StopPod",
        Step::Downgrade { .. } => "Downgrade",
        Step::ExpandClaim { .. } => "ExpandClaim",
        Step::OrphanPods { .. } => "OrphanPods",
        Step::MarkRemoved { .. } => "MarkRemoved",
        Step::RepeatGrant { .. } => "RepeatGrant",
        Step::AddDebugContainer { .. } => "AddDebugContainer",
        Step::IssueCertificates(_) => "IssueCertificates",
        Step::RequestCertificate => "RequestCertificate",
        Step::RotateAuthority(_) => "RotateAuthority",
        Step::RefreshCertificates { .. } => "RefreshCertificates",
        Step::ChangeAuth(_) => "ChangeAuth",
        Step::Compact { .. } => "Compact",
        Step::Defragment { .. } => "Defragment",
        Step::Disarm { .. } => "Disarm",
    }
}

/// The cluster's place, for error texts and API calls.
pub(crate) fn place(cluster: &EtcdCluster) -> (String, String) {
    (cluster.namespace().unwrap_or_default(), cluster.name_any())
}

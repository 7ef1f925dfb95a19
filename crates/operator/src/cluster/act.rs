//! Act: one small executor per step. No choices, no sleeping; "already so" is success.

mod apply;
mod auth;
mod certificates;
mod debug;
mod delete;
mod fetch;
mod grant;
mod latch;
mod maintain;
mod managers;
pub(crate) mod members;
mod release;
mod request;
mod restore;
mod rotation;
mod secrets;
mod volumes;

use api::EtcdCluster;
use kube::{Api, ResourceExt};
use plan::status::Outcome;
use plan::{Decision, Observed, Step, invariants};

use crate::cluster::place;
use crate::context::Context;

use self::delete::Grace;

/// Carries out a step, unless an invariant forbids it.
pub async fn act(
    cluster: &EtcdCluster,
    observed: &Observed,
    decision: &Decision,
    ctx: &Context,
) -> Outcome {
    if let Err(violation) = invariants::check(observed, &decision.step) {
        // A bug in the rules. Nothing is done, and the object says so.
        tracing::error!(step = ?decision.step, %violation, "a step was refused: this is a bug");
        return Outcome::Failed(format!(
            "refused to act ({violation}): this is a bug, please report it"
        ));
    }
    carry_out(cluster, observed, decision, ctx).await
}

async fn carry_out(
    cluster: &EtcdCluster,
    observed: &Observed,
    decision: &Decision,
    ctx: &Context,
) -> Outcome {
    match &decision.step {
        Step::Nothing | Step::Wait | Step::Refuse => Outcome::Done,
        Step::RemoveFinalizer => release::release(cluster, ctx).await,
        Step::ApplyObjects(shape) => apply::apply(cluster, observed, shape, ctx).await,
        Step::RestoreTemplate(shape) => restore::restore(cluster, observed, shape, ctx).await,
        Step::Latch(latched) => latch::latch(cluster, observed, decision, latched, ctx).await,
        Step::Fetch(_) | Step::EndFetch { .. } => {
            fetch::fetch(cluster, observed, &decision.step, ctx).await
        }
        Step::Grant {
            ordinal,
            pod_uid,
            grant,
        } => grant::grant(cluster, (*ordinal, pod_uid), (grant, observed.now), ctx).await,
        Step::RepeatGrant { ordinal, uid, told } => {
            grant::remind(cluster, *ordinal, uid, *told, ctx).await
        }
        Step::AddLearner { peer_url, .. } => members::add(observed, peer_url, cluster, ctx).await,
        Step::UpdatePeer { .. } => members::update(observed, &decision.step, cluster, ctx).await,
        Step::Promote { id, .. } => members::promote(observed, *id, cluster, ctx).await,
        Step::RestartPod { ordinal, uid } => {
            delete::pod(cluster, *ordinal, uid, Grace::Full, ctx).await
        }
        Step::StopPod {
            ordinal,
            uid,
            force,
        } => delete::pod(cluster, *ordinal, uid, Grace::to_stop(*force), ctx).await,
        Step::MoveLeader { to, ordinal } => members::hand_over((*to, *ordinal), cluster, ctx).await,
        Step::RetireMember { id, .. } => members::retire(observed, *id, cluster, ctx).await,
        Step::DeleteClaim { ordinal, uid } => delete::claim(cluster, *ordinal, uid, ctx).await,
        Step::Downgrade { to } => members::downgrade(observed, *to, cluster, ctx).await,
        Step::ExpandClaim { ordinal, uid, size } => {
            volumes::expand(cluster, *ordinal, uid, size, ctx).await
        }
        Step::OrphanPods { uid } => volumes::orphan(cluster, uid, ctx).await,
        Step::MarkRemoved {
            ordinal,
            uid,
            members,
        } => grant::tell_removed(cluster, *ordinal, uid, members, ctx).await,
        Step::Compact { .. } | Step::Defragment { .. } | Step::Disarm { .. } => {
            maintain::maintain(observed, &decision.step, cluster, ctx).await
        }
        Step::IssueCertificates(what) => certificates::issue(cluster, observed, *what, ctx).await,
        Step::RequestCertificate => request::request(cluster, observed, ctx).await,
        Step::RotateAuthority(what) => rotation::rotate(cluster, observed, *what, ctx).await,
        Step::RefreshCertificates {
            ordinal,
            uid,
            refreshed,
        } => grant::refresh(cluster, *ordinal, uid, refreshed, ctx).await,
        Step::ChangeAuth(change) => auth::change(observed, change, cluster, ctx).await,
        Step::AddDebugContainer { ordinal, uid } => {
            debug::add(cluster, observed, *ordinal, uid, ctx).await
        }
        Step::RemoveMember { .. } => members::remove(observed, &decision.step, cluster, ctx).await,
    }
}

/// For what no resourceVersion can guard: the object is looked at once more, because what was latched or asked for since
/// this look may make the step wrong.
async fn changed_since(cluster: &EtcdCluster, ctx: &Context) -> Option<Outcome> {
    let (namespace, name) = place(cluster);
    let api: Api<EtcdCluster> = Api::namespaced(ctx.client.clone(), &namespace);
    match api.get_metadata(&name).await {
        Ok(live) if live.resource_version() == cluster.resource_version() => None,
        Ok(_) => Some(Outcome::NotNow("the object changed in between".into())),
        Err(error) => Some(outcome_of("the object", Err::<(), _>(error))),
    }
}

/// What the Kubernetes API said to a write.
fn outcome_of<T>(what: &str, result: kube::Result<T>) -> Outcome {
    match result {
        Ok(_) => Outcome::Done,
        // The object changed or went in between: the next look knows more.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {
            Outcome::NotNow(format!("{what} changed in between"))
        }
        // How the API server refuses a write to an object that took another's name.
        Err(kube::Error::Api(status))
            if status.code == 422 && status.message.contains("metadata.uid") =>
        {
            Outcome::NotNow(format!("{what} was replaced in between"))
        }
        // Nothing is made in a namespace that goes; the object itself goes with it.
        Err(kube::Error::Api(status)) if is_going(&status) => {
            Outcome::NotNow(format!("{what}: the namespace is being deleted"))
        }
        Err(kube::Error::Api(status)) if status.code == 429 => {
            Outcome::NotNow(format!("{what}: the API server asked to slow down"))
        }
        Err(kube::Error::Api(status)) => Outcome::Failed(format!("{what}: {}", status.message)),
        Err(error) => Outcome::Failed(format!("{what}: {error}")),
    }
}

/// The API server will say the same next time, unless something else changes.
fn is_refusal(status: &kube::core::Status) -> bool {
    let replaced = status.code == 422 && status.message.contains("metadata.uid");
    let passes = matches!(status.code, 404 | 408 | 409 | 429 | 500 | 502..=504);
    status.code >= 400 && !passes && !replaced && !is_going(status)
}

fn is_going(status: &kube::core::Status) -> bool {
    let causes = status.details.iter().flat_map(|details| &details.causes);
    status.code == 403
        && causes
            .into_iter()
            .any(|cause| cause.reason == "NamespaceTerminating")
}

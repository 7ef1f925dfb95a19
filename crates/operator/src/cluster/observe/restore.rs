//! The backup that a cluster is to begin with: what its spec asks for, and the Job that brings it. Neither is looked at for a
//! cluster that has formed and has no such Job.

use api::v1alpha1::restore::RestoreFrom;
use api::{EtcdCluster, labels};
use k8s_openapi::api::batch::v1::Job;
use kube::ResourceExt;
use manifests::keeper::FetchRun;
use plan::Observed;
use plan::backup::JobState;
use plan::backup::elsewhere::namespace_of;
use plan::observed::{FetchJob, Restore, RestoreWish};

use crate::backup::{elsewhere, job};
use crate::caches::get;
use crate::cluster::place;
use crate::context::Context;

pub(super) async fn look(observed: &mut Observed, cluster: &EtcdCluster, ctx: &Context) {
    let Ok(intent) = &observed.cluster.intent else {
        return;
    };
    let asked = intent.restore.clone();
    let formed = observed.cluster.latched.cluster_id.is_some();
    let asked = asked.filter(|_| !formed);
    let known = observed.cluster.latched.restore.is_some();
    if formed && !known {
        return;
    }
    let (namespace, _) = place(cluster);
    let wish = match asked {
        Some(from) => Some(resolve(&from, &namespace, ctx).await.map(Box::new)),
        None => None,
    };
    let job = match find(cluster, ctx) {
        Some((job, run)) => Some(Box::new(FetchJob {
            name: job.name_any(),
            uid: job.uid().unwrap_or_default(),
            wish: run.wish,
            member: run.member,
            claim_uid: run.claim_uid,
            attempt: run.attempt,
            state: state(&job, ctx).await,
        })),
        None => None,
    };
    observed.restore = Restore { wish, job };
}

async fn resolve(
    from: &RestoreFrom,
    namespace: &str,
    ctx: &Context,
) -> Result<RestoreWish, String> {
    let there = namespace_of(from.backup_namespace.as_deref(), namespace);
    let backup = match &from.backup_name {
        Some(name) if there != namespace => elsewhere::find(name, there, ctx).await?,
        Some(name) => {
            let backup = get(&ctx.caches.backups, namespace, name);
            backup.and_then(|backup| backup.0.clone().ok())
        }
        None => None,
    };
    RestoreWish::resolve(from, namespace, backup.as_ref())
}

/// Where its pod cannot be read it has not ended, as far as is known: that holds up no look.
async fn state(job: &Job, ctx: &Context) -> JobState {
    match job::state_of(job, &ctx.client).await {
        Ok(state) => state,
        Err(error) => {
            tracing::debug!(%error, job = job.name_any(), "the pod of a Job cannot be read");
            JobState::Active(None)
        }
    }
}

/// The oldest Job of this cluster that says what it is for.
fn find(cluster: &EtcdCluster, ctx: &Context) -> Option<(Job, FetchRun)> {
    let uid = cluster.uid()?;
    let jobs = job::of(&ctx.caches.jobs, &cluster.namespace()?, &uid)?;
    let run = jobs.annotations().get(labels::RUN_ANNOTATION)?;
    let run = serde_json::from_str(run).ok()?;
    Some((Job::clone(&jobs), run))
}

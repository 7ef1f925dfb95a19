//! The backup that a cluster is to begin with, or that is to take the place of its data: what its spec and the EtcdRestores
//! ask for, and the Job that brings it. That is looked for only where it can be there.

use api::v1alpha1::memory::ReplaceStage;
use api::v1alpha1::restore::{EtcdRestore, RestoreFrom};
use api::{EtcdCluster, labels};
use k8s_openapi::api::batch::v1::Job;
use kube::api::ListParams;
use kube::core::DeserializeGuard;
use kube::{Api, Resource, ResourceExt};
use manifests::keeper::FetchRun;
use plan::Observed;
use plan::backup::JobState;
use plan::backup::elsewhere::namespace_of;
use plan::observed::{FetchJob, Latched, Offer, ReplaceRequest, Restore, RestoreWish};

use crate::backup::{elsewhere, job};
use crate::caches::get;
use crate::cluster::observe::accounts::of_cluster;
use crate::cluster::place;
use crate::context::Context;

pub(super) async fn look(observed: &mut Observed, cluster: &EtcdCluster, ctx: &Context) {
    let Ok(intent) = &observed.cluster.intent else {
        return;
    };
    let asked = intent.restore.clone();
    let latched = &observed.cluster.latched;
    let formed = latched.cluster_id.is_some();
    let asked = asked.filter(|_| !formed);
    let known = latched.restore.is_some() || latched.replace.is_some();
    let (requests, unheard) = if formed {
        requests(latched, cluster, ctx).await
    } else {
        (Vec::new(), false)
    };
    let offer = offer(observed, cluster, ctx).map(Box::new);
    if formed && !known {
        observed.restore.requests = requests;
        observed.restore.offer = offer;
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
    observed.restore = Restore {
        wish,
        job,
        requests,
        unheard,
        offer,
    };
}

/// The backup to begin with where everything is lost: of no use to a cluster that serves.
fn offer(observed: &Observed, cluster: &EtcdCluster, ctx: &Context) -> Option<Offer> {
    let lost = observed.cluster.latched.cluster_id?;
    observed.cluster.unavailable_since?;
    let all = of_cluster(&ctx.caches.backups, cluster, |it| &it.spec.cluster_name)?;
    Offer::best_of(&all, &observed.cluster.namespace, lost)
}

/// What an EtcdRestore asks for, if it is to replace data.
async fn request(restore: &EtcdRestore, ctx: &Context) -> Option<ReplaceRequest> {
    if !ReplaceRequest::is_one(restore) {
        return None;
    }
    let namespace = restore.namespace().unwrap_or_default();
    let wish = match plan::restore::parse(&restore.spec) {
        Ok(from) => resolve(&from, &namespace, ctx).await,
        Err(why) => Err(why),
    };
    ReplaceRequest::of(restore, wish)
}

/// EtcdRestores that ask for a backup in the place of the data, the oldest first; and whether it is unknown if the one is
/// still there that is being carried out. That is not for a cache to say, which may not have heard of it yet.
async fn requests(
    latched: &Latched,
    cluster: &EtcdCluster,
    ctx: &Context,
) -> (Vec<ReplaceRequest>, bool) {
    let named = of_cluster(&ctx.caches.restores, cluster, |it| &it.spec.cluster_name);
    let named = named.unwrap_or_default();
    let mut requests = Vec::new();
    for restore in &named {
        requests.extend(request(restore, ctx).await);
    }
    let carried_out = latched.replace.as_ref();
    let carried_out = carried_out.filter(|it| {
        let begun =
            !it.is_by_loss() && matches!(it.stage, ReplaceStage::Checking | ReplaceStage::Fetching);
        begun && !requests.iter().any(|request| request.uid == it.by)
    });
    let Some(replace) = carried_out else {
        return (requests, false);
    };
    let namespace = cluster.namespace().unwrap_or_default();
    let api: Api<DeserializeGuard<EtcdRestore>> = Api::namespaced(ctx.client.clone(), &namespace);
    // The operator's role lets it list them.
    let named = ListParams::default().fields(&format!("metadata.name={}", replace.name));
    let found = match api.list(&named).await {
        Ok(found) => found,
        Err(error) => {
            tracing::debug!(%error, name = replace.name, "an EtcdRestore cannot be read");
            return (requests, true);
        }
    };
    let is_it = |it: &DeserializeGuard<EtcdRestore>| it.meta().uid.as_ref() == Some(&replace.by);
    let Some(found) = found.items.into_iter().find(is_it) else {
        return (requests, false);
    };
    match found.0 {
        Ok(restore) => {
            requests.extend(request(&restore, ctx).await);
            (requests, false)
        }
        Err(invalid) => {
            tracing::warn!(name = replace.name, error = %invalid.error, "an EtcdRestore cannot be read: correct its spec");
            (requests, true)
        }
    }
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

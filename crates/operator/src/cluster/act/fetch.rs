//! The Job that brings a backup to the volume of a member, or reads it.

use api::{EtcdCluster, labels};
use k8s_openapi::api::batch::v1::Job;
use kube::api::{DeleteParams, PostParams, Preconditions, PropagationPolicy};
use kube::{Api, ResourceExt};
use manifests::keeper::{self, FetchRun};
use plan::decision::Fetch;
use plan::status::Outcome;
use plan::{Observed, Step};

use super::{changed_since, outcome_of};
use crate::cluster::observe::owner;
use crate::context::Context;

/// Creates or deletes it.
pub(super) async fn fetch(
    cluster: &EtcdCluster,
    observed: &Observed,
    step: &Step,
    ctx: &Context,
) -> Outcome {
    match step {
        Step::Fetch(fetch) => Box::pin(begin(cluster, observed, fetch, ctx)).await,
        Step::EndFetch { name, uid } => end(cluster, name, uid, ctx).await,
        _other => Outcome::Done,
    }
}

/// Creates it. One of that name is this very one, of which the cache has not heard yet.
async fn begin(
    cluster: &EtcdCluster,
    observed: &Observed,
    fetch: &Fetch,
    ctx: &Context,
) -> Outcome {
    let Ok(intent) = &observed.cluster.intent else {
        return Outcome::Done;
    };
    // The Job writes to a volume: what it rests on must still be so.
    if let Some(changed) = changed_since(cluster, ctx).await {
        return changed;
    }
    let owner = owner(cluster);
    let (member, request) = if fetch.check {
        (String::new(), fetch.wish.check())
    } else {
        (observed.member_name(fetch.ordinal), fetch.wish.request())
    };
    let run = FetchRun {
        wish: fetch.wish.hash.clone(),
        member,
        claim_uid: fetch.claim_uid.clone(),
        attempt: fetch.attempt,
    };
    let built = keeper::fetch_job(&keeper::Fetch {
        owner: &owner,
        intent,
        run: &run,
        location: &fetch.wish.location,
        request: &request,
        identity: fetch.wish.identity.as_deref(),
        image: &ctx.install.agent_image,
        user: ctx.install.pod_user,
    });
    let job = match built {
        Ok(job) => job,
        Err(error) => return Outcome::Failed(format!("the Job of a restore: {error}")),
    };
    let api: Api<Job> = Api::namespaced(ctx.client.clone(), &owner.namespace);
    let params = PostParams {
        field_manager: Some(labels::OPERATOR.to_owned()),
        ..PostParams::default()
    };
    let what = format!("Job {}", job.name_any());
    match api.create(&params, &job).await {
        Err(kube::Error::Api(status)) if status.code == 409 => Outcome::Done,
        created => outcome_of(&what, created),
    }
}

/// Deletes it, with its pod.
async fn end(cluster: &EtcdCluster, name: &str, uid: &str, ctx: &Context) -> Outcome {
    let namespace = cluster.namespace().unwrap_or_default();
    let api: Api<Job> = Api::namespaced(ctx.client.clone(), &namespace);
    // In the foreground: the Job is there for as long as its pod, which may still stand on the volume.
    let params = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Foreground),
        preconditions: Some(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    match api.delete(name, &params).await {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Outcome::Done,
        deleted => outcome_of(&format!("Job {name}"), deleted),
    }
}

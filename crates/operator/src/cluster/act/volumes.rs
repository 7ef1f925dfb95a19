//! Larger volumes: the request of a claim, and the StatefulSet that has to be recreated around its pods.

use api::{EtcdCluster, names};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use plan::status::Outcome;
use serde_json::json;

use super::outcome_of;
use crate::cluster::place;
use crate::context::Context;

pub(super) async fn expand(
    cluster: &EtcdCluster,
    ordinal: u32,
    uid: &str,
    size: &str,
    ctx: &Context,
) -> Outcome {
    let (namespace, name) = place(cluster);
    let claim = names::claim(&name, ordinal);
    let body =
        json!({"metadata": {"uid": uid}, "spec": {"resources": {"requests": {"storage": size}}}});
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(ctx.client.clone(), &namespace);
    let patched = claims
        .patch(&claim, &PatchParams::default(), &Patch::Merge(&body))
        .await;
    outcome_of(&format!("the claim {claim}"), patched)
}

/// The pods go on running without an owner until the StatefulSet is recreated.
pub(super) async fn orphan(cluster: &EtcdCluster, uid: &str, ctx: &Context) -> Outcome {
    let (namespace, name) = place(cluster);
    let sets: Api<StatefulSet> = Api::namespaced(ctx.client.clone(), &namespace);
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        }),
        ..DeleteParams::orphan()
    };
    outcome_of("the StatefulSet", sets.delete(&name, &params).await)
}

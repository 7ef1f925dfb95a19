//! What the agent in a pod is told: annotations on exactly the pod that was seen.

use api::{EtcdCluster, names};
use gate::{GRANT_ANNOTATION, Grant, REMOVED_ANNOTATION};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use plan::observed::format_id;
use plan::status::Outcome;
use serde_json::json;

use super::outcome_of;
use crate::cluster::place;
use crate::context::Context;

pub(super) async fn grant(
    cluster: &EtcdCluster,
    ordinal: u32,
    pod_uid: &str,
    grant: &Grant,
    ctx: &Context,
) -> Outcome {
    let (_, name) = place(cluster);
    let pod = names::member(&name, ordinal);
    let text = match serde_json::to_string(grant) {
        Ok(text) => text,
        Err(error) => {
            return Outcome::Failed(format!("the grant of {pod} cannot be written: {error}"));
        }
    };
    annotate(cluster, ordinal, pod_uid, (GRANT_ANNOTATION, &text), ctx).await
}

/// Tells that the data of these members must never be read again.
pub(super) async fn tell_removed(
    cluster: &EtcdCluster,
    ordinal: u32,
    pod_uid: &str,
    members: &[u64],
    ctx: &Context,
) -> Outcome {
    let ids: Vec<String> = members.iter().map(|id| format_id(*id)).collect();
    let ids = ids.join(",");
    annotate(cluster, ordinal, pod_uid, (REMOVED_ANNOTATION, &ids), ctx).await
}

async fn annotate(
    cluster: &EtcdCluster,
    ordinal: u32,
    pod_uid: &str,
    (name, text): (&str, &str),
    ctx: &Context,
) -> Outcome {
    let (namespace, cluster) = place(cluster);
    let pod = names::member(&cluster, ordinal);
    // The UID makes the API server refuse the write to a pod that took this one's name.
    let body = json!({"metadata": {"uid": pod_uid, "annotations": {name: text}}});
    let pods: Api<Pod> = Api::namespaced(ctx.client.clone(), &namespace);
    let patched = pods
        .patch(&pod, &PatchParams::default(), &Patch::Merge(&body))
        .await;
    outcome_of(&format!("the annotation {name} of pod {pod}"), patched)
}

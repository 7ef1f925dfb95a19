//! What the agent in a pod reads: annotations on exactly the pod that was seen.

use std::collections::BTreeMap;

use api::labels::{CERTIFICATES_ANNOTATION, TOLD_ANNOTATION};
use api::{EtcdCluster, names};
use gate::{GRANT_ANNOTATION, Grant, REMOVED_ANNOTATION};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
use plan::observed::{Refreshed, Told, format_id};
use plan::status::Outcome;
use serde_json::json;

use super::outcome_of;
use crate::cluster::place;
use crate::context::Context;

pub(super) async fn grant(
    cluster: &EtcdCluster,
    (ordinal, pod_uid): (u32, &str),
    (grant, now): (&Grant, Timestamp),
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
    let told = Told::first(now).to_string();
    let both = [(GRANT_ANNOTATION, text.as_str()), (TOLD_ANNOTATION, &told)];
    annotate(cluster, ordinal, pod_uid, &both, ctx).await
}

/// Changes nothing but the time beside the grant, which makes the kubelet look at the pod.
pub(super) async fn remind(
    cluster: &EtcdCluster,
    ordinal: u32,
    pod_uid: &str,
    told: Told,
    ctx: &Context,
) -> Outcome {
    let told = told.to_string();
    annotate(cluster, ordinal, pod_uid, &[(TOLD_ANNOTATION, &told)], ctx).await
}

/// Changes nothing that any agent reads: it makes the kubelet look at the volumes of the pod.
pub(super) async fn refresh(
    cluster: &EtcdCluster,
    ordinal: u32,
    pod_uid: &str,
    refreshed: &Refreshed,
    ctx: &Context,
) -> Outcome {
    let text = refreshed.to_string();
    let told = [(CERTIFICATES_ANNOTATION, text.as_str())];
    annotate(cluster, ordinal, pod_uid, &told, ctx).await
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
    annotate(
        cluster,
        ordinal,
        pod_uid,
        &[(REMOVED_ANNOTATION, &ids)],
        ctx,
    )
    .await
}

async fn annotate(
    cluster: &EtcdCluster,
    ordinal: u32,
    pod_uid: &str,
    texts: &[(&str, &str)],
    ctx: &Context,
) -> Outcome {
    let (namespace, cluster) = place(cluster);
    let pod = names::member(&cluster, ordinal);
    // The UID makes the API server refuse the write to a pod that took this one's name.
    let annotations: BTreeMap<_, _> = texts.iter().copied().collect();
    let body = json!({"metadata": {"uid": pod_uid, "annotations": annotations}});
    let pods: Api<Pod> = Api::namespaced(ctx.client.clone(), &namespace);
    let patched = pods
        .patch(&pod, &PatchParams::default(), &Patch::Merge(&body))
        .await;
    let names: Vec<&str> = texts.iter().map(|(name, _)| *name).collect();
    let names = names.join(", ");
    outcome_of(&format!("the annotation {names} of pod {pod}"), patched)
}

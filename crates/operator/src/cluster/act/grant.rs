//! Lets a pod through the gate: an annotation on exactly the pod that waits.

use api::{EtcdCluster, names};
use gate::{GRANT_ANNOTATION, Grant};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{Patch, PatchParams};
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
    let (namespace, name) = place(cluster);
    let pod = names::member(&name, ordinal);
    let text = match serde_json::to_string(grant) {
        Ok(text) => text,
        Err(error) => {
            return Outcome::Failed(format!("the grant of {pod} cannot be written: {error}"));
        }
    };
    // The UID makes the API server refuse the write to a pod that took this one's name.
    let body = json!({"metadata": {"uid": pod_uid, "annotations": {GRANT_ANNOTATION: text}}});
    let pods: Api<Pod> = Api::namespaced(ctx.client.clone(), &namespace);
    let patched = pods
        .patch(&pod, &PatchParams::default(), &Patch::Merge(&body))
        .await;
    outcome_of(&format!("the grant of pod {pod}"), patched)
}

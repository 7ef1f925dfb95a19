//! Puts the container for debugging into a running pod: an ephemeral one, which is no part of readiness and restarts no
//! container.

use api::{EtcdCluster, names};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use plan::Observed;
use plan::status::Outcome;
use serde_json::json;

use super::outcome_of;
use crate::cluster::place;
use crate::context::Context;

pub(super) async fn add(
    cluster: &EtcdCluster,
    observed: &Observed,
    ordinal: u32,
    uid: &str,
    ctx: &Context,
) -> Outcome {
    let intent = observed.cluster.intent.as_ref().ok();
    let user = ctx.install.pod_user;
    let container = intent.and_then(|intent| manifests::debug_container(intent, user));
    let Some(container) = container else {
        return Outcome::Done;
    };
    let (namespace, name) = place(cluster);
    let name = names::member(&name, ordinal);
    let what = format!("the container for debugging in pod {name}");
    let pods: Api<Pod> = Api::namespaced(ctx.client.clone(), &namespace);
    match pods.get(&name).await {
        Ok(pod) if pod.uid().as_deref() == Some(uid) => {}
        Ok(_) => return Outcome::NotNow(format!("pod {name} was replaced in between")),
        Err(error) => return outcome_of(&what, Err::<(), _>(error)),
    }
    let body = json!({"metadata": {"uid": uid}, "spec": {"ephemeralContainers": [container]}});
    let patch = Patch::Strategic(&body);
    let patched = pods
        .patch_ephemeral_containers(&name, &PatchParams::default(), &patch)
        .await;
    outcome_of(&what, patched)
}

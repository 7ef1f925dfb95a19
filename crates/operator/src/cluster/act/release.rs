//! Takes the predecessor's finalizer off an object that is being deleted.

use api::{EtcdCluster, labels};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use plan::status::Outcome;
use serde_json::json;

use super::outcome_of;
use crate::cluster::place;
use crate::context::Context;

pub(super) async fn release(cluster: &EtcdCluster, ctx: &Context) -> Outcome {
    let (namespace, name) = place(cluster);
    let rest: Vec<&String> = cluster
        .finalizers()
        .iter()
        .filter(|finalizer| *finalizer != labels::PREDECESSOR_FINALIZER)
        .collect();
    let body =
        json!({"metadata": {"resourceVersion": cluster.resource_version(), "finalizers": rest}});
    let api: Api<EtcdCluster> = Api::namespaced(ctx.client.clone(), &namespace);
    let patched = api
        .patch(&name, &PatchParams::default(), &Patch::Merge(&body))
        .await;
    outcome_of("the finalizer", patched)
}

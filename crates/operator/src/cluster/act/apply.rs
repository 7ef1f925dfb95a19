//! Writes the objects that are missing or differ. What exists is changed only if it is ours, which its UID
//! proves; what does not exist is created, so that somebody else's object of that name is never taken over.

use api::{EtcdCluster, labels};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::api::{DynamicObject, Patch, PatchParams, PostParams};
use kube::core::ApiResource;
use kube::{Api, ResourceExt};
use manifests::{Kind, Object, Shape, drift};
use plan::Observed;
use plan::status::Outcome;
use serde_json::{Value, json};

use super::outcome_of;
use crate::cluster::observe::{is_owned_against_policy, live_object, owner};
use crate::cluster::place;
use crate::context::Context;

pub(super) async fn apply(
    cluster: &EtcdCluster,
    observed: &Observed,
    shape: &Shape,
    ctx: &Context,
) -> Outcome {
    let Ok(intent) = &observed.cluster.intent else {
        return Outcome::Done;
    };
    let objects = match manifests::build_objects(&owner(cluster), intent, shape, &ctx.agent_image) {
        Ok(objects) => objects,
        Err(error) => return Outcome::Failed(format!("the objects cannot be rendered: {error}")),
    };
    let mut foreign = Vec::new();
    for object in &objects {
        match apply_one(cluster, object, ctx).await {
            Outcome::Done => {}
            Outcome::Foreign(what) => foreign.push(what),
            other @ (Outcome::NotNow(_) | Outcome::Failed(_)) => return other,
        }
    }
    if foreign.is_empty() {
        Outcome::Done
    } else {
        Outcome::Foreign(foreign.join(", "))
    }
}

async fn apply_one(cluster: &EtcdCluster, object: &Object, ctx: &Context) -> Outcome {
    let (namespace, _) = place(cluster);
    let what = format!("{:?} {}", object.kind, object.name);
    let api: Api<DynamicObject> =
        Api::namespaced_with(ctx.client.clone(), &namespace, &resource(object.kind));
    let Some(live) = live_object(ctx, &namespace, object.kind, &object.name) else {
        return create(&api, object, &what).await;
    };
    if is_owned_against_policy(object, &live, cluster) {
        return disown(&api, object, &live, &what).await;
    }
    let mut object = object.clone();
    object.keep_immutable(&live);
    if drift::find(&object.body, &live).is_none() {
        return Outcome::Done;
    }
    let mut body = object.body;
    set_meta(&mut body, "uid", live.pointer("/metadata/uid"));
    let params = PatchParams::apply(labels::OPERATOR).force();
    outcome_of(
        &what,
        api.patch(&object.name, &params, &Patch::Apply(&body)).await,
    )
}

/// Lets a claim outlive the object. An apply that leaves the owner out would not take it off: the owner
/// came with the claim's creation, and only what was applied is taken off by not being applied again.
async fn disown(api: &Api<DynamicObject>, object: &Object, live: &Value, what: &str) -> Outcome {
    let owners = live
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array);
    let others: Vec<&Value> = owners
        .into_iter()
        .flatten()
        .filter(|owner| owner.get("kind").and_then(Value::as_str) != Some("EtcdCluster"))
        .collect();
    let metadata = json!({
        "uid": live.pointer("/metadata/uid"),
        "resourceVersion": live.pointer("/metadata/resourceVersion"),
        "ownerReferences": others,
    });
    let body = Patch::Merge(json!({ "metadata": metadata }));
    outcome_of(
        what,
        api.patch(&object.name, &PatchParams::default(), &body)
            .await,
    )
}

async fn create(api: &Api<DynamicObject>, object: &Object, what: &str) -> Outcome {
    let new: DynamicObject = match serde_json::from_value(object.body.clone()) {
        Ok(new) => new,
        Err(error) => return Outcome::Failed(format!("{what} cannot be rendered: {error}")),
    };
    let params = PostParams {
        field_manager: Some(labels::OPERATOR.to_owned()),
        ..PostParams::default()
    };
    match api.create(&params, &new).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {
            already_there(api, object, what).await
        }
        created => outcome_of(what, created),
    }
}

/// The cache did not know it: either it is ours and the cache is behind, or it is somebody else's. A claim that
/// nobody owns was put there to be used; it gets our labels, and what it holds is looked at before anything else.
async fn already_there(api: &Api<DynamicObject>, object: &Object, what: &str) -> Outcome {
    let live = match api.get(&object.name).await {
        Ok(live) => live,
        Err(error) => return outcome_of(what, Err::<(), _>(error)),
    };
    let managed = live
        .labels()
        .get(labels::MANAGED_BY)
        .is_some_and(|by| by == labels::OPERATOR);
    if managed {
        return Outcome::NotNow(format!("{what} was just made"));
    }
    if object.kind == Kind::PersistentVolumeClaim && live.owner_references().is_empty() {
        let cluster = object
            .body
            .pointer("/metadata/labels/etcd.etcd.io~1cluster");
        let body = json!({"metadata": {"uid": live.uid(), "labels": {
            labels::MANAGED_BY: labels::OPERATOR, labels::CLUSTER: cluster}}});
        let patched = api
            .patch(&object.name, &PatchParams::default(), &Patch::Merge(&body))
            .await;
        return outcome_of(what, patched);
    }
    Outcome::Foreign(what.to_owned())
}

fn set_meta(body: &mut Value, key: &str, value: Option<&Value>) {
    if let (Some(Value::Object(metadata)), Some(value)) = (body.get_mut("metadata"), value) {
        metadata.insert(key.to_owned(), value.clone());
    }
}

fn resource(kind: Kind) -> ApiResource {
    match kind {
        Kind::ServiceAccount => ApiResource::erase::<ServiceAccount>(&()),
        Kind::Service => ApiResource::erase::<Service>(&()),
        Kind::PersistentVolumeClaim => ApiResource::erase::<PersistentVolumeClaim>(&()),
        Kind::PodDisruptionBudget => ApiResource::erase::<PodDisruptionBudget>(&()),
        Kind::StatefulSet => ApiResource::erase::<StatefulSet>(&()),
    }
}

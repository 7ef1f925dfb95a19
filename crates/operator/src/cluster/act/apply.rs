//! Writes the objects that are missing or differ. What exists is changed only if it is ours, which its UID
//! proves; what does not exist is created, so that an object of that name with another owner is never taken over.

use api::{EtcdCluster, labels, names};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use kube::api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams, Preconditions};
use kube::core::ApiResource;
use kube::{Api, ResourceExt};
use manifests::{Kind, Object, Shape, drift};
use plan::Observed;
use plan::observed::{Answer, Attempt};
use plan::status::Outcome;
use plan::target::Target;
use serde_json::{Value, json};

use super::{changed_since, is_refusal, managers, outcome_of};
use crate::cluster::observe::objects::{unwished, wish};
use crate::cluster::observe::{
    is_ours, is_owned_against_policy, live_object, owner, template, unwanted,
};
use crate::cluster::place;
use crate::context::Context;

/// Everything that may be written is; what is refused holds up nothing else.
pub(super) async fn apply(
    cluster: &EtcdCluster,
    observed: &Observed,
    shape: &Shape,
    ctx: &Context,
) -> Outcome {
    let Some(target) = &observed.cluster.target else {
        return Outcome::Done;
    };
    let objects = match build(cluster, target, shape, ctx) {
        Ok(objects) => objects,
        Err(failed) => return failed,
    };
    let mut attempts = Vec::new();
    for object in &objects {
        if observed.is_held_back(object.kind, &object.name) {
            continue;
        }
        if let Some(written) = apply_one(cluster, object, shape, ctx).await {
            attempts.push(Attempt {
                wish: wish(object, (target, shape), written.field),
                answer: written.answer,
                manager: written.manager,
            });
        }
    }
    for (kind, name) in unwanted(cluster, target, shape, ctx) {
        if observed.is_held_back(kind, &name) {
            continue;
        }
        attempts.push(Attempt {
            answer: delete(cluster, kind, &name, ctx).await,
            wish: unwished(kind, name),
            manager: None,
        });
    }
    Outcome::Applied(attempts)
}

/// The objects as they should be.
pub(super) fn build(
    cluster: &EtcdCluster,
    target: &Target,
    shape: &Shape,
    ctx: &Context,
) -> Result<Vec<Object>, Outcome> {
    let intent = target.rendered(shape.template);
    let built = manifests::build_objects(&owner(cluster), &intent, shape, &ctx.install);
    built.map_err(|error| Outcome::Failed(format!("the objects cannot be rendered: {error}")))
}

/// A write, and what it was for.
pub(super) struct Written {
    pub(super) answer: Answer,
    /// The field that differed; `None` where there was no object.
    field: Option<String>,
    /// The other field manager that owns that field.
    manager: Option<String>,
}

impl Written {
    fn of(field: Option<String>, answer: Answer) -> Self {
        Self {
            answer,
            field,
            manager: None,
        }
    }
}

/// What the API server said to a write of an object. Only what it refuses in words is refused; whatever else goes wrong
/// may go well in a moment.
fn answer_of<T>(what: &str, result: kube::Result<T>) -> Answer {
    match result {
        Err(kube::Error::Api(status)) if is_refusal(&status) => Answer::Refused(status.message),
        other => match outcome_of(what, other) {
            Outcome::Done | Outcome::Applied(_) => Answer::Written,
            Outcome::NotNow(why) | Outcome::Failed(why) => Answer::Later(why),
        },
    }
}

/// The object of the cluster is not the one that was seen any more.
async fn is_stale(cluster: &EtcdCluster, ctx: &Context) -> Option<Answer> {
    match changed_since(cluster, ctx).await? {
        Outcome::NotNow(why) | Outcome::Failed(why) => Some(Answer::Later(why)),
        Outcome::Done | Outcome::Applied(_) => None,
    }
}

/// Deletes exactly the object of ours that was seen.
async fn delete(cluster: &EtcdCluster, kind: Kind, name: &str, ctx: &Context) -> Answer {
    let (namespace, _) = place(cluster);
    let live = live_object(ctx, &namespace, kind, name);
    let uid = live.as_ref().and_then(|live| live.pointer("/metadata/uid"));
    let params = DeleteParams {
        preconditions: Some(Preconditions {
            uid: uid.and_then(Value::as_str).map(str::to_owned),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    let api: Api<DynamicObject> =
        Api::namespaced_with(ctx.client.clone(), &namespace, &resource(kind));
    answer_of(&format!("{kind:?} {name}"), api.delete(name, &params).await)
}

/// `None` where nothing differs.
async fn apply_one(
    cluster: &EtcdCluster,
    object: &Object,
    shape: &Shape,
    ctx: &Context,
) -> Option<Written> {
    let (namespace, _) = place(cluster);
    let what = format!("{:?} {}", object.kind, object.name);
    let api: Api<DynamicObject> =
        Api::namespaced_with(ctx.client.clone(), &namespace, &resource(object.kind));
    let Some(live) = live_object(ctx, &namespace, object.kind, &object.name) else {
        // It remembers that a cluster has formed. In an incarnation that has ended since this look it would keep the next one
        // from beginning.
        if object.name == names::client_service(&cluster.name_any())
            && let Some(stale) = is_stale(cluster, ctx).await
        {
            return Some(Written::of(None, stale));
        }
        return Some(Written::of(None, create(&api, object, &what).await));
    };
    // What belongs to another owner is never changed.
    if !is_ours(&live, object.kind, cluster) {
        return None;
    }
    if is_owned_against_policy(object, &live, cluster) {
        let field = Some(".metadata.ownerReferences".to_owned());
        let answer = disown(&api, object, &live, &what).await;
        return Some(Written::of(field, answer));
    }
    let mut object = object.clone();
    object.keep_immutable(&live);
    if object.kind == Kind::StatefulSet
        && let Some(written) = write_template(cluster, (&object, &live), shape, ctx).await
    {
        return Some(written);
    }
    template::settle(&mut object, &live);
    let field = drift::find(&object.body, &live)?;
    let mut body = object.body;
    set_meta(&mut body, "uid", live.pointer("/metadata/uid"));
    let (manager, version) = match own_what_we_created(&api, &object.name, &field).await {
        Ok(found) => found,
        Err(error) => {
            return Some(Written::of(
                Some(field),
                answer_of(&what, Err::<(), _>(error)),
            ));
        }
    };
    // The API server allocates a Service's ports before its write to etcd succeeds. If it works on an older object of its
    // cache, that write fails, and the port is neither the Service's nor free until the API server repairs its table, which
    // takes up to 12 minutes. With the version that was just written it notices before it allocates anything.
    if object.kind == Kind::Service {
        set_meta(
            &mut body,
            "resourceVersion",
            version.map(Value::from).as_ref(),
        );
    }
    let params = PatchParams::apply(labels::OPERATOR).force();
    let patched = api.patch(&object.name, &params, &Patch::Apply(&body)).await;
    Some(Written {
        answer: answer_of(&what, patched),
        field: Some(field),
        manager,
    })
}

/// Writes the template that a shape asks for into the live StatefulSet; `None` where it is there.
pub(super) async fn write_template(
    cluster: &EtcdCluster,
    (set, live): (&Object, &Value),
    shape: &Shape,
    ctx: &Context,
) -> Option<Written> {
    let wanted = template::wanted(set, live, shape, &ctx.install.agent_image);
    let field = wanted.differs.as_ref()?;
    // It decides over pods that are made long after, and the cache of the object may be older than this one.
    if let Some(stale) = is_stale(cluster, ctx).await {
        return Some(Written::of(Some(field.clone()), stale));
    }
    let (namespace, _) = place(cluster);
    let api: Api<DynamicObject> =
        Api::namespaced_with(ctx.client.clone(), &namespace, &resource(set.kind));
    let what = format!("{:?} {}", set.kind, set.name);
    Some(replace_template(&api, &set.name, live, &wanted, &what).await)
}

/// Writes a template as a whole: what an earlier one had and this one has not must be gone. Exactly the StatefulSet
/// that was seen is written, and the rest of it stays as it is.
async fn replace_template(
    api: &Api<DynamicObject>,
    name: &str,
    seen: &Value,
    wanted: &template::Wanted,
    what: &str,
) -> Written {
    let field = wanted.differs.clone();
    let live = match api.get(name).await {
        Ok(live) => live,
        Err(error) => return Written::of(field, answer_of(what, Err::<(), _>(error))),
    };
    let version = seen
        .pointer("/metadata/resourceVersion")
        .and_then(Value::as_str);
    if live.resource_version().as_deref() != version {
        let why = format!("{what} changed in between");
        return Written::of(field, Answer::Later(why));
    }
    let managers = live.managed_fields();
    let manager = field
        .as_ref()
        .and_then(|field| managers::owner(managers, field));
    let written = serde_json::to_value(&live).and_then(|mut body| {
        template::put(&mut body, wanted);
        serde_json::from_value::<DynamicObject>(body)
    });
    let written = match written {
        Ok(written) => written,
        Err(error) => return Written::of(field, Answer::Refused(error.to_string())),
    };
    let params = PostParams {
        field_manager: Some(labels::OPERATOR.to_owned()),
        ..PostParams::default()
    };
    Written {
        answer: answer_of(what, api.replace(name, &params, &written).await),
        field,
        manager,
    }
}

/// What came with an object's creation counts as updated, not as applied, and an apply that leaves it out does not take
/// it off. So what we created is called applied before the first apply. Returns who else owns a field, and the version of the object as it is then.
async fn own_what_we_created(
    api: &Api<DynamicObject>,
    name: &str,
    field: &str,
) -> kube::Result<(Option<String>, Option<String>)> {
    let live = api.get(name).await?;
    let manager = managers::owner(live.managed_fields(), field);
    let mut fields = live.managed_fields().to_vec();
    let ours = |entry: &ManagedFieldsEntry, operation: &str| {
        entry.manager.as_deref() == Some(labels::OPERATOR)
            && entry.operation.as_deref() == Some(operation)
            && entry.subresource.is_none()
    };
    if fields.iter().any(|entry| ours(entry, "Apply")) {
        return Ok((manager, live.resource_version()));
    }
    let Some(created) = fields.iter_mut().find(|entry| ours(entry, "Update")) else {
        return Ok((manager, live.resource_version()));
    };
    created.operation = Some("Apply".to_owned());
    let metadata = json!({
        "uid": live.uid(), "resourceVersion": live.resource_version(), "managedFields": fields,
    });
    let body = Patch::Merge(json!({ "metadata": metadata }));
    let written = api.patch(name, &PatchParams::default(), &body).await?;
    Ok((manager, written.resource_version()))
}

/// Lets a claim outlive the object. An apply that leaves the owner out would not take it off: the owner
/// came with the claim's creation, and only what was applied is taken off by not being applied again.
async fn disown(api: &Api<DynamicObject>, object: &Object, live: &Value, what: &str) -> Answer {
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
    answer_of(
        what,
        api.patch(&object.name, &PatchParams::default(), &body)
            .await,
    )
}

async fn create(api: &Api<DynamicObject>, object: &Object, what: &str) -> Answer {
    let new: DynamicObject = match serde_json::from_value(object.body.clone()) {
        Ok(new) => new,
        Err(error) => return Answer::Refused(error.to_string()),
    };
    let params = PostParams {
        field_manager: Some(labels::OPERATOR.to_owned()),
        ..PostParams::default()
    };
    match api.create(&params, &new).await {
        Err(kube::Error::Api(status)) if status.code == 409 => {
            already_there(api, object, what).await
        }
        created => answer_of(what, created),
    }
}

/// The cache did not know it: either it is ours and the cache is behind, or it has another owner. A claim that
/// has no owner was put there to be used; it gets our labels, and what it holds is looked at before anything else.
async fn already_there(api: &Api<DynamicObject>, object: &Object, what: &str) -> Answer {
    let live = match api.get(&object.name).await {
        Ok(live) => live,
        Err(error) => return answer_of(what, Err::<(), _>(error)),
    };
    let managed = live
        .labels()
        .get(labels::MANAGED_BY)
        .is_some_and(|by| by == labels::OPERATOR);
    if managed {
        return Answer::Later(format!("{what} was just made"));
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
        return answer_of(what, patched);
    }
    Answer::Foreign
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
        Kind::NetworkPolicy => ApiResource::erase::<NetworkPolicy>(&()),
        Kind::StatefulSet => ApiResource::erase::<StatefulSet>(&()),
    }
}

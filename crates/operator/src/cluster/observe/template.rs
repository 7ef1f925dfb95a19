//! What pods are made from: the template in the live StatefulSet, the one that is kept beside it while another is tried,
//! and the one that a shape asks for.

use api::{EtcdCluster, labels, names};
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::ResourceExt;
use manifests::{Kind, Object, Shape, Template, drift};
use plan::observed::Objects;
use serde_json::{Value, json};

use super::kubernetes::is_owned;
use crate::caches;
use crate::cluster::place;
use crate::context::Context;

const TEMPLATE: &str = "/spec/template";

/// What the live StatefulSet says of itself.
pub(super) fn describe_set(cluster: &EtcdCluster, ctx: &Context) -> Objects {
    let (namespace, name) = place(cluster);
    let live = caches::get(&ctx.caches.statefulsets, &namespace, &name);
    let Some(live) = live.filter(|live| is_owned(live.as_ref(), cluster)) else {
        return Objects::default();
    };
    let spec = live.spec.as_ref();
    let template = spec.and_then(|spec| spec.template.metadata.as_ref());
    let annotations = template.and_then(|metadata| metadata.annotations.as_ref());
    let hash = annotations.and_then(|all| all.get(labels::TEMPLATE_ANNOTATION));
    let fence = annotations.and_then(|all| all.get(gate::FENCE_ANNOTATION));
    Objects {
        fence: fence.and_then(|fence| fence.trim().parse().ok()),
        quota: quota(&live),
        replicas: spec
            .and_then(|spec| spec.replicas)
            .and_then(|count| u32::try_from(count).ok()),
        created: created(&live),
        template: Some(hash.cloned().unwrap_or_default()),
        kept_template: kept(&live).as_ref().map(hash_of),
        claim_template: claim_size(&live),
        set_uid: live.uid(),
        set_terminating: live.metadata.deletion_timestamp.is_some(),
        predecessor: !is_gated(&live),
        ..Objects::default()
    }
}

/// Generation of the authorities that pods of the live template trust.
pub(super) fn generation(cluster: &EtcdCluster, ctx: &Context) -> u64 {
    let (namespace, name) = place(cluster);
    let live = caches::get(&ctx.caches.statefulsets, &namespace, &name);
    let live = live.filter(|live| is_owned(live.as_ref(), cluster));
    let spec = live.as_ref().and_then(|live| live.spec.as_ref());
    let template = spec.and_then(|spec| spec.template.metadata.as_ref());
    let annotations = template.and_then(|metadata| metadata.annotations.as_ref());
    let written = annotations.and_then(|all| all.get(labels::TRUST_ANNOTATION));
    let written = written.and_then(|written| written.parse().ok());
    written.unwrap_or(0)
}

/// The pods that the StatefulSet controller counts, if it has seen the StatefulSet as it is now.
fn created(live: &StatefulSet) -> Option<u32> {
    let status = live.status.as_ref()?;
    let current = status.observed_generation == live.metadata.generation;
    u32::try_from(status.replicas).ok().filter(|_| current)
}

/// The gate stands in front of etcd. The predecessor's StatefulSet bears our name and owner and has none.
fn is_gated(live: &StatefulSet) -> bool {
    let pod = live
        .spec
        .as_ref()
        .and_then(|spec| spec.template.spec.as_ref());
    let mut init = pod
        .into_iter()
        .flat_map(|pod| pod.init_containers.iter().flatten());
    init.any(|container| container.name == names::AGENT_CONTAINER)
}

/// What etcd got as arguments.
fn quota(live: &StatefulSet) -> Option<u64> {
    let pod = live.spec.as_ref()?.template.spec.as_ref()?;
    let mut containers = pod.containers.iter();
    let etcd = containers.find(|container| container.name == names::ETCD_CONTAINER)?;
    let mut words = etcd.args.iter().flatten();
    let quota = words.find_map(|word| word.strip_prefix("--quota-backend-bytes="))?;
    quota.parse().ok()
}

fn claim_size(live: &StatefulSet) -> Option<u64> {
    let spec = live.spec.as_ref()?;
    let claim = spec.volume_claim_templates.iter().flatten().next()?;
    let requests = claim.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?;
    api::Quantity(requests.get("storage")?.0.clone()).value()
}

fn kept(live: &StatefulSet) -> Option<Value> {
    let text = live.annotations().get(labels::KEPT_TEMPLATE_ANNOTATION)?;
    serde_json::from_str(text).ok()
}

/// The hash that a template carries; empty for what an earlier operator left.
fn hash_of(template: &Value) -> String {
    let annotations = template.pointer("/metadata/annotations");
    let hash = annotations.and_then(|all| all.get(labels::TEMPLATE_ANNOTATION));
    hash.and_then(Value::as_str).unwrap_or_default().to_owned()
}

/// The template that the StatefulSet should have, and the one that should be kept beside it.
pub(crate) struct Wanted {
    /// What pods are made from.
    pub(crate) template: Value,
    /// What is kept.
    pub(crate) kept: Option<String>,
    /// The field of the live StatefulSet that differs from this.
    pub(crate) differs: Option<String>,
}

/// Resolves what a shape asks for against the live StatefulSet.
pub(crate) fn wanted(object: &Object, live: &Value, shape: &Shape, agent_image: &str) -> Wanted {
    let rendered = object.body.pointer(TEMPLATE).cloned().unwrap_or_default();
    let there = live.pointer(TEMPLATE).cloned().unwrap_or_default();
    let annotations = live.pointer("/metadata/annotations");
    let beside = annotations.and_then(|all| all.get(labels::KEPT_TEMPLATE_ANNOTATION));
    let beside = beside.and_then(Value::as_str).map(str::to_owned);
    // What this very operator rendered from the same wishes is corrected when it was changed by hand. What
    // another version rendered is left alone: an upgrade of the operator restarts no member.
    let own = hash_of(&rendered) == hash_of(&there) && agent_of(&there) == Some(agent_image);
    let (mut template, kept) = match shape.template {
        Template::Render => (rendered, None),
        Template::Live if own => (rendered, None),
        Template::Live => (there.clone(), None),
        Template::Kept => {
            let kept = beside
                .as_deref()
                .and_then(|kept| serde_json::from_str(kept).ok());
            (kept.unwrap_or_else(|| there.clone()), None)
        }
        Template::Try if hash_of(&rendered) == hash_of(&there) => (rendered, beside.clone()),
        Template::Try => (rendered, Some(there.to_string())),
    };
    manifests::guard_template(&mut template, shape);
    let differs = if kept != beside || hash_of(&template) != hash_of(&there) {
        Some(".spec.template".to_owned())
    } else {
        drift::find(&template, &there).map(|path| format!(".spec.template{path}"))
    };
    Wanted {
        template,
        kept,
        differs,
    }
}

fn agent_of(template: &Value) -> Option<&str> {
    let init = template
        .pointer("/spec/initContainers")
        .and_then(Value::as_array)?;
    let agent = init.iter().find(|container| {
        container.get("name").and_then(Value::as_str) == Some(names::AGENT_CONTAINER)
    })?;
    agent.get("image").and_then(Value::as_str)
}

/// Puts the live template into an object that is compared or written apart from it.
pub(crate) fn settle(object: &mut Object, live: &Value) {
    if object.kind == Kind::StatefulSet {
        object.keep_template(live);
    }
}

/// Puts a template, and what is kept beside it, into a live StatefulSet.
pub(crate) fn put(live: &mut Value, wanted: &Wanted) {
    if let Some(template) = live.pointer_mut(TEMPLATE) {
        template.clone_from(&wanted.template);
    }
    let Some(metadata) = live.get_mut("metadata").and_then(Value::as_object_mut) else {
        return;
    };
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    if let Some(annotations) = annotations.as_object_mut() {
        match &wanted.kept {
            Some(kept) => {
                annotations.insert(labels::KEPT_TEMPLATE_ANNOTATION.to_owned(), json!(kept));
            }
            None => {
                annotations.remove(labels::KEPT_TEMPLATE_ANNOTATION);
            }
        }
    }
}

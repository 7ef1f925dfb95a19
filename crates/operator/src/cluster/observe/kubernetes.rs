//! What the caches say: claims, pods, and whose the objects are.

use std::collections::BTreeMap;
use std::sync::Arc;

use api::v1alpha1::cluster::Retention;
use api::{ClusterIntent, EtcdCluster, Lineage, Plane, Transport, labels, names};
use etcd::{Security, Target};
use gate::GRANT_ANNOTATION;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod as ApiPod};
use kube::{Resource, ResourceExt};
use manifests::{Kind, Object, Owner, Shape};
use plan::observed::{Claim, Pod, Process, parse_id};
use serde_json::Value;

use super::problem::{broken, problem};
use super::whose::whose_pod;
use crate::caches;
use crate::cluster::place;
use crate::context::{Context, Dial};

/// Set by the StatefulSet controller on every pod.
const REVISION_LABEL: &str = "controller-revision-hash";

/// Whose an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Belonging {
    /// This object's.
    Ours,
    /// An earlier object's of this name.
    Former,
    /// It has another owner.
    Foreign,
}

/// The owner that manifests are built for.
pub(crate) fn owner(cluster: &EtcdCluster) -> Owner {
    let (namespace, name) = place(cluster);
    Owner {
        name,
        namespace,
        uid: cluster.uid().unwrap_or_default(),
    }
}

/// An object from the caches, as JSON.
pub(crate) fn live_object(ctx: &Context, namespace: &str, kind: Kind, name: &str) -> Option<Value> {
    fn json<K: serde::Serialize>(object: Option<Arc<K>>) -> Option<Value> {
        serde_json::to_value(object?.as_ref()).ok()
    }
    let caches = &ctx.caches;
    match kind {
        Kind::ServiceAccount => json(caches::get(&caches.service_accounts, namespace, name)),
        Kind::Service => json(caches::get(&caches.services, namespace, name)),
        Kind::PersistentVolumeClaim => json(caches::get(&caches.claims, namespace, name)),
        Kind::PodDisruptionBudget => json(caches::get(&caches.budgets, namespace, name)),
        Kind::NetworkPolicy => json(caches::get(&caches.network_policies, namespace, name)),
        Kind::StatefulSet => json(caches::get(&caches.statefulsets, namespace, name)),
    }
}

/// UIDs of the `EtcdCluster` objects that own an object.
fn owning_clusters(live: &Value) -> Vec<&str> {
    let owners = live
        .pointer("/metadata/ownerReferences")
        .and_then(Value::as_array);
    let clusters = owners
        .into_iter()
        .flatten()
        .filter(|owner| owner.get("kind").and_then(Value::as_str) == Some("EtcdCluster"));
    clusters
        .filter_map(|owner| owner.get("uid").and_then(Value::as_str))
        .collect()
}

pub(super) fn belonging(live: &Value, kind: Kind, cluster: &EtcdCluster) -> Belonging {
    let uid = cluster.uid().unwrap_or_default();
    let owners = owning_clusters(live);
    if owners.contains(&uid.as_str()) {
        Belonging::Ours
    } else if !owners.is_empty() {
        Belonging::Former
    } else if kind == Kind::PersistentVolumeClaim {
        // A claim has no owner unless it is to be deleted with the object.
        Belonging::Ours
    } else {
        Belonging::Foreign
    }
}

/// Whose an object is that has an owner, if it is ours.
pub(super) fn belonging_of<K: Resource>(object: &K, cluster: &EtcdCluster) -> Belonging {
    let uid = cluster.uid().unwrap_or_default();
    // One of another name may well have an object with this very name.
    let name = cluster.name_any();
    let owners = object.owner_references().iter();
    let mut clusters = owners
        .filter(|owner| owner.kind == "EtcdCluster" && owner.name == name)
        .peekable();
    if clusters.peek().is_none() {
        Belonging::Foreign
    } else if clusters.any(|owner| owner.uid == uid) {
        Belonging::Ours
    } else {
        Belonging::Former
    }
}

/// It may be changed.
pub(crate) fn is_ours(live: &Value, kind: Kind, cluster: &EtcdCluster) -> bool {
    belonging(live, kind, cluster) == Belonging::Ours
}

/// Clients were let in once.
pub(super) fn has_client_service(cluster: &EtcdCluster, ctx: &Context) -> bool {
    let (namespace, name) = place(cluster);
    caches::get(
        &ctx.caches.services,
        &namespace,
        &names::client_service(&name),
    )
    .is_some_and(|service| is_owned(service.as_ref(), cluster))
}

pub(crate) fn is_owned<K: Resource>(object: &K, cluster: &EtcdCluster) -> bool {
    let uid = cluster.uid().unwrap_or_default();
    let mut owners = object.owner_references().iter();
    owners.any(|owner| owner.kind == "EtcdCluster" && owner.uid == uid)
}

/// The spec and the versions of all objects it leads to; `None` while one of them is missing.
pub(super) fn stamp(
    cluster: &EtcdCluster,
    target: &plan::target::Target,
    shape: &Shape,
    ctx: &Context,
) -> Option<String> {
    let (namespace, name) = place(cluster);
    let (generation, template) = (cluster.metadata.generation, &target.template);
    let mut stamp = format!("{generation:?} {template} {} {shape:?}", target.runs);
    for (kind, object) in manifests::list_objects(&name, &target.intent, shape) {
        stamp.push(' ');
        stamp.push_str(&live_version(ctx, &namespace, kind, &object)?);
    }
    Some(stamp)
}

/// Objects of ours that should not exist.
pub(crate) fn unwanted(
    cluster: &EtcdCluster,
    target: &plan::target::Target,
    shape: &Shape,
    ctx: &Context,
) -> Vec<(Kind, String)> {
    // A spec that cannot be read may well ask for it.
    if target.invalid.is_some() {
        return Vec::new();
    }
    let (namespace, name) = place(cluster);
    let mut all = manifests::unwanted_objects(&name, &target.intent, shape);
    all.retain(|(kind, name)| {
        // What an earlier operator made under such a name, and users may depend on, does not bear our mark.
        let mark = |live: &Value| {
            let annotations = live.pointer("/metadata/annotations");
            annotations.is_some_and(|all| all.get(labels::APPLIED_ANNOTATION).is_some())
        };
        let live = live_object(ctx, &namespace, *kind, name);
        live.is_some_and(|live| {
            mark(&live) && matches!(belonging(&live, *kind, cluster), Belonging::Ours)
        })
    });
    all
}

fn live_version(ctx: &Context, namespace: &str, kind: Kind, name: &str) -> Option<String> {
    fn version<K: Resource>(object: Option<Arc<K>>) -> Option<String> {
        object?.meta().resource_version.clone()
    }
    let caches = &ctx.caches;
    match kind {
        Kind::ServiceAccount => version(caches::get(&caches.service_accounts, namespace, name)),
        Kind::Service => version(caches::get(&caches.services, namespace, name)),
        Kind::PersistentVolumeClaim => version(caches::get(&caches.claims, namespace, name)),
        Kind::PodDisruptionBudget => version(caches::get(&caches.budgets, namespace, name)),
        Kind::NetworkPolicy => version(caches::get(&caches.network_policies, namespace, name)),
        Kind::StatefulSet => version(caches::get(&caches.statefulsets, namespace, name)),
    }
}

/// A claim that would be deleted with the object though it shall be kept.
pub(crate) fn is_owned_against_policy(
    object: &Object,
    live: &Value,
    cluster: &EtcdCluster,
) -> bool {
    let kept = ClusterIntent::parse(&cluster.spec)
        .is_ok_and(|intent| intent.storage.when_deleted == Retention::Retain);
    object.kind == Kind::PersistentVolumeClaim && kept && !owning_clusters(live).is_empty()
}

/// Claims that go with an earlier object of this name.
pub(super) fn claims_of_former(cluster: &EtcdCluster, ctx: &Context) -> Vec<String> {
    let uid = cluster.uid().unwrap_or_default();
    let former = claims_by_ordinal(cluster, ctx)
        .into_values()
        .filter(|claim| {
            claim
                .owner_references()
                .iter()
                .any(|owner| owner.kind == "EtcdCluster" && owner.uid != uid)
        });
    former
        .map(|claim| format!("PersistentVolumeClaim {}", claim.name_any()))
        .collect()
}

pub(super) fn claims(cluster: &EtcdCluster, ctx: &Context) -> BTreeMap<u32, Claim> {
    let uid = cluster.uid().unwrap_or_default();
    let claims = claims_by_ordinal(cluster, ctx)
        .into_iter()
        .map(|(ordinal, claim)| {
            let seen = Claim {
                uid: claim.uid().unwrap_or_default(),
                ours: claim.labels().get(labels::CLUSTER_UID) == Some(&uid),
                terminating: claim.metadata.deletion_timestamp.is_some(),
                requested: requested(&claim),
                capacity: capacity(&claim),
                expandable: None,
                class: class(&claim),
                lost: None,
                lineage: lineage(&claim),
            };
            (ordinal, seen)
        });
    claims.collect()
}

fn lineage(claim: &PersistentVolumeClaim) -> Option<Lineage> {
    let written = claim.annotations().get(labels::LINEAGE_ANNOTATION)?;
    Lineage::parse(written)
}

fn requested(claim: &PersistentVolumeClaim) -> Option<u64> {
    let resources = claim.spec.as_ref()?.resources.as_ref()?;
    api::Quantity(resources.requests.as_ref()?.get("storage")?.0.clone()).value()
}

fn capacity(claim: &PersistentVolumeClaim) -> Option<u64> {
    let capacity = claim.status.as_ref()?.capacity.as_ref()?;
    api::Quantity(capacity.get("storage")?.0.clone()).value()
}

fn class(claim: &PersistentVolumeClaim) -> Option<String> {
    claim.spec.as_ref()?.storage_class_name.clone()
}

/// What a claim says of its volume.
pub(super) struct Volume {
    /// Its name, once it is bound.
    pub(super) name: Option<String>,
    /// There was one, and there is none any more.
    pub(super) lost: bool,
}

pub(super) fn volume_of(cluster: &EtcdCluster, ordinal: u32, ctx: &Context) -> Option<Volume> {
    let claim = claims_by_ordinal(cluster, ctx).remove(&ordinal)?;
    let phase = claim.status.as_ref().and_then(|s| s.phase.as_deref());
    Some(Volume {
        name: claim.spec.as_ref().and_then(|s| s.volume_name.clone()),
        lost: phase == Some("Lost"),
    })
}

/// The node that a pod was given.
pub(super) fn node_of(cluster: &EtcdCluster, ordinal: u32, ctx: &Context) -> Option<String> {
    let (_, pod) = api_pods(cluster, ctx).find(|(other, _)| *other == ordinal)?;
    pod.spec.as_ref()?.node_name.clone()
}

/// The classes of the claims that are smaller than they should be, by ordinal.
pub(super) fn classes(
    cluster: &EtcdCluster,
    wanted: u64,
    ctx: &Context,
) -> BTreeMap<u32, Option<String>> {
    let small = claims_by_ordinal(cluster, ctx)
        .into_iter()
        .filter(|(_, claim)| requested(claim).is_some_and(|size| size < wanted));
    small
        .map(|(ordinal, claim)| (ordinal, class(&claim)))
        .collect()
}

fn claims_by_ordinal(
    cluster: &EtcdCluster,
    ctx: &Context,
) -> BTreeMap<u32, Arc<PersistentVolumeClaim>> {
    let (namespace, name) = place(cluster);
    let found = (0..api::intent::MAX_SIZE).filter_map(|ordinal| {
        let claim = caches::get(
            &ctx.caches.claims,
            &namespace,
            &names::claim(&name, ordinal),
        )?;
        Some((ordinal, claim))
    });
    found.collect()
}

pub(super) fn pods(cluster: &EtcdCluster, ctx: &Context) -> BTreeMap<u32, Pod> {
    let revision = template_revision(cluster, ctx);
    let described = api_pods(cluster, ctx).map(|(ordinal, api_pod)| {
        let mut pod = describe_pod(&api_pod, revision.as_deref());
        // A pod that is ready has been resolved; the others are looked for, and they are few.
        pod.resolvable = pod.ready || is_published(&api_pod, cluster, ctx);
        (ordinal, pod)
    });
    described.collect()
}

/// Its address is published to DNS.
fn is_published(pod: &ApiPod, cluster: &EtcdCluster, ctx: &Context) -> bool {
    let Some(address) = pod
        .status
        .as_ref()
        .and_then(|status| status.pod_ip.as_ref())
    else {
        return false;
    };
    let (namespace, name) = place(cluster);
    // Looked for in place: many pods that start at once must not copy all slices each.
    let found = ctx.caches.slices.find(|slice| {
        let of_cluster = slice.labels().get(labels::CLUSTER) == Some(&name);
        let mut addresses = slice
            .endpoints
            .iter()
            .flat_map(|endpoint| &endpoint.addresses);
        of_cluster
            && slice.metadata.namespace.as_ref() == Some(&namespace)
            && addresses.any(|published| published == address)
    });
    found.is_some()
}

/// Where the pods are reached, by ordinal. One that speaks TLS, while we have nothing to present, cannot be.
pub(crate) fn targets(cluster: &EtcdCluster, ctx: &Context) -> BTreeMap<u32, Dial> {
    let (namespace, name) = place(cluster);
    let credentials = ctx.vault.get(&cluster.uid().unwrap_or_default());
    let found = api_pods(cluster, ctx).filter_map(|(ordinal, pod)| {
        let target = Target {
            namespace: namespace.clone(),
            pod: pod.name_any(),
            address: pod.status.as_ref()?.pod_ip.clone()?,
        };
        let security = match transport(&pod).client {
            Plane::Plain => Security::Plain,
            Plane::Both | Plane::Tls => Security::Tls {
                credentials: Arc::clone(credentials.as_ref()?),
                name: names::member_host(&name, &namespace, ordinal),
            },
        };
        Some((ordinal, Dial { target, security }))
    });
    found.collect()
}

fn transport(pod: &ApiPod) -> Transport {
    let written = pod.annotations().get(labels::TRANSPORT_ANNOTATION);
    written
        .and_then(|written| Transport::parse(written))
        .unwrap_or_default()
}

/// What stands where our pods would, and is not ours: what an earlier object of this name left, and what has another
/// owner.
pub(super) fn pods_of_others(cluster: &EtcdCluster, ctx: &Context) -> (Vec<String>, Vec<String>) {
    let (mut former, mut foreign) = (Vec::new(), Vec::new());
    for (_, pod, whose) in named_pods(cluster, ctx) {
        let what = format!("Pod {}", pod.name_any());
        match whose {
            Belonging::Ours => {}
            Belonging::Former => former.push(what),
            Belonging::Foreign => foreign.push(what),
        }
    }
    (former, foreign)
}

fn api_pods(cluster: &EtcdCluster, ctx: &Context) -> impl Iterator<Item = (u32, Arc<ApiPod>)> {
    let ours = named_pods(cluster, ctx).filter(|(_, _, whose)| *whose == Belonging::Ours);
    ours.map(|(ordinal, pod, _)| (ordinal, pod))
}

/// Pods with the name of one of ours.
fn named_pods(
    cluster: &EtcdCluster,
    ctx: &Context,
) -> impl Iterator<Item = (u32, Arc<ApiPod>, Belonging)> {
    let (namespace, name) = place(cluster);
    let set = caches::get(&ctx.caches.statefulsets, &namespace, &name);
    (0..api::intent::MAX_SIZE).filter_map(move |ordinal| {
        let pod = caches::get(&ctx.caches.pods, &namespace, &names::member(&name, ordinal))?;
        let whose = whose_pod(&pod, cluster, set.as_deref());
        Some((ordinal, pod, whose))
    })
}

/// The revision of the template that new pods are made from, once the StatefulSet controller has seen it.
fn template_revision(cluster: &EtcdCluster, ctx: &Context) -> Option<String> {
    let (namespace, name) = place(cluster);
    let statefulset = caches::get(&ctx.caches.statefulsets, &namespace, &name)?;
    let status = statefulset.status.as_ref()?;
    let seen = status.observed_generation == statefulset.metadata.generation;
    status.update_revision.clone().filter(|_| seen)
}

fn describe_pod(pod: &ApiPod, revision: Option<&str>) -> Pod {
    let status = pod.status.clone().unwrap_or_default();
    let ready = status
        .conditions
        .iter()
        .flatten()
        .any(|c| c.type_ == "Ready" && c.status == "True");
    let annotation = |name: &str| pod.annotations().get(name).cloned();
    let grant = pod.annotations().get(GRANT_ANNOTATION);
    Pod {
        uid: pod.uid().unwrap_or_default(),
        created: pod
            .creation_timestamp()
            .map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        resolvable: false,
        scheduled: pod
            .spec
            .as_ref()
            .is_some_and(|spec| spec.node_name.is_some()),
        terminating: pod.meta().deletion_timestamp.is_some(),
        ready,
        problem: problem(pod),
        broken: broken(pod),
        outdated: revision.is_some_and(|revision| {
            let made_from = pod.labels().get(REVISION_LABEL);
            made_from.is_some_and(|made_from| made_from != revision)
        }),
        template: annotation(labels::TEMPLATE_ANNOTATION).unwrap_or_default(),
        transport: transport(pod),
        trust: annotation(labels::TRUST_ANNOTATION)
            .and_then(|written| written.parse().ok())
            .unwrap_or(0),
        refreshed: annotation(labels::CERTIFICATES_ANNOTATION).and_then(|told| told.parse().ok()),
        debug: status
            .ephemeral_container_statuses
            .iter()
            .flatten()
            .any(|container| container.name == names::DEBUG_CONTAINER),
        told_removed: annotation(gate::REMOVED_ANNOTATION)
            .iter()
            .flat_map(|ids| ids.split(','))
            .filter_map(parse_id)
            .collect(),
        grant: grant.and_then(|text| serde_json::from_str(text).ok()),
        told: annotation(labels::TOLD_ANNOTATION).and_then(|told| told.parse().ok()),
        fence: annotation(gate::FENCE_ANNOTATION).and_then(|fence| fence.parse().ok()),
        process: Process::Unknown,
        received: None,
        stranger: None,
        stall: None,
    }
}

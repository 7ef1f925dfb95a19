//! Room 2, the object builders: from what a cluster should be to every Kubernetes object of it. Pure;
//! one kind per file. Whether and when an object is written is decided elsewhere.

mod access;
pub mod certificate;
mod claim;
mod debug;
pub mod drift;
mod flags;
mod hash;
pub mod keeper;
mod network;
mod pdb;
mod pod;
mod service;
mod statefulset;
pub mod tls;

use std::collections::BTreeMap;

use api::{ClusterIntent, labels};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use serde_json::{Value, json};

pub use debug::debug_container;
pub use hash::template_hash;
pub use pod::named_object;

/// Whose objects these are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    /// Name of the `EtcdCluster`.
    pub name: String,
    /// Its namespace.
    pub namespace: String,
    /// Its UID.
    pub uid: String,
}

/// What objects need to know of the operator that writes them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Installation {
    /// Image that holds the agent.
    pub agent_image: String,
    /// Namespace of the operator's pods; `None` where it runs outside of Kubernetes.
    pub namespace: Option<String>,
    /// Who says which user pods run as.
    pub pod_user: PodUser,
}

/// Who says which user and group the pods of members and Jobs run as, where a spec does not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PodUser {
    /// We: the user that goes with the image.
    #[default]
    Fixed,
    /// The platform writes a user, and the group of volumes, into every pod, and rejects pods that name others.
    Assigned,
}

impl PodUser {
    /// The user of an image, where it is ours to say.
    pub(crate) fn of(self, image: i64) -> Option<i64> {
        match self {
            Self::Fixed => Some(image),
            Self::Assigned => None,
        }
    }
}

/// How much of a cluster should exist at the moment; the plan decides it.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Shape {
    /// Pods.
    pub replicas: u32,
    /// Voters that a disruption must leave; 0 lets every disruption through.
    pub min_available: u32,
    /// Clients may connect: the cluster has formed.
    pub client_service: bool,
    /// Clients are let in no more, because the data is about to end.
    pub closing: bool,
    /// Ordinals whose claims are ours to make and label.
    pub claims: Vec<u32>,
    /// By ordinal: which data a claim belongs to.
    pub lineage: BTreeMap<u32, String>,
    /// What pods are made from.
    pub template: Template,
    /// Data of an earlier incarnation than this is held back.
    pub fence: Option<u64>,
    /// By member ID: a log that ends before this index was rolled back.
    pub floors: BTreeMap<String, u64>,
}

/// Puts what the gate has to know of data into a pod template, whichever that is.
pub fn guard_template(template: &mut Value, shape: &Shape) {
    let annotations = template.pointer_mut("/metadata/annotations");
    let Some(annotations) = annotations.and_then(Value::as_object_mut) else {
        return;
    };
    if let Some(fence) = shape.fence {
        annotations.insert(gate::FENCE_ANNOTATION.to_owned(), fence.to_string().into());
    }
    if !shape.floors.is_empty() {
        let floors = shape
            .floors
            .iter()
            .map(|(id, index)| format!("{id}={index}"));
        let floors = floors.collect::<Vec<_>>().join(",");
        annotations.insert(gate::FLOORS_ANNOTATION.to_owned(), floors.into());
    }
}

/// What pods are made from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Template {
    /// What is asked for.
    #[default]
    Render,
    /// What is asked for, while what was there before is kept beside it.
    Try,
    /// What is there, whatever that is.
    Live,
    /// What was kept.
    Kept,
}

/// A kind of object that we write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `v1`
    ServiceAccount,
    /// `v1`
    Service,
    /// `v1`
    PersistentVolumeClaim,
    /// `policy/v1`
    PodDisruptionBudget,
    /// `networking.k8s.io/v1`
    NetworkPolicy,
    /// `apps/v1`
    StatefulSet,
}

/// One object, ready to be applied.
#[derive(Clone, Debug, PartialEq)]
pub struct Object {
    /// Its kind.
    pub kind: Kind,
    /// Its name.
    pub name: String,
    /// All of it.
    pub body: Value,
}

/// Kind and name of every object of a cluster, in the order of [`build_objects`].
pub fn list_objects(name: &str, intent: &ClusterIntent, shape: &Shape) -> Vec<(Kind, String)> {
    let claims = shape.claims.iter();
    let claims = claims.map(|n| (Kind::PersistentVolumeClaim, api::names::claim(name, *n)));
    let mut list = vec![
        (Kind::ServiceAccount, name.to_owned()),
        (Kind::Service, api::names::peer_service(name)),
        (Kind::PodDisruptionBudget, name.to_owned()),
    ];
    let network = network::wanted(intent);
    list.extend(network.map(|_| (Kind::NetworkPolicy, name.to_owned())));
    list.extend(claims);
    list.push((Kind::StatefulSet, name.to_owned()));
    if shape.client_service {
        list.push((Kind::Service, api::names::client_service(name)));
    }
    let access = access::wanted(name, intent, shape);
    list.extend(access.map(|access| (Kind::Service, access)));
    list
}

/// Kind and name of every object that a cluster may have and that this one should not have now.
pub fn unwanted_objects(name: &str, intent: &ClusterIntent, shape: &Shape) -> Vec<(Kind, String)> {
    let wanted = access::wanted(name, intent, shape);
    let possible = access::KINDS
        .into_iter()
        .filter_map(|kind| access::name(name, kind));
    let client = shape.closing.then(|| api::names::client_service(name));
    let network = network::wanted(intent).is_none();
    possible
        .filter(|possible| Some(possible) != wanted.as_ref())
        .chain(client)
        .map(|unwanted| (Kind::Service, unwanted))
        .chain(network.then(|| (Kind::NetworkPolicy, name.to_owned())))
        .collect()
}

/// Every object of a cluster, in the order in which they are written: what a pod needs comes before
/// the pod.
pub fn build_objects(
    owner: &Owner,
    intent: &ClusterIntent,
    shape: &Shape,
    install: &Installation,
) -> Result<Vec<Object>, serde_json::Error> {
    let name = &owner.name;
    let mut objects = vec![
        object(Kind::ServiceAccount, name, &build_service_account(owner))?,
        object(
            Kind::Service,
            &api::names::peer_service(name),
            &service::build_peer(owner),
        )?,
        object(Kind::PodDisruptionBudget, name, &pdb::build(owner, shape))?,
    ];
    if let Some(settings) = network::wanted(intent) {
        let policy = network::build(owner, settings, install);
        objects.push(object(Kind::NetworkPolicy, name, &policy)?);
    }
    for ordinal in &shape.claims {
        let lineage = shape.lineage.get(ordinal);
        let claim = claim::build(owner, intent, *ordinal, lineage);
        objects.push(object(
            Kind::PersistentVolumeClaim,
            &api::names::claim(name, *ordinal),
            &claim,
        )?);
    }
    let statefulset = statefulset::build(owner, intent, shape, install);
    let mut statefulset = object(Kind::StatefulSet, name, &statefulset)?;
    if let Some(template) = statefulset.body.pointer_mut("/spec/template") {
        guard_template(template, shape);
    }
    objects.push(statefulset);
    if shape.client_service {
        let client = service::build_client(owner);
        objects.push(object(
            Kind::Service,
            &api::names::client_service(name),
            &client,
        )?);
    }
    if let Some(access) = access::wanted(name, intent, shape) {
        let service = access::build(owner, &intent.access, &access);
        objects.push(object(Kind::Service, &access, &service)?);
    }
    Ok(objects)
}

impl Object {
    /// Takes over from the live object what cannot be changed any more, or what is changed by a step of its own:
    /// a claim's spec once it exists (its growth), and the claim templates of the StatefulSet.
    pub fn keep_immutable(&mut self, live: &Value) {
        match self.kind {
            Kind::StatefulSet => self.keep("/spec/volumeClaimTemplates", live),
            Kind::PersistentVolumeClaim => self.keep("/spec", live),
            Kind::ServiceAccount
            | Kind::Service
            | Kind::PodDisruptionBudget
            | Kind::NetworkPolicy => {}
        }
    }

    /// Leaves the pod template of a live StatefulSet as it is, while no other one is due.
    pub fn keep_template(&mut self, live: &Value) {
        if self.kind == Kind::StatefulSet {
            self.keep("/spec/template", live);
        }
    }

    fn keep(&mut self, pointer: &str, live: &Value) {
        if let (Some(ours), Some(theirs)) = (self.body.pointer_mut(pointer), live.pointer(pointer))
        {
            ours.clone_from(theirs);
        }
    }

    /// Notes what this object was rendered to. A claim's spec is taken over from the live one, so nothing of it
    /// can be missed.
    fn note_applied(&mut self) {
        if self.kind == Kind::PersistentVolumeClaim {
            return;
        }
        let applied = hash::applied(self);
        if let Some(Value::Object(metadata)) = self.body.get_mut("metadata") {
            let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
            if let Value::Object(annotations) = annotations {
                annotations.insert(labels::APPLIED_ANNOTATION.to_owned(), json!(applied));
            }
        }
    }
}

fn object<T: serde::Serialize>(
    kind: Kind,
    name: &str,
    body: &T,
) -> Result<Object, serde_json::Error> {
    let mut object = Object {
        kind,
        name: name.to_owned(),
        body: serde_json::to_value(body)?,
    };
    object.note_applied();
    Ok(object)
}

fn build_service_account(owner: &Owner) -> ServiceAccount {
    ServiceAccount {
        metadata: metadata(owner, &owner.name, "database"),
        automount_service_account_token: Some(false),
        ..ServiceAccount::default()
    }
}

/// Metadata of an object that is not built here, and goes when the cluster's object goes.
pub fn object_metadata(owner: &Owner, name: &str, component: &str) -> ObjectMeta {
    metadata(owner, name, component)
}

/// Metadata of an object that goes when the cluster's object goes.
fn metadata(owner: &Owner, name: &str, component: &str) -> ObjectMeta {
    ObjectMeta {
        name: Some(name.to_owned()),
        namespace: Some(owner.namespace.clone()),
        labels: Some(labels::object(&owner.name, component)),
        owner_references: Some(vec![owner_reference(owner)]),
        ..ObjectMeta::default()
    }
}

fn owner_reference(owner: &Owner) -> OwnerReference {
    OwnerReference {
        api_version: "etcd.etcd.io/v1alpha1".to_owned(),
        kind: "EtcdCluster".to_owned(),
        name: owner.name.clone(),
        uid: owner.uid.clone(),
        controller: Some(true),
        block_owner_deletion: Some(true),
    }
}

#[cfg(test)]
mod tests;

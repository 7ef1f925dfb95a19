//! Claims: made by us so that the deletion policy holds from their first moment, and again by the
//! StatefulSet's template, which makes the same claim, should one vanish while the operator is away.

use std::collections::BTreeMap;

use api::intent::StorageIntent;
use api::v1alpha1::cluster::{ClaimTemplate, Retention};
use api::{ClusterIntent, Quantity, labels, names};
use k8s_openapi::api::core::v1::{
    PersistentVolumeClaim, PersistentVolumeClaimSpec, VolumeResourceRequirements,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as ApiQuantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::{Owner, owner_reference};

/// The claim of one ordinal. Owned by the cluster only if it shall be deleted with it, so that
/// Kubernetes keeps or deletes it even when the operator is gone first.
pub(crate) fn build(
    owner: &Owner,
    intent: &ClusterIntent,
    ordinal: u32,
    lineage: Option<&String>,
) -> PersistentVolumeClaim {
    let mut claim = build_template(owner, intent);
    if let Some(lineage) = lineage {
        let annotations = claim.metadata.annotations.get_or_insert_default();
        annotations.insert(labels::LINEAGE_ANNOTATION.to_owned(), lineage.clone());
    }
    claim.metadata.name = Some(names::claim(&owner.name, ordinal));
    claim.metadata.namespace = Some(owner.namespace.clone());
    claim
}

/// The claim template of the StatefulSet, which cannot be changed later. It names the owner as well: a claim that
/// Kubernetes deletes with the object before the StatefulSet is gone is recreated from here, and must go, too.
pub(crate) fn build_template(owner: &Owner, intent: &ClusterIntent) -> PersistentVolumeClaim {
    let storage = &intent.storage;
    let template = storage.template.as_ref();
    let metadata = template
        .and_then(|template| template.metadata.clone())
        .unwrap_or_default();
    let mut all_labels = metadata.labels;
    all_labels.extend(labels::object(&owner.name, "database"));
    all_labels.insert(labels::CLUSTER_UID.to_owned(), owner.uid.clone());
    PersistentVolumeClaim {
        metadata: ObjectMeta {
            name: Some(names::CLAIM_TEMPLATE.to_owned()),
            labels: Some(all_labels),
            annotations: (!metadata.annotations.is_empty()).then_some(metadata.annotations),
            owner_references: owner_by_policy(owner, storage.when_deleted),
            ..ObjectMeta::default()
        },
        spec: Some(spec(storage, template)),
        ..PersistentVolumeClaim::default()
    }
}

/// Owned by the cluster only if it shall be deleted with it.
fn owner_by_policy(owner: &Owner, when_deleted: Retention) -> Option<Vec<OwnerReference>> {
    match when_deleted {
        Retention::Retain => None,
        Retention::Delete => Some(vec![OwnerReference {
            controller: None,
            block_owner_deletion: None,
            ..owner_reference(owner)
        }]),
    }
}

fn spec(storage: &StorageIntent, template: Option<&ClaimTemplate>) -> PersistentVolumeClaimSpec {
    let given = template
        .map(|template| template.spec.clone())
        .unwrap_or_default();
    let resources = given.resources.unwrap_or_default();
    let mut requests = quantities(&resources.requests);
    requests.insert("storage".to_owned(), ApiQuantity(storage.size.0.clone()));
    let limits = quantities(&resources.limits);
    let modes = if given.access_modes.is_empty() {
        vec!["ReadWriteOnce".to_owned()]
    } else {
        given.access_modes
    };
    PersistentVolumeClaimSpec {
        access_modes: Some(modes),
        storage_class_name: storage.class.clone(),
        volume_mode: Some("Filesystem".to_owned()),
        selector: given.selector,
        volume_attributes_class_name: given.volume_attributes_class_name,
        resources: Some(VolumeResourceRequirements {
            requests: Some(requests),
            limits: (!limits.is_empty()).then_some(limits),
        }),
        ..PersistentVolumeClaimSpec::default()
    }
}

/// Our quantities as Kubernetes' own type.
pub(crate) fn quantities(ours: &BTreeMap<String, Quantity>) -> BTreeMap<String, ApiQuantity> {
    ours.iter()
        .map(|(name, amount)| (name.clone(), ApiQuantity(amount.0.clone())))
        .collect()
}

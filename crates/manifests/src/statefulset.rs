//! The StatefulSet: it brings pods back without us, and leaves every other decision to us.

use api::{ClusterIntent, labels, names};
use k8s_openapi::api::apps::v1::{
    StatefulSet, StatefulSetPersistentVolumeClaimRetentionPolicy, StatefulSetSpec,
    StatefulSetUpdateStrategy,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use crate::{Installation, Owner, Shape, claim, metadata, pod};

/// `OnDelete`: only we decide which pod restarts. `Parallel`: no pod waits for another to be ready.
/// Claims are kept whatever happens to this object: a StatefulSet deleted by hand must not take the
/// data with it.
pub(crate) fn build(
    owner: &Owner,
    intent: &ClusterIntent,
    shape: &Shape,
    install: &Installation,
) -> StatefulSet {
    let mut metadata = metadata(owner, &owner.name, "database");
    if let Some(all) = metadata.labels.as_mut() {
        all.insert(labels::VERSION.to_owned(), intent.version.to_string());
    }
    StatefulSet {
        metadata,
        spec: Some(StatefulSetSpec {
            service_name: Some(names::peer_service(&owner.name)),
            replicas: Some(i32::try_from(shape.replicas).unwrap_or(i32::MAX)),
            pod_management_policy: Some("Parallel".to_owned()),
            update_strategy: Some(StatefulSetUpdateStrategy {
                type_: Some("OnDelete".to_owned()),
                rolling_update: None,
            }),
            persistent_volume_claim_retention_policy: Some(
                StatefulSetPersistentVolumeClaimRetentionPolicy {
                    when_deleted: Some("Retain".to_owned()),
                    when_scaled: Some("Retain".to_owned()),
                },
            ),
            selector: LabelSelector {
                match_labels: Some(labels::selector(&owner.name)),
                ..LabelSelector::default()
            },
            template: pod::build(owner, intent, install),
            volume_claim_templates: Some(vec![claim::build_template(owner, intent)]),
            ..StatefulSetSpec::default()
        }),
        ..StatefulSet::default()
    }
}

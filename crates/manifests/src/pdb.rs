//! The disruption budget: how many voters a drain must leave.

use api::labels;
use k8s_openapi::api::policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::{Owner, Shape, metadata};

/// `minAvailable`, not `maxUnavailable`: the latter counts from the pods that exist, so it permits a
/// loss of quorum while pods are missing.
pub(crate) fn build(owner: &Owner, shape: &Shape) -> PodDisruptionBudget {
    PodDisruptionBudget {
        metadata: metadata(owner, &owner.name, "database"),
        spec: Some(PodDisruptionBudgetSpec {
            min_available: Some(IntOrString::Int(
                i32::try_from(shape.min_available).unwrap_or(i32::MAX),
            )),
            selector: Some(LabelSelector {
                match_labels: Some(labels::selector(&owner.name)),
                ..LabelSelector::default()
            }),
            ..PodDisruptionBudgetSpec::default()
        }),
        ..PodDisruptionBudget::default()
    }
}

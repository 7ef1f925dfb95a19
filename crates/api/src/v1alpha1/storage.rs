//! The part of the spec that is about volumes. Field docs are for users, as in [`super::cluster`].

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Quantity;
use crate::v1alpha1::cluster::Resources;

/// Volume of each member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Storage {
    /// StorageClass of the PersistentVolumeClaims; the default class of the Kubernetes cluster when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,
    /// Size of each volume. It can be increased if the StorageClass allows volume expansion, and never reduced. The quota
    /// of etcd is two fifths of it, at most 8 GiB, unless `spec.etcd.quotaBackendBytes` is set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Quantity>,
    /// A complete PersistentVolumeClaim template, for what the two fields above cannot express (access mode, selector,
    /// volume attributes). It takes precedence over them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_claim_template: Option<ClaimTemplate>,
    /// What happens to PersistentVolumeClaims that are no longer in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_policy: Option<ClaimPolicy>,
}

/// What happens to PersistentVolumeClaims that are no longer in use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClaimPolicy {
    /// When the cluster is stopped (`size: 0`): `Retain` keeps the claims, and the cluster has its data when it is started
    /// again; `Delete` deletes them, and it starts empty.
    pub when_stopped: Retention,
    /// When the cluster is scaled in: `Delete` deletes the claim of each removed member; `Retain` keeps it for
    /// inspection, and a later member of the same name joins with an empty data directory.
    pub when_scaled: Retention,
    /// When the `EtcdCluster` is deleted: `Retain` keeps the claims, and an EtcdCluster that is recreated under the same
    /// name resumes them; `Delete` deletes them with it.
    pub when_deleted: Retention,
}

impl Default for ClaimPolicy {
    fn default() -> Self {
        Self {
            when_stopped: Retention::Retain,
            when_scaled: Retention::Delete,
            when_deleted: Retention::Retain,
        }
    }
}

/// Whether a claim is retained.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Retention {
    /// Keep it.
    #[default]
    Retain,
    /// Delete it, and the data with it.
    Delete,
}

/// Template of the PersistentVolumeClaim of each member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimTemplate {
    /// Labels and annotations to add to each claim.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<ClaimMetadata>,
    /// The claim's spec.
    pub spec: ClaimTemplateSpec,
}

/// Labels and annotations of a claim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimMetadata {
    /// Labels to add.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations to add.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
}

/// Spec of a PersistentVolumeClaim.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimTemplateSpec {
    /// Access modes; `ReadWriteOnce` when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub access_modes: Vec<String>,
    /// Requested size.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Binds to volumes with these labels only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub selector: Option<LabelSelector>,
    /// Storage class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,
    /// Volume attributes class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_attributes_class_name: Option<String>,
    /// `Filesystem`; etcd cannot use a block device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_mode: Option<String>,
}

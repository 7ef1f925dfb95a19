//! The spec of `EtcdCluster`. Field docs become the descriptions that `kubectl explain` prints, so
//! they speak to users. The validation rules are in [`crate::rules`].
#![expect(
    clippy::duplicated_attributes,
    reason = "every printer column has a type of its own"
)]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Quantity;
pub use crate::v1alpha1::status::EtcdClusterStatus;

/// What an etcd cluster should be.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(
    group = "etcd.etcd.io",
    version = "v1alpha1",
    kind = "EtcdCluster",
    plural = "etcdclusters",
    singular = "etcdcluster",
    shortname = "etcd",
    namespaced,
    derive = "Default",
    derive = "PartialEq",
    status = "EtcdClusterStatus",
    doc = "An etcd cluster: declared here, run and kept alive by the operator.",
    scale(
        spec_replicas_path = ".spec.size",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Phase", type_ = "string", json_path = ".status.phase"),
    printcolumn(name = "Size", type_ = "integer", json_path = ".spec.size"),
    printcolumn(name = "Ready", type_ = "integer", json_path = ".status.readyReplicas"),
    printcolumn(name = "Version", type_ = "string", json_path = ".spec.version"),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    ),
    printcolumn(
        name = "Leader",
        type_ = "string",
        json_path = ".status.members[?(@.role==\"leader\")].name",
        priority = 1
    ),
    printcolumn(
        name = "Health",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].message",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase")]
pub struct EtcdClusterSpec {
    /// Number of members: odd, at most 9. 0 stops the cluster and keeps its data. An even number is
    /// refused: it adds a member that can fail without tolerating one more failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<i32>,
    /// etcd release to run, such as `v3.6.16`; the leading `v` may be left out. The lines 3.5, 3.6 and
    /// 3.7 are supported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Image repository, without a tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// The volume of each member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    /// Transport security. This release runs plaintext only and refuses new clusters that ask for TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security: Option<Security>,
    /// CPU and memory of each etcd container. Without it 100m CPU and 128Mi memory are requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
}

/// The volume of each member.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Storage {
    /// Storage class of the claims; the cluster's default class when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage_class_name: Option<String>,
    /// Size of each volume. etcd's quota is two fifths of it, at most 8 GiB.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<Quantity>,
    /// A whole claim, for what the two fields above cannot say (access mode, selector, volume
    /// attributes). What it states wins over them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volume_claim_template: Option<ClaimTemplate>,
    /// What happens to the claims when they are no longer in use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim_policy: Option<ClaimPolicy>,
}

/// What happens to claims that are no longer in use.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClaimPolicy {
    /// When the `EtcdCluster` object is deleted: `Retain` keeps the claims, and an object created anew
    /// under the same name resumes them; `Delete` deletes them with the object.
    #[serde(default)]
    pub when_deleted: Retention,
}

/// Whether a claim is kept.
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

/// A `PersistentVolumeClaim` to copy for each member.
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

/// The spec of a claim, as Kubernetes has it.
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

/// Transport security.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Security {
    /// TLS settings; plaintext when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
}

/// TLS settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tls {
    /// The main switch. `false` means plaintext, whatever the other fields say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// TLS between clients and members.
    #[serde(
        rename = "clientTLSEnabled",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub client_tls_enabled: Option<bool>,
    /// TLS between members.
    #[serde(
        rename = "peerTLSEnabled",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub peer_tls_enabled: Option<bool>,
    /// Certificates are issued by the operator.
    #[serde(rename = "autoTLS", default, skip_serializing_if = "Option::is_none")]
    pub auto_tls: Option<bool>,
    /// Secret with `tls.crt` and `tls.key`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_secret: Option<String>,
    /// Secret with `ca.crt`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_secret: Option<String>,
}

/// Requests and limits by resource name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Resources {
    /// What the scheduler sets aside.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, Quantity>,
    /// What the container may use at most.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, Quantity>,
}

//! The spec of `EtcdCluster`. Field docs become the descriptions that `kubectl explain` prints, so
//! they speak to users. The validation rules are in [`crate::rules`].
#![expect(
    clippy::duplicated_attributes,
    reason = "every printer column has a type of its own"
)]

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Quantity;
use crate::image::{Flavour, PullPolicy};
use crate::v1alpha1::access::Access;
use crate::v1alpha1::etcd::Etcd;
use crate::v1alpha1::maintenance::Maintenance;
use crate::v1alpha1::pod::PodSettings;
use crate::v1alpha1::restore::Bootstrap;
pub use crate::v1alpha1::security::{PlaintextClients, Security, Tls, TlsVersion};
pub use crate::v1alpha1::status::EtcdClusterStatus;
pub use crate::v1alpha1::storage::{
    ClaimMetadata, ClaimPolicy, ClaimTemplate, ClaimTemplateSpec, Retention, Storage,
};

/// Desired state of an etcd cluster.
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
    doc = "An etcd cluster that the operator runs and repairs.",
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
    /// Number of members: odd, at most 9. 0 stops the cluster; its data is kept unless
    /// `storage.claimPolicy.whenStopped` is `Delete`. Even numbers are rejected: they tolerate no more failures than the
    /// odd number below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<i32>,
    /// etcd release to run, such as `v3.6.16`; the leading `v` may be left out. The minor versions
    /// 3.5, 3.6 and 3.7 are supported. An EtcdCluster that is recreated to resume retained volumes should name the version
    /// that wrote the data, because the default may be older.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Image repository, without a tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// Tag, digest, flavour and pull policy of the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// Volume of each member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    /// TLS, and who may connect. Plaintext, and every pod, when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security: Option<Security>,
    /// CPU and memory of each etcd container. When absent, 100m CPU and 128Mi memory are requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Settings of etcd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd: Option<Etcd>,
    /// Scheduling, metadata, volumes and containers of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodSettings>,
    /// How clients outside the Kubernetes cluster reach etcd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
    /// A container with tools beside etcd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub debug: Option<Debug>,
    /// How the version of etcd is changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<Upgrade>,
    /// When failed members are replaced, and what happens when quorum is permanently lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
    /// Defragmentation and compaction by the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<Maintenance>,
    /// What the cluster begins with; empty when absent. Cannot be changed once the cluster has formed; it may be left out
    /// then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<Bootstrap>,
}

/// Tag, digest, flavour and pull policy of the image.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    /// Layout of the image. When absent it is derived from the repository: `Bitnami` if that contains
    /// `bitnami`, else `Official`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flavour: Option<Flavour>,
    /// A tag, for repositories whose tags do not follow from `version` (`registry.k8s.io/etcd` needs it:
    /// `3.6.16-0`). `version` must still name the release in the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Digest of the image, `sha256:…`; takes precedence over the tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// When the kubelet pulls the image; the default of Kubernetes when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_policy: Option<PullPolicy>,
}

/// An ephemeral container `debug` with tools in every pod. It restarts no member and does not affect readiness.
/// Kubernetes gives it no resources of its own, and removes it only together with the pod.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Debug {
    /// Whether the container is added to the pods.
    #[serde(default)]
    pub enabled: bool,
    /// Its image; `nicolaka/netshoot` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Its command; `sleep infinity` when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
}

/// How the version of etcd is changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Upgrade {
    /// etcd is upgraded one minor version at a time, and only from a recent patch release. With `true`, a `version` that is
    /// further away is reached through the latest patch of each minor version in between; with `false` it is rejected.
    #[serde(default)]
    pub allow_intermediate: bool,
}

/// When failed members are replaced, and what happens when quorum is permanently lost.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Recovery {
    /// How long a node may be NotReady before its member is replaced on another node; 300 when absent. A node that was
    /// deleted, or has the taint `node.kubernetes.io/out-of-service`, is not waited for, unless the volume can be attached
    /// to another node: then its pod is. Also how long quorum may be lost before the condition explains how to recover.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_patience_seconds: Option<i32>,
    /// How long a joining member may make no progress before it is replaced; 600 when absent. Progress is data received
    /// from the leader, or fewer log entries behind it; the total time is not limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join_patience_seconds: Option<i32>,
    // Schemas of optional enums carry the description of the enum, so that is where the text is.
    /// What to do when quorum is permanently lost.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_quorum_loss: Option<OnQuorumLoss>,
    /// What to do when no member has data any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_everything_lost: Option<OnEverythingLost>,
}

/// What to do when quorum is permanently lost. `Ask`, the default, reports what is left and the command that
/// recovers from it. `FromSurvivor` recovers automatically from the member with the longest log, once the cluster has been
/// unavailable for a minute and the volume of every missing member is proved to be gone: deleted, or bound to a node that
/// is gone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnQuorumLoss {
    /// Wait for the annotation `etcd.etcd.io/recover`.
    #[default]
    Ask,
    /// Recover automatically once the loss is proved.
    FromSurvivor,
}

/// What to do when no member has data any more. `Ask`, the default, reports the backup to begin with and the command that does
/// so. `FromBackup` begins with it automatically, once for each etcd cluster ID: when the cluster has been unavailable for a minute,
/// the data of every voter is proved to be gone, and an `EtcdBackup` of this namespace lists a backup of that very etcd cluster.
/// It is the newest of `status.backups` that was verified, or the newest one where none was. What was written after it is lost.
/// Volumes that were retained without a claim are not looked for: where they can come back, leave it at `Ask`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnEverythingLost {
    /// Wait for an `EtcdRestore` that names this cluster.
    #[default]
    Ask,
    /// Begin with the backup automatically once the loss is proved.
    FromBackup,
}

/// Requests and limits by resource name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Resources {
    /// Resources that the scheduler reserves.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub requests: BTreeMap<String, Quantity>,
    /// Maximum that the container may use.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub limits: BTreeMap<String, Quantity>,
}

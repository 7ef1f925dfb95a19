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
pub use crate::v1alpha1::status::EtcdClusterStatus;
pub use crate::v1alpha1::storage::{
    ClaimMetadata, ClaimPolicy, ClaimTemplate, ClaimTemplateSpec, Retention, Storage,
};

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
    /// Number of members: odd, at most 9. 0 stops the cluster; its data is kept unless
    /// `storage.claimPolicy.whenStopped` is `Delete`. An even number is
    /// refused: it adds a member that can fail without tolerating one more failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub size: Option<i32>,
    /// etcd release to run, such as `v3.6.16`; the leading `v` may be left out. The minor versions
    /// 3.5, 3.6 and 3.7 are supported. An object that is created again to resume kept data should name the version that the
    /// data was written with, because the default may be older.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// Image repository, without a tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repository: Option<String>,
    /// What else there is to say about the image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// The volume of each member.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    /// Transport security. This release runs plaintext only and refuses new clusters that ask for TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security: Option<Security>,
    /// CPU and memory of each etcd container. Without it 100m CPU and 128Mi memory are requested.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<Resources>,
    /// Settings of etcd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etcd: Option<Etcd>,
    /// Where and how the pods run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodSettings>,
    /// How clients outside the Kubernetes cluster reach this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<Access>,
    /// A container with tools beside etcd.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub debug: Option<Debug>,
    /// How the cluster gets to another release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upgrade: Option<Upgrade>,
    /// What is done about members that are gone for good.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
    /// How the database is kept in shape.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub maintenance: Option<Maintenance>,
}

/// What there is to say about an image beside its repository.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Image {
    /// How the image is laid out. When absent it is found from the repository: `Bitnami` if that contains
    /// `bitnami`, else `Official`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flavour: Option<Flavour>,
    /// A tag, for repositories whose tags do not follow from `version` (`registry.k8s.io/etcd` needs it:
    /// `3.6.16-0`). `version` still says which release it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tag: Option<String>,
    /// Digest of the image, `sha256:…`; it wins over the tag.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
    /// When the kubelet pulls the image; as Kubernetes does it when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pull_policy: Option<PullPolicy>,
}

/// A container with tools beside etcd: an ephemeral container `debug` in every pod. It restarts no member and has no
/// say in whether a pod is ready. Kubernetes lets it have no resources of its own, and takes it away with the pod only.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Debug {
    /// Whether pods get it.
    #[serde(default)]
    pub enabled: bool,
    /// Its image; `nicolaka/netshoot` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<String>,
    /// Its command; `sleep infinity` when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
}

/// How the cluster gets to another release.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Upgrade {
    /// etcd goes one line at a time, and up only from a recent patch of a line. With `true` a `version` that
    /// is further away is reached through the newest release of each line between; with `false` it is refused.
    #[serde(default)]
    pub allow_intermediate: bool,
}

/// What is done about members that are gone for good.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Recovery {
    /// How long a node may be silent before its member is replaced on another one; 300 when absent. A node that was
    /// deleted, or bears the taint `node.kubernetes.io/out-of-service`, is not waited for, unless another node can use the
    /// volume: then the pod is. Also how long no quorum may answer before the condition says how to go on without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_patience_seconds: Option<i32>,
    /// How long a member that joins may make no progress before it is replaced; 600 when absent. As long as data of the
    /// leader comes, or the member comes closer to the leader, it may take as long as it needs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub join_patience_seconds: Option<i32>,
    // Schemas of optional enums carry the description of the enum, so that is where the text is.
    /// What to do when so many members are gone for good that no quorum can return.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_quorum_loss: Option<OnQuorumLoss>,
}

/// What to do when so many members are gone for good that no quorum can return. `Ask`, the default, says what is
/// left and how to go on with it. `FromSurvivor` goes on by itself, with the member that has the longest log, once
/// the cluster has been down for a minute and the volume of every missing member is proved to be gone, by itself or with
/// the only node that could use it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum OnQuorumLoss {
    /// A person.
    #[default]
    Ask,
    /// The operator, by proof.
    FromSurvivor,
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
    /// TLS between clients and members. Not in this release: refused in a new object, without effect in a stored one.
    #[serde(
        rename = "clientTLSEnabled",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub client_tls_enabled: Option<bool>,
    /// TLS between members. Not in this release: refused in a new object, without effect in a stored one.
    #[serde(
        rename = "peerTLSEnabled",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub peer_tls_enabled: Option<bool>,
    /// Certificates issued by the operator. Not in this release: refused in a new object, without effect in a stored one.
    #[serde(rename = "autoTLS", default, skip_serializing_if = "Option::is_none")]
    pub auto_tls: Option<bool>,
    /// Secret with `tls.crt` and `tls.key`. Not read by this release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_secret: Option<String>,
    /// Secret with `ca.crt`. Not read by this release.
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

//! The part of the spec that is about pods. Field docs are for users, as in [`super::cluster`].

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, EnvVar, LocalObjectReference, PodSecurityContext, SecurityContext, Toleration,
    TopologySpreadConstraint, VolumeMount,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Where and how the pods run. A change restarts the members one after another.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodSettings {
    /// Labels to add; those that the operator or Kubernetes sets are refused.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations to add; those of `etcd.etcd.io/` are refused.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Labels that a node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints of nodes that the pods put up with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Affinity to nodes and pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// How the pods spread. Replaces the operator's own wish, which is apart from each other by zone and by node
    /// where that is possible; an empty list leaves it to the scheduler.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_spread_constraints: Option<Vec<TopologySpreadConstraint>>,
    /// Priority class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// Secrets that images are pulled with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// Service account of the pods, in place of the one that the operator makes. Its token is not mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// Environment of the etcd container. `ETCD_…`, `POD_NAME` and `POD_UID` are refused; settings of etcd go into
    /// `spec.etcd`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvVar>,
    /// Volumes to add, as a pod has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<Named>")]
    pub volumes: Vec<Value>,
    /// Where the etcd container sees these volumes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_mounts: Vec<VolumeMount>,
    /// Containers to add, as a pod has them. A pod is ready when all of its containers are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<NamedImage>")]
    pub containers: Vec<Value>,
    /// Security context of the pods, laid over the operator's field by field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_context: Option<PodSecurityContext>,
    /// Security context of the etcd container, laid over the operator's field by field.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_security_context: Option<SecurityContext>,
    /// Seconds that etcd has to stop, 30 when absent. A leader hands over first, which may take 7.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination_grace_period_seconds: Option<i64>,
    /// Patience of the probes; what they ask is the operator's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probes: Option<Probes>,
}

/// The schema of something of Kubernetes that is checked when a pod is made of it.
#[derive(JsonSchema)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
#[expect(dead_code, reason = "only its schema is used")]
struct Named {
    /// Name.
    name: String,
}

/// The same for a container.
#[derive(JsonSchema)]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
#[expect(dead_code, reason = "only its schema is used")]
struct NamedImage {
    /// Name.
    name: String,
    /// Image.
    image: String,
}

/// Patience of the three probes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Probes {
    /// Until etcd has loaded its data: every second, 3600 times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup: Option<ProbePatience>,
    /// Whether it must be restarted: every 10 s, after six failures. Never needs a quorum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub liveness: Option<ProbePatience>,
    /// Whether clients are sent to it: every 2 s, not after three failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readiness: Option<ProbePatience>,
}

/// Patience of a probe; what is absent is the operator's own.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProbePatience {
    /// Seconds before the first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_delay_seconds: Option<i32>,
    /// Seconds between two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period_seconds: Option<i32>,
    /// Seconds for an answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
    /// Failures in a row that count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_threshold: Option<i32>,
}

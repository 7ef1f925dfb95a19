//! The part of the spec that is about pods. Field docs are for users, as in [`super::cluster`].

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, EnvVar, LocalObjectReference, PodSecurityContext, SecurityContext, Toleration,
    TopologySpreadConstraint, VolumeMount,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Scheduling, metadata, volumes and containers of the pods. A change restarts the members one at a time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodSettings {
    /// Labels to add; keys that the operator or Kubernetes sets are rejected.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations to add; keys below `etcd.etcd.io/` are rejected.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Labels that a node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Tolerations of the pods.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tolerations: Vec<Toleration>,
    /// Node and pod affinity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// Topology spread constraints. They replace the operator's default, which prefers to spread members over zones and
    /// nodes; an empty list sets none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topology_spread_constraints: Option<Vec<TopologySpreadConstraint>>,
    /// Priority class.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority_class_name: Option<String>,
    /// Secrets for pulling images.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// ServiceAccount of the pods, instead of the one that the operator creates. Its token is not mounted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service_account_name: Option<String>,
    /// Environment variables of the etcd container. `ETCD_…`, `POD_NAME` and `POD_UID` are rejected; use `spec.etcd` for
    /// settings of etcd.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub env: Vec<EnvVar>,
    /// Volumes to add, as in a pod.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<Named>")]
    pub volumes: Vec<Value>,
    /// Mounts of these volumes in the etcd container.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub volume_mounts: Vec<VolumeMount>,
    /// Containers to add, as in a pod. A pod is ready only when all of its containers are.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(with = "Vec<NamedImage>")]
    pub containers: Vec<Value>,
    /// Security context of the pods; each field overrides the operator's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub security_context: Option<PodSecurityContext>,
    /// Security context of the etcd container; each field overrides the operator's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub container_security_context: Option<SecurityContext>,
    /// Seconds that etcd has to stop; 30 when absent. A leader transfers its leadership first, which may take 7.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub termination_grace_period_seconds: Option<i64>,
    /// Timing of the probes. Their endpoints cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub probes: Option<Probes>,
}

/// Schema of a part of a pod that Kubernetes validates when the pod is created.
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

/// Timing of the three probes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Probes {
    /// Startup probe: succeeds once etcd has loaded its data. Every second, up to 3600 failures.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub startup: Option<ProbePatience>,
    /// Liveness probe: the container is restarted after six failures, probed every 10 s. Does not need a quorum.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub liveness: Option<ProbePatience>,
    /// Readiness probe: clients are not routed to the member after three failures, probed every 2 s.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub readiness: Option<ProbePatience>,
}

/// Timing of a probe; the operator's default for every absent field.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProbePatience {
    /// Seconds before the first probe.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initial_delay_seconds: Option<i32>,
    /// Seconds between probes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub period_seconds: Option<i32>,
    /// Seconds after which a probe times out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_seconds: Option<i32>,
    /// Consecutive failures after which the probe counts as failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure_threshold: Option<i32>,
}

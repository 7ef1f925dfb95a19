//! The part of the spec that is about reaching a cluster. Field docs are for users, as in [`super::cluster`].

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How clients outside the Kubernetes cluster reach this one. The Service `<name>-client` is always there for those
/// inside.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Access {
    /// `ClusterIP` adds nothing, `NodePort` adds the Service `<name>-nodeport`, `LoadBalancer` adds `<name>-lb`.
    #[serde(rename = "type", default)]
    pub kind: AccessKind,
    /// Port on every node, from 30000 to 32767, with `NodePort` only. One that is free when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_port: Option<i32>,
    /// Annotations of the Service that is added.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Who makes the load balancer, with `LoadBalancer` only; the default of the Kubernetes cluster when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer_class: Option<String>,
    /// Address ranges that may connect, with `LoadBalancer` only; all when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub load_balancer_source_ranges: Vec<String>,
    /// `Local` keeps the client's address and leads to members on the node that was asked only; `Cluster` when
    /// absent. With `NodePort` and `LoadBalancer` only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub external_traffic_policy: Option<TrafficPolicy>,
}

/// Kinds of access.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum AccessKind {
    /// Inside the Kubernetes cluster only.
    #[default]
    ClusterIP,
    /// A port on every node.
    NodePort,
    /// A load balancer.
    LoadBalancer,
}

/// `Local` keeps the client's address and leads to members on the node that was asked only; `Cluster` when absent.
/// With `NodePort` and `LoadBalancer` only.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum TrafficPolicy {
    /// To any member.
    Cluster,
    /// To members on the same node.
    Local,
}

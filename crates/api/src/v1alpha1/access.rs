//! The part of the spec that is about reaching a cluster. Field docs are for users, as in [`super::cluster`].

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How clients outside the Kubernetes cluster reach etcd. Clients inside use the Service `<name>-client`, which always
/// exists.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Access {
    /// `ClusterIP` adds no Service, `NodePort` adds `<name>-nodeport`, `LoadBalancer` adds `<name>-lb`.
    #[serde(rename = "type", default)]
    pub kind: AccessKind,
    /// Port on every node, from 30000 to 32767; only with `NodePort`. Allocated by Kubernetes when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_port: Option<i32>,
    /// Annotations of the added Service.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Load balancer class of the added Service; only with `LoadBalancer`. The default of the Kubernetes cluster when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub load_balancer_class: Option<String>,
    /// Client address ranges (CIDR) that may connect; only with `LoadBalancer`. All when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub load_balancer_source_ranges: Vec<String>,
    /// `Local` preserves the client's source address and routes only to members on the node that received the connection;
    /// `Cluster`, the default, routes to any member. Only with `NodePort` and `LoadBalancer`.
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

/// `Local` preserves the client's source address and routes only to members on the node that received the connection;
/// `Cluster`, the default, routes to any member. Only with `NodePort` and `LoadBalancer`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum TrafficPolicy {
    /// To any member.
    Cluster,
    /// To members on the same node.
    Local,
}

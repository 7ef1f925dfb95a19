//! Services for clients outside the Kubernetes cluster, beside the one for those inside. They select as that one does:
//! readiness keeps learners and members without a leader out.

use api::v1alpha1::access::{Access, AccessKind, TrafficPolicy};
use api::{ClusterIntent, labels, names};
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};

use crate::service::port;
use crate::{Owner, Shape, metadata};

/// Every Service for outside that there can be, with its name.
pub(crate) const KINDS: [AccessKind; 2] = [AccessKind::NodePort, AccessKind::LoadBalancer];

/// Name of the Service of a kind; `None` where none is added.
pub(crate) fn name(cluster: &str, kind: AccessKind) -> Option<String> {
    match kind {
        AccessKind::ClusterIP => None,
        AccessKind::NodePort => Some(names::nodeport_service(cluster)),
        AccessKind::LoadBalancer => Some(names::load_balancer_service(cluster)),
    }
}

/// The Service that should be there now.
pub(crate) fn wanted(cluster: &str, intent: &ClusterIntent, shape: &Shape) -> Option<String> {
    name(cluster, intent.access.kind).filter(|_| shape.client_service)
}

pub(crate) fn build(owner: &Owner, access: &Access, name: &str) -> Service {
    let mut metadata = metadata(owner, name, "client");
    if !access.annotations.is_empty() {
        metadata.annotations = Some(access.annotations.clone());
    }
    let ranges = &access.load_balancer_source_ranges;
    Service {
        metadata,
        spec: Some(ServiceSpec {
            type_: Some(kind(access.kind).to_owned()),
            selector: Some(labels::selector(&owner.name)),
            ports: Some(vec![ServicePort {
                node_port: access.node_port,
                ..port("client", names::CLIENT_PORT)
            }]),
            load_balancer_class: access.load_balancer_class.clone(),
            load_balancer_source_ranges: (!ranges.is_empty()).then(|| ranges.clone()),
            external_traffic_policy: access.external_traffic_policy.map(|policy| match policy {
                TrafficPolicy::Cluster => "Cluster".to_owned(),
                TrafficPolicy::Local => "Local".to_owned(),
            }),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

fn kind(kind: AccessKind) -> &'static str {
    match kind {
        AccessKind::ClusterIP => "ClusterIP",
        AccessKind::NodePort => "NodePort",
        AccessKind::LoadBalancer => "LoadBalancer",
    }
}

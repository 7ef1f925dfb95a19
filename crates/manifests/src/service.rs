//! Services: the headless one that gives members their names, and the one for clients.

use api::{labels, names};
use k8s_openapi::api::core::v1::{Service, ServicePort, ServiceSpec};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::{Owner, metadata};

/// The members' names. Not-ready addresses are published: a member must be resolvable before it can
/// become ready.
pub(crate) fn build_peer(owner: &Owner) -> Service {
    Service {
        metadata: metadata(owner, &names::peer_service(&owner.name), "peer"),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            publish_not_ready_addresses: Some(true),
            selector: Some(labels::selector(&owner.name)),
            ports: Some(vec![
                port("peer", names::PEER_PORT),
                port("client", names::CLIENT_PORT),
            ]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

/// Where clients connect. Readiness keeps learners and members without a leader out.
pub(crate) fn build_client(owner: &Owner) -> Service {
    Service {
        metadata: metadata(owner, &names::client_service(&owner.name), "client"),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            selector: Some(labels::selector(&owner.name)),
            ports: Some(vec![port("client", names::CLIENT_PORT)]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

pub(crate) fn port(name: &str, number: u16) -> ServicePort {
    ServicePort {
        name: Some(name.to_owned()),
        port: i32::from(number),
        target_port: Some(IntOrString::Int(i32::from(number))),
        protocol: Some("TCP".to_owned()),
        ..ServicePort::default()
    }
}

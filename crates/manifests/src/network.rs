//! The NetworkPolicy: which pods reach the members, and on which ports. It is built only where it is asked for, because it
//! closes what was open before. Probes of the kubelet come from the node and are let in by every implementation.

use api::v1alpha1::security::NetworkPolicySettings;
use api::{ClusterIntent, labels, names};
use k8s_openapi::api::networking::v1::{
    NetworkPolicy, NetworkPolicyIngressRule, NetworkPolicyPeer, NetworkPolicyPort,
    NetworkPolicySpec,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::{Installation, Owner, metadata};

/// Set by Kubernetes on every namespace.
const NAMESPACE_LABEL: &str = "kubernetes.io/metadata.name";

/// What is asked for, if it is.
pub(crate) fn wanted(intent: &ClusterIntent) -> Option<&NetworkPolicySettings> {
    intent.network_policy.as_ref()
}

pub(crate) fn build(
    owner: &Owner,
    settings: &NetworkPolicySettings,
    install: &Installation,
) -> NetworkPolicy {
    let members = NetworkPolicyPeer {
        pod_selector: Some(selector(owner)),
        ..NetworkPolicyPeer::default()
    };
    // Clients in a member's pod, such as `etcdctl --cluster`, ask the other members too.
    let ports = [names::PEER_PORT, names::CLIENT_PORT];
    let mut rules = vec![rule(vec![members], &ports)];
    let operator = install.namespace.as_deref().map(operator);
    // An operator outside of Kubernetes comes through the API server and the kubelet, and so from the node.
    rules.extend(operator.map(|operator| {
        let ports = [names::CLIENT_PORT, names::METRICS_PORT, names::SECURE_PORT];
        rule(vec![operator], &ports)
    }));
    rules.push(rule(vec![keepers(owner)], &[names::CLIENT_PORT]));
    if !settings.clients.is_empty() {
        rules.push(rule(settings.clients.clone(), &[names::CLIENT_PORT]));
    }
    if !settings.metrics.is_empty() {
        rules.push(rule(settings.metrics.clone(), &[names::METRICS_PORT]));
    }
    NetworkPolicy {
        metadata: metadata(owner, &owner.name, "database"),
        spec: Some(NetworkPolicySpec {
            pod_selector: Some(selector(owner)),
            policy_types: Some(vec!["Ingress".to_owned()]),
            ingress: Some(rules),
            egress: None,
        }),
    }
}

fn selector(owner: &Owner) -> LabelSelector {
    LabelSelector {
        match_labels: Some(labels::selector(&owner.name)),
        ..LabelSelector::default()
    }
}

/// The pods of the operator, in the namespace in which it runs.
fn operator(namespace: &str) -> NetworkPolicyPeer {
    let labelled = |key: &str, value: &str| LabelSelector {
        match_labels: Some([(key.to_owned(), value.to_owned())].into()),
        ..LabelSelector::default()
    };
    NetworkPolicyPeer {
        namespace_selector: Some(labelled(NAMESPACE_LABEL, namespace)),
        pod_selector: Some(labelled(labels::NAME, labels::OPERATOR)),
        ip_block: None,
    }
}

/// The pods that make backups of this cluster, in its namespace.
fn keepers(owner: &Owner) -> NetworkPolicyPeer {
    let labels = [
        (labels::NAME, labels::KEEPER),
        (labels::KEEPER_OF, owner.name.as_str()),
    ];
    let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    NetworkPolicyPeer {
        pod_selector: Some(LabelSelector {
            match_labels: Some(labels.into()),
            ..LabelSelector::default()
        }),
        ..NetworkPolicyPeer::default()
    }
}

/// An empty list of peers would mean every peer, so there must be one.
fn rule(from: Vec<NetworkPolicyPeer>, ports: &[u16]) -> NetworkPolicyIngressRule {
    let ports = ports.iter().map(|port| NetworkPolicyPort {
        port: Some(IntOrString::Int(i32::from(*port))),
        protocol: Some("TCP".to_owned()),
        end_port: None,
    });
    NetworkPolicyIngressRule {
        from: Some(from),
        ports: Some(ports.collect()),
    }
}

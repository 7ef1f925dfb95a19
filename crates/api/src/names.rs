//! Every name derived from a cluster's name, and the limits that follow.

use std::fmt;

/// Longest name of a cluster: its pods carry `<name>-<10 characters of hash>` as a label value,
/// and label values end at 63.
pub const MAX_NAME: usize = 52;
/// Client port.
pub const CLIENT_PORT: u16 = 2379;
/// Peer port.
pub const PEER_PORT: u16 = 2380;
/// Metrics, health and gate port.
pub const METRICS_PORT: u16 = 2381;
/// Metrics and gate, by mutual TLS; only where clients use TLS.
pub const SECURE_PORT: u16 = 2382;
/// Name of the etcd container.
pub const ETCD_CONTAINER: &str = "etcd";
/// Name of the init container that brings the agent.
pub const AGENT_CONTAINER: &str = "agent";
/// Name of the ephemeral container with tools.
pub const DEBUG_CONTAINER: &str = "debug";
/// Name of the claim template, and prefix of every claim.
pub const CLAIM_TEMPLATE: &str = "data";

/// Scheme of a URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// Plaintext.
    Http,
    /// TLS.
    Https,
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Http => "http",
            Self::Https => "https",
        })
    }
}

/// Secret with the authorities that the operator issues certificates with.
pub fn authority_secret(cluster: &str) -> String {
    format!("{cluster}-ca")
}

/// Secret with the certificates of the members: the only one that is mounted.
pub fn member_secret(cluster: &str) -> String {
    format!("{cluster}-tls")
}

/// Certificate by which cert-manager is asked for what members show, and the Secret that it writes.
pub fn issued(cluster: &str) -> String {
    format!("{cluster}-issued")
}

/// Secret with what a client needs.
pub fn client_secret(cluster: &str) -> String {
    format!("{cluster}-client-tls")
}

/// Secret with the certificate of a user, by the name of its `EtcdUser`.
pub fn user_secret(cluster: &str, user: &str) -> String {
    format!("{cluster}-user-{user}-tls")
}

/// Headless Service of the members.
pub fn peer_service(cluster: &str) -> String {
    format!("{cluster}-peer")
}

/// Service for clients.
pub fn client_service(cluster: &str) -> String {
    format!("{cluster}-client")
}

/// NodePort Service.
pub fn nodeport_service(cluster: &str) -> String {
    format!("{cluster}-nodeport")
}

/// LoadBalancer Service; `-loadbalancer` would not fit behind the longest name.
pub fn load_balancer_service(cluster: &str) -> String {
    format!("{cluster}-lb")
}

/// Pod and member of an ordinal.
pub fn member(cluster: &str, ordinal: u32) -> String {
    format!("{cluster}-{ordinal}")
}

/// Claim of an ordinal.
pub fn claim(cluster: &str, ordinal: u32) -> String {
    format!("{CLAIM_TEMPLATE}-{cluster}-{ordinal}")
}

/// The ordinal in a pod's or claim's name, if it is one of this cluster's.
pub fn ordinal(cluster: &str, member: &str) -> Option<u32> {
    member
        .strip_prefix(cluster)?
        .strip_prefix('-')?
        .parse()
        .ok()
}

/// DNS name of a member, as every pod resolves it without knowing the cluster domain.
pub fn member_host(cluster: &str, namespace: &str, ordinal: u32) -> String {
    format!(
        "{}.{}.{namespace}.svc",
        member(cluster, ordinal),
        peer_service(cluster)
    )
}

/// Peer URL of an ordinal: a member's identity towards the others, decided once.
pub fn peer_url(scheme: Scheme, cluster: &str, namespace: &str, ordinal: u32) -> String {
    format!(
        "{scheme}://{}:{PEER_PORT}",
        member_host(cluster, namespace, ordinal)
    )
}

/// The ordinal in a peer URL, if it is one of this cluster's members', with or without the cluster's domain.
pub fn ordinal_of_url(cluster: &str, namespace: &str, url: &str) -> Option<u32> {
    let (_, rest) = url.split_once("://")?;
    let host = rest.split([':', '/']).next()?;
    let (member, service) = host.split_once('.')?;
    let rest = service
        .strip_prefix(&peer_service(cluster))?
        .strip_prefix('.')?
        .strip_prefix(namespace)?
        .strip_prefix(".svc")?;
    (rest.is_empty() || rest.starts_with('.'))
        .then(|| ordinal(cluster, member))
        .flatten()
}

/// Client URL of an ordinal.
pub fn client_url(scheme: Scheme, cluster: &str, namespace: &str, ordinal: u32) -> String {
    format!(
        "{scheme}://{}:{CLIENT_PORT}",
        member_host(cluster, namespace, ordinal)
    )
}

/// Where clients connect.
pub fn client_endpoint(scheme: Scheme, cluster: &str, namespace: &str) -> String {
    format!(
        "{scheme}://{}.{namespace}.svc:{CLIENT_PORT}",
        client_service(cluster)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ordinal_is_read_back_from_the_name_it_made() {
        assert_eq!(ordinal("db", &member("db", 12)), Some(12));
        assert_eq!(ordinal("db", "db-client"), None);
        assert_eq!(ordinal("db", "db-1-0"), None);
        assert_eq!(ordinal("db-1", "db-1-0"), Some(0));
    }

    #[test]
    fn a_peer_url_names_its_ordinal_with_and_without_a_domain() {
        let of = |url: &str| ordinal_of_url("db", "ns", url);
        assert_eq!(of(&peer_url(Scheme::Http, "db", "ns", 3)), Some(3));
        assert_eq!(of("http://db-1.db-peer.ns.svc.cluster.local:2380"), Some(1));
        assert_eq!(of("https://db-1.db-peer.ns.svc:2380"), Some(1));
        assert_eq!(of("http://db-1.db-peer.other.svc:2380"), None);
        assert_eq!(of("http://db-1.db-peer.ns.svcx:2380"), None);
        assert_eq!(of("http://10.0.0.1:2380"), None);
    }

    #[test]
    fn every_derived_name_of_the_longest_cluster_name_fits() {
        let name = "a".repeat(MAX_NAME);
        for service in [
            client_service(&name),
            peer_service(&name),
            nodeport_service(&name),
            load_balancer_service(&name),
            authority_secret(&name),
            member_secret(&name),
            client_secret(&name),
        ] {
            assert!(service.len() <= 63, "{service}");
        }
        assert!(member(&name, 8).len() + 1 + 8 <= 63);
    }
}

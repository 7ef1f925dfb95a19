//! `spec.security`: who may talk to the members, and how that is proved.

use k8s_openapi::api::networking::v1::NetworkPolicyPeer;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Transport security, and who may connect.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Security {
    /// TLS settings; plaintext when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<Tls>,
    /// Which pods may connect to the members; every pod when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub network_policy: Option<NetworkPolicySettings>,
    /// Authentication of etcd; left as it is when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<Auth>,
}

/// A NetworkPolicy that lets in the members themselves, the operator, the Jobs that make backups, and the peers that are named here. The network of the Kubernetes
/// cluster must support it: otherwise it has no effect. Connections from the node of a member, such as probes of the
/// kubelet and `kubectl port-forward`, are not restricted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkPolicySettings {
    /// Main switch; `true` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Who may connect to port 2379, as in `from` of a NetworkPolicy: a `podSelector` alone selects pods of the namespace of
    /// the cluster. No client when empty. Clients outside of Kubernetes need an `ipBlock`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub clients: Vec<NetworkPolicyPeer>,
    /// Who may read the metrics on port 2381, such as Prometheus. Only the operator when empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub metrics: Vec<NetworkPolicyPeer>,
}

/// Whether etcd asks its clients who they are, and what each of them may do. Users and roles are objects of their own, of the
/// kinds `EtcdUser` and `EtcdRole`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Auth {
    /// `true` switches authentication on once every member is healthy and demands certificates of its clients; `false`
    /// switches it off, and users and roles stay in etcd. The operator itself is the user `etcd-operator`, by its
    /// certificate.
    pub enabled: bool,
    /// Secret in the same namespace whose key `password` is the password of the user `root`; without one the operator
    /// gives it none. Another password there is taken over within a minute. Left out again, the password is replaced by
    /// one that is not kept anywhere. etcd cannot give a password to a `root` that was made without one while
    /// authentication is on: a condition says what to do then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_password_secret: Option<String>,
}

/// TLS settings. A cluster that runs goes on as it was formed unless `liveSwitch` is true: then TLS is switched on or off for
/// one member after another, while clients are served.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Tls {
    /// Main switch: `false` means plaintext and overrides the other fields; `true` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// TLS between clients and members, with certificates on both sides; `true` when absent. Clients find what they need in
    /// the Secret `<name>-client-tls`.
    #[serde(
        rename = "clientTLSEnabled",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub client_tls_enabled: Option<bool>,
    /// TLS between members, with certificates on both sides; `true` when absent.
    #[serde(
        rename = "peerTLSEnabled",
        default,
        skip_serializing_if = "Option::is_none"
    )]
    pub peer_tls_enabled: Option<bool>,
    /// Lets a change of `enabled` or of the switch of a plane reach a cluster that runs, in both directions; `false` when
    /// absent. Every member is restarted twice, one after the other. Without it such an update is rejected, and what was
    /// stored or resumed goes on as its data was run before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub live_switch: Option<bool>,
    // Schemas of optional enums carry the description of the enum, so that is where the text is.
    /// What becomes of clients without TLS.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plaintext_clients: Option<PlaintextClients>,
    /// The operator issues and renews the certificates; `true` when absent and no other source is named.
    #[serde(rename = "autoTLS", default, skip_serializing_if = "Option::is_none")]
    pub auto_tls: Option<bool>,
    /// Secret of this namespace with a certificate of your own for all members: `tls.crt`, `tls.key`, and `ca.crt` with the
    /// authority that signed it. With `peer.crt`, `peer.key` and `peer-ca.crt` members use those among themselves. It is
    /// checked and copied before it is used, and so is every later change of it; one that cannot be used changes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub certificate_secret: Option<String>,
    /// Secret of this namespace whose `ca.crt`, and `peer-ca.crt` if it is there, are trusted in place of those of the
    /// source of the certificates.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_secret: Option<String>,
    /// cert-manager issues and renews the certificates of the members. The operator makes a Certificate `<name>-issued` with
    /// exactly the names that members need, and checks and copies what cert-manager writes into the Secret of that name.
    /// While cert-manager or its issuer is missing, members keep what they have, and a condition says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cert_manager: Option<CertManager>,
    /// Further host names and IP addresses under which clients reach the members, such as that of a load balancer. They
    /// are added to the certificates of the members, without a restart.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub extra_names: Vec<String>,
    /// How long a certificate that the operator issues, or asks cert-manager for, is valid; 90 days when absent. It is
    /// renewed after two thirds of that, without a restart. With `certManager` at least one hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaf_lifetime_seconds: Option<i64>,
    /// How long a certificate authority of the operator's is valid; ten years when absent. It is replaced after two thirds of
    /// that, which restarts every member once, one after the other. A change counts from the next one on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ca_lifetime_seconds: Option<i64>,
    /// Oldest version of TLS that members accept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min_version: Option<TlsVersion>,
    /// Cipher suites that members accept with TLS 1.2, by the names that Go gives them, such as
    /// `TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256`; those of Go when absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub cipher_suites: Vec<String>,
}

/// Certificates from cert-manager.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CertManager {
    /// Who signs them, as in a Certificate of cert-manager. Another issuer takes over while members run: each of them is
    /// restarted once, one after the other.
    pub issuer_ref: IssuerRef,
}

/// An issuer of cert-manager.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct IssuerRef {
    /// Name of the issuer.
    pub name: String,
    /// `Issuer`, when absent, of the namespace of the EtcdCluster, or `ClusterIssuer`; with another `group`, the kind that
    /// it has there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// API group of the issuer; `cert-manager.io` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
}

/// What becomes of clients without TLS where members have it for clients: `Refuse`, when absent, rejects them; `Accept` serves
/// them as well, on the same port. A change is rolled out to one member after another.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum PlaintextClients {
    /// Clients need TLS and a certificate.
    #[default]
    Refuse,
    /// Clients are served with and without TLS.
    Accept,
}

/// Oldest version of TLS that members accept; that of etcd, TLS 1.2, when absent.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum TlsVersion {
    /// TLS 1.2.
    #[serde(rename = "TLS1.2")]
    Tls12,
    /// TLS 1.3.
    #[serde(rename = "TLS1.3")]
    Tls13,
}

impl TlsVersion {
    /// As etcd's flag has it.
    pub fn as_flag(self) -> &'static str {
        match self {
            Self::Tls12 => "TLS1.2",
            Self::Tls13 => "TLS1.3",
        }
    }
}

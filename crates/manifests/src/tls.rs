//! What a pod has for TLS: the Secret with the certificates of all members, mounted as a whole, so that the kubelet brings a
//! renewed one without a restart; and the flags that name this member's own.

use api::{ClusterIntent, names};
use k8s_openapi::api::core::v1::{EnvVar, SecretVolumeSource, Volume};

use crate::Owner;

/// Name of the volume.
pub(crate) const VOLUME: &str = "etcd-tls";
/// Where it is mounted.
pub(crate) const DIRECTORY: &str = "/etc/etcd/tls";
/// Keys in the Secret with the authorities that client certificates, or those of peers, are verified against.
pub const CLIENT_AUTHORITIES: &str = "client-ca.crt";
/// See [`CLIENT_AUTHORITIES`].
pub const PEER_AUTHORITIES: &str = "peer-ca.crt";
/// Key in the Secret with the generation of the authorities in it.
pub const GENERATION: &str = "trust";
/// Read by the user of the container, through the group of its files, and by no other.
const MODE: i32 = 0o440;

/// Key of a member's certificate, or with `key` of its private key, in the Secret.
pub fn entry(member: &str, plane: &str, key: bool) -> String {
    let kind = if key { "key" } else { "crt" };
    format!("{member}.{plane}.{kind}")
}

/// Plane of the certificate that clients see.
pub const SERVER: &str = "server";
/// Plane of the certificate that peers see.
pub const PEER: &str = "peer";

/// Name by which members recognise each other, in the certificate of every one of them.
pub fn peer_name(cluster: &str, namespace: &str) -> String {
    format!("{}.{namespace}.svc", names::peer_service(cluster))
}

/// etcd's flags for both planes. Every client and peer that connects must have one.
pub(crate) fn build(owner: &Owner, intent: &ClusterIntent) -> Vec<String> {
    let tls = &intent.tls;
    let mut flags = Vec::new();
    if !tls.transport.client.is_plain() {
        flags.extend(pair("", SERVER));
        flags.push(format!(
            "--trusted-ca-file={DIRECTORY}/{CLIENT_AUTHORITIES}"
        ));
        flags.push("--client-cert-auth=true".to_owned());
    }
    if !tls.transport.peer.is_plain() {
        flags.extend(pair("peer-", PEER));
        flags.push(format!(
            "--peer-trusted-ca-file={DIRECTORY}/{PEER_AUTHORITIES}"
        ));
        flags.push("--peer-client-cert-auth=true".to_owned());
        // etcd itself lets in every certificate that has no name at all, and looks up the names of others in DNS at each
        // connection. With this name, which members have and clients have not, it does neither.
        let name = peer_name(&owner.name, &owner.namespace);
        flags.push(format!("--peer-cert-allowed-hostname={name}"));
        flags.push(format!("--{}=true", intent.version.skip_peer_lookup_flag()));
    }
    if !tls.transport.is_plain() {
        let version = tls
            .min_version
            .map(api::v1alpha1::security::TlsVersion::as_flag);
        flags.extend(version.map(|version| format!("--tls-min-version={version}")));
        if !tls.cipher_suites.is_empty() {
            flags.push(format!("--cipher-suites={}", tls.cipher_suites.join(",")));
        }
    }
    flags
}

fn pair(prefix: &str, plane: &str) -> [String; 2] {
    let file = |key| format!("{DIRECTORY}/{}", entry("$(POD_NAME)", plane, key));
    [
        format!("--{prefix}cert-file={}", file(false)),
        format!("--{prefix}key-file={}", file(true)),
    ]
}

/// The volume; none for plaintext.
pub(crate) fn volume(owner: &Owner, intent: &ClusterIntent) -> Option<Volume> {
    (!intent.tls.transport.is_plain()).then(|| Volume {
        name: VOLUME.to_owned(),
        secret: Some(SecretVolumeSource {
            secret_name: Some(names::member_secret(&owner.name)),
            default_mode: Some(MODE),
            ..SecretVolumeSource::default()
        }),
        ..Volume::default()
    })
}

/// With these `etcdctl` in the container finds what it needs.
pub(crate) fn environment(intent: &ClusterIntent) -> Vec<EnvVar> {
    if intent.tls.transport.client.is_plain() {
        return Vec::new();
    }
    let file = |key| format!("{DIRECTORY}/{}", entry("$(POD_NAME)", SERVER, key));
    let all = [
        (
            "ETCDCTL_CACERT",
            format!("{DIRECTORY}/{CLIENT_AUTHORITIES}"),
        ),
        ("ETCDCTL_CERT", file(false)),
        ("ETCDCTL_KEY", file(true)),
    ];
    let variable = |(name, value): (&str, String)| EnvVar {
        name: name.to_owned(),
        value: Some(value),
        ..EnvVar::default()
    };
    all.map(variable).into()
}

/// What the gate is told.
pub(crate) fn gate(intent: &ClusterIntent) -> Vec<String> {
    let transport = intent.tls.transport;
    if transport.is_plain() {
        return Vec::new();
    }
    let mut words = vec!["--transport".to_owned(), transport.to_string()];
    if !transport.client.is_plain() {
        words.extend(["--tls".to_owned(), DIRECTORY.to_owned()]);
    }
    if intent.tls.trust > 0 {
        let file = format!("{DIRECTORY}/{GENERATION}");
        words.extend(["--trust-file".to_owned(), file]);
        words.extend(["--trust".to_owned(), intent.tls.trust.to_string()]);
    }
    words
}

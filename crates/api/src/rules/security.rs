//! TLS: one source of certificates, what no certificate can hold, and which changes need a word of their own.

use super::{CelRule, always};

const TLS: &[&str] = &["spec", "security", "tls"];

const ISSUER: &[&str] = &["spec", "security", "tls", "certManager", "issuerRef"];

/// A name that an object can have.
const OBJECT_NAME: &str = "self.size() <= 253 && self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')";

/// A plane of a spec has TLS.
macro_rules! on {
    ($spec:literal, $field:literal) => {
        concat!(
            "(has(",
            $spec,
            ".security) && has(",
            $spec,
            ".security.tls) && (!has(",
            $spec,
            ".security.tls.enabled) || ",
            $spec,
            ".security.tls.enabled) && (!has(",
            $spec,
            ".security.tls.",
            $field,
            ") || ",
            $spec,
            ".security.tls.",
            $field,
            "))"
        )
    };
}

/// No plane of these settings has TLS.
macro_rules! plain {
    () => {
        "(has(self.enabled) && !self.enabled) || (has(self.clientTLSEnabled) && !self.clientTLSEnabled && has(self.peerTLSEnabled) && !self.peerTLSEnabled)"
    };
}

/// How the members of an object run now, as far as is recorded.
macro_rules! runs {
    ($plane:literal) => {
        concat!(
            "oldSelf.?status.?memory.?lineage.?transport.?",
            $plane,
            ".orValue('Plain')"
        )
    };
}

/// The owner says that members that run are to be switched.
macro_rules! lives {
    () => {
        "self.spec.?security.?tls.?liveSwitch.orValue(false)"
    };
}

/// Members that run are switched by a field of its own only, in both directions. What was stored stays valid, whatever its
/// members run; and what they run can be written again.
macro_rules! switched {
    ($field:literal, $plane:literal, $whose:literal, $more:literal) => {
        [
            always(
                &[],
                concat!(
                    "!",
                    on!("self.spec", $field),
                    " || ",
                    on!("oldSelf.spec", $field),
                    " || ",
                    runs!($plane),
                    " != 'Plain' || ",
                    lives!()
                ),
                concat!(
                    "TLS ", $whose, " is switched on in an EtcdCluster that exists only with security.tls.liveSwitch: true, which restarts every member twice, one after the other, while clients are served",
                    $more, ". Add it, or leave ", $field, " and security.tls.enabled as they were"
                ),
            )
            .at(".spec.security.tls"),
            always(
                &[],
                concat!(
                    on!("self.spec", $field),
                    " || !",
                    on!("oldSelf.spec", $field),
                    " || ",
                    runs!($plane),
                    " == 'Plain' || ",
                    lives!()
                ),
                concat!(
                    "TLS ", $whose, " is switched off in an EtcdCluster that exists only with security.tls.liveSwitch: true beside enabled: false, or beside ",
                    $field, ": false: that restarts every member twice, one after the other, while clients are served. Write that, or leave security.tls as it was"
                ),
            )
            .at(".spec.security.tls"),
        ]
    };
}

pub(super) const CLIENTS: &[CelRule] = &switched!(
    "clientTLSEnabled",
    "client",
    "for clients",
    "; plaintextClients: Accept keeps serving those without TLS"
);
pub(super) const PEERS: &[CelRule] = &switched!("peerTLSEnabled", "peer", "between members", "");

/// Authentication rests on certificates.
pub(super) const AUTH: &[CelRule] = &[
    always(
        &["spec"],
        concat!(
            "!self.?security.?auth.?enabled.orValue(false) || ",
            on!("self", "clientTLSEnabled")
        ),
        "security.auth needs TLS for clients, because the operator and users without a password are known by their certificates: write security.tls with clientTLSEnabled: true, or security.auth.enabled: false",
    )
    .at(".security.auth.enabled"),
    always(
        &["spec"],
        "!self.?security.?auth.?enabled.orValue(false) || self.?security.?tls.?plaintextClients.orValue('Refuse') != 'Accept'",
        "security.auth and plaintextClients: Accept exclude each other: a client without TLS has no certificate to be known by. Write plaintextClients: Refuse, or security.auth.enabled: false",
    )
    .at(".security.auth.enabled"),
    always(
        &["spec"],
        "!oldSelf.?security.?auth.?enabled.orValue(false) || self.?security.?auth.hasValue()",
        "authentication is switched off with security.auth.enabled: false; left out, it would stay as it is. Write that",
    )
    .at(".security"),
    always(
        &["spec", "security", "auth", "rootPasswordSecret"],
        OBJECT_NAME,
        "not the name of a Secret: write lower case letters, digits, '-' and '.'; it is looked for in the namespace of the EtcdCluster",
    ),
];

pub(super) const RULES: &[CelRule] = &[
    always(
        TLS,
        concat!(
            plain!(),
            " || (!(has(self.certificateSecret) && has(self.certManager)) && (!has(self.autoTLS) || self.autoTLS != (has(self.certificateSecret) || has(self.certManager))))"
        ),
        "name exactly one source of certificates: leave autoTLS out, or write true, to have the operator issue them; write certManager, or certificateSecret for your own, and leave autoTLS out or write false; or write enabled: false for a plaintext cluster",
    ),
    always(
        TLS,
        concat!(plain!(), " || !has(self.caSecret) || has(self.certificateSecret) || has(self.certManager)"),
        "a Secret with authorities alone is no source of certificates: write certificateSecret or certManager as well, or leave caSecret out to have the operator issue them",
    ),
    always(
        &["spec", "security", "tls", "certificateSecret"],
        OBJECT_NAME,
        "not the name of a Secret: write lower case letters, digits, '-' and '.'; it is looked for in the namespace of the EtcdCluster",
    ),
    always(
        &["spec", "security", "tls", "caSecret"],
        OBJECT_NAME,
        "not the name of a Secret: write lower case letters, digits, '-' and '.'; it is looked for in the namespace of the EtcdCluster",
    ),
    always(
        ISSUER,
        "(has(self.group) && self.group != 'cert-manager.io') || !has(self.kind) || self.kind in ['Issuer', 'ClusterIssuer']",
        "cert-manager has no such kind of issuer: write Issuer or ClusterIssuer, or the group that has it",
    )
    .at(".kind"),
    always(
        &["spec", "security", "tls", "certManager", "issuerRef", "name"],
        OBJECT_NAME,
        "not the name of an issuer: write lower case letters, digits, '-' and '.'; an Issuer is looked for in the namespace of the EtcdCluster",
    ),
    always(
        TLS,
        "!has(self.certManager) || !has(self.leafLifetimeSeconds) || self.leafLifetimeSeconds >= 3600",
        "cert-manager issues no certificate for less than an hour: write 3600 or more, or leave it out for 90 days",
    )
    .at(".leafLifetimeSeconds"),
    always(
        &["spec", "security", "tls", "extraNames", "*"],
        "isIP(self) || self.matches('^([*][.])?([a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?[.])*[a-z]([-a-z0-9]{0,61}[a-z0-9])?$')",
        "not a name that a certificate can hold: write a host name in lower case whose last part begins with a letter, such as etcd.example.com or *.example.com, or an IP address; no scheme and no port",
    ),
    always(
        &["spec", "security", "tls", "leafLifetimeSeconds"],
        "self >= 60 && self <= 315360000",
        "write 60 to 315360000 seconds (ten years), or leave it out for 90 days",
    ),
    always(
        &["spec", "security", "tls", "caLifetimeSeconds"],
        "self >= 300 && self <= 630720000",
        "write 300 to 630720000 seconds (twenty years), or leave it out for ten years",
    ),
    always(
        &["spec", "security", "tls", "cipherSuites", "*"],
        "self.matches('^TLS_[A-Z0-9_]+$')",
        "not the name of a cipher suite: write it as Go does, such as TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
    ),
    always(
        TLS,
        "!has(self.minVersion) || self.minVersion != 'TLS1.3' || !has(self.cipherSuites) || self.cipherSuites.size() == 0",
        "the cipher suites of TLS 1.3 cannot be chosen, and etcd does not start with both: leave cipherSuites out, or write minVersion: TLS1.2",
    )
    .at(".cipherSuites"),
    always(
        &["spec"],
        "!self.?security.?tls.?minVersion.hasValue() || !has(self.version) || !self.version.matches('^v?3[.]5[.][0-7]$')",
        "etcd below 3.5.8 has no setting for the version of TLS and would not start: leave minVersion out, or write a later version",
    )
    .at(".security.tls.minVersion"),
];

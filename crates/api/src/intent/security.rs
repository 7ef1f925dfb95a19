//! The settings of TLS in a spec.

use crate::transport::{Plane, Transport};
use crate::v1alpha1::cluster::EtcdClusterSpec;
use crate::v1alpha1::security::{
    CertManager, IssuerRef, PlaintextClients, Security, Tls, TlsVersion,
};

/// Default lifetime of a certificate, in seconds: 90 days.
pub const DEFAULT_LEAF_LIFETIME: i64 = 90 * 24 * 60 * 60;
/// Default lifetime of an authority, in seconds: ten years.
const DEFAULT_AUTHORITY_LIFETIME: i64 = 10 * 365 * 24 * 60 * 60;
/// Shortest lifetime of an authority, in seconds.
const MIN_AUTHORITY_LIFETIME: i64 = 300;
/// Shortest lifetime of a certificate, in seconds.
const MIN_LEAF_LIFETIME: i64 = 60;

/// TLS, as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsIntent {
    /// Which planes speak TLS. While members run, what they run takes the place of what was written.
    pub transport: Transport,
    /// A change of that reaches a cluster that runs.
    pub live_switch: bool,
    /// Where the certificates come from.
    pub source: Source,
    /// Further names of the members, sorted.
    pub extra_names: Vec<String>,
    /// How long a certificate is valid, in seconds.
    pub leaf_lifetime: i64,
    /// How long an authority is valid, in seconds.
    pub authority_lifetime: i64,
    /// Oldest version of TLS, as it was written.
    pub min_version: Option<TlsVersion>,
    /// Cipher suites, as they were written.
    pub cipher_suites: Vec<String>,
    /// Clients that run are led down no rung: etcd knows its users by their certificates, or may. The caller that parses a
    /// spec adds it.
    pub locked: bool,
    /// Generation of the authorities that members are to trust. The caller adds it.
    pub trust: u64,
    /// The value of the annotation that asks for another authority. The caller adds it.
    pub rotate: Option<String>,
}

/// Where the certificates of members come from. Those of clients, and the operator's own, are always issued by the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// The operator issues them.
    #[default]
    Operator,
    /// Secrets of the user's.
    Secrets {
        /// The one with certificate and key.
        certificate: String,
        /// The one with the authorities, where that is another one.
        authority: Option<String>,
    },
    /// cert-manager, which is asked for them.
    CertManager {
        /// Who is to sign them.
        issuer: Issuer,
        /// The Secret with the authorities, where that is another one than cert-manager writes.
        authority: Option<String>,
    },
    /// What is named makes no source.
    Nowhere,
}

/// An issuer of cert-manager.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issuer {
    /// Its name.
    pub name: String,
    /// Its kind.
    pub kind: String,
    /// Its API group.
    pub group: String,
}

impl From<IssuerRef> for Issuer {
    fn from(IssuerRef { name, kind, group }: IssuerRef) -> Self {
        Self {
            name,
            kind: kind.unwrap_or_else(|| "Issuer".to_owned()),
            group: group.unwrap_or_else(|| "cert-manager.io".to_owned()),
        }
    }
}

impl Source {
    fn of(
        auto_tls: Option<bool>,
        certificate: Option<String>,
        cert_manager: Option<CertManager>,
        authority: Option<String>,
    ) -> Self {
        match (certificate, cert_manager, authority) {
            (Some(certificate), None, authority) => Self::Secrets {
                certificate,
                authority,
            },
            (None, Some(CertManager { issuer_ref }), authority) => Self::CertManager {
                issuer: issuer_ref.into(),
                authority,
            },
            (None, None, None) if auto_tls.unwrap_or(true) => Self::Operator,
            (None, None, _) | (Some(_), Some(_), _) => Self::Nowhere,
        }
    }
}

impl Default for TlsIntent {
    fn default() -> Self {
        parse(None)
    }
}

impl TlsIntent {
    /// What a spec says of TLS, which cannot be invalid.
    pub fn of(spec: &EtcdClusterSpec) -> Self {
        parse(spec.security.as_ref())
    }

    /// Where the transport of members that run is to go. Between plaintext and TLS a plane goes only where its owner said so
    /// for members that run: objects of an earlier operator ask for TLS that their clusters never had.
    #[must_use]
    pub fn goal(&self, runs: Transport) -> Transport {
        let plane = |asked: Plane, runs: Plane| {
            let switched = asked.is_plain() != runs.is_plain();
            let possible = asked.is_plain() || self.source != Source::Nowhere;
            if switched && !(self.live_switch && possible) {
                runs
            } else {
                asked
            }
        };
        let client = plane(self.transport.client, runs.client);
        Transport {
            client: if self.locked {
                client.max(runs.client)
            } else {
                client
            },
            peer: plane(self.transport.peer, runs.peer),
        }
    }
}

pub(super) fn parse(security: Option<&Security>) -> TlsIntent {
    let tls = security.and_then(|security| security.tls.as_ref());
    let on = tls.is_some_and(|tls| tls.enabled.unwrap_or(true));
    let Tls {
        client_tls_enabled,
        peer_tls_enabled,
        live_switch,
        plaintext_clients,
        auto_tls,
        certificate_secret,
        ca_secret,
        cert_manager,
        mut extra_names,
        leaf_lifetime_seconds,
        ca_lifetime_seconds,
        min_version,
        cipher_suites,
        enabled: _,
    } = tls.cloned().unwrap_or_default();
    extra_names.sort();
    extra_names.dedup();
    let client = match plaintext_clients.unwrap_or_default() {
        PlaintextClients::Refuse => Plane::Tls,
        PlaintextClients::Accept => Plane::Both,
    };
    TlsIntent {
        transport: Transport {
            client: if on && client_tls_enabled.unwrap_or(true) {
                client
            } else {
                Plane::Plain
            },
            peer: Plane::from_switch(on && peer_tls_enabled.unwrap_or(true)),
        },
        live_switch: live_switch.unwrap_or(false),
        source: Source::of(auto_tls, certificate_secret, cert_manager, ca_secret),
        extra_names,
        leaf_lifetime: leaf_lifetime_seconds
            .unwrap_or(DEFAULT_LEAF_LIFETIME)
            .max(MIN_LEAF_LIFETIME),
        authority_lifetime: ca_lifetime_seconds
            .unwrap_or(DEFAULT_AUTHORITY_LIFETIME)
            .max(MIN_AUTHORITY_LIFETIME),
        min_version,
        cipher_suites,
        locked: false,
        trust: 0,
        rotate: None,
    }
}

/// Whether authentication is asked for; `None` where it is left as it is.
pub(super) fn parse_auth(security: Option<&Security>) -> Option<bool> {
    let auth = security.and_then(|security| security.auth.as_ref());
    auth.map(|auth| auth.enabled)
}

/// The Secret with the password of the user root.
pub(super) fn parse_root_password(security: Option<&Security>) -> Option<String> {
    let auth = security.and_then(|security| security.auth.as_ref());
    auth.and_then(|auth| auth.root_password_secret.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(tls: &str) -> Transport {
        let security = serde_json::from_str(&format!(r#"{{"tls":{tls}}}"#)).unwrap();
        parse(Some(&security)).transport
    }

    #[test]
    fn every_switch_is_on_once_tls_is_there_and_each_turns_its_own_plane_off() {
        let (plain, both, tls) = (Plane::Plain, Plane::Both, Plane::Tls);
        assert!(parse(None).transport.is_plain());
        assert!(parse(Some(&Security::default())).transport.is_plain());
        for (written, client, peer) in [
            ("{}", tls, tls),
            (r#"{"enabled":true}"#, tls, tls),
            (r#"{"enabled":false,"clientTLSEnabled":true}"#, plain, plain),
            (r#"{"clientTLSEnabled":false}"#, plain, tls),
            (r#"{"peerTLSEnabled":false}"#, tls, plain),
            (r#"{"plaintextClients":"Refuse"}"#, tls, tls),
            (r#"{"plaintextClients":"Accept"}"#, both, tls),
            (
                r#"{"plaintextClients":"Accept","clientTLSEnabled":false}"#,
                plain,
                tls,
            ),
        ] {
            assert_eq!(of(written), Transport { client, peer }, "{written}");
        }
    }

    #[test]
    fn members_that_run_are_switched_only_where_the_owner_says_so() {
        let goal = |tls: &str, client| {
            let security = serde_json::from_str(&format!(r#"{{"tls":{tls}}}"#)).unwrap();
            let peer = Plane::Tls;
            let goal = parse(Some(&security)).goal(Transport { client, peer });
            // Each plane for itself.
            let off = tls.contains("false,") || tls.contains("false}");
            let off = off && tls.contains("enabled") && tls.contains("\"liveSwitch\":true");
            assert_eq!(goal.peer == Plane::Plain, off, "{tls}");
            goal.client
        };
        let (plain, both, tls) = (Plane::Plain, Plane::Both, Plane::Tls);
        for (written, runs, expected) in [
            ("{}", plain, plain),
            (r#"{"liveSwitch":true}"#, plain, tls),
            (r#"{"liveSwitch":false}"#, plain, plain),
            (
                r#"{"liveSwitch":true,"plaintextClients":"Accept"}"#,
                plain,
                both,
            ),
            (
                r#"{"liveSwitch":true,"certificateSecret":"theirs"}"#,
                plain,
                tls,
            ),
            (r#"{"liveSwitch":true,"caSecret":"theirs"}"#, plain, plain),
            (r#"{"liveSwitch":true,"autoTLS":false}"#, plain, plain),
            (r#"{"enabled":false}"#, tls, tls),
            (r#"{"enabled":false}"#, both, both),
            (r#"{"enabled":false,"liveSwitch":true}"#, tls, plain),
            (r#"{"enabled":false,"liveSwitch":true}"#, both, plain),
            // Who is refused is not a switch.
            (r#"{"plaintextClients":"Accept"}"#, tls, both),
            ("{}", both, tls),
        ] {
            assert_eq!(goal(written, runs), expected, "{written} on {runs:?}");
        }
    }

    /// An earlier operator stored `autoTLS: true` in every object.
    #[test]
    fn a_secret_that_is_named_is_the_source_whatever_was_stored_beside_it() {
        let of = |tls: &str| {
            let security = serde_json::from_str(&format!(r#"{{"tls":{tls}}}"#)).unwrap();
            parse(Some(&security)).source
        };
        let secrets = |authority: Option<&str>| Source::Secrets {
            certificate: "a".to_owned(),
            authority: authority.map(str::to_owned),
        };
        let issued = |kind: &str, group: &str| Source::CertManager {
            issuer: Issuer {
                name: "i".to_owned(),
                kind: kind.to_owned(),
                group: group.to_owned(),
            },
            authority: None,
        };
        for (written, source) in [
            ("{}", Source::Operator),
            (r#"{"autoTLS":true}"#, Source::Operator),
            (r#"{"autoTLS":false}"#, Source::Nowhere),
            (r#"{"caSecret":"b"}"#, Source::Nowhere),
            (r#"{"certificateSecret":"a"}"#, secrets(None)),
            (r#"{"certificateSecret":"a","autoTLS":true}"#, secrets(None)),
            (
                r#"{"certificateSecret":"a","autoTLS":false,"caSecret":"b"}"#,
                secrets(Some("b")),
            ),
            (
                r#"{"certManager":{"issuerRef":{"name":"i"}},"autoTLS":true}"#,
                issued("Issuer", "cert-manager.io"),
            ),
            (
                r#"{"certManager":{"issuerRef":{"name":"i","kind":"K","group":"g"}}}"#,
                issued("K", "g"),
            ),
            (
                r#"{"certManager":{"issuerRef":{"name":"i"}},"certificateSecret":"a"}"#,
                Source::Nowhere,
            ),
        ] {
            assert_eq!(of(written), source, "{written}");
        }
    }

    #[test]
    fn a_lifetime_that_was_stored_too_short_counts_as_the_shortest() {
        let security = serde_json::from_str(r#"{"tls":{"leafLifetimeSeconds":-1}}"#).unwrap();
        assert_eq!(parse(Some(&security)).leaf_lifetime, MIN_LEAF_LIFETIME);
    }
}

//! The settings of TLS in a spec.

use crate::transport::{Plane, Transport};
use crate::v1alpha1::cluster::EtcdClusterSpec;
use crate::v1alpha1::security::{Security, Tls, TlsVersion};

/// Default lifetime of a certificate, in seconds: 90 days.
pub const DEFAULT_LEAF_LIFETIME: i64 = 90 * 24 * 60 * 60;
/// Shortest lifetime of a certificate, in seconds.
const MIN_LEAF_LIFETIME: i64 = 60;

/// TLS, as it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsIntent {
    /// Which planes speak TLS. While members run, what they run takes the place of what was written.
    pub transport: Transport,
    /// Where the certificates come from.
    pub source: Source,
    /// Further names of the members, sorted.
    pub extra_names: Vec<String>,
    /// How long a certificate is valid, in seconds.
    pub leaf_lifetime: i64,
    /// Oldest version of TLS, as it was written.
    pub min_version: Option<TlsVersion>,
    /// Cipher suites, as they were written.
    pub cipher_suites: Vec<String>,
}

/// Where certificates come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Source {
    /// The operator issues them.
    #[default]
    Operator,
    /// Secrets of the user's, or none at all: not supported by this release.
    Unsupported,
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
}

pub(super) fn parse(security: Option<&Security>) -> TlsIntent {
    let tls = security.and_then(|security| security.tls.as_ref());
    let on = tls.is_some_and(|tls| tls.enabled.unwrap_or(true));
    let Tls {
        client_tls_enabled,
        peer_tls_enabled,
        auto_tls,
        certificate_secret,
        ca_secret,
        mut extra_names,
        leaf_lifetime_seconds,
        min_version,
        cipher_suites,
        enabled: _,
    } = tls.cloned().unwrap_or_default();
    extra_names.sort();
    extra_names.dedup();
    let issued = auto_tls.unwrap_or(true) && certificate_secret.is_none() && ca_secret.is_none();
    TlsIntent {
        transport: Transport {
            client: Plane::from_switch(on && client_tls_enabled.unwrap_or(true)),
            peer: Plane::from_switch(on && peer_tls_enabled.unwrap_or(true)),
        },
        source: if issued {
            Source::Operator
        } else {
            Source::Unsupported
        },
        extra_names,
        leaf_lifetime: leaf_lifetime_seconds
            .unwrap_or(DEFAULT_LEAF_LIFETIME)
            .max(MIN_LEAF_LIFETIME),
        min_version,
        cipher_suites,
    }
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
        let (plain, tls) = (Plane::Plain, Plane::Tls);
        assert!(parse(None).transport.is_plain());
        assert!(parse(Some(&Security::default())).transport.is_plain());
        for (written, client, peer) in [
            ("{}", tls, tls),
            (r#"{"enabled":true}"#, tls, tls),
            (r#"{"enabled":false,"clientTLSEnabled":true}"#, plain, plain),
            (r#"{"clientTLSEnabled":false}"#, plain, tls),
            (r#"{"peerTLSEnabled":false}"#, tls, plain),
        ] {
            assert_eq!(of(written), Transport { client, peer }, "{written}");
        }
    }

    #[test]
    fn a_lifetime_that_was_stored_too_short_counts_as_the_shortest() {
        let security = serde_json::from_str(r#"{"tls":{"leafLifetimeSeconds":-1}}"#).unwrap();
        assert_eq!(parse(Some(&security)).leaf_lifetime, MIN_LEAF_LIFETIME);
    }
}

//! Certificates that another source has for the members: what is read from its Secrets, and whether it can be used. Pure.

use api::certificates::Copied;
use api::names;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use manifests::tls::{PEER, SERVER, entry};
use pki::{Flaw, Pair, PrivateKey, Usage, Validity, Wanted};
use sha2::{Digest as _, Sha256};

use super::secrets::{hexadecimal, text};
use super::subjects::Subjects;

/// No entry may be larger: the Secret of the members holds each of them eighteen times, and a Secret ends at a mebibyte.
const LARGEST: usize = 32 * 1024;

/// Keys in a Secret of what clients of the members see.
const CERTIFICATE: &str = "tls.crt";
const KEY: &str = "tls.key";
const AUTHORITIES: &str = "ca.crt";
/// Of what the members show each other, where that differs.
const OF_PEERS: [&str; 3] = ["peer.crt", "peer.key", "peer-ca.crt"];

/// One plane of what was given.
#[derive(Clone)]
struct Plane {
    pair: Pair,
    /// Where the certificate is: the Secret, and the keys of certificate and private key.
    at: (String, &'static str, &'static str),
    /// Authorities, and where they are.
    trust: String,
    trust_at: (String, &'static str),
}

/// What was given, for both planes.
pub(crate) struct Given {
    server: Plane,
    peer: Plane,
}

/// Which planes have TLS, or are to have it: only for these names are demanded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Planes {
    pub(crate) client: bool,
    pub(crate) peer: bool,
}

/// What was given and can be used.
pub(crate) struct Checked {
    pub(crate) copied: Copied,
    /// From when until when all of it is valid.
    pub(crate) validity: Validity,
}

impl Given {
    /// From a Secret with a certificate, and the one with the authorities, where that is another one.
    pub(crate) fn read(
        (name, secret): (&str, &Secret),
        authority: Option<(&str, &Secret)>,
    ) -> Result<Self, String> {
        let trusted = authority.unwrap_or((name, secret));
        let server = Plane::read((name, secret), trusted, [CERTIFICATE, KEY, AUTHORITIES])?;
        let [certificate, key, authorities] = OF_PEERS;
        let has = |secret: &Secret, key: &str| {
            let data = secret.data.as_ref();
            data.is_some_and(|data| data.contains_key(key))
        };
        let split = has(secret, certificate) || has(secret, key);
        let keys = [
            if split { certificate } else { CERTIFICATE },
            if split { key } else { KEY },
            if has(trusted.1, authorities) {
                authorities
            } else {
                AUTHORITIES
            },
        ];
        let peer = Plane::read((name, secret), trusted, keys)?;
        Ok(Self { server, peer })
    }

    /// Whether all of it can be used; what cannot is named by its Secret and key.
    pub(crate) fn check(
        &self,
        subjects: &Subjects<'_>,
        planes: Planes,
        now: Timestamp,
    ) -> Result<Checked, String> {
        let none = Vec::new();
        let of_clients = subjects.demanded_of_servers();
        let of_peers = subjects.demanded_of_peers();
        let of_clients = if planes.client { &of_clients } else { &none };
        let of_peers = if planes.peer { &of_peers } else { &none };
        let (first, trusted) = self.server.check(of_clients, now)?;
        let (second, trusted_peers) = self.peer.check(of_peers, now)?;
        let leaves = identity([&self.server.pair.chain, &self.peer.pair.chain]);
        let trust = identity([&trusted, &trusted_peers]);
        Ok(Checked {
            copied: Copied { leaves, trust },
            validity: Validity {
                from: first.from.max(second.from),
                until: first.until.min(second.until),
            },
        })
    }

    /// The authorities that clients, and peers, are verified by.
    pub(crate) fn trust(&self) -> (&str, &str) {
        (&self.server.trust, &self.peer.trust)
    }

    /// The certificates, as the Secret of the members holds them.
    pub(crate) fn entries(&self, cluster: &str) -> Vec<(String, String)> {
        let mut all = Vec::new();
        for ordinal in Subjects::ordinals() {
            let member = names::member(cluster, ordinal);
            for (plane, Plane { pair, .. }) in [(SERVER, &self.server), (PEER, &self.peer)] {
                all.push((entry(&member, plane, false), pair.chain.clone()));
                all.push((entry(&member, plane, true), pair.key.expose().to_owned()));
            }
        }
        all
    }
}

impl Plane {
    fn read(
        (name, secret): (&str, &Secret),
        (trusted, authority): (&str, &Secret),
        [certificate, key, authorities]: [&'static str; 3],
    ) -> Result<Self, String> {
        let pair = Pair {
            chain: one(name, secret, certificate)?,
            key: PrivateKey::from_pem(one(name, secret, key)?),
        };
        Ok(Self {
            pair,
            at: (name.to_owned(), certificate, key),
            trust: one(trusted, authority, authorities)?,
            trust_at: (trusted.to_owned(), authorities),
        })
    }

    /// How long it is valid, and the fingerprints of the authorities.
    fn check(&self, names: &[String], now: Timestamp) -> Result<(Validity, String), String> {
        let trusted = pki::check_trust(&self.trust, now)
            .map_err(|flaw| tell(&self.trust_at.0, self.trust_at.1, &flaw.to_string()))?;
        let wanted = Wanted {
            names,
            usages: &[Usage::Server, Usage::Client],
            now,
        };
        let facts = pki::check(&self.pair, &self.trust, &wanted).map_err(|flaw| {
            let (secret, certificate, key) = &self.at;
            let of_key = matches!(flaw, Flaw::NoKey | Flaw::UnusableKey(_) | Flaw::OtherKey);
            tell(
                secret,
                if of_key { key } else { certificate },
                &flaw.to_string(),
            )
        })?;
        // In whichever order they stand, and with whatever is written between them.
        let mut all: Vec<String> = trusted.into_iter().map(|it| it.fingerprint).collect();
        all.sort();
        all.dedup();
        Ok((facts.validity, all.concat()))
    }
}

/// One entry of a Secret.
fn one(name: &str, secret: &Secret, key: &str) -> Result<String, String> {
    let data = secret.data.as_ref().and_then(|data| data.get(key));
    let Some(data) = data else {
        return Err(tell(name, key, "it is missing"));
    };
    if data.0.len() > LARGEST {
        return Err(tell(name, key, "it is larger than 32 KiB"));
    }
    text(secret, key).ok_or_else(|| tell(name, key, "it is no text in PEM form"))
}

/// What is wrong, and where.
fn tell(secret: &str, key: &str, what: &str) -> String {
    format!("Secret {secret}, key {key}: {what}")
}

fn identity(parts: [&String; 2]) -> String {
    let mut whole = Sha256::new();
    for part in parts {
        whole.update(Sha256::digest(part));
    }
    let whole = hexadecimal(&whole.finalize());
    whole.chars().take(16).collect()
}

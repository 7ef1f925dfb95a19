//! Whether a pair can be given to a member: everything that etcd or a client of it would find wrong at a handshake, found
//! before.

use std::time::Duration;

use jiff::Timestamp;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, TrustAnchor, UnixTime};
use rustls::sign::CertifiedKey;
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};

use crate::facts::Facts;
use crate::key::Pair;

/// What a certificate may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Usage {
    /// To be dialled.
    Server,
    /// To dial.
    Client,
}

/// What a pair must be good for.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    /// Under which names it is dialled.
    pub names: &'a [String],
    /// For what it is used.
    pub usages: &'a [Usage],
    /// The time at which it is used.
    pub now: Timestamp,
}

/// Why a pair, or the authorities that it is checked against, cannot be used. A sentence for the condition; it never
/// holds anything of the key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Flaw {
    /// There is no certificate.
    #[error("it holds no certificate in PEM form")]
    NoCertificate,
    /// What is there cannot be read.
    #[error("its certificate cannot be read: {0}")]
    Unreadable(String),
    /// There is no key.
    #[error("it holds no private key in PEM form")]
    NoKey,
    /// The key is of a kind that is not supported.
    #[error("its private key cannot be used: {0}")]
    UnusableKey(String),
    /// The key is that of another certificate.
    #[error("its private key belongs to another certificate")]
    OtherKey,
    /// It was valid once.
    #[error("its certificate {0:?} expired at {1}")]
    Expired(String, Timestamp),
    /// It is not valid yet.
    #[error("its certificate {0:?} is valid from {1} on")]
    NotYetValid(String, Timestamp),
    /// It cannot be dialled by some names.
    #[error("its certificate lacks the names {}", .0.join(", "))]
    MissingNames(Vec<String>),
    /// It may not be used as it is to be used.
    #[error("its certificate may not be used for {0}")]
    MissingUsage(&'static str),
    /// No trusted authority issued it.
    #[error("its certificate, issued by {issuer:?}, is not signed by a trusted authority: {why}")]
    Untrusted {
        /// Who issued it.
        issuer: String,
        /// What the verification found.
        why: String,
    },
    /// What should be trusted is no authority.
    #[error("{0:?} is no certificate authority")]
    NoAuthority(String),
}

/// Accepts a pair for what is wanted of it, or says what is wrong with it. The facts are those of its first certificate.
pub fn check(pair: &Pair, trust: &str, wanted: &Wanted<'_>) -> Result<Facts, Flaw> {
    let chain = certificates(&pair.chain)?;
    let (leaf, between) = chain.split_first().ok_or(Flaw::NoCertificate)?;
    in_time(leaf, wanted.now)?;
    check_key(&chain, pair)?;
    check_certificate(leaf, between, &certificates(trust)?, wanted)
}

/// All that can be said of a certificate without its key.
pub(crate) fn check_certificate(
    leaf: &CertificateDer<'_>,
    between: &[CertificateDer<'_>],
    authorities: &[CertificateDer<'_>],
    wanted: &Wanted<'_>,
) -> Result<Facts, Flaw> {
    let facts = in_time(leaf, wanted.now)?;
    check_chain(leaf, between, authorities, (&facts, wanted))?;
    check_names(leaf, wanted.names)?;
    Ok(facts)
}

/// Accepts certificates as what is trusted: each an authority, and one of them valid now. The facts of each.
pub fn check_trust(trust: &str, now: Timestamp) -> Result<Vec<Facts>, Flaw> {
    let mut all = Vec::new();
    for authority in certificates(trust)? {
        let facts = read(&authority)?;
        if !facts.authority || anchor_from_trusted_cert(&authority).is_err() {
            return Err(Flaw::NoAuthority(facts.common_name));
        }
        all.push((in_time(&authority, now), facts));
    }
    if let Some((Err(flaw), _)) = all.first()
        && all.iter().all(|(valid, _)| valid.is_err())
    {
        return Err(flaw.clone());
    }
    Ok(all.into_iter().map(|(_, facts)| facts).collect())
}

fn certificates(pem: &str) -> Result<Vec<CertificateDer<'static>>, Flaw> {
    let all = CertificateDer::pem_slice_iter(pem.as_bytes());
    let all: Vec<_> = all
        .collect::<Result<_, _>>()
        .map_err(|error| Flaw::Unreadable(error.to_string()))?;
    if all.is_empty() {
        return Err(Flaw::NoCertificate);
    }
    Ok(all)
}

fn read(certificate: &CertificateDer<'_>) -> Result<Facts, Flaw> {
    let unreadable = || Flaw::Unreadable("it is no X.509 certificate".to_owned());
    Facts::of(certificate).ok_or_else(unreadable)
}

fn in_time(certificate: &CertificateDer<'_>, now: Timestamp) -> Result<Facts, Flaw> {
    let facts = read(certificate)?;
    let name = facts.common_name.clone();
    if now > facts.validity.until {
        return Err(Flaw::Expired(name, facts.validity.until));
    }
    if now < facts.validity.from {
        return Err(Flaw::NotYetValid(name, facts.validity.from));
    }
    Ok(facts)
}

fn check_key(chain: &[CertificateDer<'static>], pair: &Pair) -> Result<(), Flaw> {
    let key = PrivateKeyDer::from_pem_slice(pair.key.expose().as_bytes());
    let Ok(key) = key else {
        return Err(Flaw::NoKey);
    };
    let key = rustls::crypto::ring::sign::any_supported_type(&key)
        .map_err(|error| Flaw::UnusableKey(error.to_string()))?;
    let certified = CertifiedKey::new(chain.to_vec(), key);
    match certified.keys_match() {
        Ok(()) => Ok(()),
        Err(rustls::Error::InconsistentKeys(_)) => Err(Flaw::OtherKey),
        Err(error) => Err(Flaw::Unreadable(error.to_string())),
    }
}

fn check_chain(
    leaf: &CertificateDer<'_>,
    between: &[CertificateDer<'_>],
    authorities: &[CertificateDer<'_>],
    (facts, wanted): (&Facts, &Wanted<'_>),
) -> Result<(), Flaw> {
    let anchors: Vec<TrustAnchor<'_>> = authorities
        .iter()
        .filter(|authority| in_time(authority, wanted.now).is_ok())
        .filter_map(|authority| anchor_from_trusted_cert(authority).ok())
        .collect();
    let certificate = parse(leaf)?;
    let seconds = u64::try_from(wanted.now.as_second()).unwrap_or(0);
    let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
    for usage in wanted.usages {
        let (required, name) = match usage {
            Usage::Server => (KeyUsage::server_auth(), "server authentication"),
            Usage::Client => (KeyUsage::client_auth(), "client authentication"),
        };
        let verified = certificate.verify_for_usage(
            webpki::ALL_VERIFICATION_ALGS,
            &anchors,
            between,
            now,
            required,
            None,
            None,
        );
        match verified {
            Ok(_path) => {}
            Err(webpki::Error::RequiredEkuNotFoundContext(_)) => {
                return Err(Flaw::MissingUsage(name));
            }
            Err(error) => {
                let (issuer, why) = (facts.issuer.clone(), error.to_string());
                return Err(Flaw::Untrusted { issuer, why });
            }
        }
    }
    Ok(())
}

fn parse<'a>(certificate: &'a CertificateDer<'a>) -> Result<EndEntityCert<'a>, Flaw> {
    EndEntityCert::try_from(certificate).map_err(|error| Flaw::Unreadable(error.to_string()))
}

fn check_names(leaf: &CertificateDer<'_>, names: &[String]) -> Result<(), Flaw> {
    let certificate = parse(leaf)?;
    let missing = names.iter().filter(|name| {
        let valid = |name| certificate.verify_is_valid_for_subject_name(&name).is_ok();
        // A wildcard is no name that is dialled: one that it stands for is.
        let dialled = match name.strip_prefix("*.") {
            Some(domain) => format!("any.{domain}"),
            None => (*name).clone(),
        };
        !ServerName::try_from(dialled.as_str()).is_ok_and(valid)
    });
    let missing: Vec<String> = missing.cloned().collect();
    if missing.is_empty() {
        Ok(())
    } else {
        Err(Flaw::MissingNames(missing))
    }
}

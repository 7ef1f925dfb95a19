//! A certificate authority of our own.

use jiff::{SignedDuration, Timestamp};
use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyPair, KeyUsagePurpose, PublicKeyData as _,
};
use sha2::{Digest as _, Sha256};
use time::OffsetDateTime;

use crate::Error;
use crate::check::Usage;
use crate::facts::{Facts, hexadecimal};
use crate::key::{Pair, PrivateKey};

/// How far clocks may differ: a certificate is valid from this long before it was issued.
const SKEW: SignedDuration = SignedDuration::from_mins(5);

/// From when until when a certificate counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Validity {
    /// Not before.
    pub from: Timestamp,
    /// Not after.
    pub until: Timestamp,
}

impl Validity {
    /// For this long from now, and for clocks that are a little behind.
    pub fn starting(now: Timestamp, lifetime: SignedDuration) -> Self {
        let from = now.checked_sub(SKEW).unwrap_or(now);
        let until = now.checked_add(lifetime).unwrap_or(Timestamp::MAX);
        Self { from, until }
    }

    /// When a certificate that was issued at this time is to be issued again: at two thirds of what was left of it then, so
    /// that a third is left for what goes wrong.
    pub fn renewal(&self, issued: Timestamp) -> Timestamp {
        let whole = self.until.duration_since(issued);
        issued.checked_add(whole / 3 * 2).unwrap_or(self.until)
    }

    fn enter(self, params: &mut CertificateParams) {
        params.not_before = date(self.from);
        params.not_after = date(self.until);
    }
}

/// Certificates end at the last second of 9999, whatever is asked for.
fn date(moment: Timestamp) -> OffsetDateTime {
    OffsetDateTime::from_unix_timestamp(moment.as_second())
        .unwrap_or_else(|_| rcgen::date_time_ymd(9999, 12, 31))
}

/// What a leaf is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leaf {
    /// The common name. etcd takes it for the user's name where certificates identify users.
    pub common_name: String,
    /// Host names and addresses; none for a certificate that only identifies a client.
    pub names: Vec<String>,
    /// What it may be used for.
    pub usages: Vec<Usage>,
    /// From when until when.
    pub validity: Validity,
}

/// A certificate authority with its key.
pub struct Authority {
    name: String,
    validity: Validity,
    certificate: String,
    key: KeyPair,
}

impl Authority {
    /// A new one. Its common name ends with a part of its key's fingerprint, so that two of one purpose differ in name:
    /// verifiers look for an issuer by name first.
    pub fn new(purpose: &str, validity: Validity) -> Result<Self, Error> {
        let key = KeyPair::generate().map_err(Error::because("generating the authority's key"))?;
        let digest = hexadecimal(&Sha256::digest(key.der_bytes()));
        let mark: String = digest.chars().take(8).collect();
        let name = format!("{purpose} {mark}");
        let certificate = params(&name, validity)
            .self_signed(&key)
            .map_err(Error::because("signing the authority's own certificate"))?
            .pem();
        Ok(Self {
            name,
            validity,
            certificate,
            key,
        })
    }

    /// The one whose certificate and key were kept. `None` where they are not those of an authority of ours.
    pub fn from_pem(certificate: &str, key: &PrivateKey) -> Option<Self> {
        let facts = Facts::of_first(certificate)?;
        let key = KeyPair::from_pem(key.expose()).ok()?;
        (facts.authority && facts.public_key == key.subject_public_key_info()).then(|| Self {
            name: facts.common_name,
            validity: facts.validity,
            certificate: certificate.to_owned(),
            key,
        })
    }

    /// Its certificate, in PEM.
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// From when until when it counts.
    pub fn validity(&self) -> Validity {
        self.validity
    }

    /// Its key.
    pub fn key(&self) -> PrivateKey {
        PrivateKey::from_pem(self.key.serialize_pem())
    }

    /// A new key, and a certificate for it that is valid no longer than the authority itself.
    pub fn issue(&self, leaf: &Leaf) -> Result<Pair, Error> {
        let key = KeyPair::generate().map_err(Error::because("generating a key"))?;
        let mut params = CertificateParams::new(leaf.names.clone())
            .map_err(Error::because("reading the names of a certificate"))?;
        params.distinguished_name = common_name(&leaf.common_name);
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = leaf.usages.iter().copied().map(purpose).collect();
        params.use_authority_key_identifier_extension = true;
        let until = leaf.validity.until.min(self.validity.until);
        let validity = Validity {
            until,
            ..leaf.validity
        };
        validity.enter(&mut params);
        let issuer = params_and_key(self);
        let certificate = params
            .signed_by(&key, &issuer)
            .map_err(Error::because("signing a certificate"))?;
        Ok(Pair {
            chain: certificate.pem(),
            key: PrivateKey::from_pem(key.serialize_pem()),
        })
    }

    /// The certificate of `next`, signed by this authority: who trusts only this one accepts, with it in the chain, what
    /// `next` issues.
    pub fn cross_sign(&self, next: &Self) -> Result<String, Error> {
        let until = next.validity.until.min(self.validity.until);
        let mut params = params(
            &next.name,
            Validity {
                until,
                ..next.validity
            },
        );
        params.use_authority_key_identifier_extension = true;
        let issuer = params_and_key(self);
        let cross = params
            .signed_by(&next.key, &issuer)
            .map_err(Error::because("cross-signing an authority"))?;
        Ok(cross.pem())
    }
}

fn params_and_key(authority: &Authority) -> Issuer<'static, &KeyPair> {
    Issuer::new(params(&authority.name, authority.validity), &authority.key)
}

fn params(name: &str, validity: Validity) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = common_name(name);
    // It signs leaves, and may be cross-signed; it signs no further authorities.
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(1));
    params.key_usages = vec![
        KeyUsagePurpose::DigitalSignature,
        KeyUsagePurpose::KeyCertSign,
        KeyUsagePurpose::CrlSign,
    ];
    validity.enter(&mut params);
    params
}

fn common_name(name: &str) -> DistinguishedName {
    let mut all = DistinguishedName::new();
    all.push(DnType::CommonName, name);
    all
}

fn purpose(usage: Usage) -> ExtendedKeyUsagePurpose {
    match usage {
        Usage::Server => ExtendedKeyUsagePurpose::ServerAuth,
        Usage::Client => ExtendedKeyUsagePurpose::ClientAuth,
    }
}

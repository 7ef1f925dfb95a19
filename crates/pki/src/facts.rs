//! What a certificate says of itself. Public: it may stand in a status, an event or a log.

use jiff::Timestamp;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use sha2::{Digest as _, Sha256};
use x509_parser::extensions::GeneralName;
use x509_parser::parse_x509_certificate;
use x509_parser::time::ASN1Time;

use crate::authority::Validity;

/// What a certificate says of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// SHA-256 of the whole certificate, hexadecimal.
    pub fingerprint: String,
    /// Common name of its subject; empty where it has none.
    pub common_name: String,
    /// Its issuer, as a distinguished name.
    pub issuer: String,
    /// Host names and IP addresses.
    pub names: Vec<String>,
    /// From when until when it counts.
    pub validity: Validity,
    /// It may sign others.
    pub authority: bool,
    /// Its public key with the algorithm, in DER.
    pub(crate) public_key: Vec<u8>,
}

impl Facts {
    /// Of the first certificate in a PEM text.
    pub fn of_first(pem: &str) -> Option<Self> {
        let der = CertificateDer::pem_slice_iter(pem.as_bytes()).next()?;
        Self::of(&der.ok()?)
    }

    pub(crate) fn of(der: &CertificateDer<'_>) -> Option<Self> {
        let (_, certificate) = parse_x509_certificate(der).ok()?;
        let mut common_names = certificate.subject().iter_common_name();
        let common_name = common_names.next().and_then(|name| name.as_str().ok());
        let names = certificate.subject_alternative_name().ok().flatten();
        let names = names.map(|extension| &extension.value.general_names);
        Some(Self {
            fingerprint: hexadecimal(&Sha256::digest(der)),
            common_name: common_name.unwrap_or_default().to_owned(),
            issuer: certificate.issuer().to_string(),
            names: names.into_iter().flatten().filter_map(name).collect(),
            validity: Validity {
                from: moment(certificate.validity().not_before)?,
                until: moment(certificate.validity().not_after)?,
            },
            authority: certificate.is_ca(),
            public_key: certificate.public_key().raw.to_vec(),
        })
    }
}

fn moment(time: ASN1Time) -> Option<Timestamp> {
    Timestamp::from_second(time.timestamp()).ok()
}

fn name(name: &GeneralName<'_>) -> Option<String> {
    match name {
        GeneralName::DNSName(name) => Some((*name).to_owned()),
        GeneralName::IPAddress(bytes) => address(bytes),
        _ => None,
    }
}

fn address(bytes: &[u8]) -> Option<String> {
    let four = <[u8; 4]>::try_from(bytes).map(|four| std::net::IpAddr::from(four).to_string());
    let six = <[u8; 16]>::try_from(bytes).map(|six| std::net::IpAddr::from(six).to_string());
    four.or(six).ok()
}

pub(crate) fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        for half in [byte >> 4, byte & 15] {
            text.extend(char::from_digit(half.into(), 16));
        }
        text
    })
}

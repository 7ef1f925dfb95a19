//! Certificates and keys that others wrote, damaged: each is an answer, and never a panic.

use hostile::{Probe, Silent, never_panics};
use jiff::{SignedDuration, Timestamp};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use crate::check::{Usage, Wanted, check, check_certificate, check_trust};
use crate::{Authority, Facts, Leaf, Pair, PrivateKey, Validity};

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

fn issued() -> (Authority, Pair) {
    let validity = Validity::starting(now(), SignedDuration::from_hours(24));
    let authority = Authority::new("db client", validity).unwrap();
    let leaf = Leaf {
        common_name: "db-0".to_owned(),
        names: vec!["db-0.db-peer.ns.svc".to_owned(), "10.0.0.7".to_owned()],
        usages: vec![Usage::Server, Usage::Client],
        validity,
    };
    let pair = authority.issue(&leaf).unwrap();
    (authority, pair)
}

const USAGES: [Usage; 2] = [Usage::Server, Usage::Client];

fn wanted(names: &[String]) -> Wanted<'_> {
    Wanted {
        names,
        usages: &USAGES,
        now: now(),
    }
}

#[test]
fn texts() {
    let (authority, pair) = issued();
    let (trust, names) = (authority.certificate().to_owned(), ["localhost".to_owned()]);
    let samples = [trust.as_str(), &pair.chain, pair.key.expose()];
    never_panics(&samples, |input| {
        let text = String::from_utf8_lossy(input).into_owned();
        let damaged = Pair {
            chain: text.clone(),
            key: PrivateKey::from_pem(text.clone()),
        };
        let chain = Pair {
            key: pair.key.clone(),
            ..damaged.clone()
        };
        let key = Pair {
            chain: pair.chain.clone(),
            ..damaged.clone()
        };
        let facts = Facts::of_first(&text);
        let taken = Authority::from_pem(&text, &damaged.key).is_some();
        let checks = [&damaged, &chain, &key].map(|pair| check(pair, &trust, &wanted(&names)));
        let trusted = check_trust(&text, now());
        // Wherever a key was put by mistake, what is said of it has no piece of it.
        let told = format!("{checks:?} {trusted:?}");
        let errors = checks.iter().filter_map(|check| check.as_ref().err());
        let told = errors.fold(told, |told, error| format!("{told} {error}"));
        assert!(!told.contains(canary(&pair.key)), "{told}");
        (facts, taken)
    });
}

/// A piece of the middle of a key: the first and last lines are much the same in all keys.
fn canary(key: &PrivateKey) -> &str {
    key.expose()
        .lines()
        .nth(1)
        .and_then(|line| line.get(40..52))
        .unwrap()
}

#[test]
fn what_holds_a_key_cannot_be_printed() {
    for (what, prints) in [
        ("PrivateKey", <Probe<PrivateKey>>::PRINTS),
        ("Pair", <Probe<Pair>>::PRINTS),
        ("Authority", <Probe<Authority>>::PRINTS),
    ] {
        assert!(!prints, "{what} has Debug");
    }
}

/// Text that was damaged hardly ever is a certificate again, so the inside is damaged for itself.
#[test]
fn insides() {
    let (authority, pair) = issued();
    let der = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
    let (trust, leaf) = (der(authority.certificate()), der(&pair.chain));
    let names = ["db-0.db-peer.ns.svc".to_owned(), "*.example.com".to_owned()];
    never_panics(&[&trust, &leaf], |input| {
        let damaged = CertificateDer::from(input.to_vec());
        let good = std::slice::from_ref(&trust);
        let bad = std::slice::from_ref(&damaged);
        (
            Facts::of(&damaged),
            check_certificate(&damaged, good, good, &wanted(&names)),
            check_certificate(&leaf, bad, bad, &wanted(&names)),
        )
    });
}

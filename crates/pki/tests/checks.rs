//! What is issued is accepted, and every way in which a pair can be wrong is found, by its own name.
#![expect(clippy::unwrap_used, reason = "tests")]

use jiff::{SignedDuration, Timestamp};
use pki::{
    Authority, Facts, Flaw, Leaf, Pair, PrivateKey, Usage, Validity, Wanted, check, check_trust,
};
use proptest::prelude::*;

const DAY: SignedDuration = SignedDuration::from_hours(24);

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

fn days(count: i32) -> SignedDuration {
    DAY.checked_mul(count).unwrap()
}

fn authority() -> Authority {
    Authority::new("db client", Validity::starting(now(), days(100))).unwrap()
}

fn names() -> Vec<String> {
    let names = ["db-0.db-peer.ns.svc", "localhost", "10.0.0.7", "fd00::7"];
    names.map(str::to_owned).to_vec()
}

fn leaf() -> Leaf {
    Leaf {
        common_name: "db-0".to_owned(),
        names: names(),
        usages: vec![Usage::Server, Usage::Client],
        validity: Validity::starting(now(), days(9)),
    }
}

/// As every member uses its pair.
fn judge(pair: &Pair, trust: &str, moment: Timestamp) -> Result<Facts, Flaw> {
    let wanted = Wanted {
        names: &names(),
        usages: &[Usage::Server, Usage::Client],
        now: moment,
    };
    check(pair, trust, &wanted)
}

#[test]
fn what_is_issued_is_accepted_and_says_who_it_is() {
    let authority = authority();
    let pair = authority.issue(&leaf()).unwrap();
    let facts = judge(&pair, authority.certificate(), now()).unwrap();
    assert_eq!(facts.common_name, "db-0");
    assert_eq!(facts.names, names());
    assert_eq!(facts.validity, leaf().validity);
    assert_eq!(facts.fingerprint.len(), 64);
    assert!(
        facts.issuer.starts_with("CN=db client "),
        "{}",
        facts.issuer
    );
    assert!(!facts.authority);
    // Two thirds of nine days. That it is valid a little earlier than it was issued does not count.
    let renewal = facts.validity.renewal(now()).duration_since(now());
    assert_eq!(renewal, days(6));
}

#[test]
fn an_authority_that_was_kept_issues_again() {
    let first = authority();
    let kept = Authority::from_pem(first.certificate(), &first.key()).unwrap();
    let pair = kept.issue(&leaf()).unwrap();
    assert!(judge(&pair, first.certificate(), now()).is_ok());
    assert_eq!(kept.validity(), first.validity());

    let other = authority();
    assert!(Authority::from_pem(first.certificate(), &other.key()).is_none());
    assert!(Authority::from_pem(&pair.chain, &pair.key).is_none());
    assert!(Authority::from_pem("nothing", &first.key()).is_none());
}

#[test]
fn no_leaf_outlives_its_authority() {
    let authority = authority();
    let long = Leaf {
        validity: Validity::starting(now(), days(1000)),
        ..leaf()
    };
    let pair = authority.issue(&long).unwrap();
    let facts = Facts::of_first(&pair.chain).unwrap();
    assert_eq!(facts.validity.until, authority.validity().until);
}

#[test]
fn clients_of_the_old_and_of_the_new_authority_accept_a_cross_signed_chain() {
    let (old, new) = (authority(), authority());
    let cross = old.cross_sign(&new).unwrap();
    let plain = new.issue(&leaf()).unwrap();
    let chained = Pair {
        chain: format!("{}{cross}", plain.chain),
        key: plain.key.clone(),
    };
    assert!(judge(&chained, old.certificate(), now()).is_ok());
    assert!(judge(&chained, new.certificate(), now()).is_ok());
    let both = format!("{}{}", old.certificate(), new.certificate());
    assert!(judge(&plain, &both, now()).is_ok());
    let untrusted = judge(&plain, old.certificate(), now()).unwrap_err();
    assert!(matches!(untrusted, Flaw::Untrusted { .. }), "{untrusted}");
}

#[test]
fn every_flaw_is_told_by_its_name() {
    let authority = authority();
    let trust = authority.certificate();
    let good = authority.issue(&leaf()).unwrap();
    let with = |chain: &str, key: &str| Pair {
        chain: chain.to_owned(),
        key: PrivateKey::from_pem(key.to_owned()),
    };

    let later = now() + days(10);
    let until = leaf().validity.until;
    assert_eq!(
        judge(&good, trust, later),
        Err(Flaw::Expired("db-0".to_owned(), until))
    );
    let earlier = now() - days(1);
    let from = leaf().validity.from;
    assert_eq!(
        judge(&good, trust, earlier),
        Err(Flaw::NotYetValid("db-0".to_owned(), from))
    );

    let other = authority.issue(&leaf()).unwrap();
    let mixed = with(&good.chain, other.key.expose());
    assert_eq!(judge(&mixed, trust, now()), Err(Flaw::OtherKey));
    let keyless = with(&good.chain, "no key");
    assert_eq!(judge(&keyless, trust, now()), Err(Flaw::NoKey));
    let empty = with("", good.key.expose());
    assert_eq!(judge(&empty, trust, now()), Err(Flaw::NoCertificate));
    let cut = with(
        "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
        "",
    );
    assert!(matches!(
        judge(&cut, trust, now()),
        Err(Flaw::Unreadable(_))
    ));
}

#[test]
fn a_leaf_that_does_not_serve_its_purpose_is_refused() {
    let authority = authority();
    let trust = authority.certificate();
    let good = authority.issue(&leaf()).unwrap();
    let fewer = Leaf {
        names: vec!["localhost".to_owned()],
        ..leaf()
    };
    let fewer = authority.issue(&fewer).unwrap();
    let missing = ["db-0.db-peer.ns.svc", "10.0.0.7", "fd00::7"].map(str::to_owned);
    assert_eq!(
        judge(&fewer, trust, now()),
        Err(Flaw::MissingNames(missing.to_vec()))
    );

    let server = Leaf {
        usages: vec![Usage::Server],
        ..leaf()
    };
    let server = authority.issue(&server).unwrap();
    assert_eq!(
        judge(&server, trust, now()),
        Err(Flaw::MissingUsage("client authentication"))
    );

    let stranger = self::authority();
    assert!(matches!(
        judge(&good, stranger.certificate(), now()),
        Err(Flaw::Untrusted { .. })
    ));
    // An authority that has expired trusts no leaf, though the leaf says that it is valid.
    let short = Authority::new("short", Validity::starting(now() - days(9), days(8))).unwrap();
    assert!(matches!(
        judge(&good, short.certificate(), now()),
        Err(Flaw::Untrusted { .. })
    ));
}

#[test]
fn only_authorities_are_trusted() {
    let authority = authority();
    let pair = authority.issue(&leaf()).unwrap();
    assert_eq!(
        check_trust(&pair.chain, now()),
        Err(Flaw::NoAuthority("db-0".to_owned()))
    );
    assert_eq!(check_trust("nothing", now()), Err(Flaw::NoCertificate));
    let expired = Authority::new("old", Validity::starting(now() - days(9), days(8))).unwrap();
    assert!(matches!(
        check_trust(expired.certificate(), now()),
        Err(Flaw::Expired(..))
    ));
    let both = format!("{}{}", expired.certificate(), authority.certificate());
    assert_eq!(check_trust(&both, now()).unwrap().len(), 2);
}

proptest! {
    /// What users write into a Secret, whole or damaged, is answered.
    #[test]
    fn garbage_never_panics(at in 0.0..1.0f64, bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
        let authority = authority();
        let pair = authority.issue(&leaf()).unwrap();
        let damage = |text: &str| {
            let mut all = text.as_bytes().to_vec();
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, clippy::as_conversions, reason = "a place in a short text")]
            let place = (all.len() as f64 * at) as usize;
            all.splice(place..(place + bytes.len()).min(text.len()), bytes.iter().copied());
            String::from_utf8_lossy(&all).into_owned()
        };
        let (chain, key) = (damage(&pair.chain), damage(pair.key.expose()));
        let trust = damage(authority.certificate());
        let pairs = [
            Pair { chain, key: pair.key.clone() },
            Pair { chain: pair.chain.clone(), key: PrivateKey::from_pem(key) },
        ];
        for damaged in pairs {
            drop(judge(&damaged, authority.certificate(), now()));
        }
        drop(judge(&pair, &trust, now()));
        drop(check_trust(&trust, now()));
    }
}

#[test]
fn a_wildcard_and_an_address_can_be_names() {
    let authority = authority();
    let names: Vec<String> = ["*.example.com", "10.0.0.1", "::1", "etcd"]
        .map(str::to_owned)
        .into();
    let leaf = Leaf {
        names: names.clone(),
        ..leaf()
    };
    let pair = authority.issue(&leaf).unwrap();
    let wanted = Wanted {
        names: &names,
        usages: &[Usage::Server],
        now: now(),
    };
    assert!(check(&pair, authority.certificate(), &wanted).is_ok());
    let others = ["*.example.org".to_owned()];
    let wanted = Wanted {
        names: &others,
        ..wanted
    };
    assert!(check(&pair, authority.certificate(), &wanted).is_err());
}

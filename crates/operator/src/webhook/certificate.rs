//! The certificate of the webhook: what the Secret holds, whether it can be served, and what to do next. Pure.
//!
//! Each certificate has an authority of its own, whose key is forgotten once it has signed it: what can be stolen is one
//! certificate. A renewal is announced first: the next authority is trusted for a while before its certificate is served, and
//! the one before for as long as a replica may still serve it.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use pki::{Authority, Leaf, Pair, PrivateKey, Usage, Validity, Wanted};

use crate::certificates::secrets::{text, with_entries};

/// How long a certificate is valid; it is renewed after two thirds of that.
const LIFETIME: SignedDuration = SignedDuration::from_hours(90 * 24);

/// A certificate and what must be trusted to accept it.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Issued {
    pub(super) authority: String,
    pub(super) pair: Pair,
}

/// What the Secret holds.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Kept {
    /// The authority of the certificate before.
    previous: Option<String>,
    /// What is served.
    pub(super) served: Issued,
    /// What will be served.
    next: Option<Issued>,
}

/// What the replica that holds the lease does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Issue a certificate: there is none, or it cannot be used.
    Issue,
    /// Issue the next one, and keep it beside the one that is served.
    Announce,
    /// Tell the API server which authorities to trust.
    Inject,
    /// Serve the next one.
    Switch,
    /// Nothing until then, or until something changes.
    Rest(Timestamp),
}

/// What is known of the two configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trusted {
    /// One of them trusts something else.
    Otherwise,
    /// They have told the API server only just now.
    Recently,
    /// Every API server knows.
    Everywhere,
}

/// Until the API servers are looked at again.
const SOON: SignedDuration = SignedDuration::from_secs(10);

impl Issued {
    /// For this host.
    pub(super) fn new(host: &str, now: Timestamp) -> Result<Self, pki::Error> {
        let validity = Validity::starting(now, LIFETIME);
        let authority = Authority::new("etcd-operator-admission", validity)?;
        let pair = authority.issue(&Leaf {
            common_name: api::labels::OPERATOR.to_owned(),
            names: vec![host.to_owned()],
            usages: vec![Usage::Server],
            validity,
        })?;
        Ok(Self {
            authority: authority.certificate().to_owned(),
            pair,
        })
    }

    /// When it is to be renewed; `None` where it cannot be served.
    fn renewal(&self, host: &str, now: Timestamp) -> Option<Timestamp> {
        let wanted = Wanted {
            names: &[host.to_owned()],
            usages: &[Usage::Server],
            now,
        };
        let facts = pki::check(&self.pair, &self.authority, &wanted).ok()?;
        Some(facts.validity.renewal(facts.validity.from))
    }

    fn read(secret: &Secret, [authority, chain, key]: [&str; 3]) -> Option<Self> {
        Some(Self {
            authority: text(secret, authority)?,
            pair: Pair {
                chain: text(secret, chain)?,
                key: PrivateKey::from_pem(text(secret, key)?),
            },
        })
    }

    fn entries(&self, names: [&str; 3]) -> [(String, String); 3] {
        let [authority, chain, key] = names.map(str::to_owned);
        [
            (authority, self.authority.clone()),
            (chain, self.pair.chain.clone()),
            (key, self.pair.key.expose().to_owned()),
        ]
    }
}

const SERVED: [&str; 3] = ["ca.crt", "tls.crt", "tls.key"];
const NEXT: [&str; 3] = ["next-ca.crt", "next.crt", "next.key"];
const PREVIOUS: &str = "previous-ca.crt";

impl Kept {
    /// From a Secret; `None` where that holds no certificate.
    pub(super) fn read(secret: &Secret) -> Option<Self> {
        Some(Self {
            previous: text(secret, PREVIOUS),
            served: Issued::read(secret, SERVED)?,
            next: Issued::read(secret, NEXT),
        })
    }

    /// Only this one.
    pub(super) fn only(served: Issued) -> Self {
        Self {
            previous: None,
            served,
            next: None,
        }
    }

    /// With another one that follows.
    pub(super) fn announcing(&self, next: Issued) -> Self {
        Self {
            previous: None,
            served: self.served.clone(),
            next: Some(next),
        }
    }

    /// The next one serves.
    pub(super) fn switched(self) -> Self {
        match self.next {
            None => self,
            Some(next) => Self {
                previous: Some(self.served.authority),
                served: next,
                next: None,
            },
        }
    }

    /// As it is kept.
    pub(super) fn secret(&self) -> Secret {
        let mut entries = self.served.entries(SERVED).to_vec();
        entries.extend(self.next.iter().flat_map(|next| next.entries(NEXT)));
        entries.extend(
            self.previous
                .iter()
                .map(|it| (PREVIOUS.to_owned(), it.clone())),
        );
        with_entries(&entries)
    }

    /// The authorities that the API server is to trust.
    pub(super) fn trust(&self) -> ByteString {
        let next = self.next.as_ref().map(|next| &next.authority);
        let all = [self.previous.as_ref(), Some(&self.served.authority), next];
        let all: String = all.into_iter().flatten().map(String::as_str).collect();
        ByteString(all.into_bytes())
    }
}

/// What comes next.
pub(super) fn decide(kept: Option<&Kept>, trusted: Trusted, host: &str, now: Timestamp) -> Step {
    let Some(kept) = kept else {
        return Step::Issue;
    };
    let Some(renewal) = kept.served.renewal(host, now) else {
        return Step::Issue;
    };
    let soon = now.checked_add(SOON).unwrap_or(now);
    let next_is_usable = kept
        .next
        .as_ref()
        .map(|next| next.renewal(host, now).is_some_and(|renewal| now < renewal));
    match (next_is_usable, trusted) {
        (Some(false), _) => Step::Announce,
        (None, _) if now >= renewal => Step::Announce,
        (_, Trusted::Otherwise) => Step::Inject,
        (Some(true), Trusted::Everywhere) => Step::Switch,
        (Some(true), Trusted::Recently) => Step::Rest(soon),
        (None, Trusted::Recently | Trusted::Everywhere) => Step::Rest(renewal),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOST: &str = "hook.system.svc";

    fn at(days: i64) -> Timestamp {
        // Certificates of 1969 cannot be verified.
        let begin = Timestamp::from_second(1_800_000_000).unwrap();
        begin + SignedDuration::from_hours(days * 24)
    }

    fn kept(days: i64) -> Kept {
        Kept::only(Issued::new(HOST, at(days)).unwrap())
    }

    #[test]
    fn a_certificate_that_is_absent_expired_damaged_or_for_another_host_is_issued_again() {
        let now = at(1);
        assert_eq!(decide(None, Trusted::Everywhere, HOST, now), Step::Issue);
        let kept = kept(0);
        let decide = |kept: &Kept, host, now| decide(Some(kept), Trusted::Otherwise, host, now);
        assert_eq!(decide(&kept, HOST, now), Step::Inject);
        assert_eq!(decide(&kept, HOST, at(91)), Step::Issue);
        assert_eq!(decide(&kept, "other.system.svc", now), Step::Issue);
        let mut mixed = kept.clone();
        mixed.served.pair.key = Issued::new(HOST, at(0)).unwrap().pair.key;
        assert_eq!(decide(&mixed, HOST, now), Step::Issue);
    }

    #[test]
    fn a_renewal_is_trusted_before_it_is_served_and_the_one_before_afterwards() {
        let old = kept(0);
        let decide = |kept: &Kept, trusted| decide(Some(kept), trusted, HOST, at(61));
        assert_eq!(decide(&old, Trusted::Everywhere), Step::Announce);
        let announced = old.announcing(Issued::new(HOST, at(61)).unwrap());
        assert_eq!(decide(&announced, Trusted::Otherwise), Step::Inject);
        assert!(matches!(
            decide(&announced, Trusted::Recently),
            Step::Rest(_)
        ));
        assert_eq!(decide(&announced, Trusted::Everywhere), Step::Switch);
        let switched = announced.clone().switched();
        assert!(matches!(
            decide(&switched, Trusted::Everywhere),
            Step::Rest(_)
        ));
        // In both, a replica that serves either is trusted.
        for kept in [&announced, &switched] {
            let trust = String::from_utf8(kept.trust().0).unwrap();
            for issued in [&old.served, &switched.served] {
                assert!(trust.contains(&issued.authority));
            }
        }
        assert!(old.served != switched.served);
    }

    #[test]
    fn what_is_kept_is_read_back() {
        let kept = kept(0).announcing(Issued::new(HOST, at(61)).unwrap());
        for kept in [kept.clone(), kept.switched()] {
            assert!(Kept::read(&kept.secret()) == Some(kept));
        }
        assert!(Kept::read(&Secret::default()).is_none());
    }
}

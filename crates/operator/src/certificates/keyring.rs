//! The authorities of a cluster as their Secret keeps them: the newest, and while members are led to it, the one before. Pure.

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use pki::{Authority, PrivateKey, Validity};
use plan::decision::Issuer;

use super::secrets::text;

/// Keys of the Secret.
const CLIENT: [&str; 2] = ["client.crt", "client.key"];
const PEER: [&str; 2] = ["peer.crt", "peer.key"];
const PREVIOUS_CLIENT: [&str; 2] = ["previous-client.crt", "previous-client.key"];
const PREVIOUS_PEER: [&str; 2] = ["previous-peer.crt", "previous-peer.key"];
const CROSS: &str = "cross-client.crt";

/// One authority for each plane, so that what one of them signs is worth nothing on the other.
pub(crate) struct Authorities {
    pub(crate) client: Authority,
    pub(crate) peer: Authority,
}

impl Authorities {
    /// New ones.
    pub(crate) fn new(
        cluster: &str,
        now: Timestamp,
        lifetime: SignedDuration,
    ) -> Result<Self, pki::Error> {
        let validity = Validity::starting(now, lifetime);
        Ok(Self {
            client: Authority::new(&format!("{cluster} clients"), validity)?,
            peer: Authority::new(&format!("{cluster} peers"), validity)?,
        })
    }

    fn read(secret: &Secret, client: [&str; 2], peer: [&str; 2]) -> Option<Self> {
        let of = |[certificate, key]: [&str; 2]| {
            let key = PrivateKey::from_pem(text(secret, key)?);
            Authority::from_pem(&text(secret, certificate)?, &key)
        };
        Some(Self {
            client: of(client)?,
            peer: of(peer)?,
        })
    }

    fn entries(&self, client: [&str; 2], peer: [&str; 2]) -> Vec<(String, String)> {
        let of = |[certificate, key]: [&str; 2], authority: &Authority| {
            [
                (certificate.to_owned(), authority.certificate().to_owned()),
                (key.to_owned(), authority.key().expose().to_owned()),
            ]
        };
        let mut all: Vec<_> = of(client, &self.client).into();
        all.extend(of(peer, &self.peer));
        all
    }

    /// When the first of them expires.
    pub(crate) fn until(&self) -> Timestamp {
        let (client, peer) = (self.client.validity(), self.peer.validity());
        client.until.min(peer.until)
    }

    /// Which they are.
    pub(crate) fn identity(&self) -> String {
        let of = |authority: &Authority| {
            let facts = pki::Facts::of_first(authority.certificate());
            let whole = facts.map(|facts| facts.fingerprint).unwrap_or_default();
            whole.chars().take(16).collect::<String>()
        };
        format!("{}.{}", of(&self.client), of(&self.peer))
    }
}

/// What the Secret with the authorities holds.
pub(crate) struct Keyring {
    /// The newest.
    pub(crate) newest: Authorities,
    /// The ones before, while their keys are needed.
    pub(crate) previous: Option<Authorities>,
    /// The newest authority for clients, signed by the one before: with it in the chain, clients that know only the one
    /// before accept what the newest issued.
    pub(crate) cross: Option<String>,
    /// Version of the Secret that it was read from.
    pub(crate) version: Option<String>,
}

impl Keyring {
    /// With these alone.
    pub(crate) fn of(newest: Authorities) -> Self {
        Self {
            newest,
            previous: None,
            cross: None,
            version: None,
        }
    }

    /// What a Secret holds; `None` where it holds something else.
    pub(crate) fn read(secret: &Secret) -> Option<Self> {
        Some(Self {
            newest: Authorities::read(secret, CLIENT, PEER)?,
            previous: Authorities::read(secret, PREVIOUS_CLIENT, PREVIOUS_PEER),
            cross: text(secret, CROSS),
            version: secret.metadata.resource_version.clone(),
        })
    }

    /// Others follow these.
    pub(crate) fn followed_by(self, next: Authorities) -> Result<Self, pki::Error> {
        let cross = self.newest.client.cross_sign(&next.client)?;
        Ok(Self {
            newest: next,
            previous: Some(self.newest),
            cross: Some(cross),
            version: self.version,
        })
    }

    /// As a Secret holds it.
    pub(crate) fn entries(&self) -> Vec<(String, String)> {
        let mut all = self.newest.entries(CLIENT, PEER);
        let previous = self.previous.iter();
        all.extend(previous.flat_map(|it| it.entries(PREVIOUS_CLIENT, PREVIOUS_PEER)));
        let cross = self.cross.iter().cloned();
        all.extend(cross.map(|cross| (CROSS.to_owned(), cross)));
        all
    }

    /// The authorities that issue.
    pub(crate) fn issuer(&self, by: Issuer) -> Option<&Authorities> {
        match by {
            Issuer::Newest => Some(&self.newest),
            Issuer::Previous => self.previous.as_ref(),
        }
    }

    /// Those with this identity.
    pub(crate) fn find(&self, identity: &str) -> Option<&Authorities> {
        let all = [Some(&self.newest), self.previous.as_ref()];
        let mut all = all.into_iter().flatten();
        all.find(|it| it.identity() == identity)
    }
}

#[cfg(test)]
mod tests {
    use super::super::secrets;
    use super::*;

    const LIFETIME: SignedDuration = SignedDuration::from_hours(24);

    fn now() -> Timestamp {
        Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * 365 * 50)
    }

    fn made() -> Keyring {
        Keyring::of(Authorities::new("db", now(), LIFETIME).unwrap())
    }

    fn read(entries: &[(String, String)]) -> Option<Keyring> {
        Keyring::read(&secrets::with_entries(entries))
    }

    #[test]
    fn authorities_are_read_as_they_were_written() {
        let (made, others) = (made(), made());
        let kept = read(&made.entries()).unwrap();
        assert_eq!(kept.newest.identity(), made.newest.identity());
        assert!(kept.previous.is_none() && kept.cross.is_none());
        assert_ne!(others.newest.identity(), made.newest.identity());
        // A key of another authority is noticed.
        let mut mixed = made.entries();
        mixed[1] = others.entries().remove(1);
        assert!(read(&mixed).is_none());
        assert!(read(&[]).is_none());
    }

    #[test]
    fn the_authorities_before_are_kept_and_vouch_for_the_newest() {
        let first = made();
        let before = first.newest.identity();
        let old = first.newest.client.certificate().to_owned();
        let next = Authorities::new("db", now(), LIFETIME).unwrap();
        let both = read(&first.followed_by(next).unwrap().entries()).unwrap();
        assert_eq!(both.issuer(Issuer::Previous).unwrap().identity(), before);
        assert!(both.find(&before).is_some());
        assert!(both.find("other").is_none());
        // Who trusts only the one before accepts what the newest issues.
        let leaf = super::super::subjects::Subjects::operator(now());
        let mut pair = both.newest.client.issue(&leaf).unwrap();
        let wanted = pki::Wanted {
            names: &[],
            usages: &leaf.usages,
            now: now(),
        };
        assert!(pki::check(&pair, &old, &wanted).is_err());
        pair.chain.push_str(both.cross.as_ref().unwrap());
        assert!(pki::check(&pair, &old, &wanted).is_ok());
    }
}

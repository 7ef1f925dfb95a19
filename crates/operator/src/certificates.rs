//! Certificates: those that the operator issues, which names each has, those that it copies from another source, how they are
//! kept in Secrets, and the operator's own identity towards the members, which is in no Secret.

pub(crate) mod given;
pub(crate) mod secrets;
pub mod sources;
pub(crate) mod subjects;
pub mod vault;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use pki::{Authority, PrivateKey, Validity};

use self::secrets::text;

/// How long an authority is valid: ten years.
const AUTHORITY_LIFETIME: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);

/// Keys of the Secret with the authorities.
const CLIENT: (&str, &str) = ("client.crt", "client.key");
const PEER: (&str, &str) = ("peer.crt", "peer.key");

/// The authorities of a cluster: one for each plane, so that what one of them signs is worth nothing on the other.
pub(crate) struct Authorities {
    pub(crate) client: Authority,
    pub(crate) peer: Authority,
}

impl Authorities {
    /// New ones.
    pub(crate) fn new(cluster: &str, now: Timestamp) -> Result<Self, pki::Error> {
        let validity = Validity::starting(now, AUTHORITY_LIFETIME);
        Ok(Self {
            client: Authority::new(&format!("{cluster} clients"), validity)?,
            peer: Authority::new(&format!("{cluster} peers"), validity)?,
        })
    }

    /// Those that a Secret holds; `None` where it holds something else.
    pub(crate) fn read(secret: &Secret) -> Option<Self> {
        let of = |(certificate, key): (&str, &str)| {
            let key = PrivateKey::from_pem(text(secret, key)?);
            Authority::from_pem(&text(secret, certificate)?, &key)
        };
        Some(Self {
            client: of(CLIENT)?,
            peer: of(PEER)?,
        })
    }

    /// As a Secret holds them.
    pub(crate) fn entries(&self) -> Vec<(String, String)> {
        let of = |(certificate, key): (&str, &str), authority: &Authority| {
            [
                (certificate.to_owned(), authority.certificate().to_owned()),
                (key.to_owned(), authority.key().expose().to_owned()),
            ]
        };
        let mut all: Vec<_> = of(CLIENT, &self.client).into();
        all.extend(of(PEER, &self.peer));
        all
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

/// The domain of the Kubernetes cluster, as the pod of the operator is told to search it; `None` where nothing says so, as
/// outside a cluster.
pub fn domain_of(resolv_conf: &str) -> Option<String> {
    let mut lines = resolv_conf.lines();
    let search = lines.find_map(|line| line.trim().strip_prefix("search "))?;
    let mut domains = search.split_whitespace();
    let domain = domains.find_map(|domain| domain.strip_prefix("svc."))?;
    let domain = domain.trim_end_matches('.');
    (!domain.is_empty()).then(|| domain.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_domain_is_found_where_the_kubelet_says_it() {
        let of = |text: &str| domain_of(text);
        let pod = "nameserver 10.96.0.10\nsearch ns.svc.example.org svc.example.org example.org\n";
        assert_eq!(of(pod).as_deref(), Some("example.org"));
        assert_eq!(
            of("search svc.cluster.local.\n").as_deref(),
            Some("cluster.local")
        );
        for text in [
            "",
            "search example.org\n",
            "search svc.\n",
            "nameserver ::1\n",
        ] {
            assert_eq!(of(text), None, "{text}");
        }
    }

    #[test]
    fn authorities_are_read_as_they_were_written() {
        let now = Timestamp::UNIX_EPOCH + SignedDuration::from_hours(24 * 365 * 50);
        let made = Authorities::new("db", now).unwrap();
        let secret = secrets::with_entries(&made.entries());
        let read = Authorities::read(&secret).unwrap();
        assert_eq!(read.identity(), made.identity());
        let others = Authorities::new("db", now).unwrap();
        assert_ne!(others.identity(), made.identity());
        // A key of another authority is noticed.
        let mut mixed = made.entries();
        mixed[1] = others.entries().remove(1);
        assert!(Authorities::read(&secrets::with_entries(&mixed)).is_none());
        assert!(Authorities::read(&Secret::default()).is_none());
    }
}

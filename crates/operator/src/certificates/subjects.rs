//! What certificates are issued for: which names, uses and dates each has. Pure.

use api::certificates::Record;
use api::intent::{Issuer, MAX_SIZE, TlsIntent};
use api::names;
use jiff::{SignedDuration, Timestamp};
use manifests::certificate::Request;
use manifests::tls::peer_name;
use pki::{Leaf, Usage, Validity};
use sha2::{Digest as _, Sha256};

use super::secrets::hexadecimal;

/// Common name of the operator towards the members.
const OPERATOR: &str = api::labels::OPERATOR;
/// Common name in the certificate for clients.
const CLIENT: &str = "client";
/// How long the operator's own certificate is valid; it is in no Secret, and made whenever it is needed.
const OPERATOR_LIFETIME: SignedDuration = SignedDuration::from_hours(24);

/// A cluster whose certificates are asked for.
pub(crate) struct Subjects<'a> {
    /// Its name.
    pub(crate) name: &'a str,
    /// Its namespace.
    pub(crate) namespace: &'a str,
    /// Domain of the Kubernetes cluster.
    pub(crate) domain: &'a str,
    /// What is asked for.
    pub(crate) tls: &'a TlsIntent,
}

impl Subjects<'_> {
    /// The certificate that clients of a member see. It is a client's as well: etcd's JSON gateway dials its own member
    /// with it, and so does `etcdctl` in the pod.
    pub(crate) fn server(&self, ordinal: u32, now: Timestamp) -> Leaf {
        let hosts = [
            self.host(ordinal),
            self.service(&names::client_service(self.name)),
            self.service(&names::peer_service(self.name)),
        ];
        let mut all = self.with_domain(&hosts);
        all.extend(["localhost", "127.0.0.1", "::1"].map(str::to_owned));
        all.extend(self.tls.extra_names.iter().cloned());
        self.member(ordinal, all, now)
    }

    /// The certificate that the other members see, on whichever side of a connection.
    pub(crate) fn peer(&self, ordinal: u32, now: Timestamp) -> Leaf {
        let shared = peer_name(self.name, self.namespace);
        let all = self.with_domain(&[self.host(ordinal), shared]);
        self.member(ordinal, all, now)
    }

    fn member(&self, ordinal: u32, names: Vec<String>, now: Timestamp) -> Leaf {
        Leaf {
            common_name: names::member(self.name, ordinal),
            names,
            usages: vec![Usage::Server, Usage::Client],
            validity: Validity::starting(now, self.lifetime()),
        }
    }

    /// The certificate for clients. Without a name, so that it passes for no member.
    pub(crate) fn client(&self, now: Timestamp) -> Leaf {
        identity(CLIENT, Validity::starting(now, self.lifetime()))
    }

    /// The certificate of a user of etcd, which is known by it.
    pub(crate) fn user(&self, user: &str, now: Timestamp) -> Leaf {
        identity(user, Validity::starting(now, self.lifetime()))
    }

    /// The operator's own.
    pub(crate) fn operator(now: Timestamp) -> Leaf {
        identity(OPERATOR, Validity::starting(now, OPERATOR_LIFETIME))
    }

    /// Ordinals that get a certificate: all that there can be, so that growing writes no Secret.
    pub(crate) fn ordinals() -> std::ops::Range<u32> {
        0..MAX_SIZE
    }

    /// Identity of what is asked of the certificates of the members.
    pub(crate) fn asked_of_members(&self) -> String {
        let leaf = self.server(0, Timestamp::UNIX_EPOCH);
        digest(&format!("{:?} {}", leaf.names, self.tls.leaf_lifetime))
    }

    /// Identity of what is asked of the certificate for clients. It comes with the authorities that verify the members.
    pub(crate) fn asked_of_clients(&self, shown: Option<&Record>) -> String {
        let copied = shown.and_then(|shown| shown.copied.as_ref());
        let copied = copied.map(|copied| format!(" {}", copied.trust));
        let changed = shown.and_then(|shown| shown.trust.as_ref());
        let changed = changed.map(|trust| format!(" {}", trust.authorities.join(" ")));
        let trust = copied.unwrap_or_default() + &changed.unwrap_or_default();
        digest(&format!("{CLIENT} {}{trust}", self.tls.leaf_lifetime))
    }

    /// What a certificate of another source that clients see must be valid for: one certificate serves all members.
    pub(crate) fn demanded_of_servers(&self) -> Vec<String> {
        let mut all: Vec<String> = Self::ordinals().map(|ordinal| self.host(ordinal)).collect();
        all.push(self.service(&names::client_service(self.name)));
        // `etcdctl` in the pod, and port-forwards, use these.
        all.extend(["localhost", "127.0.0.1"].map(str::to_owned));
        all.extend(self.tls.extra_names.iter().cloned());
        all
    }

    /// The same for one that members show each other.
    pub(crate) fn demanded_of_peers(&self) -> Vec<String> {
        let mut all: Vec<String> = Self::ordinals().map(|ordinal| self.host(ordinal)).collect();
        all.push(peer_name(self.name, self.namespace));
        all
    }

    /// What cert-manager is asked for: one certificate with every name of every member, in both forms.
    pub(crate) fn request(&self, issuer: &Issuer) -> Request {
        let mut hosts: Vec<String> = Self::ordinals().map(|ordinal| self.host(ordinal)).collect();
        hosts.push(self.service(&names::client_service(self.name)));
        hosts.push(peer_name(self.name, self.namespace));
        let mut all = self.with_domain(&hosts);
        all.extend(["localhost", "127.0.0.1", "::1"].map(str::to_owned));
        all.extend(self.tls.extra_names.iter().cloned());
        Request {
            names: all,
            lifetime: self.tls.leaf_lifetime,
            issuer: issuer.clone(),
        }
    }

    /// Identity of what is asked of the certificate of a user.
    pub(crate) fn asked_of_user(&self, user: &str, shown: Option<&Record>) -> String {
        digest(&format!("user {user} {}", self.asked_of_clients(shown)))
    }

    /// How long an authority is valid.
    pub(crate) fn authority_lifetime(&self) -> SignedDuration {
        SignedDuration::from_secs(self.tls.authority_lifetime)
    }

    fn lifetime(&self) -> SignedDuration {
        SignedDuration::from_secs(self.tls.leaf_lifetime)
    }

    fn host(&self, ordinal: u32) -> String {
        names::member_host(self.name, self.namespace, ordinal)
    }

    fn service(&self, service: &str) -> String {
        format!("{service}.{}.svc", self.namespace)
    }

    fn with_domain(&self, hosts: &[String]) -> Vec<String> {
        let both = |host: &String| [host.clone(), format!("{host}.{}", self.domain)];
        hosts.iter().flat_map(both).collect()
    }
}

fn identity(common_name: &str, validity: Validity) -> Leaf {
    Leaf {
        common_name: common_name.to_owned(),
        names: Vec::new(),
        usages: vec![Usage::Client],
        validity,
    }
}

fn digest(text: &str) -> String {
    let whole = hexadecimal(&Sha256::digest(text));
    whole.chars().take(16).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn subjects(tls: &TlsIntent) -> Subjects<'_> {
        Subjects {
            name: "db",
            namespace: "ns",
            domain: "cluster.local",
            tls,
        }
    }

    #[test]
    fn a_member_has_exactly_its_own_names() {
        let tls = TlsIntent {
            extra_names: vec!["etcd.example.com".to_owned()],
            ..TlsIntent::default()
        };
        let names = subjects(&tls).server(1, Timestamp::UNIX_EPOCH).names;
        assert_eq!(
            names,
            [
                "db-1.db-peer.ns.svc",
                "db-1.db-peer.ns.svc.cluster.local",
                "db-client.ns.svc",
                "db-client.ns.svc.cluster.local",
                "db-peer.ns.svc",
                "db-peer.ns.svc.cluster.local",
                "localhost",
                "127.0.0.1",
                "::1",
                "etcd.example.com",
            ]
        );
        let names = subjects(&tls).peer(1, Timestamp::UNIX_EPOCH).names;
        assert!(names.contains(&"db-peer.ns.svc".to_owned()), "{names:?}");
        assert!(!names.contains(&"localhost".to_owned()), "{names:?}");
        assert!(!names.contains(&"etcd.example.com".to_owned()), "{names:?}");
    }

    /// etcd's metrics port looks up every name that a client's certificate has, and peers let in every holder of theirs.
    #[test]
    fn clients_and_the_operator_have_no_names() {
        let tls = TlsIntent::default();
        assert!(
            subjects(&tls)
                .client(Timestamp::UNIX_EPOCH)
                .names
                .is_empty()
        );
        assert!(Subjects::operator(Timestamp::UNIX_EPOCH).names.is_empty());
    }

    #[test]
    fn another_name_or_lifetime_is_noticed() {
        let tls = TlsIntent::default();
        let named = TlsIntent {
            extra_names: vec!["a".to_owned()],
            ..tls.clone()
        };
        let short = TlsIntent {
            leaf_lifetime: 60,
            ..tls.clone()
        };
        let of = |tls: &TlsIntent| subjects(tls).asked_of_members();
        assert_ne!(of(&tls), of(&named));
        assert_ne!(of(&tls), of(&short));
        let clients = |tls: &TlsIntent| subjects(tls).asked_of_clients(None);
        assert_eq!(clients(&tls), clients(&named));
        assert_ne!(clients(&tls), clients(&short));
    }
}

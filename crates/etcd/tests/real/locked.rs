//! A member whose clients use TLS, on both sides.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use etcd::{Cause, Credentials, GateAnswer, Member, Pool, Security, gate_report, metrics};
use jiff::{SignedDuration, Timestamp};
use pki::{Authority, Leaf, Pair, Usage, Validity};

use crate::cluster::serving;
use crate::process::{Loopback, RealEtcd, Seat};

pub(crate) const NAME: &str = "c-0.c-peer.real.svc";

pub(crate) fn validity() -> Validity {
    Validity::starting(Timestamp::now(), SignedDuration::from_hours(1))
}

pub(crate) fn authority() -> Authority {
    Authority::new("c client", validity()).unwrap()
}

/// The pair of a member.
fn member(authority: &Authority) -> Pair {
    issue(
        authority,
        "c-0",
        &[NAME, "localhost", "127.0.0.1"],
        validity(),
    )
}

/// The operator's own, which has no names.
fn operator(authority: &Authority) -> Pair {
    issue(authority, "etcd-operator", &[], validity())
}

pub(crate) fn issue(authority: &Authority, name: &str, names: &[&str], validity: Validity) -> Pair {
    let leaf = Leaf {
        common_name: name.to_owned(),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        usages: vec![Usage::Server, Usage::Client],
        validity,
    };
    authority.issue(&leaf).unwrap()
}

/// With which a member demands certificates of this authority.
fn flags(seat: &Seat, authority: &Authority) -> [String; 7] {
    let pair = member(authority);
    let certificate = seat.write("tls.crt", &pair.chain);
    let key = seat.write("tls.key", pair.key.expose());
    let trust = seat.write("ca.crt", authority.certificate());
    let url = seat.client_url("https");
    let flag = |name: &str, value: &str| format!("--{name}={value}");
    let file = |name: &str, path: &Path| flag(name, path.to_str().unwrap());
    [
        flag("listen-client-urls", &url),
        flag("advertise-client-urls", &url),
        flag("listen-metrics-urls", &seat.metrics_urls()),
        flag("client-cert-auth", "true"),
        file("cert-file", &certificate),
        file("key-file", &key),
        file("trusted-ca-file", &trust),
    ]
}

/// A member that demands certificates of this authority.
pub(crate) struct Locked {
    seat: Seat,
    _process: RealEtcd,
}

impl Locked {
    pub(crate) fn new(binary: &PathBuf, authority: &Authority) -> Self {
        let seat = Seat::new("c-0");
        let flags = flags(&seat, authority);
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let process = seat.start_with(binary, &[&seat], &flags);
        Self {
            seat,
            _process: process,
        }
    }

    /// Another one joins it, as a member that was added for this seat.
    pub(crate) fn join(&self, binary: &PathBuf, seat: Seat, authority: &Authority) -> Self {
        let mut flags = flags(&seat, authority).to_vec();
        flags.push("--initial-cluster-state=existing".to_owned());
        let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
        let process = seat.start_with(binary, &[&self.seat, &seat], &flags);
        Self {
            seat,
            _process: process,
        }
    }

    /// Its metrics, as a caller with this pair gets them.
    pub(crate) async fn metrics(&self, pair: &Pair, trust: &str) -> etcd::Metrics {
        let connect = Loopback::new(&[&self.seat]);
        let security = secured(pair, trust, NAME);
        let deadline = Duration::from_secs(5);
        let target = self.seat.target();
        metrics(&connect, &target, &security, deadline)
            .await
            .unwrap()
    }

    /// A handle that presents a pair and trusts an authority.
    pub(crate) fn asked_with(&self, pair: &Pair, trust: &str, name: &str) -> Member {
        self.asked(&secured(pair, trust, name))
    }

    fn asked(&self, security: &Security) -> Member {
        let pool = Pool::new(Arc::new(Loopback::new(&[&self.seat])));
        pool.member(&self.seat.target(), security)
            .with_deadline(Duration::from_secs(5))
    }
}

fn secured(pair: &Pair, trust: &str, name: &str) -> Security {
    let credentials = Credentials::new(trust, &pair.chain, pair.key.expose()).unwrap();
    Security::Tls {
        credentials: Arc::new(credentials),
        name: name.to_owned(),
    }
}

async fn cause(member: &Member) -> Cause {
    let error = member.status().await.unwrap_err();
    assert!(
        !error.outcome_is_unknown() || matches!(error.cause, Cause::Unavailable { .. }),
        "{error:?}"
    );
    error.cause
}

pub(crate) async fn a_member_is_known_by_its_own_name(binary: PathBuf) {
    let authority = authority();
    let locked = Locked::new(&binary, &authority);
    let pair = operator(&authority);
    let right = locked.asked_with(&pair, authority.certificate(), NAME);
    serving(&right).await;
    let revision = right.put(b"key", b"value").await.unwrap();
    assert_eq!(right.read_linearizable().await.unwrap(), revision);

    let other = locked.asked_with(&pair, authority.certificate(), "c-1.c-peer.real.svc");
    let other = cause(&other).await;
    assert!(matches!(other, Cause::Handshake { .. }), "{other:?}");
    let stranger = self::authority();
    let untrusted = locked.asked_with(&pair, stranger.certificate(), NAME);
    let untrusted = cause(&untrusted).await;
    assert!(
        matches!(untrusted, Cause::Handshake { .. }),
        "{untrusted:?}"
    );
    let plain = cause(&locked.asked(&Security::Plain)).await;
    assert!(matches!(plain, Cause::Unavailable { .. }), "{plain:?}");
}

pub(crate) async fn a_member_that_does_not_accept_us_says_so(binary: PathBuf) {
    let (authority, stranger) = (authority(), authority());
    let locked = Locked::new(&binary, &authority);
    let trust = authority.certificate();
    serving(&locked.asked_with(&operator(&authority), trust, NAME)).await;

    let foreign = locked.asked_with(&operator(&stranger), trust, NAME);
    let begin = Timestamp::now() - SignedDuration::from_hours(2);
    let expired = Validity::starting(begin, SignedDuration::from_hours(1));
    let expired = issue(&authority, "etcd-operator", &[], expired);
    let expired = locked.asked_with(&expired, trust, NAME);
    for refused in [foreign, expired] {
        // The second call meets the connection that the first one opened, or a new one.
        for _call in 0..2 {
            let refused = cause(&refused).await;
            assert!(matches!(refused, Cause::Refused { .. }), "{refused:?}");
        }
    }
}

pub(crate) async fn a_leaf_that_is_exchanged_is_used_at_once(binary: PathBuf) {
    let (first, second) = (authority(), authority());
    let locked = Locked::new(&binary, &first);
    let pair = operator(&first);
    serving(&locked.asked_with(&pair, first.certificate(), NAME)).await;

    let next = member(&second);
    locked.seat.write("tls.crt", &next.chain);
    locked.seat.write("tls.key", next.key.expose());
    let open = locked.asked_with(&pair, second.certificate(), NAME);
    serving(&open).await;
    let old = locked.asked_with(&pair, first.certificate(), NAME);
    let old = cause(&old).await;
    assert!(matches!(old, Cause::Handshake { .. }), "{old:?}");
}

pub(crate) async fn metrics_are_had_with_a_certificate_on_a_port_of_their_own(binary: PathBuf) {
    let (authority, stranger) = (authority(), authority());
    let locked = Locked::new(&binary, &authority);
    let (pair, trust) = (operator(&authority), authority.certificate());
    serving(&locked.asked_with(&pair, trust, NAME)).await;
    let (connect, target) = (Loopback::new(&[&locked.seat]), locked.seat.target());
    let deadline = Duration::from_secs(5);

    // The kubelet and Prometheus have no certificate.
    let plain = metrics(&connect, &target, &Security::Plain, deadline).await;
    assert_eq!(plain.unwrap().has_leader, Some(true));
    let right = secured(&pair, trust, NAME);
    let found = metrics(&connect, &target, &right, deadline).await;
    assert_eq!(found.unwrap().has_leader, Some(true));
    let answer = gate_report(&connect, &target, &right, deadline).await;
    assert_eq!(answer.unwrap(), GateAnswer::Running);

    let other = secured(&pair, trust, "c-1.c-peer.real.svc");
    let other = metrics(&connect, &target, &other, deadline).await;
    let other = other.unwrap_err().cause;
    assert!(matches!(other, Cause::Handshake { .. }), "{other:?}");
    let foreign = secured(&operator(&stranger), trust, NAME);
    let foreign = gate_report(&connect, &target, &foreign, deadline).await;
    let foreign = foreign.unwrap_err().cause;
    assert!(matches!(foreign, Cause::Refused { .. }), "{foreign:?}");
}

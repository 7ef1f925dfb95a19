//! Which callers are let in at the three ports of a member that demands certificates, for clients (2379), for peers (2380) and of its
//! metrics (2382), and how the others are turned away: each caller is told so, and is neither left to wait nor believed to
//! have met no member.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use etcd::{
    BoxFuture, BoxStream, Cause, Connect, Credentials, DirectTcp, GateAnswer, Security, Target,
    gate_report,
};
use jiff::{SignedDuration, Timestamp};
use pki::{Authority, Leaf, Pair, Usage, Validity};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::cluster::eventually;
use crate::locked::{authority, issue, validity};
use crate::process::{RealEtcd, Seat, minor};

/// The name by which members recognise each other.
const PEERS: &str = "c-peer.real.svc";
const NAMES: [&str; 4] = ["c-0.c-peer.real.svc", PEERS, "localhost", "127.0.0.1"];
const BOTH: [Usage; 2] = [Usage::Server, Usage::Client];

/// Whatever port is asked for.
struct Door(u16);

impl Connect for Door {
    fn connect<'a>(&'a self, target: &'a Target, _: u16) -> BoxFuture<'a, io::Result<BoxStream>> {
        DirectTcp.connect(target, self.0)
    }
}

struct Locked {
    seat: Seat,
    clients: Authority,
    peers: Authority,
    _process: RealEtcd,
}

fn start(binary: &Path) -> Locked {
    let (seat, clients, peers) = (Seat::new("c-0"), authority(), authority());
    let file = |name: &str, text: &str| seat.write(name, text).to_str().unwrap().to_owned();
    let (server, peer) = (
        issue(&clients, "c-0", &NAMES, validity()),
        issue(&peers, "c-0", &NAMES, validity()),
    );
    let skip = if minor(binary) == "3.5" {
        "experimental-peer-skip-client-san-verification"
    } else {
        "peer-skip-client-san-verification"
    };
    let (url, own) = (
        seat.client_url("https"),
        seat.peer_url().replace("http:", "https:"),
    );
    let flags = [
        format!("--listen-client-urls={url}"),
        format!("--advertise-client-urls={url}"),
        format!("--listen-metrics-urls={}", seat.metrics_urls()),
        format!("--listen-peer-urls={own}"),
        format!("--initial-advertise-peer-urls={own}"),
        format!("--initial-cluster=c-0={own}"),
        format!("--cert-file={}", file("server.crt", &server.chain)),
        format!("--key-file={}", file("server.key", server.key.expose())),
        format!(
            "--trusted-ca-file={}",
            file("client-ca.crt", clients.certificate())
        ),
        "--client-cert-auth=true".to_owned(),
        format!("--peer-cert-file={}", file("peer.crt", &peer.chain)),
        format!("--peer-key-file={}", file("peer.key", peer.key.expose())),
        format!(
            "--peer-trusted-ca-file={}",
            file("peer-ca.crt", peers.certificate())
        ),
        "--peer-client-cert-auth=true".to_owned(),
        format!("--peer-cert-allowed-hostname={PEERS}"),
        format!("--{skip}=true"),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let process = seat.start_with(&binary.to_owned(), &[&seat], &flags);
    Locked {
        seat,
        clients,
        peers,
        _process: process,
    }
}

fn leaf(authority: &Authority, names: &[&str], usages: &[Usage], validity: Validity) -> Pair {
    let leaf = Leaf {
        common_name: "caller".to_owned(),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        usages: usages.to_vec(),
        validity,
    };
    authority.issue(&leaf).unwrap()
}

fn port(urls: &str) -> u16 {
    urls.rsplit(':').next().unwrap().parse().unwrap()
}

async fn knock(locked: &Locked, port: u16, security: &Security) -> Result<GateAnswer, Cause> {
    let (door, deadline) = (Door(port), Duration::from_secs(5));
    let answer = gate_report(&door, &locked.seat.target(), security, deadline).await;
    answer.map_err(|error| error.cause)
}

fn shows(pair: &Pair, trust: &Authority) -> Security {
    let credentials = Credentials::new(trust.certificate(), &pair.chain, pair.key.expose());
    Security::Tls {
        credentials: Arc::new(credentials.unwrap()),
        name: PEERS.to_owned(),
    }
}

/// A caller that has no certificate at all; what it reads.
async fn shows_nothing(port: u16, trust: &Authority) -> io::Result<String> {
    let mut roots = RootCertStore::empty();
    let root = CertificateDer::from_pem_slice(trust.certificate().as_bytes()).unwrap();
    roots.add(root).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(("127.0.0.1", port)).await?;
    let name = ServerName::try_from(PEERS).unwrap();
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let mut stream = connector.connect(name, stream).await?;
    let request = format!("GET /version HTTP/1.1\r\nHost: {PEERS}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut text = String::new();
    stream.read_to_string(&mut text).await?;
    Ok(text)
}

/// Certificates with which no caller gets in, whatever the port.
fn wrong(trust: &Authority) -> Vec<(&'static str, Pair)> {
    let from = |hours: i64| {
        let begin = Timestamp::now() + SignedDuration::from_hours(hours);
        Validity::starting(begin, SignedDuration::from_hours(1))
    };
    vec![
        ("foreign", leaf(&authority(), &NAMES, &BOTH, validity())),
        ("expired", leaf(trust, &NAMES, &BOTH, from(-2))),
        ("not valid yet", leaf(trust, &NAMES, &BOTH, from(2))),
        (
            "for servers only",
            leaf(trust, &NAMES, &BOTH[..1], validity()),
        ),
    ]
}

pub(crate) async fn a_locked_member_lets_in_none_but_its_callers(binary: PathBuf) {
    let locked = start(&binary);
    let (clients, peers) = (&locked.clients, &locked.peers);
    let operator = leaf(clients, &[], &[Usage::Client], validity());
    let member = leaf(peers, &NAMES, &BOTH, validity());
    let ports = [
        port(&locked.seat.client_url("https")),
        port(&locked.seat.peer_url()),
        port(&locked.seat.metrics_urls()),
    ];
    let [client, peer, metrics] = ports;
    for (port, trust, right) in [
        (client, clients, &operator),
        (peer, peers, &member),
        (metrics, clients, &operator),
    ] {
        eventually("it lets in a caller that it knows", async || {
            let answer = knock(&locked, port, &shows(right, trust)).await;
            matches!(answer, Ok(GateAnswer::Running)).then_some(())
        })
        .await;
    }
    for (port, trust, other) in [
        (client, clients, &member),
        (peer, peers, &operator),
        (metrics, clients, &member),
    ] {
        let mut all = wrong(trust);
        all.push(("of the other plane", other.clone()));
        if port == peer {
            let named = |names: &[&str]| leaf(peers, names, &BOTH, validity());
            all.push(("without a name", named(&[])));
            all.push(("of another cluster", named(&["d-peer.real.svc"])));
        }
        for (what, pair) in all {
            let told = knock(&locked, port, &shows(&pair, trust)).await;
            assert!(
                matches!(told, Err(Cause::Refused { .. })),
                "{what}: {told:?}"
            );
        }
        let bare = shows_nothing(port, trust).await;
        assert!(bare.is_err(), "without a certificate: {bare:?}");
        let plain = knock(&locked, port, &Security::Plain).await;
        let open = matches!(plain, Ok(GateAnswer::Running | GateAnswer::Waiting(_)));
        assert!(!open, "in plaintext: {plain:?}");
    }
    // A caller that is let in, and does not trust the member, turns away by itself.
    let stranger = shows(&operator, &authority());
    let told = knock(&locked, client, &stranger).await;
    assert!(matches!(told, Err(Cause::Handshake { .. })), "{told:?}");
    let log = locked.seat.log();
    assert!(!log.contains("PRIVATE KEY"), "{log}");
}

//! The gate's report and etcd's metrics over TLS on both sides: who is believed, and what is told where one side does not
//! accept the other. No etcd is needed here.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use etcd::{
    BoxFuture, BoxStream, Cause, Connect, Credentials, GateAnswer, Security, Target, gate_report,
    metrics,
};
use jiff::{SignedDuration, Timestamp};
use pki::{Authority, Leaf, Pair, Usage, Validity};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio_rustls::TlsAcceptor;

const NAME: &str = "c-0.c-peer.ns.svc";
const DEADLINE: Duration = Duration::from_secs(5);
const SHORT: Duration = Duration::from_millis(300);
const REPORT: &str =
    r#"{"protocol":1,"state":"Empty","nonce":"0f","podUID":"u-1","detail":"no data"}"#;

fn validity() -> Validity {
    Validity::starting(Timestamp::now(), SignedDuration::from_hours(1))
}

fn authority() -> Authority {
    Authority::new("c client", validity()).unwrap()
}

fn issue(authority: &Authority, names: &[&str], validity: Validity) -> Pair {
    let leaf = Leaf {
        common_name: "c".to_owned(),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        usages: vec![Usage::Server, Usage::Client],
        validity,
    };
    authority.issue(&leaf).unwrap()
}

/// Who asks: presents a pair, trusts an authority, and expects a name.
fn asks(pair: &Pair, trust: &Authority, name: &str) -> Security {
    let credentials = Credentials::new(trust.certificate(), &pair.chain, pair.key.expose());
    Security::Tls {
        credentials: Arc::new(credentials.unwrap()),
        name: name.to_owned(),
    }
}

/// What a pod does with a connection.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Manner {
    /// Answers every request with this text.
    Says(&'static str),
    /// Does the same, and breaks off without an orderly end of TLS.
    Breaks(&'static str),
    /// Reads, and never answers.
    Listens,
    /// Does not even begin with TLS.
    Silent,
}

/// A pod with a certificate that demands one.
struct Pod {
    config: Arc<ServerConfig>,
    manner: Manner,
    asked: Arc<Mutex<Vec<(u16, String)>>>,
}

impl Pod {
    fn new(authority: &Authority, manner: Manner) -> Self {
        let pair = issue(authority, &[NAME], validity());
        let certificate = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate(authority.certificate())).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier =
            WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        let key = PrivateKeyDer::from_pem_slice(pair.key.expose().as_bytes());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_client_cert_verifier(verifier.build().unwrap())
            .with_single_cert(vec![certificate(&pair.chain)], key.unwrap())
            .unwrap();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Self {
            config: Arc::new(config),
            manner,
            asked: Arc::default(),
        }
    }

    fn asked(&self) -> Vec<(u16, String)> {
        self.asked.lock().unwrap().clone()
    }

    async fn report(&self, security: &Security, deadline: Duration) -> Result<GateAnswer, Cause> {
        let answer = gate_report(self, &target(), security, deadline).await;
        answer.map_err(|error| error.cause)
    }
}

fn target() -> Target {
    Target {
        namespace: "ns".into(),
        pod: "c-0".into(),
        address: "192.0.2.1".into(),
    }
}

impl Connect for Pod {
    fn connect<'a>(&'a self, _: &'a Target, port: u16) -> BoxFuture<'a, io::Result<BoxStream>> {
        let (near, far) = tokio::io::duplex(64 * 1024);
        let (config, manner) = (Arc::clone(&self.config), self.manner);
        let asked = Arc::clone(&self.asked);
        tokio::spawn(async move {
            if manner == Manner::Silent {
                std::future::pending::<()>().await;
            }
            // A caller that is not accepted, or does not accept, tells of it itself.
            let Ok(mut stream) = TlsAcceptor::from(config).accept(far).await else {
                return;
            };
            assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"http/1.1"[..]));
            let mut request = vec![0; 1024];
            let read = stream.read(&mut request).await.unwrap();
            let request = String::from_utf8_lossy(request.get(..read).unwrap());
            let line = request.lines().next().unwrap_or_default();
            asked.lock().unwrap().push((port, line.to_owned()));
            let (Manner::Says(text) | Manner::Breaks(text)) = manner else {
                return std::future::pending().await;
            };
            let head = "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n";
            stream.write_all(head.as_bytes()).await.unwrap();
            stream.write_all(text.as_bytes()).await.unwrap();
            stream.flush().await.unwrap();
            if let Manner::Says(_) = manner {
                stream.shutdown().await.unwrap();
            }
        });
        let near: BoxStream = Box::new(near);
        Box::pin(async move { Ok(near) })
    }
}

#[tokio::test]
async fn report_and_metrics_come_over_the_secure_port() {
    let authority = authority();
    let security = asks(&issue(&authority, &[], validity()), &authority, NAME);
    let pod = Pod::new(&authority, Manner::Says(REPORT));
    let answer = pod.report(&security, DEADLINE).await.unwrap();
    assert!(matches!(answer, GateAnswer::Waiting(report) if report.nonce == "0f"));
    assert_eq!(pod.asked(), [(2382, "GET /gate HTTP/1.1".to_owned())]);

    let pod = Pod::new(&authority, Manner::Says("etcd_server_has_leader 1\n"));
    let found = metrics(&pod, &target(), &security, DEADLINE).await.unwrap();
    assert_eq!(found.has_leader, Some(true));
    assert_eq!(pod.asked(), [(2382, "GET /metrics HTTP/1.1".to_owned())]);
}

#[tokio::test]
async fn a_pod_that_is_not_the_member_is_not_believed() {
    let (authority, stranger) = (authority(), authority());
    let pair = issue(&authority, &[], validity());
    let pod = Pod::new(&authority, Manner::Says(REPORT));
    for security in [
        asks(&pair, &authority, "c-1.c-peer.ns.svc"),
        asks(&pair, &stranger, NAME),
    ] {
        let cause = pod.report(&security, DEADLINE).await.unwrap_err();
        assert!(matches!(cause, Cause::Handshake { .. }), "{cause:?}");
        let error = metrics(&pod, &target(), &security, DEADLINE)
            .await
            .unwrap_err();
        assert!(matches!(error.cause, Cause::Handshake { .. }), "{error:?}");
    }
    assert!(pod.asked().is_empty());
}

#[tokio::test]
async fn a_pod_that_does_not_accept_us_says_so() {
    let (authority, stranger) = (authority(), authority());
    let begin = Timestamp::now() - SignedDuration::from_hours(2);
    let expired = Validity::starting(begin, SignedDuration::from_hours(1));
    let pod = Pod::new(&authority, Manner::Says(REPORT));
    for pair in [
        issue(&stranger, &[], validity()),
        issue(&authority, &[], expired),
    ] {
        let security = asks(&pair, &authority, NAME);
        let cause = pod.report(&security, DEADLINE).await.unwrap_err();
        assert!(matches!(cause, Cause::Refused { .. }), "{cause:?}");
        let error = metrics(&pod, &target(), &security, DEADLINE)
            .await
            .unwrap_err();
        assert!(matches!(error.cause, Cause::Refused { .. }), "{error:?}");
    }
    assert!(pod.asked().is_empty());
}

#[tokio::test]
async fn silence_ends_with_the_deadline_and_nothing_was_sent_before_the_handshake() {
    let authority = authority();
    let security = asks(&issue(&authority, &[], validity()), &authority, NAME);
    let silent = Pod::new(&authority, Manner::Silent);
    let cause = silent.report(&security, SHORT).await.unwrap_err();
    let Cause::Connect { source } = cause else {
        panic!("{cause:?}")
    };
    assert_eq!(source.kind(), io::ErrorKind::TimedOut);
    let listens = Pod::new(&authority, Manner::Listens);
    let cause = listens.report(&security, DEADLINE / 5).await.unwrap_err();
    assert!(matches!(cause, Cause::Deadline { .. }), "{cause:?}");
}

/// Any host on the way can end a connection; what came until then looks whole.
#[tokio::test]
async fn an_answer_that_was_cut_off_is_not_believed() {
    let authority = authority();
    let security = asks(&issue(&authority, &[], validity()), &authority, NAME);
    let pod = Pod::new(&authority, Manner::Breaks("etcd_server_has_leader 1\n"));
    let error = metrics(&pod, &target(), &security, DEADLINE)
        .await
        .unwrap_err();
    assert!(matches!(error.cause, Cause::BadAnswer { .. }), "{error:?}");
}

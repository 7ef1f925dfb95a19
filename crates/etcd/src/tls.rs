//! TLS around any byte stream: what we present to members, which authorities we trust, and how a refusal is told from a
//! connection that broke.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{AlertDescription, ClientConfig, RootCertStore};
use sha2::{Digest as _, Sha256};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::connect::BoxStream;

/// A certificate with its key, and the authorities that members' certificates are checked against. Two are the same if they
/// were made from the same texts.
pub struct Credentials {
    config: Arc<ClientConfig>,
    digest: [u8; 32],
}

/// Credentials that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum BadCredentials {
    /// A text is not PEM, or holds nothing.
    #[error("{0} cannot be read")]
    Unreadable(&'static str),
    /// TLS does not take them.
    #[error("TLS cannot be set up with them")]
    Refused(#[source] rustls::Error),
}

impl Credentials {
    /// From three texts in PEM form.
    pub fn new(trust: &str, chain: &str, key: &str) -> Result<Self, BadCredentials> {
        let mut roots = RootCertStore::empty();
        for authority in certificates(trust, "the certificates of the authorities")? {
            roots.add(authority).map_err(BadCredentials::Refused)?;
        }
        let own = certificates(chain, "the certificate")?;
        let private = PrivateKeyDer::from_pem_slice(key.as_bytes());
        let Ok(private) = private else {
            return Err(BadCredentials::Unreadable("the private key"));
        };
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(BadCredentials::Refused)?
            .with_root_certificates(roots)
            .with_client_auth_cert(own, private)
            .map_err(BadCredentials::Refused)?;
        // A session that is resumed would outlive the certificate that it was opened with.
        config.resumption = rustls::client::Resumption::disabled();
        let mut digest = Sha256::new();
        for text in [trust, chain, key] {
            digest.update(Sha256::digest(text));
        }
        Ok(Self {
            config: Arc::new(config),
            digest: digest.finalize().into(),
        })
    }

    /// Opens TLS to the holder of `name` over a stream. `protocol` is the one of HTTP that is spoken on it.
    pub(crate) async fn open(
        &self,
        stream: BoxStream,
        name: &str,
        protocol: &[u8],
    ) -> io::Result<Secured> {
        let name = ServerName::try_from(name.to_owned())
            .map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        let mut config = ClientConfig::clone(&self.config);
        config.alpn_protocols = vec![protocol.to_vec()];
        let connector = TlsConnector::from(Arc::new(config));
        Ok(Secured {
            inner: connector.connect(name, stream).await?,
            refusal: Refusal::default(),
        })
    }
}

fn certificates(
    pem: &str,
    what: &'static str,
) -> Result<Vec<CertificateDer<'static>>, BadCredentials> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    all.ok()
        .filter(|all| !all.is_empty())
        .ok_or(BadCredentials::Unreadable(what))
}

impl PartialEq for Credentials {
    fn eq(&self, other: &Self) -> bool {
        self.digest == other.digest
    }
}

impl Eq for Credentials {}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

/// The alert with which a peer ended a connection. In TLS 1.3 a server judges our certificate after the handshake is over
/// for us, so its refusal comes with the first bytes that we read, inside an error that HTTP hides.
#[derive(Clone, Debug, Default)]
pub(crate) struct Refusal(Arc<OnceLock<String>>);

impl Refusal {
    pub(crate) fn get(&self) -> Option<&str> {
        self.0.get().map(String::as_str)
    }

    fn note(&self, error: &io::Error) {
        if let Some(alert) = alert(error) {
            self.0.get_or_init(|| alert);
        }
    }
}

/// The alert by which a peer says that it does not accept our certificate, if that is what an error is about. Any other
/// alert has another cause.
pub(crate) fn alert(error: &io::Error) -> Option<String> {
    let inner = error.get_ref()?.downcast_ref::<rustls::Error>()?;
    match inner {
        rustls::Error::AlertReceived(
            description @ (AlertDescription::BadCertificate
            | AlertDescription::UnsupportedCertificate
            | AlertDescription::CertificateRevoked
            | AlertDescription::CertificateExpired
            | AlertDescription::CertificateUnknown
            | AlertDescription::CertificateRequired
            | AlertDescription::UnknownCA
            | AlertDescription::AccessDenied),
        ) => Some(format!("{description:?}")),
        _ => None,
    }
}

/// Whether an error is one of TLS, and not of the stream below it.
pub(crate) fn is_of_tls(error: &io::Error) -> bool {
    error
        .get_ref()
        .is_some_and(<dyn std::error::Error + Send + Sync>::is::<rustls::Error>)
}

/// A stream with TLS on it that remembers why the peer ended it.
pub(crate) struct Secured {
    inner: TlsStream<BoxStream>,
    refusal: Refusal,
}

impl Secured {
    pub(crate) fn refusal(&self) -> Refusal {
        self.refusal.clone()
    }
}

impl AsyncRead for Secured {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.inner).poll_read(context, buffer);
        if let Poll::Ready(Err(error)) = &poll {
            self.refusal.note(error);
        }
        poll
    }
}

/// A peer that refuses us sends its alert and closes. Where a write notices first that it has closed, the alert is still there
/// to be read: so a write never fails, and reading tells how the connection ended.
impl AsyncWrite for Secured {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let poll = Pin::new(&mut self.inner).poll_write(context, bytes);
        poll.map(|written| Ok(written.unwrap_or(bytes.len())))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let poll = Pin::new(&mut self.inner).poll_flush(context);
        poll.map(|_flushed| Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(context)
    }
}

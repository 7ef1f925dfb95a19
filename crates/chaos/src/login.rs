//! What clients of a cluster with TLS present: the Secret that is published for them, and nothing else. With TLS of its own,
//! apart from that of the operator.

use std::fmt;
use std::io;
use std::sync::Arc;

use anyhow::{Context, Result};
use api::names;
use e2e::Cluster;
use e2e::secrets::entry;
use k8s_openapi::api::core::v1::Secret;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, RootCertStore, crypto::ring};

/// A certificate, and the authorities that members are verified by.
#[derive(Clone)]
pub(crate) struct Login(Arc<ClientConfig>);

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Login")
    }
}

impl Login {
    /// What is published now.
    pub(crate) async fn read(cluster: &Cluster) -> Result<Self> {
        let secrets = cluster.stage.api::<Secret>();
        let secret = secrets.get(&names::client_secret(&cluster.name)).await?;
        Self::new(
            &entry(&secret, "ca.crt")?,
            &entry(&secret, "tls.crt")?,
            &entry(&secret, "tls.key")?,
        )
    }

    fn new(trust: &str, chain: &str, key: &str) -> Result<Self> {
        let mut roots = RootCertStore::empty();
        for authority in CertificateDer::pem_slice_iter(trust.as_bytes()) {
            roots.add(authority?)?;
        }
        let chain: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(chain.as_bytes()).collect();
        let key = PrivateKeyDer::from_pem_slice(key.as_bytes())?;
        let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain?, key)
            .context("the published certificate cannot be used")?;
        config.alpn_protocols = vec![b"h2".to_vec()];
        Ok(Self(Arc::new(config)))
    }

    /// Opens TLS to the member of this name.
    pub(crate) async fn open(
        &self,
        stream: TcpStream,
        host: &str,
    ) -> io::Result<TlsStream<TcpStream>> {
        let host = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        let connector = TlsConnector::from(Arc::clone(&self.0));
        connector.connect(host, stream).await
    }
}

//! TLS on both sides of a connection: this member's own certificate, and a caller that holds one of the clients'
//! authorities. The files are read for every connection, as etcd does, so that a certificate that was renewed is used at
//! once. What is wrong with them is told in the log, and closes the connection; the wait goes on.

use std::{
    fmt,
    fs::File,
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use rustls::{
    InconsistentKeys, RootCertStore, ServerConfig, ServerConnection, StreamOwned,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
    server::WebPkiClientVerifier,
    sign::{CertifiedKey, SingleCertAndKey},
    version::TLS13,
};
use serde_json::json;
use zeroize::{Zeroize, Zeroizing};

use super::{Answers, Timed, converse};
use crate::telemetry::{Level, log};

/// The authorities that callers' certificates are verified against.
const TRUST: &str = "client-ca.crt";
/// A Secret holds no more.
const LONGEST_FILE: u64 = 1 << 20;
/// How often the log tells that files cannot be used.
const QUIET: Duration = Duration::from_secs(10);

/// The directory with this pod's certificate and key.
pub(crate) struct Files {
    directory: PathBuf,
    pod: String,
    /// When the log last told what is wrong.
    told: Mutex<Option<Instant>>,
}

impl fmt::Debug for Files {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Files({})", self.directory.display())
    }
}

impl Files {
    /// Of this pod, in this directory. Nothing is read yet.
    pub(crate) fn new(directory: &Path, pod: &str) -> Self {
        Self {
            directory: directory.into(),
            pod: pod.into(),
            told: Mutex::default(),
        }
    }

    /// Answers one request of a caller that proves who it is.
    pub(super) fn converse(&self, timed: Timed<'_>, answers: &Answers) -> io::Result<()> {
        // A caller that says nothing is not worth reading files for.
        timed.stream.set_read_timeout(Some(timed.left()?))?;
        if timed.stream.peek(&mut [0])? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let config = self.config().ok_or(io::ErrorKind::NotFound)?;
        let connection = ServerConnection::new(Arc::new(config)).map_err(io::Error::other)?;
        let mut stream = StreamOwned::new(connection, timed);
        // A caller that is turned away is told by an alert of TLS.
        converse(&mut stream, Some(&answers.report), answers)?;
        stream.conn.send_close_notify();
        stream.flush()
    }

    /// A second look where the first met the kubelet exchanging the files.
    fn config(&self) -> Option<ServerConfig> {
        match self.read().or_else(|_first| self.read()) {
            Ok(config) => Some(config),
            Err(why) => {
                self.complain(&why);
                None
            }
        }
    }

    fn read(&self) -> Result<ServerConfig, String> {
        let chain = self.read_file(&format!("{}.server.crt", self.pod))?;
        let key = self.read_file(&format!("{}.server.key", self.pod))?;
        let trust = self.read_file(TRUST)?;
        build(&chain, &key, &trust).map_err(|why| format!("{}: {why}", self.directory.display()))
    }

    /// All of a file, in memory that is wiped: it may be a key.
    fn read_file(&self, name: &str) -> Result<Zeroizing<Vec<u8>>, String> {
        let path = self.directory.join(name);
        let read = || {
            let file = File::open(&path)?;
            let length = file.metadata()?.len().min(LONGEST_FILE);
            // It must not have to grow, which would leave a copy behind.
            let room = usize::try_from(length).unwrap_or_default();
            let mut bytes = Zeroizing::new(Vec::with_capacity(room));
            file.take(length).read_to_end(&mut bytes)?;
            Ok(bytes)
        };
        read().map_err(|error: io::Error| format!("cannot read {}: {error}", path.display()))
    }

    /// One line in a while, however many callers come.
    fn complain(&self, why: &str) {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        if told.is_none_or(|at| at.elapsed() >= QUIET) {
            *told = Some(Instant::now());
            let fields = json!({"reason": why});
            log(Level::Warn, "the secure port cannot be served", &fields);
        }
    }
}

/// What three files in PEM form make. No error quotes them: one of them is a key.
///
/// TLS 1.3 alone: the operator speaks it, and nothing else asks a waiting gate here.
pub(crate) fn build(chain: &[u8], key: &[u8], trust: &[u8]) -> Result<ServerConfig, String> {
    let mut roots = RootCertStore::empty();
    let (usable, _others) = roots.add_parsable_certificates(certificates(trust, TRUST)?);
    if usable == 0 {
        return Err(format!("{TRUST} holds no authority"));
    }
    let chain = certificates(chain, "the certificate")?;
    let certified = CertifiedKey::new(chain, signing_key(key)?);
    match certified.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => {}
        Err(_other) => return Err("the private key is not that of the certificate".into()),
    }
    let provider = Arc::new(ring::default_provider());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
            .build()
            .map_err(|error| format!("{TRUST}: {error}"))?;
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])
        .map_err(|error| error.to_string())?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(SingleCertAndKey::from(certified)));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    // Every connection has a configuration of its own: no session can be resumed.
    config.send_tls13_tickets = 0;
    Ok(config)
}

fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, String> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem).collect();
    all.ok()
        .filter(|all| !all.is_empty())
        .ok_or_else(|| format!("{what} cannot be read"))
}

/// Our copies of the key are wiped. Those of the library are gone with the connection, and with the process when etcd
/// takes its place.
fn signing_key(pem: &[u8]) -> Result<Arc<dyn rustls::sign::SigningKey>, String> {
    let unreadable = || "the private key cannot be read".to_owned();
    let mut key = PrivateKeyDer::from_pem_slice(pem)
        .ok()
        .ok_or_else(unreadable)?;
    let signing = ring::sign::any_supported_type(&key);
    key.zeroize();
    signing.ok().ok_or_else(unreadable)
}

#[cfg(test)]
mod tests;

//! Certificates of a pod, and callers that have some of their own.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    sync::Arc,
    time::Duration,
};

use jiff::{SignedDuration, Timestamp};
use pki::{Authority, Leaf, Pair, Usage, Validity};
use rustls::{
    ClientConfig, ClientConnection, RootCertStore, StreamOwned,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};

use crate::support::{Pod, free_port};

/// The name that a member's certificate holds.
pub(crate) const NAME: &str = "c-0.c-peer.ns.svc";

pub(crate) fn validity() -> Validity {
    Validity::starting(Timestamp::now(), SignedDuration::from_hours(1))
}

pub(crate) fn authority() -> Authority {
    Authority::new("c client", validity()).unwrap()
}

pub(crate) fn issue(authority: &Authority, names: &[&str], validity: Validity) -> Pair {
    let leaf = Leaf {
        common_name: "c".to_owned(),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        usages: vec![Usage::Server, Usage::Client],
        validity,
    };
    authority.issue(&leaf).unwrap()
}

/// Where the secure port is, and who asks there.
pub(crate) struct Tls {
    pub(crate) port: u16,
    pub(crate) caller: Caller,
}

/// What a caller presents, and which authority it trusts.
pub(crate) struct Caller {
    pub(crate) pair: Option<Pair>,
    pub(crate) trust: String,
}

impl Tls {
    /// A pod with certificates of this authority.
    pub(crate) fn pod(authority: &Authority) -> Pod {
        let mut pod = Pod::new();
        fs::create_dir(pod.path("tls")).unwrap();
        renew(&pod, authority, authority);
        let pair = Some(issue(authority, &[], validity()));
        let trust = authority.certificate().to_owned();
        pod.tls = Some(Self {
            port: free_port(),
            caller: Caller { pair, trust },
        });
        pod
    }

    pub(crate) fn arguments(&self, pod: &Pod) -> [String; 2] {
        [
            format!("--tls={}", pod.path("tls").display()),
            format!("--secure-listen=127.0.0.1:{}", self.port),
        ]
    }

    pub(crate) fn metrics_url(&self) -> String {
        format!("https://127.0.0.1:{}", self.port)
    }

    /// The flags of etcd for clients and peers; one authority serves both here.
    pub(crate) fn flags(pod: &Pod) -> Vec<String> {
        let file = |name: &str| pod.path("tls").join(name).display().to_string();
        let pair = |prefix: &str| {
            [
                format!("--{prefix}cert-file={}", file("c-0.server.crt")),
                format!("--{prefix}key-file={}", file("c-0.server.key")),
                format!("--{prefix}trusted-ca-file={}", file("client-ca.crt")),
                format!("--{prefix}client-cert-auth=true"),
            ]
        };
        ["", "peer-"].into_iter().flat_map(pair).collect()
    }

    pub(crate) fn get(&self, port: u16, path: &str) -> Result<(u16, String), String> {
        self.caller.get(port, path)
    }

    pub(crate) fn request(
        &self,
        port: u16,
        head: &str,
        body: &str,
    ) -> Result<(u16, String), String> {
        self.caller.request(port, head, body)
    }
}

/// Gives a pod a certificate of one authority, and lets it trust another.
pub(crate) fn renew(pod: &Pod, issuer: &Authority, trust: &Authority) {
    let pair = issue(issuer, &[NAME, "localhost", "127.0.0.1"], validity());
    for (name, text) in [
        ("c-0.server.crt", pair.chain.as_str()),
        ("c-0.server.key", pair.key.expose()),
        ("client-ca.crt", trust.certificate()),
    ] {
        put(&pod.path("tls"), name, text);
    }
}

/// Writes a file whole, as the kubelet does.
pub(crate) fn put(directory: &Path, name: &str, text: &str) {
    let new = directory.join("new");
    fs::write(&new, text).unwrap();
    fs::rename(new, directory.join(name)).unwrap();
}

impl Caller {
    fn config(&self) -> ClientConfig {
        let certificate = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate(&self.trust)).unwrap();
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let mut config = match &self.pair {
            None => config.with_no_client_auth(),
            Some(pair) => {
                let key = PrivateKeyDer::from_pem_slice(pair.key.expose().as_bytes()).unwrap();
                let chain = vec![certificate(&pair.chain)];
                config.with_client_auth_cert(chain, key).unwrap()
            }
        };
        // As the operator asks.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        config
    }

    pub(crate) fn open(
        &self,
        port: u16,
    ) -> Result<StreamOwned<ClientConnection, TcpStream>, String> {
        let socket = TcpStream::connect(("127.0.0.1", port)).map_err(|error| error.to_string())?;
        socket
            .set_read_timeout(Some(Duration::from_secs(10)))
            .unwrap();
        let name = ServerName::try_from(NAME).unwrap();
        let connection = ClientConnection::new(Arc::new(self.config()), name).unwrap();
        Ok(StreamOwned::new(connection, socket))
    }

    pub(crate) fn get(&self, port: u16, path: &str) -> Result<(u16, String), String> {
        self.request(port, &format!("GET {path}"), "")
    }

    /// Status and body, or what went wrong.
    pub(crate) fn request(
        &self,
        port: u16,
        head: &str,
        body: &str,
    ) -> Result<(u16, String), String> {
        let mut stream = self.open(port)?;
        let length = body.len();
        let request =
            format!("{head} HTTP/1.0\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}");
        // Where the other end has closed already, reading tells why.
        if let Err(error) = stream.write_all(request.as_bytes())
            && error.kind() == std::io::ErrorKind::InvalidData
        {
            return Err(error.to_string());
        }
        let mut answer = String::new();
        let read = stream.read_to_string(&mut answer);
        read.map_err(|error| error.to_string())?;
        let (head, body) = answer.split_once("\r\n\r\n").ok_or("no HTTP")?;
        let status = head.split(' ').nth(1).and_then(|word| word.parse().ok());
        Ok((status.ok_or("no HTTP")?, body.to_owned()))
    }
}

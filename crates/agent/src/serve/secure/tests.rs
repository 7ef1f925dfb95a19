//! The secure port over real loopback sockets, and files of every kind. Callers as processes stand in `tests/gate/secure.rs`.

use std::{
    fs,
    net::{Shutdown, TcpStream},
};

use hostile::never_panics;
use jiff::{SignedDuration, Timestamp};
use pki::{Authority, Leaf, Pair, Usage, Validity};
use rustls::{ClientConfig, ClientConnection, pki_types::ServerName};
use tempfile::TempDir;

use super::*;
use crate::serve::{
    Door, MOST_CONNECTIONS, Server,
    tests::{answers, connect_from},
};

fn authority() -> Authority {
    let validity = Validity::starting(Timestamp::now(), SignedDuration::from_hours(1));
    Authority::new("c client", validity).unwrap()
}

fn issue(authority: &Authority) -> Pair {
    let leaf = Leaf {
        common_name: "c".into(),
        names: vec!["c-0".into()],
        usages: vec![Usage::Server, Usage::Client],
        validity: authority.validity(),
    };
    authority.issue(&leaf).unwrap()
}

fn built(chain: &str, key: &str, trust: &str) -> Result<ServerConfig, String> {
    build(chain.as_bytes(), key.as_bytes(), trust.as_bytes())
}

#[test]
fn what_is_wrong_with_files_is_told_without_quoting_them() {
    let ours = authority();
    let (pair, other) = (issue(&ours), issue(&ours));
    let (chain, key, trust) = (pair.chain.as_str(), pair.key.expose(), ours.certificate());
    assert!(built(chain, key, trust).is_ok());
    // A chain, several authorities, and text around them are as good.
    let whole = format!("{chain}{trust}");
    let several = format!("# ours\n{trust}\n{}", authority().certificate());
    assert!(built(&whole, key, &several).is_ok());
    let damaged = key.replacen('M', "!", 1);
    for (chain, key, trust, why) in [
        ("", key, trust, "the certificate cannot be read"),
        (key, key, trust, "the certificate cannot be read"),
        (chain, "", trust, "the private key cannot be read"),
        (chain, chain, trust, "the private key cannot be read"),
        (chain, &damaged, trust, "the private key cannot be read"),
        (chain, key, "", "client-ca.crt cannot be read"),
        (
            chain,
            other.key.expose(),
            trust,
            "the private key is not that of the certificate",
        ),
    ] {
        assert_eq!(built(chain, key, trust).unwrap_err(), why);
    }
    let nonsense = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    let why = built(chain, key, nonsense).unwrap_err();
    assert_eq!(why, "client-ca.crt holds no authority");
    assert!(built(nonsense, key, trust).is_err());
}

#[test]
fn damaged_files_are_never_a_panic() {
    let ours = authority();
    let pair = issue(&ours);
    let (chain, key, trust) = (pair.chain.as_str(), pair.key.expose(), ours.certificate());
    let samples = [chain, key, trust];
    never_panics(&samples, |input| {
        let with = [
            build(input, key.as_bytes(), trust.as_bytes()),
            build(chain.as_bytes(), input, trust.as_bytes()),
            build(chain.as_bytes(), key.as_bytes(), input),
        ];
        with.map(|built| built.is_ok())
    });
}

/// A server on the secure port, a caller with a certificate, and the directory that holds it all.
fn served(authority: &Authority) -> (Server, Arc<ClientConfig>, TempDir) {
    let (directory, pair) = (TempDir::new().unwrap(), issue(authority));
    for (name, text) in [
        ("c-0.server.crt", pair.chain.as_str()),
        ("c-0.server.key", pair.key.expose()),
        (TRUST, authority.certificate()),
    ] {
        fs::write(directory.path().join(name), text).unwrap();
    }
    let door = Door::Secure(Arc::new(Files::new(directory.path(), "c-0")));
    let server = Server::bind("127.0.0.1:0".parse().unwrap(), door).unwrap();
    let mut roots = RootCertStore::empty();
    let trust = certificates(authority.certificate().as_bytes(), "trust").unwrap();
    roots.add_parsable_certificates(trust);
    let pair = issue(authority);
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(
            certificates(pair.chain.as_bytes(), "own").unwrap(),
            PrivateKeyDer::from_pem_slice(pair.key.expose().as_bytes()).unwrap(),
        );
    (server, Arc::new(config.unwrap()), directory)
}

fn ask(stream: TcpStream, config: &Arc<ClientConfig>) -> String {
    let name = ServerName::try_from("c-0").unwrap();
    let connection = ClientConnection::new(Arc::clone(config), name).unwrap();
    let mut stream = StreamOwned::new(connection, stream);
    stream.write_all(b"GET /gate HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn a_flood_from_one_address_shuts_out_itself_alone_on_the_secure_port_too() {
    let authority = authority();
    let (server, config, _directory) = served(&authority);
    let early = connect_from([10, 0, 0, 2], &server);
    let flood: Vec<_> = (0..MOST_CONNECTIONS * 3)
        .map(|_| connect_from([10, 0, 0, 1], &server))
        .collect();
    assert!(ask(early, &config).starts_with("HTTP/1.1 200"));
    let late = connect_from([10, 0, 0, 3], &server);
    assert!(ask(late, &config).ends_with(&answers().report));
    drop(flood);
}

/// What a caller sends instead of a handshake is no matter.
#[test]
fn bytes_that_are_no_handshake_are_turned_away() {
    let authority = authority();
    let (server, config, _directory) = served(&authority);
    let endless = vec![0x16; 100_000];
    for bytes in [
        &b"GET /gate HTTP/1.1\r\n\r\n"[..],
        b"\x16\x03\x01\xff\xff\xff",
        b"\x80\x2e\x01\x00\x02",
        b"\x15\x03\x03\x00\x02\x02\x28",
        &endless,
    ] {
        let mut stream = connect_from([10, 0, 0, 1], &server);
        // It may be closed before all of it was sent.
        drop(stream.write_all(bytes));
        drop(stream.shutdown(Shutdown::Write));
        let mut told = Vec::new();
        drop(stream.read_to_end(&mut told));
        assert!(!String::from_utf8_lossy(&told).contains("HTTP"), "{told:?}");
    }
    let after = connect_from([10, 0, 0, 1], &server);
    assert!(ask(after, &config).starts_with("HTTP/1.1 200"));
}

//! A registry in a thread: it keeps what it is sent if the digest is right, and lets in who shows its token.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::sync::{Arc, Mutex};

use sha2::{Digest, Sha256};

use super::super::{Image, hex};
use super::*;

const REALM_TOKEN: &str = "a-token";

#[derive(Default)]
struct Kept {
    blobs: BTreeMap<String, Vec<u8>>,
    /// By name, which is a tag or a digest.
    manifests: BTreeMap<String, Vec<u8>>,
    /// Method and path of all that was asked.
    asked: Vec<String>,
}

struct Asked {
    method: String,
    path: String,
    authorization: String,
    body: Vec<u8>,
}

struct Fake {
    port: u16,
    kept: Arc<Mutex<Kept>>,
}

impl Fake {
    fn start(is_locked: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let kept = Arc::<Mutex<Kept>>::default();
        let shared = Arc::clone(&kept);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(stream) = stream else { return };
                let asked = read(&stream);
                let answer = answer(&asked, &mut shared.lock().unwrap(), (is_locked, port));
                // A client that went away needs no answer.
                drop((&stream).write_all(&answer));
            }
        });
        Self { port, kept }
    }

    fn reference(&self) -> Reference {
        format!("127.0.0.1:{}/team/etcd-operator", self.port)
            .parse()
            .unwrap()
    }
}

fn read(stream: &TcpStream) -> Asked {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.read_line(&mut line).unwrap();
    let mut words = line.split(' ').map(str::to_owned);
    let (method, path) = (words.next().unwrap(), words.next().unwrap());
    let (mut length, mut authorization) = (0, String::new());
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).unwrap();
        match line.trim().split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().unwrap();
            }
            Some((name, value)) if name.eq_ignore_ascii_case("authorization") => {
                value.clone_into(&mut authorization);
            }
            Some(_other) => {}
            None => break,
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).unwrap();
    Asked {
        method,
        path,
        authorization,
        body,
    }
}

fn answer(asked: &Asked, kept: &mut Kept, (is_locked, port): (bool, u16)) -> Vec<u8> {
    kept.asked.push(format!("{} {}", asked.method, asked.path));
    let response = |status: &str, headers: &str, body: &[u8]| {
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status}\r\nConnection: close\r\nContent-Length: {length}\r\n{headers}\r\n"
        );
        let body = if asked.method == "HEAD" { &[] } else { body };
        [head.as_bytes(), body].concat()
    };
    if asked.path.starts_with("/token") {
        return response("200 OK", "", br#"{"token":"a-token"}"#);
    }
    if is_locked && asked.authorization != format!("Bearer {REALM_TOKEN}") {
        let challenge = format!(
            "WWW-Authenticate: Bearer realm=\"http://127.0.0.1:{port}/token\",service=\"kept\",scope=\"repository:team/etcd-operator:pull,push\"\r\n"
        );
        return response("401 Unauthorized", &challenge, b"");
    }
    let path = asked.path.trim_start_matches("/v2/team/etcd-operator/");
    let digest = format!("sha256:{}", hex(&Sha256::digest(&asked.body)));
    match (asked.method.as_str(), path.split_once('/')) {
        ("HEAD", Some(("blobs", digest))) if kept.blobs.contains_key(digest) => {
            response("200 OK", "", b"")
        }
        ("POST", Some(("blobs", "uploads/"))) => {
            let location = "Location: /v2/team/etcd-operator/blobs/uploads/1?state=2\r\n";
            response("202 Accepted", location, b"")
        }
        ("PUT", Some(("blobs", upload))) => {
            if upload != format!("uploads/1?state=2&digest={}", digest.replace(':', "%3A")) {
                return response("400 Bad Request", "", b"DIGEST_INVALID");
            }
            kept.blobs.insert(digest, asked.body.clone());
            response("201 Created", "", b"")
        }
        ("PUT", Some(("manifests", name))) => {
            if name.starts_with("sha256:") && name != digest {
                return response("400 Bad Request", "", b"DIGEST_INVALID");
            }
            kept.manifests.insert(name.to_owned(), asked.body.clone());
            response("201 Created", "", b"")
        }
        ("GET", Some(("manifests", name))) => match kept.manifests.get(name) {
            Some(content) => response("200 OK", "", content),
            None => response("404 Not Found", "", b""),
        },
        _other => response("404 Not Found", "", b""),
    }
}

fn built(directory: &Path) -> (Layout, Descriptor) {
    let program = directory.join("program");
    std::fs::write(&program, "static").unwrap();
    let image = |_| Image {
        files: vec![("/usr/local/bin/program".into(), program.clone())],
        ..Image::default()
    };
    let variants = ["amd64", "arm64"].map(|architecture| (architecture, image(architecture)));
    let layout = Layout::create(&directory.join("layout")).unwrap();
    let index = layout.write("localhost/program:1", &variants).unwrap();
    (layout, index)
}

#[test]
fn what_was_pushed_is_found_by_its_digest() {
    let directory = tempfile::tempdir().unwrap();
    let (layout, index) = built(directory.path());
    let registry = Fake::start(false);
    push(&layout, &index, &registry.reference(), "1").unwrap();
    let kept = registry.kept.lock().unwrap();
    let stored = &kept.manifests["1"];
    assert_eq!(
        format!("sha256:{}", hex(&Sha256::digest(stored))),
        index.digest
    );
    // From the index on, everything that is named is there.
    for manifest in layout.parts(&index).unwrap() {
        assert!(kept.manifests.contains_key(&manifest.digest));
        for blob in layout.parts(&manifest).unwrap() {
            assert!(kept.blobs.contains_key(&blob.digest), "{}", blob.digest);
        }
    }
}

#[test]
fn what_is_there_is_not_sent_again() {
    let directory = tempfile::tempdir().unwrap();
    let (layout, index) = built(directory.path());
    let registry = Fake::start(false);
    push(&layout, &index, &registry.reference(), "1").unwrap();
    registry.kept.lock().unwrap().asked.clear();
    push(&layout, &index, &registry.reference(), "2").unwrap();
    let asked = &registry.kept.lock().unwrap().asked;
    assert!(
        !asked.iter().any(|asked| asked.starts_with("POST")),
        "{asked:?}"
    );
}

#[test]
fn a_registry_that_demands_a_token_gets_one() {
    let directory = tempfile::tempdir().unwrap();
    let (layout, index) = built(directory.path());
    let registry = Fake::start(true);
    push(&layout, &index, &registry.reference(), "1").unwrap();
    let kept = registry.kept.lock().unwrap();
    assert!(kept.manifests.contains_key("1"));
    let token = kept.asked.iter().find(|asked| asked.contains("/token"));
    assert_eq!(
        token.unwrap(),
        "GET /token?service=kept&scope=repository%3Ateam%2Fetcd-operator%3Apull%2Cpush"
    );
}

#[test]
fn an_altered_blob_is_never_sent() {
    let directory = tempfile::tempdir().unwrap();
    let (layout, index) = built(directory.path());
    let registry = Fake::start(false);
    let manifest = &layout.parts(&index).unwrap()[0];
    let layer = &layout.parts(manifest).unwrap()[0];
    let path = layout.path(layer);
    let mut content = std::fs::read(&path).unwrap();
    content[20] ^= 1;
    std::fs::write(&path, content).unwrap();
    let refused = push(&layout, &index, &registry.reference(), "1").unwrap_err();
    assert!(
        format!("{refused:#}").contains("was altered"),
        "{refused:#}"
    );
    assert!(registry.kept.lock().unwrap().blobs.is_empty());
}

#[test]
fn a_reference_names_its_registry() {
    let of = |text: &str| text.parse::<Reference>();
    let full = of("registry.example.org:5000/team/etcd-operator:v1").unwrap();
    assert_eq!(full.host, "registry.example.org:5000");
    assert_eq!(full.path, "team/etcd-operator");
    assert_eq!(full.tag.as_deref(), Some("v1"));
    assert_eq!(full.base().unwrap().scheme(), "https");
    let here = of("localhost:5000/etcd-operator").unwrap();
    assert_eq!(
        (here.tag.as_ref(), here.base().unwrap().scheme()),
        (None, "http")
    );
    assert_eq!(of("[::1]:5000/a").unwrap().base().unwrap().scheme(), "http");
    for wrong in [
        "etcd-operator",
        "team/etcd-operator",
        "registry.example.org/Team/etcd-operator",
        "registry.example.org/team/",
        "registry.example.org/team/x:a b",
        "registry.example.org/team/x@sha256:00",
    ] {
        assert!(of(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn credentials_are_those_of_the_host() {
    let config = serde_json::json!({"auths": {
        "registry.example.org": {"auth": "dXNlcjpwYXNz"},
        "helper.example.org": {},
        "https://index.docker.io/v1/": {"auth": "aHVi"},
    }});
    let of = |host: &str| credentials_in(&config, host);
    assert_eq!(of("registry.example.org").as_deref(), Some("dXNlcjpwYXNz"));
    assert_eq!(of("docker.io").as_deref(), Some("aHVi"));
    assert_eq!(of("helper.example.org"), None);
    assert_eq!(of("other.example.org"), None);
}

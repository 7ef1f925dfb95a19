//! A store that speaks as much of S3 as the keeper needs, within the test, and misbehaves on request. Real servers are in the
//! tests of the whole program.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use archive::work;

use super::Store;
use super::open::{Limits, open_within};
use crate::args::Args;

/// What a client asks for.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) method: String,
    /// Path and query.
    pub(crate) target: String,
    pub(crate) headers: BTreeMap<String, String>,
    body: Vec<u8>,
}

impl Asked {
    /// Parts are to be joined.
    pub(crate) fn joins(&self) -> bool {
        self.method == "POST" && self.target.contains("uploadId=")
    }
}

/// How the store behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    Well,
    /// It thinks about it for so long, and does it then.
    Late(Duration),
    /// It does it, and the connection breaks before the answer.
    Unheard,
    /// The connection breaks after so many bytes of the body.
    Cut(usize),
    /// So many bytes of the body, with a pause before each time so many more.
    Slow(usize, Duration),
}

type Objects = Arc<Mutex<BTreeMap<String, Vec<u8>>>>;

/// A running store; it ends with the test.
pub(crate) struct StandIn {
    port: u16,
    pub(crate) objects: Objects,
}

impl StandIn {
    pub(crate) fn start(act: impl Fn(&Asked) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let (objects, act) = (Objects::default(), Arc::new(act));
        let own = Arc::clone(&objects);
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, objects, act) = (client.unwrap(), Arc::clone(&own), Arc::clone(&act));
                // A client that goes away ends its thread.
                std::thread::spawn(move || drop(serve(&client, &objects, &*act)));
            }
        });
        Self { port, objects }
    }

    /// The store as the keeper opens it, which waits so long and repeats a request so often.
    pub(crate) fn open(&self, piece: Duration, retries: usize) -> Store {
        let store = work::Store::S3 {
            bucket: "b".to_owned(),
            path: String::new(),
            region: None,
            endpoint: Some(format!("http://127.0.0.1:{}", self.port)),
            path_style: true,
            allow_http: true,
            checksum: false,
        };
        let secrets = tempfile::tempdir().unwrap();
        for name in ["access-key", "secret-key"] {
            std::fs::write(secrets.path().join(name), "testtest").unwrap();
        }
        let args = Args {
            request: String::new(),
            termination_log: PathBuf::new(),
            store_secrets: secrets.path().to_owned(),
            member_tls: PathBuf::new(),
            identity: PathBuf::new(),
            local: PathBuf::new(),
            scratch: PathBuf::new(),
            spool: PathBuf::new(),
            path: String::new(),
        };
        open_within(&store, &args, Limits { piece, retries }).unwrap()
    }

    pub(crate) fn put(&self, name: &str, bytes: Vec<u8>) {
        let mut objects = self.objects.lock().unwrap();
        objects.insert(format!("/b/{name}"), bytes);
    }
}

fn serve(
    client: &TcpStream,
    objects: &Objects,
    act: &dyn Fn(&Asked) -> Act,
) -> std::io::Result<()> {
    let mut input = BufReader::new(client);
    let mut output = client;
    while let Some(asked) = read(&mut input)? {
        let act = act(&asked);
        if let Act::Late(time) = act {
            std::thread::sleep(time);
        }
        let (head, body) = answer(&asked, objects);
        match act {
            Act::Well | Act::Late(_) => {
                output.write_all(head.as_bytes())?;
                output.write_all(&body)?;
            }
            Act::Unheard => return Ok(()),
            Act::Cut(most) => {
                output.write_all(head.as_bytes())?;
                return output.write_all(body.get(..most).unwrap_or(&body));
            }
            Act::Slow(piece, pause) => {
                output.write_all(head.as_bytes())?;
                for piece in body.chunks(piece) {
                    std::thread::sleep(pause);
                    output.write_all(piece)?;
                }
            }
        }
    }
    Ok(())
}

fn read(input: &mut BufReader<&TcpStream>) -> std::io::Result<Option<Asked>> {
    let mut line = String::new();
    if input.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, target) = (words.next().unwrap(), words.next().unwrap());
    let mut headers = BTreeMap::new();
    loop {
        let mut line = String::new();
        input.read_line(&mut line)?;
        let Some((name, value)) = line.trim_end().split_once(": ") else {
            break;
        };
        headers.insert(name.to_lowercase(), value.to_owned());
    }
    let length = headers.get("content-length");
    let length: usize = length.map_or(0, |length| length.parse().unwrap());
    let mut body = vec![0; length];
    input.read_exact(&mut body)?;
    Ok(Some(Asked {
        method,
        target,
        headers,
        body,
    }))
}

/// Head and body.
type Answer = (String, Vec<u8>);

fn head(status: &str, length: usize, more: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-length: {length}\r\netag: \"tag\"\r\n\
         last-modified: Thu, 19 Nov 2026 00:00:00 GMT\r\n{more}\r\n"
    )
}

fn said(status: &str, body: &str) -> Answer {
    (head(status, body.len(), ""), body.as_bytes().to_vec())
}

fn absent() -> Answer {
    said("404 Not Found", "<Error><Code>NoSuchKey</Code></Error>")
}

fn answer(asked: &Asked, objects: &Objects) -> Answer {
    let mut objects = objects.lock().unwrap();
    let (path, query) = asked.target.split_once('?').unwrap_or((&asked.target, ""));
    match (asked.method.as_str(), query) {
        ("POST", "uploads=" | "uploads") => said(
            "200 OK",
            "<InitiateMultipartUploadResult><UploadId>u</UploadId></InitiateMultipartUploadResult>",
        ),
        ("POST", _) => join(path, &mut objects),
        ("PUT", _) => {
            let name = asked.target.trim_end_matches('?');
            objects.insert(name.to_owned(), asked.body.clone());
            said("200 OK", "")
        }
        ("GET" | "HEAD", _) => objects.get(path).map_or_else(absent, |it| get(asked, it)),
        _other => {
            objects.retain(|name, _| !name.starts_with(path));
            (head("204 No Content", 0, ""), Vec::new())
        }
    }
}

/// Makes an object of its parts. An upload that was completed is no more.
fn join(path: &str, objects: &mut BTreeMap<String, Vec<u8>>) -> Answer {
    let prefix = format!("{path}?");
    let parts = objects.keys().filter(|name| name.starts_with(&prefix));
    let parts: Vec<String> = parts.cloned().collect();
    if parts.is_empty() {
        return absent();
    }
    let parts = parts.iter().flat_map(|part| objects.remove(part).unwrap());
    let whole = parts.collect();
    objects.insert(path.to_owned(), whole);
    let body =
        "<CompleteMultipartUploadResult><ETag>\"tag\"</ETag></CompleteMultipartUploadResult>";
    said("200 OK", body)
}

/// All of an object, or a range of it.
fn get(asked: &Asked, object: &[u8]) -> Answer {
    let range = asked.headers.get("range");
    let range = range.and_then(|it| it.strip_prefix("bytes=")?.split_once('-'));
    let Some((from, to)) = range else {
        let body = if asked.method == "GET" { object } else { &[] };
        return (head("200 OK", object.len(), ""), body.to_vec());
    };
    let (from, to): (usize, usize) = (from.parse().unwrap(), to.parse().unwrap());
    let more = format!("content-range: bytes {from}-{to}/{}\r\n", object.len());
    let body = object.get(from..=to).unwrap();
    let head = head("206 Partial Content", body.len(), &more);
    (head, body.to_vec())
}

//! Stores with an authority of their own, and stores that insist on checksums or know none.

use archive::work::{Cause, Task};
use jiff::{SignedDuration, Timestamp};
use pki::{Authority, Leaf, Usage, Validity};

use crate::damage::failed;
use crate::kit::{Bench, on_one_version, skipped};
use crate::round::{made, read};
use crate::s3::{credentials, serve, store};
use crate::wire::{Asked, Verdict, Wire};

type Judge = fn(&Asked) -> Verdict;

/// An authority, and a directory with the certificate of a server and its key.
pub(crate) fn authority() -> (Authority, tempfile::TempDir) {
    let validity = Validity::starting(Timestamp::now(), SignedDuration::from_hours(1));
    let authority = Authority::new("store", validity).unwrap();
    let leaf = Leaf {
        common_name: "store".to_owned(),
        names: vec!["127.0.0.1".to_owned(), "localhost".to_owned()],
        usages: vec![Usage::Server],
        validity,
    };
    let issued = authority.issue(&leaf).unwrap();
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("crt"), &issued.chain).unwrap();
    std::fs::write(directory.path().join("key"), issued.key.expose()).unwrap();
    (authority, directory)
}

fn encrypted(port: u16) -> archive::work::Store {
    let mut store = store(port, "bucket");
    if let archive::work::Store::S3 {
        endpoint,
        allow_http,
        ..
    } = &mut store
    {
        *endpoint = Some(format!("https://127.0.0.1:{port}"));
        *allow_http = false;
    }
    store
}

#[test]
fn a_store_with_an_authority_of_its_own_is_trusted_if_that_is_given() {
    let Some(server) = std::env::var_os("S3_SERVER") else {
        return skipped("S3_SERVER is not set");
    };
    on_one_version(async |tools| {
        let (own, files) = authority();
        let (other, _) = authority();
        let objects = tempfile::tempdir().unwrap();
        let path = |name: &str| files.path().join(name).to_str().unwrap().to_owned();
        let tls = ["--cert", &path("crt"), "--key", &path("key")];
        let (port, _server) = serve(&server, objects.path(), &tls).await;
        let bench = Bench::new(tools).await;
        bench.fill(20).await;
        credentials(&bench);
        let run = async |task| bench.run_with(encrypted(port), task).await;
        let ca = bench.directory.path().join("secrets/ca.crt");
        let task = Task::Snapshot(bench.snapshot("a"));
        // None, and a wrong one.
        for trusted in [None, Some(other.certificate())] {
            if let Some(text) = trusted {
                std::fs::write(&ca, text).unwrap();
            }
            let (cause, message) = failed(run(task.clone()).await);
            let told = message.contains("certificate") && message.contains("UnknownIssuer");
            assert!(cause == Cause::Store && told, "{message}");
        }
        // Several in one file are all trusted.
        let both = format!("{}{}", other.certificate(), own.certificate());
        std::fs::write(&ca, both).unwrap();
        made(run(task).await);
        assert!(matches!(
            run(read(&bench, None)).await,
            archive::work::Answer::Done(_)
        ));
        std::fs::write(&ca, "no certificate").unwrap();
        let (cause, message) = failed(run(read(&bench, None)).await);
        assert!(
            cause == Cause::Request && message.contains("no certificate in PEM"),
            "{message}"
        );
    });
}

/// What a store does that insists on a checksum with every put, as buckets with object lock do.
fn insists(asked: &Asked) -> Verdict {
    let is_put = asked.method == "PUT";
    if is_put && !asked.has_header("x-amz-checksum-") && !asked.has_header("content-md5") {
        return Verdict::Refuse("400 Bad Request", "InvalidRequest");
    }
    Verdict::Pass
}

/// What a store does that is older than these checksums.
fn knows_none(asked: &Asked) -> Verdict {
    let words = ["x-amz-checksum-", "x-amz-sdk-checksum-", "x-amz-trailer"];
    if words.iter().any(|word| asked.has_header(word)) {
        return Verdict::Refuse("501 Not Implemented", "NotImplemented");
    }
    Verdict::Pass
}

#[test]
fn checksums_are_sent_where_they_are_asked_for_and_nowhere_else() {
    let Some(server) = std::env::var_os("S3_SERVER") else {
        return skipped("S3_SERVER is not set");
    };
    on_one_version(async |tools| {
        let objects = tempfile::tempdir().unwrap();
        let (port, _server) = serve(&server, objects.path(), &[]).await;
        let bench = Bench::new(tools).await;
        bench.fill(20).await;
        credentials(&bench);
        let judges: [(Judge, bool); 2] = [(insists, true), (knows_none, false)];
        for (judge, wanted) in judges {
            let wire = Wire::before(port, judge).await;
            for sent in [!wanted, wanted] {
                let mut store = store(wire.port, "bucket");
                if let archive::work::Store::S3 { checksum, .. } = &mut store {
                    *checksum = sent;
                }
                let task = Task::Snapshot(bench.snapshot(&format!("a-{wanted}-{sent}")));
                let answer = bench.run_with(store.clone(), task).await;
                if sent == wanted {
                    made(answer);
                    let whole = bench.run_with(store, read(&bench, None)).await;
                    assert!(matches!(whole, archive::work::Answer::Done(_)), "{whole:?}");
                } else {
                    let (cause, message) = failed(answer);
                    let words = ["InvalidRequest", "NotImplemented"];
                    let told = words.iter().any(|word| message.contains(word));
                    assert!(cause == Cause::Store && told, "{message}");
                }
            }
        }
    });
}

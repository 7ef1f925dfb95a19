//! Google Cloud Storage. Nothing that runs here speaks its XML API, which is the one of S3 but for who is asked and how names
//! are written: so what answers is a mock, that signs each request once more for a real S3 server.

use std::path::Path;
use std::sync::Arc;

use archive::work::{Answer, Depth, Keep, Store, Task};
use object_store::ClientOptions;
use object_store::aws::{AwsAuthorizer, AwsCredential};
use object_store::client::{
    HttpClient, HttpConnector as _, HttpRequest, HttpRequestBody, ReqwestConnector,
};
use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, BufReader};
use tokio::net::TcpListener;
use tokio_rustls::TlsAcceptor;

use crate::kit::{Bench, on_one_version, skipped};
use crate::round::{fetch, made, read, verified, verify};
use crate::s3::serve;
use crate::trust::authority;
use crate::wire::{Headers, body, head};

/// A server that looks like Google's, before one of S3.
async fn translate(store: u16, files: &Path) -> u16 {
    let chain = CertificateDer::pem_file_iter(files.join("crt")).unwrap();
    let chain = chain.collect::<Result<Vec<_>, _>>().unwrap();
    let key = PrivateKeyDer::from_pem_file(files.join("key")).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let options = ClientOptions::new()
        .with_allow_http(true)
        .with_no_system_certificates(true);
    // As in the keeper: only the first one counts.
    drop(rustls::crypto::ring::default_provider().install_default());
    let client = ReqwestConnector::default().connect(&options).unwrap();
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, client) = (acceptor.clone(), client.clone());
            tokio::spawn(async move {
                // A keeper that does not trust it goes away.
                if let Ok(stream) = acceptor.accept(stream).await {
                    drop(answer(stream, store, &client).await);
                }
            });
        }
    });
    port
}

async fn answer(
    stream: impl AsyncRead + AsyncWrite + Unpin,
    store: u16,
    client: &HttpClient,
) -> std::io::Result<()> {
    let mut stream = BufReader::new(stream);
    while let Some((_, first, headers)) = head(&mut stream).await? {
        let mut sent = Vec::new();
        body(&mut stream, &headers, &mut sent).await?;
        let mut words = first.split_whitespace();
        let (method, target) = (words.next().unwrap(), words.next().unwrap());
        let request = sign(store, (method, target), &headers, sent);
        let (parts, answered) = client.execute(request).await.unwrap().into_parts();
        let answered = answered.bytes().await.unwrap();
        let mut head = format!("HTTP/1.1 {}\r\n", parts.status);
        for (name, value) in &parts.headers {
            let passed = ["etag", "last-modified", "content-range", "content-type"];
            if passed.contains(&name.as_str()) {
                head.extend([name.as_str(), ": ", value.to_str().unwrap(), "\r\n"]);
            }
        }
        // Of an object that is only asked about, the length is told all the same.
        let length = parts.headers.get("content-length");
        let length = length.filter(|_| method == "HEAD").map_or_else(
            || answered.len().to_string(),
            |length| length.to_str().unwrap().to_owned(),
        );
        if parts.status != 204 {
            head.extend(["content-length: ", &length, "\r\n"]);
        }
        head += "\r\n";
        stream.get_mut().write_all(head.as_bytes()).await?;
        stream.get_mut().write_all(&answered).await?;
        stream.get_mut().flush().await?;
    }
    Ok(())
}

/// The same request, as S3 wants it: Google is asked with a token, and with an escape for each sign of a name, which the
/// signature of S3 knows only where it is needed.
fn sign(
    store: u16,
    (method, target): (&str, &str),
    headers: &Headers,
    body: Vec<u8>,
) -> HttpRequest {
    let mut target = target.to_owned();
    let path = target.split('?').next().unwrap().to_owned();
    let plain = path.replace("%2F", "/").replace("%2D", "-");
    let plain = plain.replace("%2E", ".");
    assert!(!plain.contains('%'), "{plain}");
    target.replace_range(..path.len(), &plain);
    let uri = format!("http://127.0.0.1:{store}{target}");
    let mut request = http::Request::builder().method(method).uri(uri);
    for (name, value) in headers {
        if ["range", "if-match", "content-type"].contains(&name.as_str()) {
            request = request.header(name, value);
        }
    }
    let mut request = request.body(HttpRequestBody::from(body)).unwrap();
    let credential = AwsCredential {
        key_id: "test".to_owned(),
        secret_key: "testtest".to_owned(),
        token: None,
    };
    let signer = AwsAuthorizer::new(&credential, "s3", "us-east-1");
    signer.try_authorize(&mut request, None).unwrap();
    request
}

#[test]
fn a_base_goes_to_a_mock_of_google_and_back() {
    let Some(server) = std::env::var_os("S3_SERVER") else {
        return skipped("S3_SERVER is not set");
    };
    on_one_version(async |tools| {
        let objects = tempfile::tempdir().unwrap();
        let (s3, _server) = serve(&server, objects.path(), &[]).await;
        let (own, files) = authority();
        let port = translate(s3, files.path()).await;
        let bench = Bench::new(tools).await;
        bench.fill(7000).await;
        let secrets = bench.directory.path().join("secrets");
        std::fs::write(secrets.join("ca.crt"), own.certificate()).unwrap();
        let key = format!(
            r#"{{"private_key":"","private_key_id":"","client_email":"","disable_oauth":true,"gcs_base_url":"https://127.0.0.1:{port}"}}"#
        );
        std::fs::write(secrets.join("service-account.json"), key).unwrap();
        let store = Store::Gcs {
            bucket: "bucket".to_owned(),
            path: "backups".to_owned(),
        };
        let run = async |task| bench.run_with(store.clone(), task).await;
        let mut task = bench.snapshot("a");
        let first = made(run(Task::Snapshot(task.clone())).await);
        // More than one part.
        assert!(first.base.stored_bytes > 10_000_000, "{first:?}");
        assert!(first.base.url.starts_with("gs://bucket/backups/shop/db/"));
        let tried = verified(run(verify(&bench, None)).await);
        assert_eq!((tried.depth, tried.keys), (Depth::Restored, Some(7000)));
        for task in [fetch(&bench, Some("a")), read(&bench, None)] {
            let answer = run(task).await;
            assert!(matches!(answer, Answer::Done(_)), "{answer:?}");
        }
        for id in ["b", "c"] {
            task.id = id.to_owned();
            task.keep = Some(Keep {
                newest: Some(1),
                ..Keep::default()
            });
            made(run(Task::Snapshot(task.clone())).await);
        }
        let newest = made(run(Task::Snapshot(task.clone())).await).newest;
        let ids: Vec<&str> = newest.iter().map(|base| base.id.as_str()).collect();
        assert_eq!(ids, ["c", "a"], "a was verified");
    });
}

//! `/healthz`, `/readyz` and `/metrics` of the operator itself. Any pod may connect here, so no connection lasts, and
//! a client that opens many closes only the oldest of its own.

mod scrape;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

use self::scrape::Scrapes;
use crate::health::Health;
use crate::listen;
use crate::metrics::Metrics;

/// Connections that are open at once, at most.
const MOST: usize = 64;
/// A connection is over by then.
const LONGEST: Duration = Duration::from_secs(5);
/// After an accept that failed, for want of descriptors perhaps.
const PAUSE: Duration = Duration::from_millis(200);

/// Serves until the process ends.
pub async fn serve(
    address: SocketAddr,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
) -> std::io::Result<()> {
    let listener = listen::bind(address).await?;
    serve_on(listener, health, metrics).await
}

/// Serves on a socket that is open already.
pub async fn serve_on(
    listener: TcpListener,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
) -> std::io::Result<()> {
    let scrapes = Arc::new(Scrapes::new(&health, &metrics));
    let mut open: VecDeque<AbortHandle> = VecDeque::new();
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(%error, "a connection to the probes cannot be accepted");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        open.retain(|connection| !connection.is_finished());
        if open.len() >= MOST
            && let Some(oldest) = open.pop_front()
        {
            oldest.abort();
        }
        let serve = answer_one(stream, Arc::clone(&health), Arc::clone(&scrapes));
        open.push_back(tokio::spawn(serve).abort_handle());
    }
}

async fn answer_one(stream: TcpStream, health: Arc<Health>, scrapes: Arc<Scrapes>) {
    let answer = service_fn(move |request| {
        std::future::ready(Ok::<_, Infallible>(answer(&request, &health, &scrapes)))
    });
    let served = hyper::server::conn::http1::Builder::new()
        .keep_alive(false)
        .serve_connection(TokioIo::new(stream), answer);
    match tokio::time::timeout(LONGEST, served).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => tracing::debug!(%error, "a probe's connection broke"),
        Err(_elapsed) => tracing::debug!("a probe's connection was closed: it took too long"),
    }
}

/// Whole, or in pieces.
type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

fn answer(request: &Request<Incoming>, health: &Health, scrapes: &Scrapes) -> Answer {
    let told = |state: Result<(), String>| match state {
        Ok(()) => plain(StatusCode::OK, "ok".to_owned()),
        Err(why) => plain(StatusCode::SERVICE_UNAVAILABLE, why),
    };
    match request.uri().path() {
        "/healthz" => told(health.live()),
        "/readyz" => told(health.ready()),
        "/metrics" => scrapes.answer(request.headers()),
        _other => plain(StatusCode::NOT_FOUND, "not found".to_owned()),
    }
}

fn plain(status: StatusCode, text: String) -> Answer {
    let mut response = Response::new(Full::new(Bytes::from(text)).boxed_unsync());
    *response.status_mut() = status;
    let text = HeaderValue::from_static("text/plain; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, text);
    response
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    async fn get(address: SocketAddr, path: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = format!("GET {path} HTTP/1.1\r\nHost: probes\r\n\r\n");
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        answer
    }

    #[tokio::test]
    async fn a_flood_of_silent_connections_keeps_no_probe_out() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = tokio::spawn(serve_on(listener, Arc::default(), Arc::default()));
        let mut flood = Vec::new();
        for _ in 0..200 {
            flood.push(TcpStream::connect(address).await.unwrap());
        }
        let answer = tokio::time::timeout(LONGEST, get(address, "/healthz")).await;
        assert!(answer.unwrap().starts_with("HTTP/1.1 200"));
        // The oldest of them was closed to make room.
        let mut byte = [0];
        let first = tokio::time::timeout(LONGEST, flood[0].read(&mut byte)).await;
        assert!(matches!(first, Ok(Ok(0) | Err(_))), "{first:?}");
        assert!(get(address, "/readyz").await.contains("503"));
        serving.abort();
    }

    /// Not by a client of HTTP: what comes over the wire is read as it is.
    #[tokio::test]
    async fn the_metrics_are_compressed_for_who_asks_and_whole() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let metrics = Arc::new(Metrics::default());
        metrics.watch(crate::metrics::fleet(2000), Arc::default());
        let serving = tokio::spawn(serve_on(listener, Arc::default(), metrics));
        let ask = async |head: &str| {
            let mut stream = TcpStream::connect(address).await.unwrap();
            let request = format!("GET /metrics HTTP/1.0\r\nHost: probes\r\n{head}\r\n");
            stream.write_all(request.as_bytes()).await.unwrap();
            let mut answer = Vec::new();
            stream.read_to_end(&mut answer).await.unwrap();
            let end = answer
                .windows(4)
                .position(|four| four == b"\r\n\r\n")
                .unwrap();
            let body = answer.split_off(end + 4);
            (String::from_utf8(answer).unwrap(), body)
        };
        let (_, plain) = ask("").await;
        let plain = String::from_utf8(plain).unwrap();
        assert!(plain.ends_with("# EOF\n"));
        let sizes = plain
            .lines()
            .filter(|line| line.starts_with("etcd_cluster_size{"));
        assert_eq!(sizes.count(), 2000);
        let (head, packed) = ask("Accept-Encoding: gzip\r\n").await;
        assert!(head.contains("content-encoding: gzip"), "{head}");
        let mut unpacked = String::new();
        let mut reader = flate2::read::GzDecoder::new(packed.as_slice());
        std::io::Read::read_to_string(&mut reader, &mut unpacked).unwrap();
        let clusters = |text: &str| {
            text.lines()
                .filter(|line| line.starts_with("etcd_cluster"))
                .map(str::to_owned)
                .collect::<Vec<_>>()
        };
        assert_eq!(clusters(&unpacked), clusters(&plain));
        assert!(
            packed.len() * 8 < plain.len(),
            "{} of {}",
            packed.len(),
            plain.len()
        );
        serving.abort();
    }

    #[tokio::test]
    async fn too_many_readers_of_the_metrics_are_turned_away() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let metrics = Arc::new(Metrics::default());
        metrics.watch(crate::metrics::fleet(2000), Arc::default());
        let serving = tokio::spawn(serve_on(listener, Arc::default(), metrics));
        let mut idle = Vec::new();
        for _reader in 0..20 {
            // Hardly anything waits in its buffers.
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.set_recv_buffer_size(4096).unwrap();
            let mut stream = socket.connect(address).await.unwrap();
            let request = b"GET /metrics HTTP/1.0\r\nHost: probes\r\n\r\n";
            stream.write_all(request).await.unwrap();
            let mut first = [0; 12];
            stream.read_exact(&mut first).await.unwrap();
            if first.ends_with(b"503") {
                break;
            }
            idle.push(stream);
        }
        assert!((1..20).contains(&idle.len()), "{}", idle.len());
        // Those that are done make place for others.
        drop(idle);
        let whole = async {
            while !get(address, "/metrics").await.contains("# EOF") {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(LONGEST, whole).await.unwrap();
        serving.abort();
    }
}

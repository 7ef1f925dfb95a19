//! `/healthz`, `/readyz` and `/metrics` of the operator itself. Any pod may connect here, so no connection lasts, and
//! a client that opens many closes only the oldest of its own.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

use crate::health::Health;
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
    let listener = TcpListener::bind(address).await?;
    serve_on(listener, health, metrics).await
}

/// Serves on a socket that is open already.
pub async fn serve_on(
    listener: TcpListener,
    health: Arc<Health>,
    metrics: Arc<Metrics>,
) -> std::io::Result<()> {
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
        let serve = answer_one(stream, Arc::clone(&health), Arc::clone(&metrics));
        open.push_back(tokio::spawn(serve).abort_handle());
    }
}

async fn answer_one(stream: TcpStream, health: Arc<Health>, metrics: Arc<Metrics>) {
    let answer = service_fn(move |request| {
        std::future::ready(Ok::<_, Infallible>(answer(&request, &health, &metrics)))
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

fn answer(
    request: &Request<Incoming>,
    health: &Health,
    metrics: &Metrics,
) -> Response<Full<Bytes>> {
    let told = |state: Result<(), String>| match state {
        Ok(()) => (StatusCode::OK, "ok".into()),
        Err(why) => (StatusCode::SERVICE_UNAVAILABLE, why),
    };
    let (status, text) = match request.uri().path() {
        "/healthz" => told(health.live()),
        "/readyz" => told(health.ready()),
        "/metrics" => (StatusCode::OK, metrics.render(health)),
        _other => (StatusCode::NOT_FOUND, "not found".into()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let text = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
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
}

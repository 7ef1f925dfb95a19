//! `/healthz`, `/readyz` and `/metrics` of the operator itself.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

use crate::metrics::Metrics;

/// Whether the operator can do its work, or stands by to.
#[derive(Clone, Default)]
pub struct Readiness(Arc<AtomicBool>);

impl Readiness {
    /// From now on it can.
    pub fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Serves until the process ends.
pub async fn serve(
    address: SocketAddr,
    readiness: Readiness,
    metrics: Arc<Metrics>,
) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        let (readiness, metrics) = (readiness.clone(), Arc::clone(&metrics));
        let answer = service_fn(move |request| {
            std::future::ready(Ok::<_, Infallible>(answer(&request, &readiness, &metrics)))
        });
        tokio::spawn(async move {
            let served = hyper::server::conn::http1::Builder::new()
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), answer)
                .await;
            if let Err(error) = served {
                tracing::debug!(%error, "a probe's connection broke");
            }
        });
    }
}

fn answer(
    request: &Request<Incoming>,
    readiness: &Readiness,
    metrics: &Metrics,
) -> Response<Full<Bytes>> {
    let (status, text) = match request.uri().path() {
        "/healthz" => (StatusCode::OK, "ok".into()),
        "/readyz" if readiness.0.load(Ordering::Relaxed) => (StatusCode::OK, "ok".into()),
        "/readyz" => (
            StatusCode::SERVICE_UNAVAILABLE,
            "not connected to the API server yet".into(),
        ),
        "/metrics" => (StatusCode::OK, metrics.render()),
        _other => (StatusCode::NOT_FOUND, "not found".into()),
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let text = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, text);
    response
}

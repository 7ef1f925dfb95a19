//! `/healthz` and `/readyz` of the operator itself.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

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
pub async fn serve(address: SocketAddr, readiness: Readiness) -> std::io::Result<()> {
    let listener = TcpListener::bind(address).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        let readiness = readiness.clone();
        let answer = service_fn(move |request| {
            std::future::ready(Ok::<_, Infallible>(answer(&request, &readiness)))
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

fn answer(request: &Request<Incoming>, readiness: &Readiness) -> Response<Full<Bytes>> {
    let (status, text) = match request.uri().path() {
        "/healthz" => (StatusCode::OK, "ok"),
        "/readyz" if readiness.0.load(Ordering::Relaxed) => (StatusCode::OK, "ok"),
        "/readyz" => (
            StatusCode::SERVICE_UNAVAILABLE,
            "not connected to the API server yet",
        ),
        _other => (StatusCode::NOT_FOUND, "not found"),
    };
    let mut response = Response::new(Full::new(Bytes::from_static(text.as_bytes())));
    *response.status_mut() = status;
    response
}

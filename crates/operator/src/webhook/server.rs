//! HTTPS for the two questions. Every part of a conversation has a deadline, and a body a largest size: whatever dials here
//! costs the operator seconds and megabytes at most.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use pki::Pair;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ServerConfig, crypto::ring};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::answer::{Answers, Asked};
use super::connections::Connections;

/// A handshake, and each body, is over by then.
const PATIENCE: Duration = Duration::from_secs(5);
/// A connection without a request is closed then.
const IDLE: Duration = Duration::from_secs(90);
/// After that a connection takes no further request, so that another certificate is seen in the end.
const LONGEST: Duration = Duration::from_mins(10);
/// The largest body. etcd holds objects of 1.5 MiB, and a review holds two.
const LARGEST: usize = 4 << 20;
/// All bodies at once, in KiB.
const ROOM: usize = 32 << 10;
/// After an accept that failed, for want of descriptors perhaps.
const PAUSE: Duration = Duration::from_millis(200);

/// What is served, or why not.
type Answer = (StatusCode, String);

/// TLS with this pair; `None` where it cannot be used. No error quotes it: half of it is a key.
pub fn server_config(pair: &Pair) -> Option<Arc<ServerConfig>> {
    let chain = CertificateDer::pem_slice_iter(pair.chain.as_bytes());
    let chain = chain.collect::<Result<Vec<_>, _>>().ok()?;
    let key = PrivateKeyDer::from_pem_slice(pair.key.expose().as_bytes()).ok()?;
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .ok()?
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .ok()?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Some(Arc::new(config))
}

/// Serves on a socket that is open already, each connection with the certificate of that moment.
pub async fn serve_on(
    listener: TcpListener,
    offered: watch::Receiver<Option<Arc<ServerConfig>>>,
    answers: Arc<Answers>,
) -> std::io::Result<()> {
    let mut open = Connections::default();
    let room = Arc::new(Semaphore::new(ROOM));
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "a connection to the webhook cannot be accepted");
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        let config = offered.borrow().clone();
        // Without a certificate there is nothing to say: the API server refuses the spec, and tells why.
        let Some(config) = config else { continue };
        let (answers, room) = (Arc::clone(&answers), Arc::clone(&room));
        let connection = tokio::spawn(async move {
            if let Some(stream) = handshake(stream, config, from).await {
                converse(stream, answers, room).await;
            }
        });
        open.add(from.ip(), connection.abort_handle());
    }
}

async fn handshake(
    stream: TcpStream,
    config: Arc<ServerConfig>,
    from: SocketAddr,
) -> Option<TlsStream<TcpStream>> {
    let accept = TlsAcceptor::from(config).accept(stream);
    match tokio::time::timeout(PATIENCE, accept).await {
        Ok(Ok(stream)) => return Some(stream),
        Ok(Err(error)) => tracing::debug!(%from, %error, "a handshake with the webhook failed"),
        Err(_elapsed) => tracing::debug!(%from, "a handshake with the webhook took too long"),
    }
    None
}

async fn converse(stream: TlsStream<TcpStream>, answers: Arc<Answers>, room: Arc<Semaphore>) {
    let answer = service_fn(move |request| {
        let (answers, room) = (Arc::clone(&answers), Arc::clone(&room));
        async move {
            let answer = answer(request, &answers, &room).await;
            Ok::<_, Infallible>(respond(answer))
        }
    });
    let served = hyper::server::conn::http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE)
        .max_buf_size(64 << 10)
        .serve_connection(TokioIo::new(stream), answer);
    tokio::pin!(served);
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        () = tokio::time::sleep(LONGEST) => {
            served.as_mut().graceful_shutdown();
            // What has begun ends by its own deadlines.
            match tokio::time::timeout(PATIENCE * 3, served).await {
                Ok(ended) => ended,
                Err(_elapsed) => Ok(()),
            }
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "a connection to the webhook broke");
    }
}

async fn answer(request: Request<Incoming>, answers: &Answers, room: &Semaphore) -> Answer {
    let Some(asked) = Asked::at(request.uri().path()) else {
        let text = "ask at /validate or /mutate".to_owned();
        return (StatusCode::NOT_FOUND, text);
    };
    if request.method() != Method::POST {
        let text = "an AdmissionReview is sent with POST".to_owned();
        return (StatusCode::METHOD_NOT_ALLOWED, text);
    }
    // The API server always says how much it sends, and for as much there must be room.
    let length = request.headers().get(CONTENT_LENGTH);
    let length = length.and_then(|length| length.to_str().ok()?.parse::<usize>().ok());
    let Some(length) = length else {
        let text = "send a Content-Length".to_owned();
        return (StatusCode::LENGTH_REQUIRED, text);
    };
    if length > LARGEST {
        return too_large();
    }
    let kibibytes = u32::try_from(length.div_ceil(1024)).unwrap_or(u32::MAX);
    let Ok(_reserved) = room.try_acquire_many(kibibytes) else {
        let text = "too many reviews at once, try again".to_owned();
        return (StatusCode::SERVICE_UNAVAILABLE, text);
    };
    match body(request.into_body()).await {
        Ok(body) => answers.answer(asked, &body).await,
        Err(answer) => answer,
    }
}

async fn body(body: Incoming) -> Result<Bytes, Answer> {
    let whole = Limited::new(body, LARGEST).collect();
    match tokio::time::timeout(PATIENCE, whole).await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) if error.is::<LengthLimitError>() => Err(too_large()),
        Ok(Err(error)) => Err((
            StatusCode::BAD_REQUEST,
            format!("the body broke off: {error}"),
        )),
        Err(_elapsed) => {
            let text = "the body did not arrive in time".to_owned();
            Err((StatusCode::REQUEST_TIMEOUT, text))
        }
    }
}

fn too_large() -> Answer {
    let text = format!("an AdmissionReview of more than {LARGEST} bytes is not read");
    (StatusCode::PAYLOAD_TOO_LARGE, text)
}

fn respond((status, text): Answer) -> Response<Full<Bytes>> {
    let kind = if status == StatusCode::OK {
        "application/json"
    } else {
        "text/plain; charset=utf-8"
    };
    let mut response = Response::new(Full::new(Bytes::from(text)));
    *response.status_mut() = status;
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

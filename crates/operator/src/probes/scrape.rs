//! The page of the metrics as it goes over the wire: in pieces, so that a fleet needs no more memory for it than one cluster,
//! and compressed where the reader takes that. It is written by a thread of its own, which waits for the reader and holds
//! up no look.

use std::convert::Infallible;
use std::fmt;
use std::io::{self, BufWriter, Write};
use std::sync::Arc;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::stream::poll_fn;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, VARY};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body_util::StreamBody;
use hyper::body::Frame;
use tokio::sync::mpsc::{Sender, channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Answer, plain};
use crate::health::Health;
use crate::metrics::Metrics;

/// Bytes of a piece, about.
const PIECE: usize = 64 * 1024;
/// Pieces that wait for the reader, at most.
const WAITING: usize = 2;
/// Readers at once, at most: any pod may ask, and each costs processor time.
const READERS: usize = 4;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// What the page is made from.
pub(super) struct Scrapes {
    health: Arc<Health>,
    metrics: Arc<Metrics>,
    readers: Arc<Semaphore>,
}

impl Scrapes {
    pub(super) fn new(health: &Arc<Health>, metrics: &Arc<Metrics>) -> Self {
        Self {
            health: Arc::clone(health),
            metrics: Arc::clone(metrics),
            readers: Arc::new(Semaphore::new(READERS)),
        }
    }

    pub(super) fn answer(&self, headers: &HeaderMap) -> Answer {
        let Ok(reader) = Arc::clone(&self.readers).try_acquire_owned() else {
            let busy = format!("{READERS} others read this page at the moment\n");
            return plain(StatusCode::SERVICE_UNAVAILABLE, busy);
        };
        let compressed = takes_gzip(headers);
        let (pieces, mut sent) = channel(WAITING);
        let (health, metrics) = (Arc::clone(&self.health), Arc::clone(&self.metrics));
        let write = move || {
            let pieces = Pieces {
                pieces,
                _reader: reader,
            };
            if let Err(error) = page(&metrics, &health, pieces, compressed) {
                tracing::debug!(%error, "a reader of the metrics went away");
            }
        };
        // It ends with the page, or with the connection.
        drop(tokio::task::spawn_blocking(write));
        let frames = poll_fn(move |ctx| {
            let piece = sent.poll_recv(ctx);
            piece.map(|piece| piece.map(|piece: Bytes| Ok::<_, Infallible>(Frame::data(piece))))
        });
        let body = StreamBody::new(frames);
        let mut response = Response::new(http_body_util::BodyExt::boxed_unsync(body));
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(OPEN_METRICS));
        headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
        if compressed {
            headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
        }
        response
    }
}

fn page(
    metrics: &Arc<Metrics>,
    health: &Arc<Health>,
    pieces: Pieces,
    compressed: bool,
) -> io::Result<()> {
    let whole = BufWriter::with_capacity(PIECE, pieces);
    if compressed {
        let mut text = Text(GzEncoder::new(whole, Compression::fast()));
        told(metrics.write(health, &mut text))?;
        text.0.finish()?.flush()
    } else {
        let mut text = Text(whole);
        told(metrics.write(health, &mut text))?;
        text.0.flush()
    }
}

/// The only reason not to be able to write text is that the writer below could not.
fn told(written: fmt::Result) -> io::Result<()> {
    written.map_err(|fmt::Error| io::ErrorKind::BrokenPipe.into())
}

/// Text for what takes bytes.
struct Text<W>(W);

impl<W: Write> fmt::Write for Text<W> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let written = self.0.write_all(text.as_bytes());
        written.map_err(|_gone: io::Error| fmt::Error)
    }
}

/// Hands pieces to the connection, and waits while it has enough of them.
struct Pieces {
    pieces: Sender<Bytes>,
    /// There is place for another reader once this one is done.
    _reader: OwnedSemaphorePermit,
}

impl Write for Pieces {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let sent = self.pieces.blocking_send(Bytes::copy_from_slice(piece));
        sent.map_err(|_gone| io::Error::from(io::ErrorKind::BrokenPipe))?;
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// `gzip`, and not with a weight of nothing.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let told = headers.get_all(ACCEPT_ENCODING).iter();
    let mut encodings = told.filter_map(|told| told.to_str().ok());
    encodings.any(|told| {
        told.split(',').any(|encoding| {
            let mut parts = encoding.split(';').map(str::trim);
            let zero = |weight: &str| {
                let weight = weight.strip_prefix("q=");
                weight.is_some_and(|weight| weight.parse() == Ok(0.0_f32))
            };
            parts.next() == Some("gzip") && !parts.any(zero)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_takes_gzip_is_sent_gzip() {
        for (told, expected) in [
            ("gzip", true),
            ("deflate, gzip;q=0.5", true),
            ("gzip;q=0", false),
            ("identity", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT_ENCODING, told.parse().unwrap());
            assert_eq!(takes_gzip(&headers), expected, "{told}");
        }
    }
}

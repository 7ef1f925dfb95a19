//! One HTTP question over a connection of its own, for the ports on which the gate and etcd's metrics answer: the plain one,
//! or the one that demands certificates.

use std::io;
use std::time::Duration;

use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, timeout_at};

use crate::connect::{BoxStream, Connect, Target};
use crate::error::Cause;
use crate::pool::Security;
use crate::tls::Refusal;

/// A path, and the most bytes that its answer may have.
pub(crate) type Question = (&'static str, usize);

/// Asks, and gives the status with the body of an answer that is no error.
pub(crate) async fn get(
    connect: &dyn Connect,
    target: &Target,
    security: &Security,
    question: Question,
    deadline: Duration,
) -> Result<(StatusCode, Bytes), Cause> {
    let until = Instant::now() + deadline;
    let (stream, refusal) = timeout_at(until, open(connect, target, security))
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        .map_err(Cause::from_connect)?;
    let answer = timeout_at(until, exchange(stream, question))
        .await
        .unwrap_or(Err(Cause::Deadline { after: deadline }));
    answer.map_err(|cause| match refusal.get() {
        Some(alert) => Cause::Refused {
            alert: alert.to_owned(),
        },
        None => cause,
    })
}

async fn open(
    connect: &dyn Connect,
    target: &Target,
    security: &Security,
) -> io::Result<(BoxStream, Refusal)> {
    let port = match security {
        Security::Plain => gate::PORT,
        Security::Tls { .. } => gate::SECURE_PORT,
    };
    let stream = connect.connect(target, port).await?;
    security.protect(stream, b"http/1.1").await
}

/// What is read at a time, at most.
const BUFFER: usize = 64 * 1024;

async fn exchange(
    stream: BoxStream,
    (path, limit): Question,
) -> Result<(StatusCode, Bytes), Cause> {
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(BUFFER)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(broken)?;
    let talk = async {
        let request = Request::get(path)
            .header(http::header::HOST, "gate")
            .body(Empty::<Bytes>::new())
            .map_err(|error| Cause::BadAnswer {
                detail: error.to_string(),
            })?;
        let answer = sender.send_request(request).await.map_err(broken)?;
        let status = answer.status();
        if !status.is_success() {
            return Ok((status, Bytes::new()));
        }
        let body = Limited::new(answer.into_body(), limit).collect().await;
        let body = body.map_err(|error| Cause::BadAnswer {
            detail: error.to_string(),
        })?;
        Ok((status, body.to_bytes()))
    };
    // The connection is driven here and not by a task, so it cannot outlive the question.
    tokio::pin!(talk, connection);
    tokio::select! {
        biased;
        answer = &mut talk => answer,
        // What has arrived by the time the connection ends is still there to be read.
        _ = &mut connection => talk.await,
    }
}

#[expect(
    clippy::needless_pass_by_value,
    reason = "used as the argument of map_err"
)]
fn broken(error: hyper::Error) -> Cause {
    Cause::Unavailable {
        message: error.to_string(),
    }
}

//! Asks the gate why it waits. The same port answers once etcd runs, with 404, so one question tells
//! the two apart. Any other answer is an error, never a guess.

use std::io;
use std::time::Duration;

use http::{Request, StatusCode};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::Bytes;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, timeout_at};

use crate::connect::{BoxStream, Connect, Target};
use crate::error::{Cause, Error};

/// Who answered on the gate's port.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "a handful per look; easier to match unboxed"
)]
pub enum GateAnswer {
    /// The agent holds etcd back, and says why.
    Waiting(gate::Report),
    /// etcd answers: the agent has let it go on. Nothing is said about its health.
    Running,
}

/// Asks `GET /gate` of a pod, over a connection of its own.
pub async fn gate_report(
    connect: &dyn Connect,
    target: &Target,
    deadline: Duration,
) -> Result<GateAnswer, Error> {
    let answer = ask(connect, target, deadline).await;
    answer.map_err(|cause| Error::new("gate report", target, cause))
}

async fn ask(
    connect: &dyn Connect,
    target: &Target,
    deadline: Duration,
) -> Result<GateAnswer, Cause> {
    let until = Instant::now() + deadline;
    let stream = timeout_at(until, connect.connect(target, gate::PORT))
        .await
        .unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
        .map_err(|source| Cause::Connect { source })?;
    timeout_at(until, exchange(stream))
        .await
        .unwrap_or(Err(Cause::Deadline { after: deadline }))
}

/// A report is a few hundred bytes; whoever sends more is not the gate.
const REPORT_LIMIT: usize = 64 * 1024;

async fn exchange(stream: BoxStream) -> Result<GateAnswer, Cause> {
    let (mut sender, connection) = http1::Builder::new()
        .max_buf_size(REPORT_LIMIT)
        .handshake(TokioIo::new(stream))
        .await
        .map_err(broken)?;
    let talk = async {
        let request = Request::get(gate::REPORT_PATH)
            .header(http::header::HOST, "gate")
            .body(Empty::<Bytes>::new())
            .map_err(|error| Cause::BadAnswer {
                detail: error.to_string(),
            })?;
        let answer = sender.send_request(request).await.map_err(broken)?;
        match answer.status() {
            StatusCode::OK => parse_report(answer.into_body())
                .await
                .map(GateAnswer::Waiting),
            StatusCode::NOT_FOUND => Ok(GateAnswer::Running),
            status => Err(Cause::BadAnswer {
                detail: format!("HTTP status {status}"),
            }),
        }
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

async fn parse_report(body: hyper::body::Incoming) -> Result<gate::Report, Cause> {
    let body = Limited::new(body, REPORT_LIMIT)
        .collect()
        .await
        .map_err(|error| Cause::BadAnswer {
            detail: error.to_string(),
        })?
        .to_bytes();
    let report: gate::Report = serde_json::from_slice(&body).map_err(|error| Cause::BadAnswer {
        detail: format!("not a gate report: {error}"),
    })?;
    if report.protocol != gate::PROTOCOL {
        let detail = format!(
            "the gate speaks protocol {}, not {}",
            report.protocol,
            gate::PROTOCOL
        );
        return Err(Cause::BadAnswer { detail });
    }
    Ok(report)
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

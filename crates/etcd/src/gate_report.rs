//! Asks the gate why it waits. The same port answers once etcd runs, with 404, so one question tells
//! the two apart. Any other answer is an error, never a guess.

use std::time::Duration;

use http::StatusCode;

use crate::connect::{Connect, Target};
use crate::error::{Cause, Error};
use crate::http::get;
use crate::pool::Security;

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

/// A report is a few hundred bytes; a server that sends more is not the gate.
const REPORT_LIMIT: usize = 64 * 1024;

/// Asks `GET /gate` of a pod, over a connection of its own. Where it is secured, on the secure port.
pub async fn gate_report(
    connect: &dyn Connect,
    target: &Target,
    security: &Security,
    deadline: Duration,
) -> Result<GateAnswer, Error> {
    let answer = ask(connect, target, security, deadline).await;
    answer.map_err(|cause| Error::new("gate report", target, cause))
}

async fn ask(
    connect: &dyn Connect,
    target: &Target,
    security: &Security,
    deadline: Duration,
) -> Result<GateAnswer, Cause> {
    let question = (gate::REPORT_PATH, REPORT_LIMIT);
    let (status, body) = get(connect, target, security, question, deadline).await?;
    match status {
        StatusCode::OK => parse_report(&body).map(GateAnswer::Waiting),
        StatusCode::NOT_FOUND => Ok(GateAnswer::Running),
        status => Err(Cause::BadAnswer {
            detail: format!("HTTP status {status}"),
        }),
    }
}

pub(crate) fn parse_report(body: &[u8]) -> Result<gate::Report, Cause> {
    let report: gate::Report = serde_json::from_slice(body).map_err(|error| Cause::BadAnswer {
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

//! Readiness for etcd below 3.5.19, whose `/readyz` is missing or lets learners through: healthy, and
//! not a learner. At the gate it fails, as `/readyz` there does.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream},
    process::ExitCode,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::telemetry::{Level, log};

/// All in all; the kubelet's own timeout may be shorter.
const PATIENCE: Duration = Duration::from_secs(3);
/// etcd's metrics are some 150 KiB.
const LONGEST_ANSWER: usize = 16 << 20;

/// Succeeds only if etcd on `port` is a healthy voter.
pub(crate) fn probe(port: u16) -> ExitCode {
    let deadline = Instant::now() + PATIENCE;
    // A database that is full serves reads, and a larger quota must be able to reach it; `/readyz` has it so, too.
    let ready = get(port, "/health?exclude=NOSPACE", deadline).and_then(|health| {
        if !is_healthy(&health) {
            return Ok(Err("unhealthy"));
        }
        let metrics = get(port, "/metrics", deadline)?;
        Ok(if is_voter(&metrics) {
            Ok(())
        } else {
            Err("a learner")
        })
    });
    let why = match ready {
        Ok(Ok(())) => return ExitCode::SUCCESS,
        Ok(Err(why)) => why.to_owned(),
        Err(error) => error.to_string(),
    };
    log(Level::Warn, "etcd is not ready", &json!({"reason": why}));
    ExitCode::FAILURE
}

/// Whether an answer of `/health` says so.
pub(crate) fn is_healthy(answer: &str) -> bool {
    is_ok(answer) && answer.contains(r#""health":"true""#)
}

fn is_voter(answer: &str) -> bool {
    is_ok(answer)
        && answer
            .lines()
            .any(|line| line.trim_end() == "etcd_server_is_learner 0")
}

/// Whether an answer is one of success.
pub(crate) fn is_ok(answer: &str) -> bool {
    answer.split(' ').nth(1) == Some("200")
}

/// A whole answer, head included. HTTP/1.0: the server neither chunks nor keeps the connection.
pub(crate) fn get(port: u16, path: &str, deadline: Instant) -> io::Result<String> {
    let left = || match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(io::Error::from(io::ErrorKind::TimedOut)),
        left => Ok(left),
    };
    let connect = |address: SocketAddr| TcpStream::connect_timeout(&address, left()?);
    let mut stream = connect((Ipv4Addr::LOCALHOST, port).into())
        .or_else(|_| connect((Ipv6Addr::LOCALHOST, port).into()))?;
    stream.set_write_timeout(Some(left()?))?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").as_bytes())?;
    let mut answer = Vec::new();
    let mut chunk = vec![0; 64 << 10];
    loop {
        stream.set_read_timeout(Some(left()?))?;
        let read = stream.read(&mut chunk)?;
        if read == 0 || answer.len() > LONGEST_ANSWER {
            return Ok(String::from_utf8_lossy(&answer).into_owned());
        }
        answer.extend_from_slice(chunk.get(..read).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_healthy_voter_is_ready() {
        let ok = "HTTP/1.0 200 OK\r\n\r\n";
        for (answer, healthy) in [
            (format!("{ok}{{\"health\":\"true\",\"reason\":\"\"}}"), true),
            (
                format!("{ok}{{\"health\":\"false\",\"reason\":\"NOSPACE\"}}"),
                false,
            ),
            (
                "HTTP/1.0 503 Service Unavailable\r\n\r\n{\"health\":\"true\"}".into(),
                false,
            ),
            ("HTTP/1.1 404 Not Found\r\n\r\nnot found\n".into(), false),
            (String::new(), false),
        ] {
            assert_eq!(is_healthy(&answer), healthy, "{answer}");
        }
        for (metrics, voter) in [
            ("# HELP x\netcd_server_is_learner 0\nother 1\n", true),
            ("etcd_server_is_learner 1\n", false),
            ("etcd_server_is_learner 01\n", false),
            ("other 0\n", false),
        ] {
            assert_eq!(is_voter(&format!("{ok}{metrics}")), voter, "{metrics}");
        }
    }
}

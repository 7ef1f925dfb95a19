//! The first run of a member that joins: it gets the data of the leader, and no client.
//!
//! A member serves clients once it has seen its own announcement come back through the log. Where the
//! leader sends a snapshot, the announcement is as a rule part of that snapshot, and etcd waits for it in
//! vain for seven seconds before it makes another. With the data on its volume, the next run makes one
//! at once. No client can have relied on the first run: only this process reaches its client port, and a
//! learner that serves no client is not promoted.

use std::{
    fs,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, ExitStatus},
    thread,
    time::{Duration, Instant},
};

use serde_json::json;

use crate::{
    Result,
    args::Gate,
    child::{Tool, free_ports},
    judge::Place,
    outcome::{Exit, Fault},
    permit::Start,
    probe, start,
    telemetry::{Level, log},
    volume,
};

/// How often the member is looked at.
const TICK: Duration = Duration::from_millis(20);
/// How long a read may take.
const PATIENCE: Duration = Duration::from_millis(500);
/// How long a greeting may take: where no member serves yet, the connection is accepted all the same, and nothing comes.
const PROMPT: Duration = Duration::from_millis(50);
/// How long etcd may take to end. What it acknowledged is on the disk: after that it is killed.
const FAREWELL: Duration = Duration::from_secs(5);

/// Runs etcd until it has caught up with the leader, or a stop is asked for; then it is stopped, and the
/// volume is to be judged again. The gate's port stays the agent's, which tells how much has come.
pub(crate) fn receive(args: &Gate, start: &Start, stop: &dyn Fn() -> bool) -> Result<()> {
    let begun = Instant::now();
    let ports = free_ports();
    let [port, metrics] =
        ports.map_err(|error| Fault::new(Exit::Machine, "no free port", &error))?;
    let mut command = Command::new(&args.etcd);
    command.args(start::build_flags(args, start));
    // Of a repeated flag etcd takes the last.
    command.arg(format!("--listen-client-urls=http://127.0.0.1:{port}"));
    command.arg(format!("--listen-metrics-urls=http://127.0.0.1:{metrics}"));
    let mut etcd = Tool::spawn("etcd", &mut command).map_err(not_executed)?;
    while !stop() && !has_caught_up(metrics, port) {
        if let Some(status) = etcd.ended().map_err(not_executed)? {
            return Err(ended(status));
        }
        thread::sleep(TICK);
    }
    etcd.terminate().map_err(not_executed)?;
    let asked = Instant::now();
    while asked.elapsed() < FAREWELL && etcd.ended().map_err(not_executed)?.is_none() {
        thread::sleep(TICK);
    }
    let fields = json!({"seconds": begun.elapsed().as_secs_f32(), "stopped": stop()});
    log(Level::Info, "the first run has ended", &fields);
    Ok(())
}

/// Whether etcd has a log by now. It writes the first file of it once the others have answered who they are, and
/// follows the leader from there on.
pub(crate) fn has_joined(volume: &Path) -> bool {
    let files = fs::read_dir(volume::member(volume, Place::Data).join("wal"));
    let is_log = |file: fs::DirEntry| file.path().extension().is_some_and(|of| of == "wal");
    files.is_ok_and(|mut files| files.any(|file| file.is_ok_and(is_log)))
}

/// Bytes of the leader's data that have come so far: what etcd writes into `member/snap` while it receives a snapshot, and
/// the database. The log does not count, for its files are as long as they will be from the start.
pub(crate) fn received(volume: &Path) -> u64 {
    let Ok(files) = fs::read_dir(volume::member(volume, Place::Data).join("snap")) else {
        return 0;
    };
    // One that was renamed meanwhile is counted at the next look.
    let sizes = files.flatten().filter_map(|file| file.metadata().ok());
    let sizes = sizes.map(|found| found.len());
    sizes.fold(0, u64::saturating_add)
}

/// A read that goes through the leader is answered, or the announcement came back after all. An alarm is
/// no reason not to join.
fn has_caught_up(metrics: u16, client: u16) -> bool {
    let ask = |port, path, patience| probe::get(port, path, Instant::now() + patience);
    let health = ask(metrics, "/health?exclude=NOSPACE&exclude=CORRUPT", PATIENCE);
    health.is_ok_and(|answer| probe::is_healthy(&answer))
        || ask(client, "/version", PROMPT).is_ok_and(|answer| probe::is_ok(&answer))
}

/// The code that a shell would give, too.
fn ended(status: ExitStatus) -> Fault {
    let killed = || status.signal().map(|signal| 128 + signal);
    let code = status.code().or_else(killed);
    let code = code.and_then(|code| u8::try_from(code).ok());
    Fault {
        exit: Exit::Etcd(code.unwrap_or(1)),
        message: format!("etcd ended while it joined: {status}"),
    }
}

fn not_executed(message: String) -> Fault {
    Fault {
        exit: Exit::Execute,
        message,
    }
}

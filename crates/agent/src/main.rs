//! `etcd-agent`: the gate in front of every etcd process. It judges the data directory, then becomes
//! etcd (`exec`) or waits for a grant. Small, static, no runtime: it sits in every etcd container and
//! must never be the reason why a healthy member does not start.
//!
//! Entry points: [`gate::run`] is the story, [`judge::judge`] and [`permit::permit`] are all of the
//! judgement. Nothing here talks to Kubernetes, resolves names or deletes data that could be read;
//! [`recover`] deletes the copies that it made.

mod annotations;
mod args;
mod child;
mod dumps;
mod fence;
mod floor;
mod gate;
#[cfg(test)]
mod hostile;
mod install;
mod judge;
mod look;
mod outcome;
mod permit;
mod probe;
mod protobuf;
mod receive;
mod recover;
mod removed;
mod serve;
mod start;
mod telemetry;
mod trust;
mod volume;
mod wal;

use std::process::ExitCode;

use args::Command;
use outcome::Fault;

fn main() -> ExitCode {
    let command = match args::parse(std::env::args_os().skip(1).collect()) {
        Ok(command) => command,
        Err(fault) => return fault.report(None),
    };
    let done = match &command {
        Command::Install(path) => install::install(path),
        Command::Gate(gate) => {
            dumps::forbid();
            gate::run(gate)
        }
        Command::Probe(port) => return probe::probe(*port),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(fault) => fault.report(command.termination_log()),
    }
}

/// Shorthand for everything that can end the process early.
type Result<T> = std::result::Result<T, Fault>;

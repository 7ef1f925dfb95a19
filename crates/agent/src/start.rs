//! Becomes etcd. Builds the flags and replaces this process; decides nothing.

use std::net::{Ipv6Addr, TcpListener};
use std::{fs, os::unix::process::CommandExt, path::Path, process::Command};

use serde_json::json;

use crate::{
    Result,
    args::Gate,
    outcome::{Exit, Fault},
    permit::Start,
    telemetry::{Level, log},
};

/// Whether there is something to become. Asked before a grant is, so that a wrong image costs no
/// membership change.
pub(crate) fn check_binary(etcd: &Path) -> Result<()> {
    match fs::metadata(etcd) {
        Ok(metadata) if metadata.is_file() => Ok(()),
        Ok(_) => Err(Fault {
            exit: Exit::Execute,
            message: format!("{} is no file", etcd.display()),
        }),
        Err(error) => Err(cannot_execute(etcd, &error)),
    }
}

/// Replaces this process with etcd; returns only to say why that failed. `exec` closes every socket
/// and restores default signal handling, SIGPIPE included.
pub(crate) fn become_etcd(args: &Gate, start: &Start) -> Fault {
    let flags = build_flags(args, start);
    log(
        Level::Info,
        "starting etcd",
        &json!({"path": args.etcd.display().to_string(), "args": flags}),
    );
    let error = Command::new(&args.etcd).args(flags).exec();
    cannot_execute(&args.etcd, &error)
}

/// The caller's flags, then ours; of a repeated flag etcd takes the last.
///
/// Second line of defence: on data, etcd gets state `existing` and no `initial-cluster`. Should the
/// directory be empty after all, etcd finds no peer to ask and exits
/// (`etcd_itself_refuses_an_empty_directory`).
pub(crate) fn build_flags(args: &Gate, start: &Start) -> Vec<String> {
    let mut flags = args.flags.clone();
    if !has_ipv6() {
        flags = flags.iter().map(|flag| on_ipv4(flag)).collect();
    }
    flags.push(format!("--data-dir={}", args.volume.join("data").display()));
    match start {
        Start::OnData => flags.push("--initial-cluster-state=existing".into()),
        Start::Fresh {
            joins,
            initial_cluster,
            token,
        } => {
            let state = if *joins { "existing" } else { "new" };
            flags.extend([
                format!("--initial-cluster-state={state}"),
                format!("--initial-cluster={initial_cluster}"),
                format!("--initial-cluster-token={token}"),
            ]);
        }
    }
    flags
}

/// Whether the kernel makes sockets of that family. An address to bind to is not needed for it.
fn has_ipv6() -> bool {
    TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok()
}

/// `[::]` takes IPv4 as well, on single-stack and dual-stack clusters alike; without IPv6 etcd cannot listen there at all.
fn on_ipv4(flag: &str) -> String {
    if flag.starts_with("--listen-") {
        flag.replace("://[::]:", "://0.0.0.0:")
    } else {
        flag.to_owned()
    }
}

fn cannot_execute(etcd: &Path, error: &std::io::Error) -> Fault {
    Fault::new(
        Exit::Execute,
        format!("cannot execute {}", etcd.display()),
        error,
    )
}

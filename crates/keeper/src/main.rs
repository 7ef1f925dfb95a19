//! `etcd-keeper`: does one piece of work with a store of backups, says how it went, and ends. It runs in a Job beside the
//! cluster, sees data and credentials, and has no access to Kubernetes. No decision is made here of what is backed up, when,
//! or whether again: the operator says it in the request, and reads the answer.

mod args;
mod capture;
mod decode;
mod encode;
mod fault;
mod fetch;
mod hide;
mod holder;
mod import;
mod install;
mod layers;
mod listing;
mod member;
mod pace;
mod prune;
mod prune_log;
mod read;
mod records;
mod rewind;
mod snapshot;
mod store;
mod trial;
mod upload;
mod verify;
mod volume;

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use archive::work::{Answer, Cause, Done, Request, Task};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use args::{Args, Order};
use fault::{Explain as _, Fault, Result};

/// How long work may take to put things in order after it was asked to end.
const GRACE: Duration = Duration::from_secs(15);

fn main() -> ExitCode {
    let args = match Order::read() {
        Order::Work(args) => *args,
        Order::Install(path) => return installed(&path),
        Order::Capture(args) => return captured(&args),
    };
    let done = run(|stopped| work(&args, stopped));
    let answer = done.map_or_else(Fault::into_answer, Answer::Done);
    let answer = hide::hide(answer, &args.store_secrets);
    report(&args, &answer);
    match answer {
        Answer::Done(_) => ExitCode::SUCCESS,
        Answer::Failed { .. } => ExitCode::FAILURE,
    }
}

/// Captures until the kubelet asks to end. Only what no other attempt can help is told to the kubelet.
fn captured(args: &Args) -> ExitCode {
    let Err(fault) = run(|stopped| capture::capture(args, stopped)) else {
        return ExitCode::SUCCESS;
    };
    report(args, &hide::hide(fault.into_answer(), &args.store_secrets));
    ExitCode::FAILURE
}

fn run<T, F: Future<Output = Result<T>>>(
    work: impl FnOnce(watch::Receiver<bool>) -> F,
) -> Result<T> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let runtime = runtime.explain(Cause::Request, "start")?;
    runtime.block_on(until_stopped(work))
}

fn installed(path: &Path) -> ExitCode {
    let Err(error) = install::install(path) else {
        return ExitCode::SUCCESS;
    };
    let path = path.display();
    drop(writeln!(
        std::io::stderr(),
        "etcd-keeper cannot be copied to {path}: {error}"
    ));
    ExitCode::FAILURE
}

/// Does the work, or breaks it off when the kubelet asks.
async fn until_stopped<T, F: Future<Output = Result<T>>>(
    work: impl FnOnce(watch::Receiver<bool>) -> F,
) -> Result<T> {
    let mut terminated = signal(SignalKind::terminate()).explain(Cause::Request, "start")?;
    let (stop, stopped) = watch::channel(false);
    let work = work(stopped);
    tokio::pin!(work);
    tokio::select! {
        done = &mut work => return done,
        _ = terminated.recv() => {}
    }
    // An upload that was begun is given up properly, so that the store keeps no parts of it.
    stop.send_replace(true);
    match tokio::time::timeout(GRACE, work).await {
        Ok(done) => done,
        Err(_elapsed) => Err(ended()),
    }
}

/// What is said of work that was broken off from outside.
pub(crate) fn ended() -> Fault {
    Fault::new(Cause::Member, "the keeper was asked to end (SIGTERM)")
}

async fn work(args: &Args, stopped: watch::Receiver<bool>) -> Result<Done> {
    let request: Request =
        serde_json::from_str(&args.request).explain(Cause::Request, "read the request")?;
    let store = store::open(&request.store, args)?;
    match request.task {
        Task::Snapshot(task) => {
            let made = snapshot::snapshot(args, &store, &task, stopped).await?;
            Ok(Done::Snapshot(made))
        }
        Task::Verify(task) => verify::verify(args, &store, &task).await.map(Done::Verify),
        Task::Fetch(task) => fetch::fetch(args, &store, &task).await.map(Done::Fetch),
        Task::Import(task) => {
            let imported = import::import(args, &store, &task).await?;
            Ok(Done::Fetch(imported))
        }
    }
}

/// Says how it went, to the kubelet and in the log. What cannot be written is not: the exit code tells the same.
fn report(args: &Args, answer: &Answer) {
    let message = answer.to_message();
    let mut out = std::io::stdout();
    drop(writeln!(out, "{message}"));
    if let Err(error) = std::fs::write(&args.termination_log, &message) {
        let path = args.termination_log.display();
        drop(writeln!(
            out,
            "the answer cannot be written to {path}: {error}"
        ));
    }
}

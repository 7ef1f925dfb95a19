//! What goes on while the ports are served: receiving the leader's data, and a recovery or a restore. They run beside the
//! server and tell it how far they are.

use std::{
    sync::{Arc, mpsc},
    thread,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use gate::{Failed, Report};
use serde_json::json;

use super::{Held, Stop, TICK};
use crate::{
    Result,
    args::Gate,
    outcome::{Exit, Fault},
    permit::{Recovery, Start},
    receive,
    recover::{self, Failure, Outside},
    serve::Answers,
    telemetry::{Level, log},
};

/// How often a gate that receives data looks how much has come.
const LOOK: Duration = Duration::from_secs(1);

/// Receives the data of the leader while the port goes on being served: who asks is told how much has come.
///
/// Invariant: bytes are told once the member has joined. Until then it may still ask the others who they are, and the wait is
/// reported as granted, so that no member is added or removed under it
/// (`a_first_run_that_still_asks_the_others_reports_as_the_wait_that_was_granted`).
pub(super) fn receive_serving(args: &Gate, start: &Start, held: &Held, stop: &Stop) -> Result<()> {
    let asking = render_with(
        &held.report,
        "joining: etcd asks the other members who they are",
    )?;
    thread::scope(|scope| {
        let worker = scope.spawn(|| receive::receive(args, start, &|| stop.is_asked()));
        let mut looked: Option<(Instant, Arc<Answers>)> = None;
        while !worker.is_finished() {
            if looked.is_none() && !receive::has_joined(&args.volume) {
                held.server.serve(&asking);
                thread::sleep(TICK);
                continue;
            }
            let fresh = looked.take_if(|(at, _)| at.elapsed() < LOOK);
            let (at, answers) = match fresh {
                Some(looked) => looked,
                None => (Instant::now(), render_received(args, &held.report)?),
            };
            held.server.serve(&answers);
            looked = Some((at, answers));
            thread::sleep(TICK);
        }
        worker.join().unwrap_or_else(|_| {
            Err(Fault {
                exit: Exit::Machine,
                message: "the first run broke off".into(),
            })
        })
    })
}

fn render_received(args: &Gate, report: &Report) -> Result<Arc<Answers>> {
    let received = receive::received(&args.volume);
    render(&Report {
        received_bytes: Some(received),
        detail: format!("joining: {received} bytes of the leader's data received"),
        ..report.clone()
    })
}

/// Makes another cluster while the wait goes on being served: a caller is told how far it is. What to tell
/// afterwards, should it wait again.
pub(super) fn recover_serving(
    args: &Gate,
    recovery: &Recovery,
    held: &Held,
    stop: &Stop,
) -> Result<Option<Failed>> {
    let doing = recovery.origin.doing();
    let by = recovery.origin.noun();
    let (tell, told) = mpsc::channel();
    let done = thread::scope(|scope| {
        let worker = scope.spawn(move || {
            let outside = Outside {
                // The receiver is gone when the gate gave up.
                progress: &|what| drop(tell.send(what.to_owned())),
                stop: &|| stop.is_asked(),
            };
            recover::recover(args, recovery, &outside)
        });
        let mut answers = render(&held.report)?;
        while !worker.is_finished() {
            if let Some(what) = told.try_iter().last() {
                answers = render_with(&held.report, &format!("{doing}: {what}"))?;
            }
            held.server.serve(&answers);
            thread::sleep(TICK);
        }
        Ok(worker.join())
    })?;
    match done {
        Ok(Ok(())) => {
            log(Level::Info, "another cluster was made", &json!({"by": by}));
            Ok(None)
        }
        Ok(Err(Failure::Kept(why))) => {
            let fields = json!({"by": by, "error": why});
            log(Level::Warn, "no other cluster was made", &fields);
            let since = SystemTime::now().duration_since(UNIX_EPOCH);
            let time = since
                .ok()
                .and_then(|since| i64::try_from(since.as_secs()).ok());
            Ok(Some(Failed {
                why,
                time: time.unwrap_or(0),
            }))
        }
        Ok(Err(Failure::Swap(fault))) => Err(fault),
        Err(_) => Err(Fault {
            exit: Exit::Machine,
            message: format!("the {by} broke off"),
        }),
    }
}

/// What to answer with this report.
pub(super) fn render(report: &Report) -> Result<Arc<Answers>> {
    let answers = Answers::new(report)
        .map_err(|error| Fault::new(Exit::Machine, "cannot render the report", &error))?;
    Ok(Arc::new(answers))
}

/// A report with something added to its detail.
pub(super) fn render_with(report: &Report, what: &str) -> Result<Arc<Answers>> {
    let detail = format!("{}; {what}", report.detail);
    render(&Report {
        detail,
        ..report.clone()
    })
}

//! The gate: look, judge, then become etcd or wait for a grant. This file is the order of things; what
//! may happen is decided in [`crate::judge`] and [`crate::permit`].

use std::{
    fs::File,
    io::{self, Read},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use gate::{Data, GRANT_ANNOTATION, PROTOCOL, Report};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};

use crate::{
    Result, annotations,
    args::Gate,
    judge::{IdentityFile, Log, Place, Seen, Verdict, Wal, judge},
    look,
    outcome::{self, Exit, Fault},
    permit::{self, Offer, Permit, Start, Wait},
    removed,
    serve::{Answers, Server},
    start,
    telemetry::{Level, log},
    volume,
};

/// How often a waiting gate looks for a grant, a request and a signal.
const TICK: Duration = Duration::from_millis(20);
/// All annotations of an object together are at most 256 KiB, before quoting.
const LONGEST_ANNOTATIONS: u64 = 2 << 20;

/// Returns only when asked to stop, or when it cannot go on.
///
/// Invariant: etcd starts on data that was judged ours, or by a permit for this very wait; what the
/// permit was made for is looked at again before it is used.
pub(crate) fn run(args: &Gate) -> Result<()> {
    let stop = Stop::register()?;
    start::check_binary(&args.etcd)?;
    let removed = removed::honour(args, &read_annotations(args))?;
    while !stop.is_asked() {
        let seen = look::look(&args.volume)?;
        let start = if judge(&seen, &args.cluster_uid) == Verdict::Start {
            Start::OnData
        } else {
            let Some(permit) = wait(args, &seen, &removed, &stop)? else {
                continue;
            };
            if look::look(&args.volume)? != seen {
                log(
                    Level::Warn,
                    "the volume changed during the wait; judging anew",
                    &json!({}),
                );
                continue;
            }
            volume::prepare(&args.volume, seen.place, &permit)?;
            permit.start
        };
        if !stop.is_asked() {
            return Err(start::become_etcd(args, &start));
        }
    }
    log(Level::Info, "stopped at the gate", &json!({}));
    outcome::leave_message(
        &args.termination_log,
        "asked to stop while waiting at the gate",
    );
    Ok(())
}

/// Waits for a permit; `None` when there is none to wait for: a stop was asked for, or a second, longer
/// look found nothing to wait for. The server's port is free again once this returns.
fn wait(args: &Gate, seen: &Seen, removed: &str, stop: &Stop) -> Result<Option<Permit>> {
    let mut seen = seen.clone();
    if matches!(seen.wal, Wal::Head(_)) {
        seen.log = Some(look::look_at_log(&args.volume, seen.place, &|| {
            stop.is_asked()
        })?);
    }
    let Verdict::Wait(state, detail) = judge(&seen, &args.cluster_uid) else {
        return Ok(None);
    };
    let server = Server::bind(args.listen).map_err(|error| {
        Fault::new(
            Exit::Machine,
            format!("cannot listen on {}", args.listen),
            &error,
        )
    })?;
    let report = Report {
        protocol: PROTOCOL,
        state,
        nonce: make_nonce()?,
        pod_uid: args.pod_uid.clone(),
        detail: detail + removed,
        data: describe_data(&seen),
    };
    let listen = server
        .address()
        .map_or_else(|error| error.to_string(), |found| found.to_string());
    log(
        Level::Info,
        "waiting at the gate",
        &json!({"listen": listen, "report": report}),
    );
    let mut answers = render(&report)?;
    let mut read_before = None;
    while !stop.is_asked() {
        server.serve(&answers);
        let read = read_annotations(args);
        if read_before.as_ref() != Some(&read) {
            match consider(args, &seen, &report, &read) {
                Ok(Some(permit)) => return Ok(Some(permit)),
                Ok(None) => answers = render(&report)?,
                Err(refusal) => {
                    log(Level::Warn, "grant refused", &json!({"reason": refusal}));
                    let detail = format!("{}; grant refused: {refusal}", report.detail);
                    answers = render(&Report {
                        detail,
                        ..report.clone()
                    })?;
                }
            }
            read_before = Some(read);
        }
        thread::sleep(TICK);
    }
    Ok(None)
}

/// What the annotations offer this wait: a permit, nothing, or a grant that has to be refused.
fn consider(
    args: &Gate,
    seen: &Seen,
    report: &Report,
    read: &std::result::Result<String, String>,
) -> std::result::Result<Option<Permit>, String> {
    let file = read.as_ref().map_err(Clone::clone)?;
    let Some(value) = annotations::find(file, GRANT_ANNOTATION) else {
        return Ok(None);
    };
    let grant = match permit::parse_offer(&value?, &report.nonce) {
        Offer::Nothing => return Ok(None),
        Offer::Unreadable(why) => return Err(format!("it cannot be read: {why}")),
        Offer::Grant(grant) => grant,
    };
    removed::check(file, &grant)?;
    let head = match seen.wal {
        Wal::Head(head) => Some(head),
        Wal::Absent | Wal::Unreadable(_) => None,
    };
    let wait = Wait {
        cluster_uid: &args.cluster_uid,
        state: report.state,
        head,
    };
    let permit = permit::permit(wait, &grant)?;
    log(Level::Info, "grant accepted", &json!({"grant": grant}));
    Ok(Some(permit))
}

/// The whole annotations file; read at every tick, because it is small and the kubelet swaps it. The
/// error is what a person should read; a file that is not there yet holds nothing.
fn read_annotations(args: &Gate) -> std::result::Result<String, String> {
    let mut bytes = Vec::new();
    let read = File::open(&args.annotations)
        .and_then(|file| file.take(LONGEST_ANNOTATIONS).read_to_end(&mut bytes));
    match read {
        Ok(_) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(String::new()),
        Err(error) => Err(format!(
            "cannot read {}: {error}",
            args.annotations.display()
        )),
    }
}

fn render(report: &Report) -> Result<Arc<Answers>> {
    let answers = Answers::new(report)
        .map_err(|error| Fault::new(Exit::Machine, "cannot render the report", &error))?;
    Ok(Arc::new(answers))
}

fn describe_data(seen: &Seen) -> Option<Data> {
    let (
        Wal::Head(head),
        Some(Log {
            last,
            commit,
            damage: _,
            goes_on: _,
        }),
    ) = (&seen.wal, &seen.log)
    else {
        return None;
    };
    Some(Data {
        cluster_id: format!("{:x}", head.cluster_id),
        member_id: format!("{:x}", head.member_id),
        term: last.term,
        index: last.index,
        commit: *commit,
        identity: match (seen.place, &seen.identity) {
            (Place::Data, IdentityFile::Says(identity)) => Some(identity.clone()),
            (Place::Data, IdentityFile::Absent | IdentityFile::Unreadable(_)) => None,
            // Whatever it says, it was not written for this data.
            (Place::Root, _any) => None,
        },
    })
}

/// 128 random bits, for one wait only.
fn make_nonce() -> Result<String> {
    let mut bits = [0; 16];
    File::open("/dev/urandom")
        .and_then(|mut file| file.read_exact(&mut bits))
        .map_err(|error| Fault::new(Exit::Machine, "cannot read /dev/urandom", &error))?;
    Ok(format!("{:032x}", u128::from_ne_bytes(bits)))
}

/// Whether SIGTERM or SIGINT came. As PID 1 the agent would ignore both without a handler; `exec`
/// restores the default, and etcd installs its own.
#[derive(Debug)]
struct Stop(Arc<AtomicBool>);

impl Stop {
    fn register() -> Result<Self> {
        let asked = Arc::new(AtomicBool::new(false));
        for signal in [SIGTERM, SIGINT] {
            signal_hook::flag::register(signal, Arc::clone(&asked))
                .map_err(|error| Fault::new(Exit::Machine, "cannot handle signals", &error))?;
        }
        Ok(Self(asked))
    }

    fn is_asked(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

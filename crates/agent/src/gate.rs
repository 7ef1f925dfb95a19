//! The gate: look, judge, then become etcd or wait for a grant. This file is the order of things; what
//! may happen is decided in [`crate::judge`] and [`crate::permit`].

mod serving;

use std::{
    fs::File,
    io::Read,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use gate::{Data, Failed, GRANT_ANNOTATION, PROTOCOL, Report, State};
use serde_json::json;
use signal_hook::consts::{SIGINT, SIGTERM};

use self::serving::{receive_serving, recover_serving, render, render_with};
use crate::{
    Result, annotations,
    args::{Gate, Secure},
    fence, floor,
    judge::{IdentityFile, Log, Place, Seen, Verdict, Wal, judge, judge_pod},
    look,
    outcome::{self, Exit, Fault},
    permit::{self, Offer, Permitted, Start, Wait},
    recover, removed,
    serve::{Door, Files, Server, Servers},
    start,
    telemetry::{Level, log},
    volume::{self, link::Lead},
};

/// How often a waiting gate looks for a grant, a request and a signal.
const TICK: Duration = Duration::from_millis(20);
/// How often, and after which pause, annotations that cannot be read are tried again before that counts.
const SWAPS: u8 = 5;
const SWAP: Duration = Duration::from_millis(200);
/// All annotations of an object together are at most 256 KiB, before quoting.
const LONGEST_ANNOTATIONS: u64 = 2 << 20;

/// Returns only when asked to stop, or when it cannot go on.
///
/// Invariant: etcd starts on data that was judged ours, or by a permit for this very wait; what the
/// permit was made for is looked at again before it is used. A fence that was seen once counts until
/// the process ends.
pub(crate) fn run(args: &Gate) -> Result<()> {
    let stop = begin(args)?;
    let mut standing = Standing {
        fence: None,
        short: None,
        removed: removed::honour(args, &need_annotations(args)?)?,
        failed: None,
    };
    while !stop.is_asked() {
        let seen = look::look(&args.volume)?;
        let read = need_annotations(args)?;
        standing.fence = standing.fence.max(fence::find(&read));
        let may_start = judge(&seen, &args.cluster_uid, standing.fence) == Verdict::Start;
        standing.short = if may_start {
            withheld(args, &seen, &read, &stop)?
        } else {
            None
        };
        let start = if may_start && standing.short.is_none() {
            volume::note_transport(&args.volume, &seen.identity, args.transport.as_ref())?;
            Start::OnData
        } else {
            let Some(held) = wait(args, &seen, &standing, &stop)? else {
                continue;
            };
            if look::look(&args.volume)? != seen {
                log(
                    Level::Warn,
                    "the volume changed during the wait; judging again",
                    &json!({}),
                );
                continue;
            }
            match held.permitted {
                Permitted::Start(ref permit) => {
                    volume::prepare(&args.volume, seen.place, permit)?;
                    if let Start::Fresh { joins: true, .. } = permit.start {
                        receive_serving(args, &permit.start, &held, &stop)?;
                        continue;
                    }
                    permit.start.clone()
                }
                Permitted::Recover(ref recovery) => {
                    let failed = recover_serving(args, recovery, &held, &stop)?;
                    standing.failed = failed.map(|failed| (recovery.origin.noun(), failed));
                    continue;
                }
            }
        };
        if !stop.is_asked() {
            volume::link::lead(&args.volume, Lead::ToData);
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

/// What comes before the first look.
fn begin(args: &Gate) -> Result<Stop> {
    let stop = Stop::register()?;
    start::check_binary(&args.etcd)?;
    recover::settle(&args.volume)?;
    if let Some(trust) = &args.trust {
        trust.wait(&|| stop.is_asked())?;
    }
    Ok(stop)
}

/// Why data of ours has to wait all the same: it is another pod's, or less than it once was.
fn withheld(args: &Gate, seen: &Seen, read: &str, stop: &Stop) -> Result<Option<Verdict>> {
    match judge_pod(&seen.identity, args.pod_name.as_deref()) {
        Verdict::Start => floor::check(&args.volume, seen, read, &|| stop.is_asked()),
        exchanged @ Verdict::Wait(..) => Ok(Some(exchanged)),
    }
}

/// What outlives one wait.
struct Standing {
    /// Incarnations that are held back.
    fence: Option<u64>,
    /// Why data that would start has to wait after all.
    short: Option<Verdict>,
    /// What to tell people about data that was set aside.
    removed: String,
    /// The last recovery or restore, if it failed, and which of the two it was.
    failed: Option<(&'static str, Failed)>,
}

impl Standing {
    /// What to tell people of it, after why it waits.
    fn tell(&self) -> String {
        let failed = self.failed.iter();
        let failed = failed.map(|(what, failed)| format!("; the {what} failed: {}", failed.why));
        self.removed.clone() + &failed.collect::<String>()
    }
}

/// A wait that ended with a permit; it is still being served.
struct Held {
    permitted: Permitted,
    server: Servers,
    report: Report,
}

/// Waits for a permit; `None` when there is none to wait for: a stop was asked for, or a second, longer
/// look found nothing to wait for, or the fence rose. The server's ports are free again once what this
/// returns is dropped.
fn wait(args: &Gate, seen: &Seen, standing: &Standing, stop: &Stop) -> Result<Option<Held>> {
    let seen = look_deeper(args, seen, stop)?;
    let judged = judge(&seen, &args.cluster_uid, standing.fence);
    let verdict = match &standing.short {
        Some(short) if judged == Verdict::Start => short,
        Some(_) | None => &judged,
    };
    let Verdict::Wait(state, detail) = verdict else {
        return Ok(None);
    };
    let state = *state;
    volume::link::lead(&args.volume, Lead::during(state));
    let server = listen(args)?;
    let report = Report {
        protocol: PROTOCOL,
        state,
        nonce: make_nonce()?,
        pod_uid: args.pod_uid.clone(),
        detail: describe_wait(args, state, detail) + &standing.tell(),
        data: describe_data(&seen),
        failed: standing.failed.as_ref().map(|(_, failed)| failed.clone()),
        received_bytes: None,
    };
    tell_wait(&server, &report);
    let mut answers = render(&report)?;
    let mut read_before = None;
    while !stop.is_asked() {
        server.serve(&answers);
        let read = read_annotations(args);
        if read_before.as_ref() != Some(&read) {
            // While the file cannot be read, no grant is taken either.
            let fence = read.as_ref().ok().and_then(|file| fence::find(file));
            let fence = standing.fence.max(fence);
            if judge(&seen, &args.cluster_uid, fence) != judged {
                log(Level::Info, "the fence rose; judging again", &json!({}));
                return Ok(None);
            }
            match consider(args, (&seen, fence), &report, &read) {
                Ok(Some(permitted)) => {
                    return Ok(Some(Held {
                        permitted,
                        server,
                        report,
                    }));
                }
                Ok(None) => answers = render(&report)?,
                Err(refusal) => {
                    log(Level::Warn, "grant refused", &json!({"reason": refusal}));
                    answers = render_with(&report, &format!("grant refused: {refusal}"))?;
                }
            }
            read_before = Some(read);
        }
        thread::sleep(TICK);
    }
    Ok(None)
}

fn tell_wait(server: &Servers, report: &Report) {
    let fields = json!({"listen": server.addresses(), "report": report});
    log(Level::Info, "waiting at the gate", &fields);
}

/// Where a decision is needed, how far the log goes is worth the time.
fn look_deeper(args: &Gate, seen: &Seen, stop: &Stop) -> Result<Seen> {
    let mut seen = seen.clone();
    if matches!(seen.wal, Wal::Head(_)) {
        seen.log = Some(look::look_at_log(&args.volume, seen.place, &|| {
            stop.is_asked()
        })?);
    }
    Ok(seen)
}

/// Where a certificate is demanded, the plain port no longer tells the report.
fn listen(args: &Gate) -> Result<Servers> {
    let bind = |address, door| {
        Server::bind(address, door).map_err(|error| {
            Fault::new(Exit::Machine, format!("cannot listen on {address}"), &error)
        })
    };
    let plain = match args.secure {
        Some(_) => Door::Probes,
        None => Door::Plain,
    };
    let secure = |secure: &Secure| {
        let files = Files::new(&secure.directory, &secure.pod);
        bind(secure.listen, Door::Secure(Arc::new(files)))
    };
    Ok(Servers {
        plain: bind(args.listen, plain)?,
        secure: args.secure.as_ref().map(secure).transpose()?,
    })
}

/// What a wait says of itself; the tool that a recovery needs is looked for before one is decided on.
fn describe_wait(args: &Gate, state: State, detail: &str) -> String {
    match recover::find_etcdutl(&args.etcd) {
        Err(why) if state == State::Fenced => format!("{detail}; {why}"),
        Ok(_) | Err(_) => detail.to_owned(),
    }
}

/// What the annotations offer this wait: a permit, nothing, or a grant that has to be refused.
fn consider(
    args: &Gate,
    (seen, fence): (&Seen, Option<u64>),
    report: &Report,
    read: &std::result::Result<String, String>,
) -> std::result::Result<Option<Permitted>, String> {
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
        fence,
        incarnation: match &seen.identity {
            IdentityFile::Says(identity) => Some(identity.incarnation),
            IdentityFile::Absent | IdentityFile::Unreadable(_) => None,
        },
        state: report.state,
        head,
    };
    let permitted = permit::permit(wait, &grant)?;
    let permitted = permitted.in_pod(args.pod_name.as_ref(), args.transport.as_ref());
    if let Permitted::Recover(_) = permitted {
        recover::find_etcdutl(&args.etcd)?;
    }
    log(Level::Info, "grant accepted", &json!({"grant": grant}));
    Ok(Some(permitted))
}

/// The annotations, before anything is judged.
///
/// Invariant: without them nothing starts: they may hold a fence, or name this data's member as removed. The kubelet
/// writes the file before it starts the container, so a missing one is as bad as one that cannot be read. The agent
/// ends, and the kubelet starts it again (`annotations_that_cannot_be_read_hold_everything_back`).
fn need_annotations(args: &Gate) -> Result<String> {
    // The kubelet may be exchanging the directory that the file is in.
    let mut read = read_annotations(args);
    for _again in 0..SWAPS {
        if read.is_ok() {
            break;
        }
        thread::sleep(SWAP);
        read = read_annotations(args);
    }
    read.map_err(|message| Fault {
        exit: Exit::Read,
        message,
    })
}

/// The whole annotations file; read at every tick, because it is small and the kubelet swaps it. The
/// error is what a person should read.
fn read_annotations(args: &Gate) -> std::result::Result<String, String> {
    let mut bytes = Vec::new();
    let read = File::open(&args.annotations)
        .and_then(|file| file.take(LONGEST_ANNOTATIONS).read_to_end(&mut bytes));
    match read {
        Ok(_) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
        Err(error) => Err(format!(
            "cannot read {}: {error}",
            args.annotations.display()
        )),
    }
}

fn describe_data(seen: &Seen) -> Option<Data> {
    let (
        Wal::Head(head),
        Some(Log {
            last,
            commit,
            written,
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
        written: *written,
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

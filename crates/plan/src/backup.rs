//! Backups: from what was seen of an EtcdBackup, its Job and its cluster to one step and a status. Pure, as all rules are.
//!
//! A backup has an ID that follows from why it is made: from the time of the schedule, from the annotation, or from the
//! creation of the object. It is recorded before its Job is created, and a keeper that finds a backup of that ID in the store
//! answers from there. So a status that was wiped, a message that was lost or an operator that was killed costs a Job, and
//! never a backup; nor does it make a second one, unless retention has deleted the first.

mod due;
pub mod elsewhere;
mod intent;
mod source;
mod spared;
mod tell;
mod verify;

use std::time::Duration;

use api::Reason;
use api::v1alpha1::backup::{BackupMemory, BackupRun, EtcdBackupSpec, EtcdBackupStatus};
use archive::work::{Answer, Done, Keep, Made, Request, Snapshot, Task};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

pub(crate) use due::hash;
pub use intent::Intent;
pub(crate) use intent::store as store_of;
pub use source::{Cluster, Voter};
pub use spared::spared;
pub(crate) use tell::sentence;
pub use verify::{BeginVerify, Trial, rejected as verification_rejected};

/// What was seen of one EtcdBackup.
#[derive(Clone, Debug)]
pub struct Seen {
    /// The clock.
    pub now: Timestamp,
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// Generation of its spec.
    pub generation: i64,
    /// When it was created.
    pub created: Timestamp,
    /// Value of the annotation that asks for another one.
    pub asked: Option<String>,
    /// Its spec.
    pub spec: EtcdBackupSpec,
    /// Its status.
    pub status: EtcdBackupStatus,
    /// Its Job, if there is one.
    pub job: Option<Job>,
    /// The Job of a verification, if there is one.
    pub trial: Option<Trial>,
    /// Its cluster, if there is one.
    pub cluster: Option<Cluster>,
    /// This operator may begin another Job.
    pub has_place: bool,
    /// The same for a verification, which leaves places to backups.
    pub has_place_to_spare: bool,
    /// IDs of backups that a restore needs.
    pub spared: Vec<String>,
}

/// A Job of an EtcdBackup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// What it was created for.
    pub run: BackupRun,
    /// How far it is.
    pub state: JobState,
}

/// How far a Job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JobState {
    /// It has not ended; what keeps its pod from starting, in the kubelet's words.
    Active(Option<String>),
    /// Its keeper has said this.
    Answered(Answer),
    /// Its pod has not started for minutes, and why, in the words of Kubernetes.
    Stuck(String),
    /// It has ended, and what its keeper said is not to be had; why it ended, in the words of Kubernetes.
    Lost(String),
    /// It is being deleted.
    Leaving,
}

/// What is done next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing but the status.
    Nothing,
    /// Create the Job of this run.
    Begin(Box<Begin>),
    /// Create the Job of this verification.
    Verify(Box<BeginVerify>),
    /// Delete a Job whose answer is in the status.
    Forget {
        /// Its name.
        name: String,
        /// Its UID.
        uid: String,
    },
}

/// A Job to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Begin {
    /// What it is for.
    pub run: BackupRun,
    /// What its keeper is told.
    pub request: Request,
    /// The member that is read; it is not defragmented meanwhile.
    pub member: String,
    /// Secret with the certificate that is shown to the member; `None` without TLS.
    pub secret: Option<String>,
}

/// The answer.
#[derive(Clone, Debug)]
pub struct Next {
    /// What is done.
    pub step: Step,
    /// The status as it is to be, before the step is done.
    pub status: EtcdBackupStatus,
    /// What happened, for an event.
    pub event: Option<(Reason, String)>,
    /// When to look again, at the latest.
    pub requeue: Duration,
}

/// Where nothing is expected to change by itself.
const CALM: Duration = Duration::from_mins(5);
/// Where something else is waited for.
const SOON: Duration = Duration::from_secs(10);
/// No attempt waits longer for its turn after one that failed.
const LONGEST: Duration = Duration::from_mins(10);
/// A Job is gone by then.
const AFTER_A_JOB: Duration = Duration::from_secs(1);
/// At once: the status was written first.
const NOW: Duration = Duration::from_millis(10);

/// What is done next. A backup comes first; verifications go on beside it, each in a Job of its own.
pub fn decide(seen: &Seen) -> Next {
    let memory = seen.memory();
    let next = match &seen.job {
        Some(job) => with_job(seen, memory, job),
        None => without_job(seen, memory),
    };
    // One thing at a time: what is to be done or told of a backup is, and then there is another look.
    if matches!(next.step, Step::Forget { .. }) {
        let requeue = next.requeue.min(AFTER_A_JOB);
        return Next { requeue, ..next };
    }
    if next.step != Step::Nothing || next.event.is_some() || next.requeue <= NOW {
        return next;
    }
    verify::look(seen, next)
}

impl Seen {
    /// What is remembered of this very object.
    fn memory(&self) -> BackupMemory {
        let memory = self.status.memory.clone().unwrap_or_default();
        if memory.object_uid == self.uid {
            return memory;
        }
        BackupMemory {
            object_uid: self.uid.clone(),
            ..BackupMemory::default()
        }
    }
}

fn with_job(seen: &Seen, memory: BackupMemory, job: &Job) -> Next {
    let known = memory.run.as_ref();
    let same = known.is_some_and(|run| run.id == job.run.id);
    let counted = known.is_some_and(|run| run.attempt > job.run.attempt);
    // Its answer is in the status; or it is of a run that was given up for a newer one.
    let seen_to = memory.done.as_deref() == Some(job.run.id.as_str())
        || (same && counted)
        || (known.is_some() && !same);
    match &job.state {
        JobState::Leaving => tell::waits(seen, memory, "its last Job is being deleted", SOON),
        JobState::Active(trouble) => {
            // A wiped memory is restored from the Job.
            let memory = BackupMemory {
                run: Some(job.run.clone()),
                ..memory
            };
            tell::running(seen, memory, job, trouble.as_deref())
        }
        JobState::Answered(_) | JobState::Lost(_) | JobState::Stuck(_) if seen_to => {
            let forget = Step::Forget {
                name: job.name.clone(),
                uid: job.uid.clone(),
            };
            Next {
                step: forget,
                ..without_job(seen, memory)
            }
        }
        JobState::Answered(Answer::Done(Done::Snapshot(made))) => done(seen, memory, job, made),
        JobState::Answered(Answer::Done(Done::Verify(_) | Done::Fetch(_))) => failed(
            seen,
            memory,
            job,
            "its Job did something else than a backup",
        ),
        JobState::Answered(Answer::Failed { cause, message }) => {
            failed(seen, memory, job, &sentence(*cause, message))
        }
        JobState::Stuck(why) => {
            let why = format!("the pod of Job {} does not start: {why}", job.name);
            failed(seen, memory, job, &why)
        }
        JobState::Lost(why) => failed(seen, memory, job, &format!("its Job: {why}")),
    }
}

/// The backup is in the store: recorded first, and the Job deleted by the next look.
fn done(seen: &Seen, memory: BackupMemory, job: &Job, made: &Made) -> Next {
    let why = &job.run.why;
    let memory = BackupMemory {
        run: None,
        done: Some(job.run.id.clone()),
        scheduled: why.scheduled.clone().or(memory.scheduled),
        asked: why.asked.clone().or(memory.asked),
        ..memory
    };
    tell::made(seen, memory, made)
}

/// The attempt is counted first, and its Job deleted by the next look.
fn failed(seen: &Seen, memory: BackupMemory, job: &Job, why: &str) -> Next {
    let run = BackupRun {
        attempt: job.run.attempt.saturating_add(1),
        failed_at: Some(Time(seen.now)),
        failure: Some(why.to_owned()),
        ..job.run.clone()
    };
    let memory = BackupMemory {
        run: Some(run),
        ..memory
    };
    tell::fails(seen, memory, why.to_owned())
}

/// The API server did not accept the Job: an attempt that failed, told in its words.
pub fn rejected(seen: &Seen, begin: &Begin, why: &str) -> Next {
    let run = BackupRun {
        attempt: begin.run.attempt.saturating_add(1),
        failed_at: Some(Time(seen.now)),
        failure: Some(why.to_owned()),
        ..begin.run.clone()
    };
    let memory = BackupMemory {
        run: Some(run),
        ..seen.memory()
    };
    tell::rejected(seen, memory, why)
}

fn without_job(seen: &Seen, memory: BackupMemory) -> Next {
    let intent = match Intent::parse(&seen.spec, &seen.namespace) {
        Ok(intent) => intent,
        Err(why) => return tell::invalid(seen, memory, why),
    };
    let run = due::due(seen, &memory, &intent);
    if intent.suspend {
        return tell::suspended(seen, memory);
    }
    let Some(run) = run else {
        return tell::rests(seen, memory, &intent);
    };
    // Why it failed is told until an attempt does not.
    if let Some(wait) = backs_off(seen, (run.failed_at.as_ref(), run.attempt), LONGEST) {
        return tell::backs_off(seen, memory, &run, wait);
    }
    let source = match source::choose(seen, &run) {
        Ok(source) => source,
        Err(why) => return tell::waits(seen, memory, &why, SOON),
    };
    if !seen.has_place {
        let why =
            "as many other Jobs of backups run as this operator runs at once (--backups-at-once)";
        return tell::waits(seen, memory, why, SOON);
    }
    let recorded = memory.run.as_ref() == Some(&run);
    let memory = BackupMemory {
        run: Some(run.clone()),
        ..memory
    };
    let told = tell::begins(seen, memory);
    if !recorded {
        return Next {
            requeue: NOW,
            ..told
        };
    }
    let begin = Begin {
        request: request(seen, &intent, &run, &source),
        run,
        member: source.member.name,
        secret: source.secret,
    };
    Next {
        step: Step::Begin(Box::new(begin)),
        ..told
    }
}

/// What the keeper is told.
fn request(seen: &Seen, intent: &Intent, run: &BackupRun, source: &source::Source) -> Request {
    let keep = intent.keep.clone().map(|keep| Keep {
        spared: seen.spared.clone(),
        ..keep
    });
    Request {
        store: intent.store.clone(),
        task: Task::Snapshot(Snapshot {
            id: run.id.clone(),
            attempt: u32::try_from(run.attempt).unwrap_or(0),
            place: source.place.clone(),
            timeline: source.timeline.clone(),
            member: source.member.clone(),
            compress: intent.compress,
            recipients: intent.recipients.clone(),
            made_by: due::made_by(seen, run),
            keep,
        }),
    }
}

/// How long until the next attempt: from ten seconds, twice as long each time, up to `longest`.
fn backs_off(
    seen: &Seen,
    (failed_at, attempt): (Option<&Time>, i32),
    longest: Duration,
) -> Option<Duration> {
    let failed_at = failed_at?.0;
    let doubled = u32::try_from(attempt.saturating_sub(1)).unwrap_or(0);
    let rest = 10_i64.saturating_mul(1_i64.checked_shl(doubled.min(16)).unwrap_or(65_536));
    let rest = SignedDuration::from_secs(rest).min(SignedDuration::try_from(longest).ok()?);
    let until = failed_at.checked_add(rest);
    let left = until.ok()?.duration_since(seen.now);
    let left = Duration::try_from(left).ok();
    // A rest that is longer than any was begun by a clock that was ahead.
    left.filter(|left| !left.is_zero() && *left <= longest)
}

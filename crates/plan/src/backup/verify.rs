//! Verification: the newest backup is restored for a trial, after each backup or by a schedule, in a Job of its own. Its ID
//! follows from what it is of, and a keeper that finds a record of it in the store answers from there: what was lost or wiped
//! costs a Job, and never a result.

mod tell;

use std::time::Duration;

use api::Reason;
use api::v1alpha1::backup::{
    BackupDamage, BackupEntry, BackupMemory, Compared, EtcdBackupStatus, LastVerified,
    NewestBackup, VerifyRun,
};
use archive::work::{Answer, Cause, Depth, Done, Place, Request, Task, Verified, Verify};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Intent, JobState, NOW, Next, SOON, Seen, Step, backs_off, due, sentence};
pub(super) use tell::{damage, verdict};

/// No attempt waits longer after one that failed: each reads the whole backup, for which some stores charge.
const LONGEST: Duration = Duration::from_hours(24);

/// A Job of a verification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trial {
    /// Its name.
    pub name: String,
    /// Its UID.
    pub uid: String,
    /// What it was created for.
    pub run: VerifyRun,
    /// How far it is.
    pub state: JobState,
}

/// The Job of a verification that is to be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BeginVerify {
    /// What it is for.
    pub run: VerifyRun,
    /// What its keeper is told.
    pub request: Request,
    /// The cluster's image of etcd.
    pub image: String,
    /// Secrets with which that is pulled.
    pub pull_secrets: Vec<String>,
    /// Bytes of the snapshot.
    pub raw_bytes: u64,
}

/// What a look at verification adds to what a look at backups has found.
pub(super) fn look(seen: &Seen, next: Next) -> Next {
    let memory = next.status.memory.clone().unwrap_or_default();
    match &seen.trial {
        Some(trial) => with_trial(seen, next, memory, trial),
        None => without_trial(seen, next, memory),
    }
}

fn with_trial(seen: &Seen, next: Next, memory: BackupMemory, trial: &Trial) -> Next {
    // What came of it is in the status; or it is of a verification that was given up for another one.
    let seen_to = match &memory.verify {
        Some(known) => known.id != trial.run.id || known.attempt > trial.run.attempt,
        None => memory.verified.as_ref() == Some(&trial.run.id),
    };
    match &trial.state {
        JobState::Leaving => tell::waits(seen, next, "the last Job is being deleted"),
        JobState::Active(trouble) => {
            // A wiped memory is restored from the Job.
            let memory = BackupMemory {
                verify: Some(trial.run.clone()),
                ..memory
            };
            tell::running(seen, next, memory, trial, trouble.as_deref())
        }
        JobState::Answered(_) | JobState::Lost(_) | JobState::Stuck(_) if seen_to => {
            let step = Step::Forget {
                name: trial.name.clone(),
                uid: trial.uid.clone(),
            };
            let requeue = NOW;
            Next {
                step,
                requeue,
                ..next
            }
        }
        JobState::Answered(Answer::Done(Done::Verify(verified))) => {
            passed(seen, next, memory, &trial.run, verified)
        }
        JobState::Answered(Answer::Done(Done::Snapshot(_) | Done::Fetch(_))) => {
            let why = "its Job did something else than a verification";
            failed(seen, next, memory, &trial.run, why)
        }
        JobState::Answered(Answer::Failed {
            cause: Cause::Damaged,
            message,
        }) => damaged(seen, next, memory, &trial.run, message),
        JobState::Answered(Answer::Failed { cause, message }) => {
            failed(seen, next, memory, &trial.run, &sentence(*cause, message))
        }
        JobState::Stuck(why) => {
            let why = format!("the pod of Job {} does not start: {why}", trial.name);
            failed(seen, next, memory, &trial.run, &why)
        }
        JobState::Lost(why) => {
            let why = format!("its Job: {why}");
            failed(seen, next, memory, &trial.run, &why)
        }
    }
}

/// It came to a result: recorded first, and the Job deleted by the next look.
fn concluded(memory: BackupMemory, run: &VerifyRun) -> BackupMemory {
    BackupMemory {
        verify: None,
        verified: Some(run.id.clone()),
        tried: Some(run.backup.clone()),
        verify_scheduled: run.scheduled.clone().or(memory.verify_scheduled),
        ..memory
    }
}

fn passed(
    seen: &Seen,
    next: Next,
    memory: BackupMemory,
    run: &VerifyRun,
    verified: &Verified,
) -> Next {
    let compared = match verified.depth {
        Depth::Hash => Compared::HashKv,
        Depth::Restored => Compared::Revision,
        Depth::ChecksumOnly => Compared::ChecksumOnly,
    };
    let ran = compared != Compared::ChecksumOnly;
    let memory = concluded(memory, run);
    // Checksums do not outweigh what an etcd that ran on it has found.
    let damage = memory.damage.clone();
    let damage = damage.filter(|damage| !ran && damage.id == run.backup);
    let memory = BackupMemory { damage, ..memory };
    let entries = next.status.backups.clone();
    let known = entries.iter().find(|entry| entry.id == run.backup);
    let newest = memory.newest.as_ref().filter(|it| it.id == run.backup);
    let backup_time = newest
        .map(|it| it.time.clone())
        .or(known.map(|it| it.time.clone()));
    let status = EtcdBackupStatus {
        last_verified: Some(LastVerified {
            id: run.backup.clone(),
            time: Time(verified.time),
            backup_time,
            revision: verified.revision,
            compared,
        }),
        backups: marked(entries, &run.backup, |entry| {
            if ran {
                entry.verified = Some(Time(verified.time));
                entry.damaged = false;
            }
        }),
        ..next.status
    };
    tell::passed(seen, Next { status, ..next }, memory, compared)
}

fn damaged(seen: &Seen, next: Next, memory: BackupMemory, run: &VerifyRun, why: &str) -> Next {
    let memory = BackupMemory {
        damage: Some(BackupDamage {
            id: run.backup.clone(),
            time: Time(seen.now),
            message: why.to_owned(),
        }),
        ..concluded(memory, run)
    };
    let last = next.status.last_verified.clone();
    let status = EtcdBackupStatus {
        last_verified: last.filter(|last| last.id != run.backup),
        backups: marked(next.status.backups.clone(), &run.backup, |entry| {
            entry.verified = None;
            entry.damaged = true;
        }),
        ..next.status
    };
    tell::damaged(seen, Next { status, ..next }, memory)
}

fn marked(
    mut entries: Vec<BackupEntry>,
    id: &str,
    mark: impl Fn(&mut BackupEntry),
) -> Vec<BackupEntry> {
    for entry in entries.iter_mut().filter(|entry| entry.id == id) {
        mark(entry);
    }
    entries
}

/// The attempt is counted first, and its Job deleted by the next look.
fn failed(seen: &Seen, next: Next, memory: BackupMemory, run: &VerifyRun, why: &str) -> Next {
    let run = VerifyRun {
        attempt: run.attempt.saturating_add(1),
        failed_at: Some(Time(seen.now)),
        failure: Some(why.to_owned()),
        ..run.clone()
    };
    let memory = BackupMemory {
        verify: Some(run),
        ..memory
    };
    tell::failed(seen, next, memory, why)
}

/// The API server did not accept the Job: an attempt that failed, told in its words.
pub fn rejected(seen: &Seen, begin: &BeginVerify, why: &str) -> Next {
    let memory = seen.memory();
    let next = Next {
        step: Step::Nothing,
        status: seen.status.clone(),
        event: None,
        requeue: NOW,
    };
    let why = format!("its Job was rejected: {why}");
    failed(seen, next, memory, &begin.run, &why)
}

fn without_trial(seen: &Seen, next: Next, memory: BackupMemory) -> Next {
    let Ok(intent) = Intent::parse(&seen.spec, &seen.namespace) else {
        return next;
    };
    let newest = memory.newest.clone();
    let wanted = newest.and_then(|newest| Some((wanted(seen, &memory, &intent, &newest)?, newest)));
    let Some((run, newest)) = wanted.filter(|_| !intent.suspend) else {
        return rests(seen, next, &intent);
    };
    if let Some(wait) = backs_off(seen, (run.failed_at.as_ref(), run.attempt), LONGEST) {
        let requeue = next.requeue.min(wait);
        return Next { requeue, ..next };
    }
    let Some((image, pull_secrets)) = image(seen) else {
        let name = &seen.spec.cluster_name;
        let why =
            format!("EtcdCluster {name}, whose image of etcd it needs, is not there or not valid");
        return tell::waits(seen, next, &why);
    };
    if !seen.has_place_to_spare {
        let why = "as many other Jobs of backups run as leave room for backups that are due (--backups-at-once)";
        return tell::waits(seen, next, why);
    }
    let recorded = memory.verify.as_ref() == Some(&run);
    let memory = BackupMemory {
        verify: Some(run.clone()),
        ..memory
    };
    let next = tell::begins(seen, next, memory);
    if !recorded {
        return Next {
            requeue: NOW,
            ..next
        };
    }
    let request = Request {
        store: intent.store,
        task: Task::Verify(Verify {
            place: Place {
                namespace: seen.namespace.clone(),
                cluster: seen.spec.cluster_name.clone(),
                cluster_id: newest.cluster_id,
            },
            id: Some(run.backup.clone()),
            run: Some(run.id.clone()),
        }),
    };
    let begin = BeginVerify {
        run,
        request,
        image,
        pull_secrets,
        raw_bytes: u64::try_from(newest.raw_bytes).unwrap_or(0),
    };
    Next {
        step: Step::Verify(Box::new(begin)),
        ..next
    }
}

fn image(seen: &Seen) -> Option<(String, Vec<String>)> {
    let cluster = seen.cluster.as_ref()?;
    Some((cluster.image.clone()?, cluster.pull_secrets.clone()))
}

/// Nothing is due: it is looked again when the schedule says so.
fn rests(seen: &Seen, next: Next, intent: &Intent) -> Next {
    let schedule = intent.verify.as_ref().and_then(|it| it.schedule.as_ref());
    let due = schedule.and_then(|schedule| schedule.next(seen.now));
    let left = due.and_then(|time| Duration::try_from(time.duration_since(seen.now)).ok());
    let requeue = next.requeue.min(left.unwrap_or(next.requeue)).max(NOW);
    Next { requeue, ..next }
}

/// The verification that is to be carried out now.
fn wanted(
    seen: &Seen,
    memory: &BackupMemory,
    intent: &Intent,
    newest: &NewestBackup,
) -> Option<VerifyRun> {
    let verify = intent.verify.as_ref()?;
    let untried = memory.tried.as_ref() != Some(&newest.id);
    // After one that failed its verification the next is not left to the schedule.
    let follows = untried && (verify.schedule.is_none() || memory.damage.is_some());
    let scheduled = verify.schedule.as_ref().and_then(|schedule| {
        // A time that has not come was written by a clock that was ahead.
        let before = memory.verify_scheduled.as_ref().map(|it| it.0);
        let before = before.filter(|before| *before <= seen.now);
        schedule.newest(before.unwrap_or(seen.created).max(seen.created), seen.now)
    });
    let run = match scheduled {
        Some(time) => {
            let (stem, end) = (time.strftime("%Y%m%d-%H%M%S"), due::short(&seen.uid));
            new_run(format!("verify-{stem}-{end}"), newest, Some(Time(time)))
        }
        None if follows => new_run(format!("verify-{}", newest.id), newest, None),
        None => return None,
    };
    Some(match &memory.verify {
        // One that is under way, of the backup that is still the newest.
        Some(known) if known.id == run.id && known.backup == run.backup => known.clone(),
        // Attempts go on being counted where another takes its place.
        Some(known) => VerifyRun {
            attempt: known.attempt,
            failed_at: known.failed_at.clone(),
            failure: known.failure.clone(),
            ..run
        },
        None => run,
    })
}

fn new_run(id: String, newest: &NewestBackup, scheduled: Option<Time>) -> VerifyRun {
    VerifyRun {
        id,
        backup: newest.id.clone(),
        scheduled,
        attempt: 0,
        failed_at: None,
        failure: None,
    }
}

/// What happened, for an event.
type Happened = (Reason, String);

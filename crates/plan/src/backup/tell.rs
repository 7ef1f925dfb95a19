//! What the status of an EtcdBackup says.

use std::time::Duration;

use api::Reason;
use api::conditions::{ConditionType, Verdict, merge};
use api::v1alpha1::backup::{
    BackupEntry, BackupMemory, BackupPhase, BackupRun, EtcdBackupStatus, NewestBackup, StorageType,
};
use archive::work::{Cause, LOCAL, Listed, Made};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{CALM, Intent, Job, NOW, Next, SOON, Seen, Step, due, verify};

/// One verdict: the phase, and the condition.
struct Verdicts {
    phase: BackupPhase,
    ready: bool,
    reason: Reason,
    message: String,
}

fn next(seen: &Seen, memory: BackupMemory, told: Verdicts, requeue: Duration) -> Next {
    let old = seen.status.clone();
    let told = match verify::damage(seen, &memory) {
        // What is in the store does not count: nothing is ready.
        Some(_) if told.phase == BackupPhase::Running => Verdicts {
            ready: false,
            ..told
        },
        Some(message) if told.ready => Verdicts {
            phase: BackupPhase::Failed,
            ready: false,
            reason: Reason::BackupDamaged,
            message,
        },
        _as_it_is => told,
    };
    let verdict = Verdict {
        kind: ConditionType::Ready,
        status: Some(told.ready),
        reason: told.reason,
        message: told.message,
    };
    let verified = verify::verdict(seen, &old, &memory);
    let verdicts = std::iter::once(verdict).chain(verified).collect();
    let now = Time(seen.now);
    let attempts = memory.run.as_ref().map(|run| run.attempt);
    let intent = Intent::parse(&seen.spec, &seen.namespace).ok();
    let intent = intent.filter(|intent| !intent.suspend);
    let status = EtcdBackupStatus {
        phase: Some(told.phase),
        conditions: merge(&old.conditions, verdicts, seen.generation, &now),
        failures: attempts.filter(|attempts| *attempts > 0),
        next_backup_time: intent.and_then(|intent| due::next(seen, &intent)).map(Time),
        observed_generation: Some(seen.generation),
        memory: Some(memory),
        ..old
    };
    Next {
        step: Step::Nothing,
        status,
        event: None,
        requeue,
    }
}

/// It is in the store.
fn has_one(memory: &BackupMemory) -> bool {
    memory.done.is_some()
}

pub(super) fn begins(seen: &Seen, memory: BackupMemory) -> Next {
    let ready = has_one(&memory);
    let told = Verdicts {
        phase: BackupPhase::Running,
        ready,
        reason: Reason::BackupRunning,
        message: "a backup is begun".to_owned(),
    };
    let begun = next(seen, memory, told, SOON);
    let status = EtcdBackupStatus {
        start_time: Some(Time(seen.now)),
        ..begun.status
    };
    Next { status, ..begun }
}

pub(super) fn running(seen: &Seen, memory: BackupMemory, job: &Job, trouble: Option<&str>) -> Next {
    let message = match trouble {
        None => format!("Job {} makes a backup", job.name),
        Some(trouble) => format!("the pod of Job {} does not start: {trouble}", job.name),
    };
    let told = Verdicts {
        phase: BackupPhase::Running,
        ready: has_one(&memory) && trouble.is_none(),
        reason: Reason::BackupRunning,
        message,
    };
    next(seen, memory, told, SOON)
}

pub(super) fn made(seen: &Seen, memory: BackupMemory, made: &Made) -> Next {
    let base = &made.base;
    let unpruned = made.unpruned.as_ref();
    let message = match unpruned {
        None => format!("backup {} holds revision {}", base.id, base.revision),
        Some(why) => format!(
            "backup {} holds revision {}; older ones that are no longer kept could not be deleted: {why}",
            base.id, base.revision
        ),
    };
    let url = address(seen, &base.url);
    let known = seen.status.completion_time.as_ref();
    // A value of the annotation that was used before finds the backup that was made then.
    // One that a clock which was ahead has dated holds up no later one.
    let is_newest = known.is_none_or(|known| known.0 <= base.time || known.0 > seen.now);
    let newest = NewestBackup {
        id: base.id.clone(),
        // …/<cluster ID>/base/<file>
        cluster_id: url.rsplit('/').nth(2).unwrap_or_default().to_owned(),
        time: Time(base.time),
        raw_bytes: signed(base.raw_bytes),
    };
    let memory = BackupMemory {
        newest: Some(newest).filter(|_| is_newest).or(memory.newest.clone()),
        ..memory
    };
    let event = (Reason::BackupCreated, format!("{message}, at {url}"));
    let told = Verdicts {
        phase: of_rest(seen),
        ready: true,
        reason: Reason::BackupCreated,
        message,
    };
    let written = next(seen, memory, told, NOW);
    let unlisted = made.newest.is_empty() && unpruned.is_some();
    let backups = if unlisted {
        written.status.backups.clone()
    } else {
        made.newest.iter().map(entry).collect()
    };
    if !is_newest {
        let status = EtcdBackupStatus {
            backups,
            ..written.status
        };
        return Next { status, ..written };
    }
    let begun = seen.status.start_time.as_ref().map(|begun| begun.0);
    let seconds = begun.map(|begun| base.time.duration_since(begun).as_secs());
    let status = EtcdBackupStatus {
        // A backup that was found in the store was not made by this Job.
        backup_seconds: seconds.filter(|seconds| *seconds >= 0),
        backup_size: Some(signed(base.stored_bytes)),
        completion_time: Some(Time(base.time)),
        storage_path: Some(url),
        etcd_version: Some(base.etcd_version.clone()),
        etcd_revision: Some(base.revision),
        backups,
        ..written.status
    };
    Next {
        status,
        event: Some(event),
        ..written
    }
}

/// Where it is for a user: on a claim, and not in the file system of a Job.
fn address(seen: &Seen, url: &str) -> String {
    let local = seen.spec.local.as_ref();
    let local = local.filter(|_| seen.spec.storage_type == StorageType::Local);
    let file = url
        .strip_prefix("file://")
        .and_then(|url| url.strip_prefix(LOCAL));
    match (local, file) {
        (Some(local), Some(file)) => format!("local://{}{file}", local.claim_name),
        _elsewhere => url.to_owned(),
    }
}

fn entry(listed: &Listed) -> BackupEntry {
    BackupEntry {
        id: listed.id.clone(),
        time: Time(listed.time),
        revision: listed.revision,
        bytes: signed(listed.bytes),
        verified: listed.verified.map(Time),
        damaged: listed.damaged,
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

pub(super) fn rejected(seen: &Seen, memory: BackupMemory, why: &str) -> Next {
    fails(seen, memory, format!("its Job was rejected: {why}"))
}

/// An attempt failed.
pub(super) fn fails(seen: &Seen, memory: BackupMemory, message: String) -> Next {
    let told = Verdicts {
        phase: BackupPhase::Failed,
        ready: false,
        reason: Reason::BackupFailed,
        message: message.clone(),
    };
    let written = next(seen, memory, told, NOW);
    Next {
        event: Some((Reason::BackupFailed, message)),
        ..written
    }
}

/// What a keeper that failed said.
pub(crate) fn sentence(cause: Cause, why: &str) -> String {
    match cause {
        Cause::Store => format!("the store: {why}"),
        Cause::Member => format!("the member that was read: {why}"),
        Cause::Damaged => format!("what is in the store is damaged: {why}"),
        Cause::Identity => format!("it cannot be decrypted: {why}"),
        Cause::Request => format!("the keeper could not do what it was asked for: {why}"),
    }
}

pub(super) fn backs_off(
    seen: &Seen,
    memory: BackupMemory,
    run: &BackupRun,
    wait: Duration,
) -> Next {
    let why = run.failure.clone().unwrap_or_default();
    let old = seen.status.conditions.iter();
    // The sentence of the failure stays as it was told.
    let told = old
        .filter(|it| it.reason == Reason::BackupFailed.to_string())
        .map(|it| it.message.clone())
        .next();
    let told = Verdicts {
        phase: BackupPhase::Failed,
        ready: false,
        reason: Reason::BackupFailed,
        message: told.unwrap_or(why),
    };
    next(seen, memory, told, wait)
}

pub(super) fn waits(seen: &Seen, memory: BackupMemory, why: &str, requeue: Duration) -> Next {
    let told = Verdicts {
        phase: BackupPhase::Running,
        ready: false,
        reason: Reason::BackupWaiting,
        message: why.to_owned(),
    };
    next(seen, memory, told, requeue)
}

pub(super) fn invalid(seen: &Seen, memory: BackupMemory, why: String) -> Next {
    let told = Verdicts {
        phase: BackupPhase::Failed,
        ready: false,
        reason: Reason::BackupInvalid,
        message: why,
    };
    next(seen, memory, told, CALM)
}

pub(super) fn suspended(seen: &Seen, memory: BackupMemory) -> Next {
    let told = Verdicts {
        phase: BackupPhase::Suspended,
        ready: false,
        reason: Reason::BackupSuspended,
        message: "no backup is begun while spec.suspend is true".to_owned(),
    };
    next(seen, memory, told, CALM)
}

/// Nothing is due.
pub(super) fn rests(seen: &Seen, memory: BackupMemory, intent: &Intent) -> Next {
    let next_time = due::next(seen, intent);
    let left = next_time.and_then(|time| Duration::try_from(time.duration_since(seen.now)).ok());
    let requeue = left.unwrap_or(CALM).clamp(NOW, CALM);
    let before = seen.status.conditions.iter();
    let mut made = before.filter(|it| it.reason == Reason::BackupCreated.to_string());
    let (reason, message) = match (made.next(), next_time) {
        // What was said of the last one stands until the next.
        (Some(made), _) if has_one(&memory) => (Reason::BackupCreated, made.message.clone()),
        (_, Some(time)) => (
            Reason::BackupScheduled,
            format!("the next backup is due at {time}"),
        ),
        (_, None) => (
            Reason::BackupCreated,
            format!(
                "backup {} is in the store",
                memory.done.as_deref().unwrap_or("")
            ),
        ),
    };
    let told = Verdicts {
        phase: of_rest(seen),
        ready: has_one(&memory) || next_time.is_some(),
        reason,
        message,
    };
    next(seen, memory, told, requeue)
}

fn of_rest(seen: &Seen) -> BackupPhase {
    match seen.spec.schedule.as_deref() {
        Some(schedule) if !schedule.is_empty() => BackupPhase::Scheduled,
        _once => BackupPhase::Completed,
    }
}

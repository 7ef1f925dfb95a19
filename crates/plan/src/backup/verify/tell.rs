//! What the status of an EtcdBackup says of verification.

use std::time::Duration;

use api::Reason;
use api::conditions::{ConditionType, Verdict, merge};
use api::v1alpha1::backup::{BackupMemory, Compared, EtcdBackupStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Happened, NOW, Next, SOON, Seen, Trial};

/// The condition `Verified`; `None` where no backup is to be tried.
pub(in crate::backup) fn verdict(
    seen: &Seen,
    status: &EtcdBackupStatus,
    memory: &BackupMemory,
) -> Option<Verdict> {
    seen.spec.verify.as_ref()?;
    let told = |status, reason, message| {
        Some(Verdict {
            kind: ConditionType::Verified,
            status,
            reason,
            message,
        })
    };
    if let Some(message) = told_damage(seen, status, memory) {
        return told(Some(false), Reason::BackupDamaged, message);
    }
    let run = memory.verify.as_ref();
    if let Some((run, why)) = run.and_then(|run| Some((run, run.failure.as_ref()?))) {
        let message = format!(
            "backup {} could not be verified, which is tried again: {why}",
            run.backup
        );
        return told(None, Reason::VerificationFailed, message);
    }
    match &status.last_verified {
        Some(last) => {
            let (status, reason, how) = passed_with(last.compared);
            let message = format!("backup {}, revision {}: {how}", last.id, last.revision);
            told(status, reason, message)
        }
        None if run.is_some() => {
            let message = "a backup is being verified for the first time".to_owned();
            told(None, Reason::VerificationRunning, message)
        }
        None => {
            let message = "no backup has been verified yet".to_owned();
            told(None, Reason::VerificationWaiting, message)
        }
    }
}

fn passed_with(compared: Compared) -> (Option<bool>, Reason, &'static str) {
    match compared {
        Compared::HashKv => (
            Some(true),
            Reason::BackupVerified,
            "etcd runs on it, and its HashKV is the one that the member told",
        ),
        Compared::Revision => (
            Some(true),
            Reason::BackupVerified,
            "etcd runs on it, and has its revision; the member that it is from, alone or leading, was not asked for a HashKV",
        ),
        // Whether it can be restored is not known.
        Compared::ChecksumOnly => (
            None,
            Reason::ChecksumOnly,
            "the bytes in the store are those that were written; it is encrypted, and was not restored: name a Secret with its identity as spec.verify.identitySecret",
        ),
    }
}

/// What is said of a newest backup that failed its verification.
pub(in crate::backup) fn damage(seen: &Seen, memory: &BackupMemory) -> Option<String> {
    let damage = memory.damage.as_ref()?;
    // A newer one counts until it is tried itself.
    let newest = memory.newest.as_ref();
    let is_newest = newest.is_none_or(|newest| newest.id == damage.id);
    if is_newest {
        return told_damage(seen, &seen.status, memory);
    }
    None
}

fn told_damage(seen: &Seen, status: &EtcdBackupStatus, memory: &BackupMemory) -> Option<String> {
    let damage = memory.damage.as_ref()?;
    let mut others = status.backups.iter().filter(|entry| {
        // The list of an older status may not know of it.
        !entry.damaged && entry.id != damage.id
    });
    let counts = match others.next() {
        Some(entry) => format!("the newest that counts is {} of {}", entry.id, entry.time.0),
        None => "no other backup is known".to_owned(),
    };
    let (name, namespace) = (&seen.name, &seen.namespace);
    Some(format!(
        "backup {} failed its verification and no longer counts: {}; {counts}. To make another one now: kubectl annotate --overwrite etcdbackup {name} --namespace {namespace} etcd.etcd.io/backup-now=\"$(date +%s)\"",
        damage.id, damage.message
    ))
}

/// The same status with another memory, and with what the conditions say then.
fn with(seen: &Seen, next: Next, memory: BackupMemory, event: Option<Happened>) -> Next {
    let verdict = verdict(seen, &next.status, &memory);
    let status = EtcdBackupStatus {
        memory: Some(memory),
        ..next.status
    };
    Next {
        status: said(seen, status, verdict),
        event,
        ..next
    }
}

fn said(seen: &Seen, status: EtcdBackupStatus, verdict: Option<Verdict>) -> EtcdBackupStatus {
    let Some(verdict) = verdict else {
        return status;
    };
    let kind = verdict.kind.to_string();
    let (now, old) = (Time(seen.now), &seen.status.conditions);
    let mut conditions = status.conditions;
    conditions.retain(|condition| condition.type_ != kind);
    conditions.extend(merge(old, vec![verdict], seen.generation, &now));
    EtcdBackupStatus {
        conditions,
        ..status
    }
}

/// What was said before stands, with what is waited for, as long as nothing is known that is more.
fn remarks(seen: &Seen, next: Next, reason: Reason, why: &str, requeue: Duration) -> Next {
    let memory = next.status.memory.clone().unwrap_or_default();
    let verdict = verdict(seen, &next.status, &memory);
    let quiet = [Reason::VerificationRunning, Reason::VerificationWaiting];
    let verdict = verdict.map(|verdict| match verdict {
        quiet_one if quiet.contains(&quiet_one.reason) => Verdict {
            reason,
            message: why.to_owned(),
            ..quiet_one
        },
        told => told,
    });
    Next {
        status: said(seen, next.status, verdict),
        requeue: next.requeue.min(requeue),
        ..next
    }
}

pub(super) fn waits(seen: &Seen, next: Next, why: &str) -> Next {
    let why = format!("the verification of a backup waits: {why}");
    remarks(seen, next, Reason::VerificationWaiting, &why, SOON)
}

pub(super) fn begins(seen: &Seen, next: Next, memory: BackupMemory) -> Next {
    let requeue = next.requeue.min(SOON);
    Next {
        requeue,
        ..with(seen, next, memory, None)
    }
}

pub(super) fn running(
    seen: &Seen,
    next: Next,
    memory: BackupMemory,
    trial: &Trial,
    trouble: Option<&str>,
) -> Next {
    let why = match trouble {
        None => format!("Job {} verifies backup {}", trial.name, trial.run.backup),
        Some(trouble) => format!("the pod of Job {} does not start: {trouble}", trial.name),
    };
    let next = with(seen, next, memory, None);
    remarks(seen, next, Reason::VerificationRunning, &why, SOON)
}

pub(super) fn passed(seen: &Seen, next: Next, memory: BackupMemory, compared: Compared) -> Next {
    let (_, reason, how) = passed_with(compared);
    let backup = memory.tried.clone().unwrap_or_default();
    let event = (reason, format!("backup {backup}: {how}"));
    Next {
        requeue: NOW,
        ..with(seen, next, memory, Some(event))
    }
}

pub(super) fn damaged(seen: &Seen, next: Next, memory: BackupMemory) -> Next {
    let told = told_damage(seen, &next.status, &memory).unwrap_or_default();
    let event = (Reason::BackupDamaged, told);
    Next {
        requeue: NOW,
        ..with(seen, next, memory, Some(event))
    }
}

pub(super) fn failed(seen: &Seen, next: Next, memory: BackupMemory, why: &str) -> Next {
    let backup = memory.verify.as_ref().map(|run| run.backup.clone());
    let event = (
        Reason::VerificationFailed,
        format!(
            "backup {} could not be verified: {why}",
            backup.unwrap_or_default()
        ),
    );
    Next {
        requeue: NOW,
        ..with(seen, next, memory, Some(event))
    }
}

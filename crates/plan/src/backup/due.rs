//! Which backup is due, and what its ID is.

use api::v1alpha1::backup::{BackupCause, BackupMemory, BackupRun};
use archive::work::{Kind, MadeBy};
use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use super::{Intent, Seen};

/// The backup that is to be made now.
pub(super) fn due(seen: &Seen, memory: &BackupMemory, intent: &Intent) -> Option<BackupRun> {
    let scheduled = scheduled(seen, memory, intent);
    let still_wanted = |run: &&BackupRun| match (&run.why.scheduled, &run.why.asked) {
        // One that did not succeed before the next was due makes way for that; so does one whose schedule was taken away.
        (Some(time), _) => {
            intent.schedule.is_some() && scheduled.is_none_or(|newest| time.0 >= newest)
        }
        // A newer wish takes the place of an older one, and neither keeps the schedule from its turn.
        (None, Some(asked)) => seen.asked.as_ref() == Some(asked) && scheduled.is_none(),
        (None, None) => intent.schedule.is_none() || scheduled.is_none(),
    };
    let under_way = memory.run.as_ref();
    if let Some(run) = under_way.filter(still_wanted) {
        return Some(run.clone());
    }
    scheduled
        .map(|time| run_of(seen, time, by_schedule(time)))
        .or_else(|| asked(seen, memory))
        .or_else(|| once(seen, memory, intent))
        .map(|run| failing(run, under_way))
}

/// When the next one is due.
pub(super) fn next(seen: &Seen, intent: &Intent) -> Option<Timestamp> {
    intent.schedule.as_ref()?.next(seen.now)
}

/// Attempts go on being counted where a newer backup takes the place of one that failed.
fn failing(run: BackupRun, before: Option<&BackupRun>) -> BackupRun {
    let Some(before) = before else {
        return run;
    };
    BackupRun {
        attempt: before.attempt,
        failed_at: before.failed_at.clone(),
        failure: before.failure.clone(),
        ..run
    }
}

/// The newest time of the schedule that was not seen to. What came before the object did not concern it.
fn scheduled(seen: &Seen, memory: &BackupMemory, intent: &Intent) -> Option<Timestamp> {
    // A time that has not come was written by a clock that was ahead.
    let before = memory.scheduled.as_ref().map(|it| it.0);
    let before = before.filter(|before| *before <= seen.now);
    let after = before.unwrap_or(seen.created).max(seen.created);
    intent.schedule.as_ref()?.newest(after, seen.now)
}

fn by_schedule(time: Timestamp) -> BackupCause {
    BackupCause {
        scheduled: Some(Time(time)),
        asked: None,
    }
}

/// Another value of the annotation. The ID holds a hash of it, so that the same value asked twice is the same backup.
fn asked(seen: &Seen, memory: &BackupMemory) -> Option<BackupRun> {
    let asked = seen.asked.as_ref().filter(|asked| !asked.is_empty())?;
    if memory.asked.as_ref() == Some(asked) {
        return None;
    }
    let why = BackupCause {
        scheduled: None,
        asked: Some(asked.clone()),
    };
    let stem = format!("asked-{:016x}", hash(asked));
    Some(BackupRun {
        id: format!("{stem}-{}", short(&seen.uid)),
        why,
        attempt: 0,
        failed_at: None,
        failure: None,
    })
}

/// Without a schedule: one.
fn once(seen: &Seen, memory: &BackupMemory, intent: &Intent) -> Option<BackupRun> {
    let wanted = intent.schedule.is_none() && memory.done.is_none();
    let why = BackupCause {
        scheduled: None,
        asked: None,
    };
    wanted.then(|| run_of(seen, seen.created, why))
}

fn run_of(seen: &Seen, time: Timestamp, why: BackupCause) -> BackupRun {
    let stem = time.strftime("%Y%m%d-%H%M%S");
    BackupRun {
        id: format!("{stem}-{}", short(&seen.uid)),
        why,
        attempt: 0,
        failed_at: None,
        failure: None,
    }
}

/// Who made it, for the manifest.
pub(super) fn made_by(seen: &Seen, run: &BackupRun) -> MadeBy {
    let kind = match &run.why.scheduled {
        Some(_) => Kind::Scheduled,
        None => Kind::Demand,
    };
    MadeBy {
        namespace: seen.namespace.clone(),
        name: seen.name.clone(),
        kind,
    }
}

/// Backups of two objects at one moment are two.
pub(super) fn short(uid: &str) -> String {
    let [.., a, b, c, d] = hash(uid).to_be_bytes();
    format!("{:08x}", u32::from_be_bytes([a, b, c, d]))
}

/// FNV-1a: the same on every machine and in every release.
pub(crate) fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

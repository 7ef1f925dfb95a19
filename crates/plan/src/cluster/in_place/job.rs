//! The Job that reads a backup, or brings it to a volume.

use archive::work::{Answer, Done, Fetched};

use crate::backup::{JobState, sentence};
use crate::decision::{Decision, LATER, Step};
use crate::observed::{FetchJob, Observed};
use crate::why::InPlace;

/// What a Job says.
pub(super) enum Said<'a> {
    Nothing,
    Failed(String),
    Done(&'a Fetched),
}

pub(super) fn said(job: &FetchJob) -> Said<'_> {
    match &job.state {
        JobState::Leaving | JobState::Active(_) => Said::Nothing,
        JobState::Answered(Answer::Done(Done::Fetch(fetched))) => Said::Done(fetched),
        JobState::Answered(Answer::Done(Done::Snapshot(_) | Done::Verify(_))) => {
            Said::Failed("its Job did something else than that".to_owned())
        }
        JobState::Answered(Answer::Failed { cause, message }) => {
            Said::Failed(sentence(*cause, message))
        }
        JobState::Stuck(why) => {
            Said::Failed(format!("the pod of Job {} does not start: {why}", job.name))
        }
        JobState::Lost(why) => Said::Failed(format!("Job {}: {why}", job.name)),
    }
}

pub(super) fn under_way(job: &FetchJob) -> Decision {
    let why = match &job.state {
        JobState::Active(trouble) => InPlace::Fetching(job.name.clone(), trouble.clone()),
        _leaving => InPlace::JobEnding(job.name.clone()),
    };
    Decision::wait(why, LATER)
}

/// A Job may still write to a volume: it goes before anything else.
pub(super) fn without_job(observed: &Observed, next: impl FnOnce() -> Decision) -> Decision {
    match observed.restore.job.as_deref() {
        Some(job) => gone(job),
        None => next(),
    }
}

pub(super) fn gone(job: &FetchJob) -> Decision {
    match &job.state {
        JobState::Leaving => under_way(job),
        _ended_or_not => end(job),
    }
}

pub(super) fn end(job: &FetchJob) -> Decision {
    let step = Step::EndFetch {
        name: job.name.clone(),
        uid: job.uid.clone(),
    };
    Decision::act(step, InPlace::EndsJob(job.name.clone()))
}

//! What is counted, in the words of the page.

use api::EtcdClusterStatus;
use api::v1alpha1::status::Phase;
use jiff::Timestamp;
use plan::observed::Answer;
use plan::status::Outcome;

/// How a step went.
pub(crate) fn outcome_word(done: &Outcome) -> &'static str {
    match done {
        Outcome::Done => "done",
        Outcome::NotNow(_) => "not now",
        Outcome::Failed(_) => "failed",
        Outcome::Applied(attempts) => {
            let mut answers = attempts.iter().map(|attempt| &attempt.answer);
            if answers.all(|answer| *answer == Answer::Written) {
                "done"
            } else {
                "refused"
            }
        }
    }
}

/// From the moment at which a cluster was not Ready until it is, by the phase that it was in before. Both stand in the
/// status, so that it counts across restarts of the operator.
pub(super) fn change(
    old: &EtcdClusterStatus,
    new: &EtcdClusterStatus,
    now: Timestamp,
) -> Option<(&'static str, f64)> {
    let ready = |status: &EtcdClusterStatus, word: &str| {
        let mut conditions = status.conditions.iter();
        let ready = conditions.find(|it| it.type_ == "Ready" && it.status == word)?;
        Some(ready.last_transition_time.0)
    };
    ready(new, "True")?;
    let since = ready(old, "False").or_else(|| ready(old, "Unknown"))?;
    Some((
        word(old.phase?),
        now.duration_since(since).as_secs_f64().max(0.0),
    ))
}

fn word(phase: Phase) -> &'static str {
    match phase {
        Phase::Creating => "Creating",
        Phase::Running => "Running",
        Phase::Scaling => "Scaling",
        Phase::Upgrading => "Upgrading",
        Phase::Failed => "Failed",
        Phase::Deleting => "Deleting",
        Phase::Stopped => "Stopped",
        Phase::Recovering => "Recovering",
        Phase::Restoring => "Restoring",
    }
}

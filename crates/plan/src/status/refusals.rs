//! What cannot be written, in the words of conditions.

use api::Reason;

use crate::cluster::maintain;
use crate::decision::{Decision, Step};
use crate::observed::{Answer, Failures, Observed, Refusals, Refused};
use crate::status::Outcome;

/// Objects that are named one by one; a quota on claims can refuse nine of them in the same words.
const NAMED: usize = 3;

/// Every object that cannot be written and lasts, as it was seen.
pub(crate) fn refusals(observed: &Observed) -> Vec<(Reason, String)> {
    tell(observed, &observed.objects.refused)
}

/// The same with the answers that a step got, and every step that failed before.
pub(super) fn after(
    observed: &Observed,
    decision: &Decision,
    outcome: &Outcome,
) -> Vec<(Reason, String)> {
    let mut all = objects(observed, outcome);
    all.extend(failures(observed, decision, outcome));
    all
}

/// Steps that failed, but for the one that is told as the outcome of this look.
fn failures(
    observed: &Observed,
    decision: &Decision,
    outcome: &Outcome,
) -> impl Iterator<Item = (Reason, String)> {
    let mut known = Failures::of(&observed.failed);
    known.note(observed, decision, outcome);
    let said = matches!(outcome, Outcome::Failed(_)).then(|| decision.step.clone());
    let now = observed.now;
    let all = known.list().into_iter();
    let all = all.filter(move |failed| {
        failed.lasts(now)
            && is_wanted(observed, &failed.step)
            && Some(&failed.step) != said.as_ref()
    });
    all.take(NAMED)
        .map(|failed| (Reason::StepFailed, failed.describe()))
}

/// Whether a step that failed would still be taken. A compaction that met a member which was restarted is not missed once
/// there is space: to tell of it would be to call a cluster unready that is well.
fn is_wanted(observed: &Observed, step: &Step) -> bool {
    let known = observed.etcd.members.is_some();
    let compacts = matches!(step, Step::Compact { .. });
    !(compacts && known) || maintain::complaint(observed).is_some()
}

fn objects(observed: &Observed, outcome: &Outcome) -> Vec<(Reason, String)> {
    match outcome {
        Outcome::Applied(attempts) => {
            let mut known = Refusals::of(&observed.objects.refused);
            known.follow(observed.now, attempts);
            tell(observed, &known.list())
        }
        Outcome::Done | Outcome::NotNow(_) | Outcome::Failed(_) => refusals(observed),
    }
}

fn tell(observed: &Observed, refused: &[Refused]) -> Vec<(Reason, String)> {
    // What stops a cluster from forming is reported by the rule that stops.
    let stops = observed.stands_in_the_way();
    let foreign = observed.objects.foreign.iter();
    let foreign = foreign.filter(|what| !stops.contains(what)).map(|what| {
        let text = format!(
            "{what} has another owner and is left alone; whatever does not need it continues: delete or rename it"
        );
        (Reason::ForeignObject, text)
    });
    let told = refused
        .iter()
        .filter(|refused| refused.is_told() && !stops.contains(&refused.wish.to_string()));
    let told = told.map(|refused| {
        let reason = match refused.answer {
            Answer::Foreign => Reason::ForeignObject,
            Answer::Written | Answer::Later(_) | Answer::Refused(_) => Reason::WriteRefused,
        };
        (reason, refused.describe())
    });
    let mut all: Vec<(Reason, String)> = foreign.chain(told).collect();
    let more = all.len().saturating_sub(NAMED);
    all.truncate(NAMED);
    if let Some((_, last)) = all.last_mut().filter(|_| more > 0) {
        *last = format!("{last}; the same holds for {more} more objects");
    }
    all
}

//! Steps that failed: the API server or etcd rejected them. What was said is kept in memory between two looks, so that
//! such a step is tried again with a back-off and holds up nothing but what needs it. Pure; losing it costs one more try.

use jiff::{SignedDuration, Timestamp};

use super::refused::shortened;
use crate::decision::{Decision, Step};
use crate::observed::{Observed, Pod};
use crate::status::Outcome;

/// A failure is remembered for so long after its step may be tried again, should no rule want it any more.
const REMEMBERED: SignedDuration = SignedDuration::from_mins(1);
/// Failures that are remembered per cluster, at most.
const MOST: usize = 32;

/// A step that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedStep {
    /// The step.
    pub step: Step,
    /// Why it was to be taken.
    pub why: String,
    /// What the API server or etcd said.
    pub words: String,
    /// Generation of the spec for which it was tried: an edit may have mended what made it fail.
    pub generation: i64,
    /// First of the failures in a row.
    pub since: Timestamp,
    /// How many they are.
    pub tries: u32,
    /// When it may be tried again.
    pub retry_at: Timestamp,
}

impl FailedStep {
    /// What failed, since when, in which words, and what goes on.
    pub fn describe(&self) -> String {
        let longest = pace(&self.step).1.as_mins();
        let (why, since, words) = (&self.why, self.since, shortened(&self.words));
        format!(
            "{why}: this has failed since {since}: {words}; it is retried at least every {longest} min, and whatever does not need it continues"
        )
    }
}

/// Whether a rule may be passed over while its step rests. What is recorded or rendered may not: the rules below rest on
/// it. Of objects, each has a memory of its own.
pub fn may_rest(step: &Step) -> bool {
    match step {
        Step::Nothing
        | Step::Wait
        | Step::Refuse
        | Step::RemoveFinalizer
        | Step::ApplyObjects(_)
        | Step::RestoreTemplate(_)
        | Step::Latch(_) => false,
        Step::Grant { .. }
        | Step::AddLearner { .. }
        | Step::Promote { .. }
        | Step::RemoveMember { .. }
        | Step::RestartPod { .. }
        | Step::MoveLeader { .. }
        | Step::RetireMember { .. }
        | Step::DeleteClaim { .. }
        | Step::StopPod { .. }
        | Step::Downgrade { .. }
        | Step::ExpandClaim { .. }
        | Step::OrphanPods { .. }
        | Step::MarkRemoved { .. }
        | Step::RepeatGrant { .. }
        | Step::Compact { .. }
        | Step::Defragment { .. }
        | Step::Disarm { .. }
        | Step::IssueCertificates(_)
        | Step::RefreshCertificates { .. }
        | Step::AddDebugContainer { .. } => true,
    }
}

/// The first and the longest pause. A call that loads a disk is not begun again soon.
fn pace(step: &Step) -> (SignedDuration, SignedDuration) {
    if matches!(step, Step::Compact { .. } | Step::Defragment { .. }) {
        (SignedDuration::from_mins(1), SignedDuration::from_mins(10))
    } else {
        (SignedDuration::from_secs(5), SignedDuration::from_mins(1))
    }
}

fn pause(step: &Step, tries: u32) -> SignedDuration {
    let (first, longest) = pace(step);
    let times = 2_i32.saturating_pow(tries.saturating_sub(1));
    first.saturating_mul(times).min(longest)
}

/// The same attempt: what differs from one look to the next does not make it another.
fn is_same(one: &Step, other: &Step) -> bool {
    match (one, other) {
        (Step::Compact { .. }, Step::Compact { .. }) => true,
        (Step::Defragment { ordinal: one, .. }, Step::Defragment { ordinal: other, .. }) => {
            one == other
        }
        (Step::RepeatGrant { uid: one, .. }, Step::RepeatGrant { uid: other, .. })
        | (
            Step::RefreshCertificates { uid: one, .. },
            Step::RefreshCertificates { uid: other, .. },
        ) => one == other,
        (
            Step::Grant {
                pod_uid: one,
                grant: of_one,
                ..
            },
            Step::Grant {
                pod_uid: other,
                grant: of_other,
                ..
            },
        ) => (one, &of_one.nonce) == (other, &of_other.nonce),
        (one, other) => one == other,
    }
}

/// What failed: the operator's memory of one cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Failures(Vec<FailedStep>);

impl Failures {
    /// What an observation shows of it.
    pub(crate) fn of(failed: &[FailedStep]) -> Self {
        Self(failed.to_vec())
    }

    /// All of it.
    pub(crate) fn list(self) -> Vec<FailedStep> {
        self.0
    }

    /// Takes note of how a step went.
    pub(crate) fn note(&mut self, observed: &Observed, decision: &Decision, outcome: &Outcome) {
        let step = &decision.step;
        let known = self.0.iter().position(|known| is_same(&known.step, step));
        let before = known.map(|index| self.0.remove(index));
        let Outcome::Failed(words) = outcome else {
            // One that is put off has not succeeded yet.
            let still = before.filter(|_| matches!(outcome, Outcome::NotNow(_)));
            self.0.extend(still);
            return;
        };
        if !may_rest(step) {
            return;
        }
        let now = observed.now;
        let tries = before.as_ref().map_or(0, |known| known.tries);
        let tries = tries.saturating_add(1);
        self.0.push(FailedStep {
            step: step.clone(),
            why: decision.why.clone(),
            words: words.clone(),
            generation: observed.cluster.generation,
            since: before.map_or(now, |known| known.since),
            tries,
            retry_at: now.checked_add(pause(step, tries)).unwrap_or(now),
        });
        if self.0.len() > MOST {
            self.0.remove(0);
        }
    }

    /// The wall clock was set by so much.
    pub(crate) fn shift(&mut self, by: SignedDuration) {
        for known in &mut self.0 {
            if let Ok(moved) = known.retry_at.checked_add(by) {
                known.retry_at = moved;
            }
        }
    }

    /// Puts it into the picture. What no longer applies is forgotten.
    pub(crate) fn sort(&mut self, observed: &mut Observed) {
        let seen = &*observed;
        self.0.retain(|known| {
            let kept = pause(&known.step, known.tries).saturating_add(REMEMBERED);
            let fresh = seen.now.duration_since(known.retry_at) < kept;
            fresh && known.generation == seen.cluster.generation && exists(seen, &known.step)
        });
        observed.failed.clone_from(&self.0);
    }
}

/// What the step is about is still there.
fn exists(observed: &Observed, step: &Step) -> bool {
    let pod = |ordinal: &u32, uid: &String| {
        let pod = observed.pods.get(ordinal);
        pod.is_some_and(|pod| pod.uid == *uid)
    };
    let claim = |ordinal: &u32, uid: &String| {
        let claim = observed.claims.get(ordinal);
        claim.is_some_and(|claim| claim.uid == *uid)
    };
    match step {
        Step::Grant {
            ordinal,
            pod_uid: uid,
            ..
        }
        | Step::RestartPod { ordinal, uid }
        | Step::StopPod { ordinal, uid, .. }
        | Step::MarkRemoved { ordinal, uid, .. }
        | Step::RepeatGrant { ordinal, uid, .. }
        | Step::RefreshCertificates { ordinal, uid, .. }
        | Step::AddDebugContainer { ordinal, uid } => pod(ordinal, uid),
        Step::DeleteClaim { ordinal, uid } | Step::ExpandClaim { ordinal, uid, .. } => {
            claim(ordinal, uid)
        }
        Step::OrphanPods { uid } => observed.objects.set_uid.as_ref() == Some(uid),
        Step::Nothing
        | Step::Wait
        | Step::Refuse
        | Step::RemoveFinalizer
        | Step::ApplyObjects(_)
        | Step::RestoreTemplate(_)
        | Step::Latch(_)
        | Step::AddLearner { .. }
        | Step::Promote { .. }
        | Step::RemoveMember { .. }
        | Step::MoveLeader { .. }
        | Step::RetireMember { .. }
        | Step::Downgrade { .. }
        | Step::Compact { .. }
        | Step::Defragment { .. }
        | Step::Disarm { .. }
        | Step::IssueCertificates(_) => true,
    }
}

impl Observed {
    /// The failure because of which a step may not be tried yet.
    pub fn resting(&self, step: &Step) -> Option<&FailedStep> {
        let mut failed = self.failed.iter();
        failed.find(|known| is_same(&known.step, step) && known.retry_at > self.now)
    }

    /// A step failed and may not be tried yet.
    pub fn rests(&self, step: &Step) -> bool {
        self.resting(step).is_some()
    }

    /// The grant for a wait could not be written, and may not be tried yet.
    pub(crate) fn is_grant_resting(&self, pod: &Pod, nonce: &str) -> bool {
        self.failed.iter().any(|known| {
            let same = match &known.step {
                Step::Grant { pod_uid, grant, .. } => *pod_uid == pod.uid && grant.nonce == nonce,
                _other => false,
            };
            same && known.retry_at > self.now
        })
    }

    /// The first answer whose step does not rest; the first of all where every one does, for the table to pass over.
    pub(crate) fn first_awake(
        &self,
        mut answers: impl Iterator<Item = Decision>,
    ) -> Option<Decision> {
        let first = answers.next()?;
        if !self.rests(&first.step) {
            return Some(first);
        }
        let awake = answers.find(|next| !self.rests(&next.step));
        awake.or(Some(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_step_rests_for_longer_after_each_failure() {
        let quick = Step::OrphanPods { uid: String::new() };
        let slow = Step::Defragment { id: 1, ordinal: 0 };
        for (step, tries, seconds) in [
            (&quick, 1, 5),
            (&quick, 2, 10),
            (&quick, 4, 40),
            (&quick, 5, 60),
            (&quick, u32::MAX, 60),
            (&slow, 1, 60),
            (&slow, 4, 480),
            (&slow, 9, 600),
        ] {
            let expected = SignedDuration::from_secs(seconds);
            assert_eq!(pause(step, tries), expected, "{step:?} {tries}");
        }
    }
}

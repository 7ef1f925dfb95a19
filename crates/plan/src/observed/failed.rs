//! Steps that are tried in vain: the API server or etcd rejects them, puts them off again and again, or something undoes
//! them. What was said is kept in memory between two looks, so that such a step is tried again with a back-off and holds up
//! nothing but what needs it. Pure; losing it costs one more try.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};

use super::refused::shortened;
use crate::decision::{Decision, Step};
use crate::observed::{Observed, Pod};
use crate::status::Outcome;
use crate::why::Why;

/// A failure is remembered for so long after its step may be tried again, should no rule want it any more.
const REMEMBERED: SignedDuration = SignedDuration::from_mins(1);
/// Failures that are remembered per cluster, at most.
const MOST: usize = 32;

/// A step that is put off, or undone, for less is nothing to speak of: members catch up and caches follow within seconds.
const MOMENT: SignedDuration = SignedDuration::from_secs(30);

/// How a step is tried in vain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vain {
    /// The API server or etcd rejects it.
    Rejected,
    /// It is put off each time.
    PutOff,
    /// It succeeds, and is due again: something undoes it.
    Undone,
}

/// A step that was tried, and is not known to have taken effect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedStep {
    /// The step.
    pub step: Step,
    /// How it went.
    pub vain: Vain,
    /// Why it was to be taken.
    pub why: Why,
    /// What the API server or etcd said.
    pub words: String,
    /// Generation of the spec for which it was tried: an edit may have mended what made it fail.
    pub generation: i64,
    /// First of the tries in a row that went so.
    pub since: Timestamp,
    /// How many they are.
    pub tries: u32,
    /// When it may be tried again.
    pub retry_at: Timestamp,
}

impl FailedStep {
    /// What failed, since when, in which words, and what goes on.
    pub fn describe(&self) -> String {
        let longest = pace(&self.step, self.vain).longest.as_secs();
        let (why, since, words) = (&self.why, self.since, shortened(&self.words));
        let what = match self.vain {
            Vain::Rejected => format!("this has failed since {since}: {words}"),
            Vain::PutOff => format!("this has been put off since {since}: {words}"),
            Vain::Undone => {
                format!("this has been repeated since {since}, because something reverts it")
            }
        };
        let longest = match longest {
            seconds if seconds < 60 => format!("{seconds} s"),
            seconds => format!("{} min", seconds / 60),
        };
        format!(
            "{why}: {what}; it is retried at least every {longest}, and whatever does not need it continues"
        )
    }

    /// What is reported while it is held back. No event repeats it.
    pub fn outcome(&self) -> Outcome {
        match self.vain {
            Vain::Rejected => Outcome::Failed(self.words.clone()),
            Vain::PutOff => Outcome::NotNow(self.words.clone()),
            Vain::Undone => Outcome::NotNow(
                "this step was repeated several times in a row, because something reverts it; it is retried after pauses of up to 5 min".to_owned(),
            ),
        }
    }

    /// How long it is left alone from this moment on.
    pub fn left(&self, now: Timestamp) -> Duration {
        let left = self.retry_at.duration_since(now);
        Duration::try_from(left).unwrap_or_default()
    }

    /// It is no passing matter, so that other steps need not wait for it, and users hear of it.
    pub(crate) fn lasts(&self, now: Timestamp) -> bool {
        let row = now.duration_since(self.since);
        let pauses = !pause(&self.step, self.vain, self.tries).is_zero();
        self.vain == Vain::Rejected || (pauses && row >= MOMENT)
    }

    /// The same attempt. What was rejected is rejected whatever differs from one look to the next; otherwise that makes it
    /// another one.
    fn is_about(&self, step: &Step) -> bool {
        match self.vain {
            Vain::Rejected => is_same(&self.step, step),
            // How far is compacted grows with every write.
            Vain::PutOff if matches!(step, Step::Compact { .. }) => is_same(&self.step, step),
            Vain::PutOff | Vain::Undone => self.step == *step,
        }
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
        | Step::Fetch(_)
        | Step::EndFetch { .. }
        | Step::AddLearner { .. }
        | Step::Promote { .. }
        | Step::UpdatePeer { .. }
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
        | Step::RequestCertificate
        | Step::RotateAuthority(_)
        | Step::RefreshCertificates { .. }
        | Step::ChangeAuth(_)
        | Step::AddDebugContainer { .. } => true,
    }
}

/// How the pauses between tries grow.
struct Pace {
    /// Tries in a row that are followed by no pause.
    free: u32,
    /// The first pause; each later one is twice as long.
    first: SignedDuration,
    /// The longest pause.
    longest: SignedDuration,
}

/// A call that loads a disk is not begun again soon.
fn pace(step: &Step, vain: Vain) -> Pace {
    let loads = matches!(step, Step::Compact { .. } | Step::Defragment { .. });
    match vain {
        Vain::Rejected if loads => Pace {
            free: 0,
            first: SignedDuration::from_mins(1),
            longest: SignedDuration::from_mins(10),
        },
        Vain::Rejected => Pace {
            free: 0,
            first: SignedDuration::from_secs(5),
            longest: SignedDuration::from_mins(1),
        },
        // Members catch up within seconds, a stale cache within minutes.
        Vain::PutOff => Pace {
            free: 12,
            first: SignedDuration::from_millis(500),
            longest: SignedDuration::from_secs(5),
        },
        Vain::Undone => Pace {
            free: 3,
            first: SignedDuration::from_secs(1),
            longest: SignedDuration::from_mins(5),
        },
    }
}

fn pause(step: &Step, vain: Vain, tries: u32) -> SignedDuration {
    let pace = pace(step, vain);
    let Some(doublings) = tries.checked_sub(pace.free.saturating_add(1)) else {
        return SignedDuration::ZERO;
    };
    let times = 2_i32.saturating_pow(doublings);
    pace.first.saturating_mul(times).min(pace.longest)
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
        if !may_rest(step) {
            return;
        }
        let (vain, words) = match outcome {
            Outcome::Failed(words) => (Vain::Rejected, words.as_str()),
            Outcome::NotNow(words) => (Vain::PutOff, words.as_str()),
            Outcome::Done | Outcome::Applied(_) => (Vain::Undone, ""),
        };
        let known = self.0.iter().position(|known| known.is_about(step));
        let before = known.and_then(|index| self.0.get(index));
        // One that was rejected and is put off has not succeeded yet.
        if before.is_some_and(|known| (known.vain, vain) == (Vain::Rejected, Vain::PutOff)) {
            return;
        }
        let before = before.filter(|known| known.vain == vain);
        let now = observed.now;
        let tries = before.map_or(0, |known| known.tries).saturating_add(1);
        let new = FailedStep {
            step: step.clone(),
            vain,
            why: decision.why.clone(),
            words: words.to_owned(),
            generation: observed.cluster.generation,
            since: before.map_or(now, |known| known.since),
            tries,
            retry_at: now.checked_add(pause(step, vain, tries)).unwrap_or(now),
        };
        // Each keeps its place, so that what is said of several does not change its order.
        match known.and_then(|index| self.0.get_mut(index)) {
            Some(known) => *known = new,
            None => self.0.push(new),
        }
        if self.0.len() > MOST {
            let passing = self.0.iter().position(|known| !known.lasts(now));
            self.0.remove(passing.unwrap_or(0));
        }
    }

    /// The wall clock was set by so much.
    pub(crate) fn shift(&mut self, by: SignedDuration) {
        for known in &mut self.0 {
            let moved = (known.retry_at.checked_add(by), known.since.checked_add(by));
            if let (Ok(retry_at), Ok(since)) = moved {
                (known.retry_at, known.since) = (retry_at, since);
            }
        }
    }

    /// Puts it into the picture. What no longer applies is forgotten.
    pub(crate) fn sort(&mut self, observed: &mut Observed) {
        let seen = &*observed;
        self.0.retain(|known| {
            let kept = pause(&known.step, known.vain, known.tries).saturating_add(REMEMBERED);
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
        Step::Fetch(fetch) => fetch.check || claim(&fetch.ordinal, &fetch.claim_uid),
        Step::Nothing
        | Step::Wait
        | Step::Refuse
        | Step::RemoveFinalizer
        | Step::ApplyObjects(_)
        | Step::RestoreTemplate(_)
        | Step::Latch(_)
        | Step::EndFetch { .. }
        | Step::AddLearner { .. }
        | Step::UpdatePeer { .. }
        | Step::Promote { .. }
        | Step::RemoveMember { .. }
        | Step::MoveLeader { .. }
        | Step::RetireMember { .. }
        | Step::Downgrade { .. }
        | Step::Compact { .. }
        | Step::Defragment { .. }
        | Step::Disarm { .. }
        | Step::ChangeAuth(_)
        | Step::RequestCertificate
        | Step::RotateAuthority(_)
        | Step::IssueCertificates(_) => true,
    }
}

impl Observed {
    /// What came of a step because of which it is not tried yet.
    pub fn held_back(&self, step: &Step) -> Option<&FailedStep> {
        let mut failed = self.failed.iter();
        failed.find(|known| known.is_about(step) && known.retry_at > self.now)
    }

    /// The same where that lasts, so that nothing else waits for it.
    pub fn resting(&self, step: &Step) -> Option<&FailedStep> {
        self.held_back(step).filter(|known| known.lasts(self.now))
    }

    /// A step that is put off, or undone, for longer than a moment was tried once more, and went as before. That is no news:
    /// the status says already what is done meanwhile, and would otherwise be written twice with every try.
    pub(crate) fn is_no_news(&self, step: &Step, outcome: &Outcome) -> bool {
        let mut failed = self.failed.iter();
        let known = failed.find(|known| known.is_about(step) && known.lasts(self.now));
        known.is_some_and(|known| match (known.vain, outcome) {
            (Vain::PutOff, Outcome::NotNow(words)) => *words == known.words,
            (Vain::Undone, Outcome::Done) => true,
            _other => false,
        })
    }

    /// A step is tried in vain and may not be tried yet.
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
            same && known.retry_at > self.now && known.lasts(self.now)
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
        for (step, vain, tries, seconds) in [
            (&quick, Vain::Rejected, 1, 5),
            (&quick, Vain::Rejected, 2, 10),
            (&quick, Vain::Rejected, 4, 40),
            (&quick, Vain::Rejected, 5, 60),
            (&quick, Vain::Rejected, u32::MAX, 60),
            (&slow, Vain::Rejected, 1, 60),
            (&slow, Vain::Rejected, 4, 480),
            (&slow, Vain::Rejected, 9, 600),
            (&quick, Vain::PutOff, 12, 0),
            (&quick, Vain::PutOff, 14, 1),
            (&slow, Vain::PutOff, u32::MAX, 5),
            (&quick, Vain::Undone, 3, 0),
            (&quick, Vain::Undone, 4, 1),
            (&quick, Vain::Undone, u32::MAX, 300),
        ] {
            let expected = SignedDuration::from_secs(seconds);
            let pause = pause(step, vain, tries);
            assert_eq!(pause, expected, "{step:?} {vain:?} {tries}");
        }
    }
}

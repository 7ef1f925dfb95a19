//! How long to pause before the same is tried again: plain arithmetic, and a memory of what was tried. The memory is this
//! process's own; losing it costs one more attempt. It judges nothing: what counts as the same is up to its caller.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How the pauses between attempts grow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// Attempts in a row that are followed by no pause.
    pub free: u32,
    /// The first pause; each later one is twice as long.
    pub first: Duration,
    /// The longest pause.
    pub longest: Duration,
}

impl Pace {
    /// The pause after so many attempts in a row.
    pub fn pause(&self, attempts: u32) -> Duration {
        let Some(doublings) = attempts.checked_sub(self.free.saturating_add(1)) else {
            return Duration::ZERO;
        };
        let factor = 2_u32.saturating_pow(doublings);
        self.first.saturating_mul(factor).min(self.longest)
    }
}

/// What is remembered of an attempt is kept for so long beyond its pause. What is tried again later begins afresh.
const KEPT: Duration = Duration::from_mins(1);
/// Attempts that are remembered per cluster, at most.
const MOST: usize = 32;

/// What was tried, by the UID of the cluster and a fingerprint of the attempt, and what came of it.
pub struct Attempts<T>(Mutex<BTreeMap<String, BTreeMap<u64, Attempt<T>>>>);

struct Attempt<T> {
    times: u32,
    pace: Pace,
    until: Instant,
    result: T,
}

impl<T> Default for Attempts<T> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<T: Clone> Attempts<T> {
    /// How long the same must not be tried yet, and what came of it last; `None` if it may be tried.
    pub fn held(&self, uid: &str, what: &impl Hash, now: Instant) -> Option<(Duration, T)> {
        let clusters = self.lock();
        let attempt = clusters.get(uid)?.get(&fingerprint(what))?;
        let left = attempt.until.checked_duration_since(now)?;
        (!left.is_zero()).then(|| (left, attempt.result.clone()))
    }

    /// Takes note of an attempt: how often it was made in a row. Another pace begins another row.
    pub fn note(
        &self,
        uid: &str,
        what: &impl Hash,
        (result, pace): (T, Pace),
        now: Instant,
    ) -> u32 {
        let mut clusters = self.lock();
        let attempts = clusters.entry(uid.to_owned()).or_default();
        attempts.retain(|_, attempt| !is_over(attempt, now));
        let before = attempts.get(&fingerprint(what));
        let before = before.filter(|before| before.pace == pace);
        let times = before.map_or(0, |before| before.times).saturating_add(1);
        let until = now.checked_add(pace.pause(times)).unwrap_or(now);
        let attempt = Attempt {
            times,
            pace,
            until,
            result,
        };
        attempts.insert(fingerprint(what), attempt);
        if attempts.len() > MOST {
            let oldest = attempts.iter().min_by_key(|(_, attempt)| attempt.until);
            let oldest = oldest.map(|(what, _)| *what);
            attempts.retain(|what, _| Some(*what) != oldest);
        }
        times
    }

    /// Forgets every cluster that `keep` does not want kept.
    pub fn retain(&self, mut keep: impl FnMut(&str) -> bool) {
        self.lock().retain(|uid, _| keep(uid));
    }

    /// How many clusters are remembered.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether nothing is remembered.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, BTreeMap<u64, Attempt<T>>>> {
        // Nothing can be half done under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// It lies so far back that the next one is no repetition.
fn is_over<T>(attempt: &Attempt<T>, now: Instant) -> bool {
    let pause = attempt.pace.pause(attempt.times);
    let kept = attempt.until.checked_add(pause.saturating_add(KEPT));
    kept.is_some_and(|kept| kept < now)
}

fn fingerprint(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PACE: Pace = Pace {
        free: 2,
        first: Duration::from_secs(5),
        longest: Duration::from_mins(1),
    };

    #[test]
    fn pauses_double_up_to_the_longest() {
        let table = [
            (0, 0),
            (1, 0),
            (2, 0),
            (3, 5),
            (4, 10),
            (5, 20),
            (6, 40),
            (7, 60),
            (8, 60),
            (u32::MAX, 60),
        ];
        for (attempts, seconds) in table {
            let pause = PACE.pause(attempts);
            assert_eq!(pause, Duration::from_secs(seconds), "{attempts}");
        }
    }

    #[test]
    fn what_is_repeated_is_held_back_and_what_is_new_is_not() {
        let attempts = Attempts::default();
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        for times in 1..=2 {
            assert_eq!(attempts.note("u", &"apply", ("done", PACE), start), times);
            assert_eq!(attempts.held("u", &"apply", start), None);
        }
        assert_eq!(attempts.note("u", &"apply", ("done", PACE), start), 3);
        let held = attempts.held("u", &"apply", after(1));
        assert_eq!(held, Some((Duration::from_secs(4), "done")));
        assert_eq!(attempts.held("u", &"another", after(1)), None);
        assert_eq!(attempts.held("v", &"apply", after(1)), None);
        assert_eq!(attempts.held("u", &"apply", after(5)), None);
        // Another kind of result begins another row, and so does a long time.
        let other = Pace { free: 0, ..PACE };
        assert_eq!(attempts.note("u", &"apply", ("failed", other), after(5)), 1);
        assert_eq!(
            attempts.note("u", &"apply", ("failed", other), after(10)),
            2
        );
        assert_eq!(
            attempts.note("u", &"apply", ("failed", other), after(200)),
            1
        );
        attempts.retain(|uid| uid != "u");
        assert!(attempts.is_empty());
    }

    #[test]
    fn little_is_remembered_of_a_cluster() {
        let attempts = Attempts::default();
        for what in 0..100 {
            attempts.note("u", &what, ((), PACE), Instant::now());
        }
        assert_eq!(attempts.lock()["u"].len(), MOST);
    }
}

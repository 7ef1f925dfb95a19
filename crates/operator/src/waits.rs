//! For how long each cluster has been waiting for the same thing. What is expected within a moment is looked for often, and
//! less and less often when it does not come: whatever a watch reports wakes the cluster all the same.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use plan::decision::{SETTLED, SOON};
use plan::{Decision, Step, Why};

/// For so long nothing is looked for less often: most of what is waited for takes seconds.
const FREE: Duration = Duration::from_secs(30);
/// Afterwards a pause lasts for this part of the time that was waited beyond that, so each is longer than the one before
/// by the same factor.
const PART: u32 = 8;

/// What each cluster waits for, by its UID. Losing it makes looks more frequent for a while.
#[derive(Default)]
pub struct Waits(Mutex<BTreeMap<String, Waiting>>);

struct Waiting {
    what: (i64, Why),
    since: Instant,
}

impl Waits {
    /// How long the next look may be put off at least, after this decision on the object of this generation.
    pub fn note(&self, uid: &str, generation: i64, decision: &Decision, now: Instant) -> Duration {
        let mut waits = self.lock();
        if decision.step != Step::Wait || decision.requeue > SOON {
            waits.remove(uid);
            return Duration::ZERO;
        }
        let what = (generation, decision.why.clone());
        let known = waits.remove(uid).filter(|known| known.what == what);
        let since = known.map_or(now, |known| known.since);
        waits.insert(uid.to_owned(), Waiting { what, since });
        let waited = now.saturating_duration_since(since);
        let pause = waited.saturating_sub(FREE) / PART;
        pause.min(SETTLED)
    }

    /// Forgets every cluster that `keep` does not want kept.
    pub fn retain(&self, mut keep: impl FnMut(&str) -> bool) {
        self.lock().retain(|uid, _| keep(uid));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, Waiting>> {
        // Nothing can be half done under this lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use plan::why::Object;

    use super::*;

    fn wait(pod: &str, requeue: Duration) -> Decision {
        Decision::wait(Object::PreviousOwner(pod.to_owned()), requeue)
    }

    #[test]
    fn what_does_not_come_is_looked_for_less_and_less_often() {
        let waits = Waits::default();
        let start = Instant::now();
        let same = wait("Pod db-0", SOON);
        let note = |seconds| waits.note("u", 1, &same, start + Duration::from_secs(seconds));
        for (seconds, pause) in [
            (0, 0),
            (29, 0),
            (30, 0),
            (38, 1),
            (46, 2),
            (62, 4),
            (110, 10),
            (3600, 10),
        ] {
            assert_eq!(note(seconds), Duration::from_secs(pause), "{seconds}");
        }
        // Looks in an hour, where it was looked every 100 ms.
        let (mut now, mut looks) = (7200, 0);
        let other = wait("Pod db-1", SOON);
        while now < 7200 + 3600 {
            let at = start + Duration::from_secs(now);
            now += waits.note("u", 1, &other, at).as_secs().max(1);
            looks += 1;
        }
        assert!(looks < 500, "{looks}");
    }

    #[test]
    fn whatever_is_new_begins_again() {
        let waits = Waits::default();
        let start = Instant::now();
        let late = start + Duration::from_mins(10);
        let same = wait("Pod db-0", SOON);
        for news in [
            (1, wait("Pod db-1", SOON)),
            (2, same.clone()),
            (1, wait("Pod db-0", SETTLED)),
            (1, Decision::act(Step::RemoveFinalizer, Object::Finalizer)),
        ] {
            waits.retain(|_| false);
            waits.note("u", 1, &same, start);
            assert_eq!(waits.note("u", 1, &same, late), SETTLED);
            assert_eq!(waits.note("u", news.0, &news.1, late), Duration::ZERO);
            assert_eq!(waits.note("u", 1, &same, late), Duration::ZERO);
        }
        assert_eq!(waits.note("v", 1, &same, late), Duration::ZERO);
        waits.retain(|uid| uid == "v");
        assert_eq!(waits.lock().len(), 1);
    }
}

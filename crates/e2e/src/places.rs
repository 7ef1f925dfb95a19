//! How many stories play at the same time, and which of them begin first: a long one that begins last is waited for alone.

use std::collections::BTreeSet;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Stories and modules of stories that take minutes, the longest first. An order that is out of date costs time and nothing else.
const LONG: [&str; 13] = [
    "lifecycle_tls::tls_is_switched",
    "fault_disk",
    "lifecycle_source",
    "fault_frozen",
    "lifecycle_versions",
    "fault_corrupt",
    "lifecycle_rotate",
    "lifecycle_cycles",
    "lifecycle_tls",
    "fault_quorum",
    "lifecycle_adopt",
    "lifecycle_pods::everything",
    "lifecycle_users",
];

static QUEUE: Mutex<Queue> = Mutex::new(Queue {
    long: 0,
    short: 0,
    waiting: BTreeSet::new(),
});
static CHANGED: Condvar = Condvar::new();

/// A story that waits, by its rank and title.
type Turn = (usize, String);

/// How many play, and who waits.
struct Queue {
    long: usize,
    short: usize,
    waiting: BTreeSet<Turn>,
}

impl Queue {
    fn join(&mut self, title: &str) -> Turn {
        let turn = (rank(title), title.to_owned());
        self.waiting.insert(turn.clone());
        turn
    }

    /// The long ones are the busy ones as well, and leave half of the places to the others, if there are any.
    fn next(&self, places: usize) -> Option<&Turn> {
        if self.long + self.short >= places {
            return None;
        }
        let short = self.waiting.range((LONG.len(), String::new())..).next();
        let first = self.waiting.first();
        if self.long >= places.div_ceil(2) {
            short.or(first)
        } else {
            first
        }
    }

    fn begins(&mut self, turn: &Turn, places: usize) -> bool {
        let begins = self.next(places) == Some(turn);
        if begins {
            self.waiting.remove(turn);
            *self.playing(turn.0) += 1;
        }
        begins
    }

    fn playing(&mut self, rank: usize) -> &mut usize {
        if rank < LONG.len() {
            &mut self.long
        } else {
            &mut self.short
        }
    }
}

/// Where among all of them a story begins.
fn rank(title: &str) -> usize {
    LONG.iter()
        .position(|long| title.starts_with(long))
        .unwrap_or(LONG.len())
}

/// The place of a story of that rank, until it is dropped.
pub(crate) struct Place(usize);

impl Place {
    /// Waits for a place, if `E2E_AT_ONCE` says how many there are; `cargo xtask test` does, and starts all stories at once.
    pub(crate) fn take(title: &str) -> Option<Self> {
        let places = std::env::var("E2E_AT_ONCE").ok()?.parse().ok()?;
        let mut queue = locked();
        let turn = queue.join(title);
        while !queue.begins(&turn, places) {
            queue = CHANGED.wait(queue).unwrap_or_else(PoisonError::into_inner);
        }
        // The next one may find a place, too.
        CHANGED.notify_all();
        Some(Self(turn.0))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        *locked().playing(self.0) -= 1;
        CHANGED.notify_all();
    }
}

fn locked() -> MutexGuard<'static, Queue> {
    QUEUE.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue() -> Queue {
        Queue {
            long: 0,
            short: 0,
            waiting: BTreeSet::new(),
        }
    }

    #[test]
    fn a_long_story_begins_before_those_that_waited_for_longer() {
        let mut queue = queue();
        let turns = ["a_short_one", "lifecycle_source::it"].map(|title| queue.join(title));
        let [short, long] = &turns;
        assert!(!queue.begins(short, 1));
        assert!(queue.begins(long, 1));
        assert!(!queue.begins(short, 1));
        *queue.playing(long.0) -= 1;
        assert!(queue.begins(short, 1));
    }

    #[test]
    fn half_of_the_places_are_for_short_ones_as_long_as_any_waits() {
        let mut queue = queue();
        let titles = ["fault_disk::a", "fault_disk::b", "fault_disk::c", "short"];
        let [a, b, c, short] = &titles.map(|title| queue.join(title));
        assert!(queue.begins(a, 4) && queue.begins(b, 4));
        assert!(!queue.begins(c, 4));
        assert!(queue.begins(short, 4));
        assert!(queue.begins(c, 4));
    }
}

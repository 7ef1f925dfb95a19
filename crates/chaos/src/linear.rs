//! Whether one key behaved like a register with compare-and-swap: is there an order of all operations, each at some
//! moment between its call and its answer, in which every answer is true?
//!
//! The search is that of Wing and Gong with the memory of Lowe. Three facts keep it almost without choices, also for
//! hundreds of thousands of operations:
//!
//! - etcd numbers its writes, and promises that the numbers follow that order. So only one acknowledged write can be
//!   next.
//! - Each answer says what was there before, so an unknown write that no client saw can be left out, and one that a
//!   client saw has an end: the answer that showed it.
//! - A read that fits and is due may be placed at once: it changes nothing for the others.
//!
//! What is left to try are deletions of unknown outcome, and they are all alike.

mod steps;

use std::collections::BTreeSet;

use self::steps::{Sees, Step, Steps};
use crate::history::{Anomaly, Found, Moment, Operation};

/// How many places the search may visit for each operation before it gives up. A search that gives up is an anomaly.
const VISITS_PER_STEP: usize = 50;

/// Checks the operations of one key.
pub(crate) fn check(operations: &[&Operation]) -> Result<(), Anomaly> {
    let steps = steps::build(operations)?;
    let mut visited = BTreeSet::new();
    let mut open = vec![Place::default()];
    let mut deepest = Place::default();
    let most = steps.all.len().saturating_add(1) * VISITS_PER_STEP;
    while let Some(mut place) = open.pop() {
        place.absorb_reads(&steps);
        if place.first == steps.all.len() {
            return Ok(());
        }
        if !visited.insert(place.clone()) {
            continue;
        }
        if visited.len() > most {
            let title = format!("no order was found after looking at {most} places");
            return Err(Anomaly::new(title, &[]));
        }
        if place.count() > deepest.count() {
            deepest = place.clone();
        }
        open.extend(place.next(&steps));
    }
    Err(explain(&deepest, &steps, operations))
}

/// How far the order has got: every step before `first` is in it, and those in `ahead`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Place {
    first: usize,
    ahead: BTreeSet<usize>,
    value: Option<u64>,
    /// Revision of the value; 0 where no client saw it.
    revision: i64,
    /// How many of the numbered writes are in the order.
    writes: usize,
    /// How many deletions of unknown outcome are in the order.
    deletes: usize,
}

impl Place {
    fn count(&self) -> usize {
        self.first + self.ahead.len()
    }

    /// Steps that may come next by the clock: no operation that is not in the order had ended before they began.
    fn due<'a>(&self, steps: &'a Steps) -> (Vec<(usize, &'a Step)>, Moment) {
        let mut due = Vec::new();
        let mut earliest_end = Moment::MAX;
        for (index, step) in steps.all.iter().enumerate().skip(self.first) {
            if step.start > earliest_end {
                break;
            }
            if !self.ahead.contains(&index) {
                earliest_end = earliest_end.min(step.end);
                due.push((index, step));
            }
        }
        (due, earliest_end)
    }

    fn fits(&self, step: &Step) -> bool {
        match step.sees {
            Sees::Anything => true,
            Sees::Value(value) => self.value == value,
        }
    }

    fn absorb_reads(&mut self, steps: &Steps) {
        loop {
            let (due, _) = self.due(steps);
            let mut reads = due.into_iter().filter(|(_, step)| step.writes.is_none());
            let Some((index, _)) = reads.find(|(_, step)| self.fits(step)) else {
                return;
            };
            self.place(index);
        }
    }

    /// Every way to go on, the likeliest last.
    fn next(&self, steps: &Steps) -> Vec<Self> {
        let (due, earliest_end) = self.due(steps);
        let mut ways = Vec::new();
        let begun = |start: &&Moment| **start <= earliest_end;
        let deletes = steps.unknown_deletes.iter().take_while(begun).count();
        let misses = |(_, step): &(usize, &Step)| step.sees.is_nothing();
        if self.value.is_some() && self.deletes < deletes && due.iter().any(misses) {
            ways.push(Self {
                value: None,
                deletes: self.deletes + 1,
                ..self.clone()
            });
        }
        let numbered = steps.by_revision.get(self.writes).copied();
        for (index, step) in due {
            let Some(write) = step.writes else { continue };
            let is_next = write.revision.is_none() || numbered == Some(index);
            if !is_next || !self.fits(step) {
                continue;
            }
            let mut way = self.clone();
            way.value = write.value;
            way.revision = write.revision.unwrap_or_default();
            way.writes += usize::from(write.revision.is_some());
            way.place(index);
            ways.push(way);
        }
        ways
    }

    fn place(&mut self, index: usize) {
        self.ahead.insert(index);
        while self.ahead.remove(&self.first) {
            self.first += 1;
        }
    }
}

/// Who could not be placed when the order had got furthest.
fn explain(place: &Place, steps: &Steps, operations: &[&Operation]) -> Anomaly {
    let (due, _) = place.due(steps);
    let mut stuck: Vec<usize> = due.iter().map(|(_, step)| step.operation).collect();
    let numbered = steps.by_revision.get(place.writes).copied();
    stuck.extend(numbered.and_then(|index| Some(steps.all.get(index)?.operation)));
    // Also who wrote what is there, and what the stuck ones found instead.
    let found = due.iter().filter_map(|(_, step)| step.sees.value());
    let values: Vec<u64> = found.chain(place.value).collect();
    let wrote = operations.iter().enumerate().filter(|(_, operation)| {
        let value = operation.action.value();
        value.is_some_and(|value| values.contains(&value))
    });
    stuck.extend(wrote.map(|(index, _)| index));
    stuck.sort_unstable();
    stuck.dedup();
    let stuck: Vec<&Operation> = stuck
        .into_iter()
        .filter_map(|index| operations.get(index).copied())
        .collect();
    let holds = Found {
        value: place.value,
        revision: place.revision,
    };
    let title = format!(
        "not linearizable: {} operations have an order, then the key holds {holds} and none of those due fits",
        place.count()
    );
    Anomaly::new(title, &stuck)
}

#[cfg(test)]
mod tests;

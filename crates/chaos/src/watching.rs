//! Whether watchers were told everything, once, in order, and nothing else. What was compacted away before a watcher
//! could ask for it is no gap: etcd said so, and the report does.

use std::collections::{BTreeMap, BTreeSet};

use crate::history::{Action, Anomaly, Content, Key, Operation, Value};

/// One change as a watcher received it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) revision: i64,
    pub(crate) key: Key,
    /// None for a deletion.
    pub(crate) value: Option<Value>,
}

/// What a watcher heard, in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Heard {
    Event(Event),
    /// Everything below this revision is gone; the watch went on from there.
    Compacted(i64),
}

/// All that one watcher heard.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watched {
    pub(crate) name: String,
    /// The first revision that it asked for.
    pub(crate) from: i64,
    pub(crate) heard: Vec<Heard>,
    /// How often it had to start over after the last revision it had seen.
    pub(crate) resumed: usize,
}

impl Watched {
    fn events(&self) -> impl Iterator<Item = &Event> {
        self.heard.iter().filter_map(|heard| match heard {
            Heard::Event(event) => Some(event),
            Heard::Compacted(_) => None,
        })
    }

    /// The last revision that it received.
    pub(crate) fn last(&self) -> i64 {
        let last = self.events().map(|event| event.revision).max();
        last.unwrap_or(self.from - 1)
    }

    /// Ranges of revisions, without their ends, that etcd no longer had.
    pub(crate) fn compacted(&self) -> Vec<(i64, i64)> {
        let mut next = self.from;
        let mut ranges = Vec::new();
        for heard in &self.heard {
            match heard {
                Heard::Event(event) => next = next.max(event.revision + 1),
                Heard::Compacted(until) => {
                    ranges.push((next, *until));
                    next = next.max(*until);
                }
            }
        }
        ranges
    }

    /// Whether it had to receive a change at a revision.
    fn must_hear(&self) -> impl Fn(i64) -> bool {
        let (from, compacted) = (self.from, self.compacted());
        move |revision| {
            let gone = |(from, until): &(i64, i64)| (*from..*until).contains(&revision);
            revision >= from && !compacted.iter().any(gone)
        }
    }
}

/// Compares what a watcher heard with what the clients were told.
pub(crate) fn check(watched: &Watched, operations: &[Operation]) -> Vec<Anomaly> {
    let mut anomalies = out_of_order(watched);
    let heard: BTreeMap<i64, &Event> = watched.events().map(|e| (e.revision, e)).collect();
    let (name, must_hear) = (&watched.name, watched.must_hear());
    let mut acknowledged = BTreeSet::new();
    for operation in operations {
        let Some(revision) = operation.acknowledged() else {
            continue;
        };
        acknowledged.insert(revision);
        match heard.get(&revision) {
            None if must_hear(revision) => {
                let title = format!("{name} did not receive revision {revision}");
                anomalies.push(Anomaly::new(title, &[operation]));
            }
            Some(event) if !is_of(event, operation) => {
                let title =
                    format!("{name} was told something else at revision {revision}: {event:?}");
                anomalies.push(Anomaly::new(title, &[operation]));
            }
            None | Some(_) => {}
        }
    }
    let others = heard
        .values()
        .filter(|event| !acknowledged.contains(&event.revision));
    anomalies.extend(unexplained(name, others.copied(), operations));
    anomalies
}

/// What one watcher was told and another was not, although it had to be.
pub(crate) fn compare(one: &Watched, other: &Watched) -> Vec<Anomaly> {
    let heard: BTreeMap<i64, &Event> = other.events().map(|e| (e.revision, e)).collect();
    let (last, must_hear) = (other.last(), other.must_hear());
    let common = one
        .events()
        .filter(|event| event.revision <= last && must_hear(event.revision));
    common
        .filter(|event| heard.get(&event.revision) != Some(event))
        .map(|event| {
            let title = format!(
                "{} was told {event:?}, and {} was not",
                one.name, other.name
            );
            Anomaly::new(title, &[])
        })
        .collect()
}

fn out_of_order(watched: &Watched) -> Vec<Anomaly> {
    let pairs = watched.events().zip(watched.events().skip(1));
    pairs
        .filter(|(event, next)| next.revision <= event.revision)
        .map(|(event, next)| {
            let what = if event == next {
                "twice"
            } else {
                "out of order"
            };
            let title = format!("{} was told {what}: {event:?}, then {next:?}", watched.name);
            Anomaly::new(title, &[])
        })
        .collect()
}

fn is_of(event: &Event, operation: &Operation) -> bool {
    event.key == operation.key && operation.action.written() == Some(Content(event.value))
}

/// Events that no acknowledged write explains need one of unknown outcome, and each of those explains one.
fn unexplained<'a>(
    name: &str,
    events: impl Iterator<Item = &'a Event>,
    operations: &[Operation],
) -> Vec<Anomaly> {
    let mut values: BTreeSet<(Key, Value)> = BTreeSet::new();
    let mut deletions: BTreeMap<Key, usize> = BTreeMap::new();
    for operation in operations.iter().filter(|o| o.is_unknown_write()) {
        match operation.action {
            Action::Delete => *deletions.entry(operation.key).or_default() += 1,
            Action::Get | Action::Put(_) | Action::Swap { .. } => {
                values.extend(operation.action.value().map(|value| (operation.key, value)));
            }
        }
    }
    let mut anomalies = Vec::new();
    for event in events {
        let explained = match event.value {
            Some(value) => values.remove(&(event.key, value)),
            None => take_one(&mut deletions, event.key),
        };
        if !explained {
            let title = format!("{name} received an event without a write: {event:?}");
            anomalies.push(Anomaly::new(title, &[]));
        }
    }
    anomalies
}

fn take_one(left: &mut BTreeMap<Key, usize>, key: Key) -> bool {
    let Some(count) = left.get_mut(&key).filter(|count| **count > 0) else {
        return false;
    };
    *count -= 1;
    true
}

#[cfg(test)]
mod tests;

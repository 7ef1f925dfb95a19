//! From what clients were told to the steps that an order must hold: acknowledged operations, and the unknown writes
//! whose effect a client saw.

use std::collections::BTreeMap;

use crate::history::{Action, Anomaly, Content, Moment, Operation, Outcome, Value};

/// What an order must hold.
pub(super) struct Steps {
    /// By their beginning.
    pub(super) all: Vec<Step>,
    /// Those whose revision is known, by revision.
    pub(super) by_revision: Vec<usize>,
    /// When each deletion of unknown outcome began. An order may hold them.
    pub(super) unknown_deletes: Vec<Moment>,
}

/// One operation that took effect.
pub(super) struct Step {
    pub(super) start: Moment,
    pub(super) end: Moment,
    pub(super) sees: Sees,
    pub(super) writes: Option<Write>,
    /// Its place in the history.
    pub(super) operation: usize,
}

/// What it found before it acted, as far as a client saw it. The value is enough: it has one writer and one revision.
#[derive(Clone, Copy)]
pub(super) enum Sees {
    Anything,
    Value(Option<Value>),
}

#[derive(Clone, Copy)]
pub(super) struct Write {
    pub(super) value: Option<Value>,
    /// None if no client saw it.
    pub(super) revision: Option<i64>,
}

impl Sees {
    pub(super) fn is_nothing(self) -> bool {
        match self {
            Self::Anything => false,
            Self::Value(value) => value.is_none(),
        }
    }

    pub(super) fn value(self) -> Option<Value> {
        match self {
            Self::Anything => None,
            Self::Value(value) => value,
        }
    }
}

/// When a value was first seen at the latest, and under which revision.
#[derive(Clone, Copy)]
struct Sighting {
    end: Moment,
    revision: Option<i64>,
}

pub(super) fn build(operations: &[&Operation]) -> Result<Steps, Anomaly> {
    for operation in operations {
        refuse_contradiction(operation)?;
    }
    let sightings = sightings(operations)?;
    let mut all: Vec<Step> = operations
        .iter()
        .enumerate()
        .filter_map(|(index, operation)| step(index, operation, &sightings))
        .collect();
    all.sort_by_key(|step| (step.start, step.end));
    let mut numbered: Vec<(i64, usize)> = all
        .iter()
        .enumerate()
        .filter_map(|(index, step)| Some((step.writes?.revision?, index)))
        .collect();
    numbered.sort_unstable();
    refuse_shared_revision(&numbered, &all, operations)?;
    let deletes = operations
        .iter()
        .filter(|operation| operation.is_unknown_write() && operation.action == Action::Delete);
    let mut unknown_deletes: Vec<Moment> = deletes.map(|operation| operation.start).collect();
    unknown_deletes.sort_unstable();
    Ok(Steps {
        all,
        by_revision: numbered.into_iter().map(|(_, index)| index).collect(),
        unknown_deletes,
    })
}

fn step(
    index: usize,
    operation: &Operation,
    sightings: &BTreeMap<Value, Sighting>,
) -> Option<Step> {
    let written = operation.action.written();
    let (end, sees, writes) = match &operation.outcome {
        Outcome::Refused(_) => return None,
        Outcome::Done(answer) => {
            let revision = Some(answer.at);
            let write = written.map(|Content(value)| Write { value, revision });
            let write = write.filter(|_| answer.wrote);
            (operation.end, Sees::Value(answer.before.value), write)
        }
        Outcome::Unknown(_) => {
            // Seen by no client: whether it took effect makes no difference.
            let sighting = sightings.get(&operation.action.value()?)?;
            let sees = match operation.action {
                Action::Swap { from, .. } => Sees::Value(from),
                Action::Get | Action::Put(_) | Action::Delete => Sees::Anything,
            };
            let revision = sighting.revision;
            let write = written.map(|Content(value)| Write { value, revision });
            (sighting.end, sees, write)
        }
    };
    Some(Step {
        start: operation.start,
        end,
        sees,
        writes,
        operation: index,
    })
}

/// Every value that a client saw. A swap that took effect found the value it started from, whether or not its client
/// got the answer.
fn sightings(operations: &[&Operation]) -> Result<BTreeMap<Value, Sighting>, Anomaly> {
    let mut writers: BTreeMap<Value, &Operation> = BTreeMap::new();
    for operation in operations {
        let refused = matches!(operation.outcome, Outcome::Refused(_));
        if let Some(value) = operation.action.value().filter(|_| !refused) {
            writers.insert(value, operation);
        }
    }
    let mut sightings: BTreeMap<Value, Sighting> = BTreeMap::new();
    let mut fresh = Vec::new();
    for operation in operations {
        let Some(answer) = operation.answer() else {
            continue;
        };
        let Some(value) = answer.before.value else {
            continue;
        };
        let Some(writer) = writers.get(&value) else {
            let title = format!("{value} was found, and was never written");
            return Err(Anomaly::new(title, &[operation]));
        };
        let told = writer.acknowledged();
        let known = told.or_else(|| sightings.get(&value)?.revision);
        if known.is_some_and(|known| known != answer.before.revision) {
            let title = format!("{value} was found under two revisions");
            return Err(Anomaly::new(title, &[writer, operation]));
        }
        let sighting = Sighting {
            end: operation.end,
            revision: Some(answer.before.revision),
        };
        merge(&mut sightings, value, sighting);
        fresh.push(value);
    }
    while let Some(value) = fresh.pop() {
        let writer = writers.get(&value).filter(|w| w.is_unknown_write());
        let end = sightings.get(&value).map(|sighting| sighting.end);
        if let Some(Action::Swap {
            from: Some(from), ..
        }) = writer.map(|writer| writer.action)
            && let Some(end) = end
            && merge(
                &mut sightings,
                from,
                Sighting {
                    end,
                    revision: None,
                },
            )
        {
            fresh.push(from);
        }
    }
    Ok(sightings)
}

/// Whether this tells something new.
fn merge(sightings: &mut BTreeMap<Value, Sighting>, value: Value, new: Sighting) -> bool {
    let Some(known) = sightings.get_mut(&value) else {
        sightings.insert(value, new);
        return true;
    };
    let earlier = new.end < known.end;
    known.end = known.end.min(new.end);
    known.revision = known.revision.or(new.revision);
    earlier
}

/// A swap wins exactly if it found what it asked for, a deletion if there was something.
fn refuse_contradiction(operation: &Operation) -> Result<(), Anomaly> {
    let Some(answer) = operation.answer() else {
        return Ok(());
    };
    let should_write = match operation.action {
        Action::Get => false,
        Action::Put(_) => true,
        Action::Swap { from, .. } => answer.before.value == from,
        Action::Delete => answer.before.value.is_some(),
    };
    if answer.wrote == should_write {
        return Ok(());
    }
    Err(Anomaly::new("an answer contradicts itself", &[operation]))
}

fn refuse_shared_revision(
    numbered: &[(i64, usize)],
    all: &[Step],
    operations: &[&Operation],
) -> Result<(), Anomaly> {
    let pairs = numbered.iter().zip(numbered.iter().skip(1));
    for ((revision, one), (next, other)) in pairs {
        if revision == next {
            let both: Vec<&Operation> = [one, other]
                .into_iter()
                .filter_map(|index| operations.get(all.get(*index)?.operation).copied())
                .collect();
            let title = format!("two writes have revision {revision}");
            return Err(Anomaly::new(title, &both));
        }
    }
    Ok(())
}

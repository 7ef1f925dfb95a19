//! What the clients did and what they were told, in plain values. Nothing here judges.

use std::fmt;

/// Microseconds since the run began, by one clock.
pub(crate) type Moment = u64;

/// One of the few keys, by number.
pub(crate) type Key = usize;

/// What a key holds. Every value is written at most once in a run, so it names its writer.
pub(crate) type Value = u64;

/// What a client tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    /// A linearizable read.
    Get,
    Put(Value),
    /// A transaction: `to` if the key holds `from`, else a read.
    Swap {
        from: Option<Value>,
        to: Value,
    },
    Delete,
}

/// What a key holds after a change, if anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Content(pub(crate) Option<Value>);

/// A key as an operation found it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Found {
    pub(crate) value: Option<Value>,
    /// Revision that wrote the value; 0 where there is none.
    pub(crate) revision: i64,
}

/// What etcd said to an operation that it carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// The key just before the operation: etcd tells it for writes, too.
    pub(crate) before: Found,
    /// Whether the key was changed.
    pub(crate) wrote: bool,
    /// The store's revision; of a write, its own.
    pub(crate) at: i64,
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Done(Answer),
    /// It certainly changed nothing.
    Refused(String),
    /// It may have taken effect, may do so later, or never.
    Unknown(String),
}

/// One call of one client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) client: usize,
    pub(crate) key: Key,
    pub(crate) action: Action,
    pub(crate) start: Moment,
    pub(crate) end: Moment,
    pub(crate) outcome: Outcome,
    /// The pod that was asked.
    pub(crate) member: String,
}

/// Something that must never be, and the operations that show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Anomaly {
    pub(crate) title: String,
    pub(crate) operations: Vec<Operation>,
}

impl Anomaly {
    pub(crate) fn new(title: impl Into<String>, operations: &[&Operation]) -> Self {
        let operations = operations.iter().map(|operation| (*operation).clone());
        Self {
            title: title.into(),
            operations: operations.collect(),
        }
    }
}

impl Action {
    /// What the key holds afterwards if this takes effect; none for a read.
    pub(crate) fn written(self) -> Option<Content> {
        match self {
            Self::Get => None,
            Self::Put(value) | Self::Swap { to: value, .. } => Some(Content(Some(value))),
            Self::Delete => Some(Content(None)),
        }
    }

    /// The value that only this operation writes.
    pub(crate) fn value(self) -> Option<Value> {
        self.written()?.0
    }
}

impl Operation {
    /// The answer, if it was carried out.
    pub(crate) fn answer(&self) -> Option<Answer> {
        match self.outcome {
            Outcome::Done(answer) => Some(answer),
            Outcome::Refused(_) | Outcome::Unknown(_) => None,
        }
    }

    /// Whether it is unknown if it took effect.
    pub(crate) fn is_unknown_write(&self) -> bool {
        let unknown = matches!(self.outcome, Outcome::Unknown(_));
        unknown && self.action.written().is_some()
    }

    /// Revision of an acknowledged change.
    pub(crate) fn acknowledged(&self) -> Option<i64> {
        let wrote = self.answer().filter(|answer| answer.wrote);
        wrote.map(|answer| answer.at)
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.value {
            Some(value) => write!(f, "{value}@{}", self.revision),
            None => f.write_str("nothing"),
        }
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (start, end) = (seconds(self.start), seconds(self.end));
        write!(f, "{start}–{end} client {} ", self.client)?;
        match self.action {
            Action::Get => write!(f, "get k{}", self.key)?,
            Action::Put(value) => write!(f, "put k{} {value}", self.key)?,
            Action::Swap { from, to } => {
                let from = from.map_or_else(|| "nothing".to_owned(), |from| from.to_string());
                write!(f, "swap k{} {from} → {to}", self.key)?;
            }
            Action::Delete => write!(f, "delete k{}", self.key)?,
        }
        write!(f, " at {}: ", self.member)?;
        match &self.outcome {
            Outcome::Done(Answer { before, wrote, at }) => {
                let did = if *wrote { "wrote" } else { "read" };
                write!(f, "{did} at revision {at}, found {before}")
            }
            Outcome::Refused(why) => write!(f, "refused ({why})"),
            Outcome::Unknown(why) => write!(f, "UNKNOWN ({why})"),
        }
    }
}

/// A moment for people, such as `12.045`.
pub(crate) fn seconds(moment: Moment) -> String {
    let (whole, part) = (moment / 1_000_000, moment % 1_000_000 / 1000);
    format!("{whole}.{part:03}")
}

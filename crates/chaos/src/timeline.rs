//! What happened when, for a person who reads it afterwards. It is told on stderr at once, and kept.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use crate::history::{Moment, Operation, Outcome, seconds};

/// Failures that are closer together than this are listed as one range.
const TOGETHER: Moment = 1_000_000;
/// A time without an acknowledged write that is worth a line.
const GAP: Moment = 1_000_000;

/// One clock for all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock(Instant);

impl Clock {
    pub(crate) fn start() -> Self {
        Self(Instant::now())
    }

    pub(crate) fn now(self) -> Moment {
        Moment::try_from(self.0.elapsed().as_micros()).unwrap_or(Moment::MAX)
    }
}

/// What happened so far.
#[derive(Clone)]
pub(crate) struct Timeline {
    clock: Clock,
    lines: Arc<Mutex<Vec<(Moment, String)>>>,
}

impl Timeline {
    pub(crate) fn new(clock: Clock) -> Self {
        Self {
            clock,
            lines: Arc::default(),
        }
    }

    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// Something happens now. `who` is one word: fault, edit, status.
    pub(crate) fn note(&self, who: &str, what: &str) {
        let now = self.clock.now();
        let line = format!("{who:<8} {what}");
        e2e::tell(&format!("{:>9} {line}", seconds(now)));
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        lines.push((now, line));
    }

    /// All of it in order, with what the clients went through.
    pub(crate) fn render(&self, operations: &[Operation]) -> String {
        let mut lines = self
            .lines
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        lines.extend(failures(operations));
        lines.extend(gaps(operations));
        lines.sort();
        let mut text = String::new();
        for (moment, line) in lines {
            // Writing to a String cannot fail.
            writeln!(text, "{:>9} {line}", seconds(moment)).unwrap_or_default();
        }
        text
    }
}

/// The longest time between two acknowledged writes, and when it began.
pub(crate) fn longest_gap(operations: &[Operation]) -> (Moment, Moment) {
    let longest = spans(operations).max_by_key(|(from, to)| to - from);
    longest.map_or((0, 0), |(from, to)| (to - from, from))
}

fn gaps(operations: &[Operation]) -> impl Iterator<Item = (Moment, String)> {
    spans(operations)
        .filter(|(from, to)| to - from >= GAP)
        .map(|(from, to)| {
            let line = format!("clients  no write was acknowledged until {}", seconds(to));
            (from, line)
        })
}

/// From each acknowledged write to the next.
fn spans(operations: &[Operation]) -> impl Iterator<Item = (Moment, Moment)> {
    let acknowledged = operations.iter().filter(|o| o.acknowledged().is_some());
    let mut ends: Vec<Moment> = acknowledged.map(|operation| operation.end).collect();
    ends.sort_unstable();
    let next: Vec<Moment> = ends.iter().skip(1).copied().collect();
    ends.into_iter().zip(next)
}

/// Calls that failed, in ranges per member.
fn failures(operations: &[Operation]) -> Vec<(Moment, String)> {
    let mut by_member: BTreeMap<&str, Vec<(Moment, &str)>> = BTreeMap::new();
    for operation in operations {
        let why = match &operation.outcome {
            Outcome::Done(_) => continue,
            Outcome::Refused(why) | Outcome::Unknown(why) => why,
        };
        let failed = by_member.entry(&operation.member).or_default();
        failed.push((operation.end, why));
    }
    let mut lines = Vec::new();
    for (member, mut failed) in by_member {
        failed.sort_unstable();
        for range in failed.chunk_by(|(one, _), (next, _)| next - one < TOGETHER) {
            lines.extend(failed_range(member, range));
        }
    }
    lines
}

fn failed_range(member: &str, range: &[(Moment, &str)]) -> Option<(Moment, String)> {
    let ((from, _), (to, _)) = (range.first()?, range.last()?);
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    for (_, why) in range {
        *reasons.entry(why).or_default() += 1;
    }
    let reasons: Vec<String> = reasons
        .iter()
        .map(|(why, count)| format!("{count} × {why}"))
        .collect();
    let (count, to, reasons) = (range.len(), seconds(*to), reasons.join("; "));
    let line = format!("clients  {count} calls of {member} failed until {to}: {reasons}");
    Some((*from, line))
}

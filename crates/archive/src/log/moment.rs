//! Which revision a time means.

use super::Mark;

/// A time that means no revision.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoMoment {
    /// It lies before the first mark, which this is.
    Before(Option<Mark>),
    /// It lies after the last one, which this is: what happened since is not known.
    After(Mark),
    /// The clock was set back, so that the time was there more than once, with these revisions.
    Ambiguous(Mark, Mark),
}

/// The last mark that was answered at a time or before it: its revision holds everything that was acknowledged before the mark
/// was sent, and nothing that was committed after the time. Marks in the order of the log.
pub fn as_of(marks: &[Mark], time: i64) -> Result<Mark, NoMoment> {
    let newest = marks.iter().copied().max_by_key(|mark| mark.answered);
    let newest = newest.ok_or(NoMoment::Before(None))?;
    if time > newest.answered {
        return Err(NoMoment::After(newest));
    }
    let is_past = |mark: &&Mark| mark.answered <= time;
    let steady = marks.iter().take_while(is_past).last();
    let last = marks.iter().rev().find(is_past);
    match (steady, last) {
        (Some(one), Some(other)) if one.revision == other.revision => Ok(*other),
        (Some(one), Some(other)) => Err(NoMoment::Ambiguous(*one, *other)),
        // The clock was set back before the first mark: nothing tells what the time meant before.
        (None, Some(other)) => {
            let first = marks.first().copied().unwrap_or(*other);
            Err(NoMoment::Ambiguous(*other, first))
        }
        (_, None) => Err(NoMoment::Before(marks.first().copied())),
    }
}

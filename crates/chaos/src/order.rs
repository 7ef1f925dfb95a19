//! Whether the store's revision followed the clock over all keys: an operation that began after another had ended got
//! at least that revision, and a higher one if it wrote. A store that was set back shows here, whichever key is asked.

use crate::history::{Anomaly, Operation};

/// The first operation that got a revision from the past, if there is one.
pub(crate) fn check(operations: &[Operation]) -> Result<(), Anomaly> {
    let told = |operation: &Operation| operation.answer().map(|answer| answer.at);
    let done = || {
        operations
            .iter()
            .filter(|operation| told(operation).is_some())
    };
    let mut by_start: Vec<&Operation> = done().collect();
    by_start.sort_by_key(|operation| operation.start);
    let mut by_end: Vec<&Operation> = done().collect();
    by_end.sort_by_key(|operation| operation.end);
    let mut ended = by_end.into_iter().peekable();
    let mut highest: Option<&Operation> = None;
    for operation in by_start {
        while let Some(earlier) = ended.next_if(|earlier| earlier.end < operation.start) {
            if highest.is_none_or(|highest| told(highest) < told(earlier)) {
                highest = Some(earlier);
            }
        }
        let Some(highest) = highest else { continue };
        let (before, now) = (told(highest), told(operation));
        let repeats = operation.acknowledged().is_some() && now == before;
        if now < before || repeats {
            let title = "the revision went back: the second began after the first had ended";
            return Err(Anomaly::new(title, &[highest, operation]));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{Action, Answer, Found, Outcome};

    fn operation(start: u64, end: u64, at: i64, wrote: bool) -> Operation {
        let before = Found {
            value: None,
            revision: 0,
        };
        Operation {
            client: 0,
            key: 0,
            action: if wrote {
                Action::Put(at.unsigned_abs())
            } else {
                Action::Get
            },
            start,
            end,
            outcome: Outcome::Done(Answer { before, wrote, at }),
            member: "c-0".to_owned(),
        }
    }

    #[test]
    fn a_revision_that_goes_on_is_fine_and_so_is_one_of_those_who_overlap() {
        let history = [
            operation(0, 10, 5, true),
            operation(11, 30, 7, true),
            operation(12, 20, 6, true),
            operation(31, 32, 7, false),
        ];
        assert_eq!(check(&history), Ok(()));
    }

    #[test]
    fn a_revision_that_goes_back_is_found() {
        let history = [operation(0, 10, 5, true), operation(11, 12, 4, false)];
        assert!(check(&history).unwrap_err().title.contains("went back"));
    }

    #[test]
    fn a_write_that_repeats_a_revision_is_found() {
        let history = [operation(0, 10, 5, true), operation(11, 12, 5, true)];
        assert!(check(&history).is_err());
    }
}

//! Histories that are right, and histories that are wrong on purpose.

use super::check;
use crate::history::{Action, Anomaly, Answer, Found, Key, Moment, Operation, Outcome, Value};

const KEY: Key = 0;

fn operation(span: (Moment, Moment), action: Action, outcome: Outcome) -> Operation {
    Operation {
        client: 0,
        key: KEY,
        action,
        start: span.0,
        end: span.1,
        outcome,
        member: "c-0".to_owned(),
    }
}

fn found(before: Option<(Value, i64)>) -> Found {
    Found {
        value: before.map(|(value, _)| value),
        revision: before.map_or(0, |(_, revision)| revision),
    }
}

type Before = Option<(Value, i64)>;

fn get(span: (Moment, Moment), before: Before, at: i64) -> Operation {
    let answer = Answer {
        before: found(before),
        wrote: false,
        at,
    };
    operation(span, Action::Get, Outcome::Done(answer))
}

fn put(span: (Moment, Moment), value: Value, before: Before, at: i64) -> Operation {
    let answer = Answer {
        before: found(before),
        wrote: true,
        at,
    };
    operation(span, Action::Put(value), Outcome::Done(answer))
}

fn swap(
    span: (Moment, Moment),
    from: Option<Value>,
    to: Value,
    before: Before,
    at: i64,
) -> Operation {
    let before = found(before);
    let wrote = before.value == from;
    let answer = Answer { before, wrote, at };
    operation(span, Action::Swap { from, to }, Outcome::Done(answer))
}

fn delete(span: (Moment, Moment), before: Before, at: i64) -> Operation {
    let answer = Answer {
        before: found(before),
        wrote: before.is_some(),
        at,
    };
    operation(span, Action::Delete, Outcome::Done(answer))
}

fn unknown(span: (Moment, Moment), action: Action) -> Operation {
    operation(span, action, Outcome::Unknown("deadline".to_owned()))
}

fn refused(span: (Moment, Moment), action: Action) -> Operation {
    operation(span, action, Outcome::Refused("no connection".to_owned()))
}

fn judge(history: &[Operation]) -> Result<(), Anomaly> {
    check(&history.iter().collect::<Vec<_>>())
}

#[test]
fn one_after_the_other_is_fine() {
    let history = [
        get((0, 1), None, 1),
        put((2, 3), 10, None, 2),
        swap((4, 5), Some(10), 11, Some((10, 2)), 3),
        swap((6, 7), Some(10), 12, Some((11, 3)), 3),
        delete((8, 9), Some((11, 3)), 4),
        delete((10, 11), None, 4),
        get((12, 13), None, 4),
    ];
    assert_eq!(judge(&history), Ok(()));
}

#[test]
fn those_who_overlap_may_come_in_any_order() {
    let history = [
        put((0, 100), 10, Some((11, 2)), 3),
        put((0, 100), 11, None, 2),
        get((5, 90), None, 1),
        get((5, 90), Some((10, 3)), 3),
        get((6, 91), Some((11, 2)), 2),
    ];
    assert_eq!(judge(&history), Ok(()));
}

#[test]
fn a_lost_acknowledged_write_is_found() {
    let history = [
        put((0, 1), 10, None, 2),
        put((2, 3), 11, Some((10, 2)), 3),
        get((4, 5), Some((10, 2)), 4),
    ];
    assert!(
        judge(&history)
            .unwrap_err()
            .title
            .contains("not linearizable")
    );
}

#[test]
fn a_write_that_another_write_does_not_find_is_lost() {
    let history = [
        put((0, 1), 10, None, 2),
        put((2, 3), 11, Some((10, 2)), 3),
        put((4, 5), 12, Some((10, 2)), 4),
    ];
    assert!(judge(&history).is_err());
}

#[test]
fn a_stale_read_is_found() {
    let history = [
        put((0, 1), 10, None, 2),
        put((2, 10), 11, Some((10, 2)), 3),
        get((3, 4), Some((11, 3)), 3),
        get((5, 6), Some((10, 2)), 2),
    ];
    assert!(judge(&history).is_err());
}

#[test]
fn a_read_of_a_deleted_value_is_found() {
    let history = [
        put((0, 1), 10, None, 2),
        delete((2, 3), Some((10, 2)), 3),
        get((4, 5), Some((10, 2)), 3),
    ];
    assert!(judge(&history).is_err());
}

#[test]
fn a_value_that_was_never_written_is_found() {
    let history = [put((0, 1), 10, None, 2), get((2, 3), Some((99, 3)), 3)];
    assert!(judge(&history).unwrap_err().title.contains("never written"));
}

#[test]
fn a_refused_write_that_took_effect_is_found() {
    let history = [
        refused((0, 1), Action::Put(10)),
        get((2, 3), Some((10, 2)), 2),
    ];
    assert!(judge(&history).unwrap_err().title.contains("never written"));
}

#[test]
fn a_value_from_the_future_is_found() {
    let history = [get((0, 1), Some((10, 2)), 2), put((2, 3), 10, None, 2)];
    assert!(judge(&history).is_err());
    let history = [
        get((0, 1), Some((10, 2)), 2),
        unknown((2, 3), Action::Put(10)),
    ];
    assert!(judge(&history).is_err());
}

#[test]
fn two_swaps_that_both_won_are_found() {
    let history = [
        put((0, 1), 10, None, 2),
        swap((2, 9), Some(10), 11, Some((10, 2)), 3),
        swap((2, 9), Some(10), 12, Some((10, 2)), 4),
    ];
    assert!(judge(&history).is_err());
}

#[test]
fn an_answer_that_contradicts_itself_is_found() {
    let mut lost = swap((2, 3), Some(10), 11, Some((10, 2)), 2);
    lost.outcome = Outcome::Done(Answer {
        before: found(Some((10, 2))),
        wrote: false,
        at: 2,
    });
    let history = [put((0, 1), 10, None, 2), lost];
    assert!(judge(&history).unwrap_err().title.contains("contradicts"));
}

#[test]
fn one_value_under_two_revisions_and_two_writes_under_one_are_found() {
    let history = [put((0, 1), 10, None, 2), get((2, 3), Some((10, 3)), 3)];
    assert!(judge(&history).unwrap_err().title.contains("two revisions"));
    let history = [put((0, 9), 10, None, 2), put((0, 9), 11, None, 2)];
    assert!(judge(&history).unwrap_err().title.contains("two writes"));
}

#[test]
fn revisions_against_the_clock_are_found() {
    let history = [put((0, 1), 10, None, 3), put((2, 3), 11, Some((10, 3)), 2)];
    assert!(judge(&history).is_err());
}

#[test]
fn an_unknown_write_may_have_taken_effect() {
    let history = [
        put((0, 1), 10, None, 2),
        unknown((2, 3), Action::Put(11)),
        get((4, 5), Some((10, 2)), 2),
        get((6, 7), Some((11, 3)), 3),
    ];
    assert_eq!(judge(&history), Ok(()));
    let without: Vec<Operation> = history
        .into_iter()
        .filter(|o| o.answer().is_some())
        .collect();
    assert!(judge(&without).is_err());
}

#[test]
fn an_unknown_write_takes_effect_once() {
    let history = [
        put((0, 1), 10, None, 2),
        unknown((2, 3), Action::Put(11)),
        get((4, 5), Some((11, 3)), 3),
        put((6, 7), 12, Some((11, 3)), 4),
        get((8, 9), Some((11, 3)), 4),
    ];
    assert!(judge(&history).is_err());
}

#[test]
fn an_unknown_deletion_explains_one_absence_and_no_second() {
    let history = [
        put((0, 1), 10, None, 2),
        unknown((2, 3), Action::Delete),
        get((4, 5), Some((10, 2)), 2),
        get((6, 7), None, 3),
    ];
    assert_eq!(judge(&history), Ok(()));
    let mut again = history.to_vec();
    again.push(put((8, 9), 11, None, 4));
    again.push(get((10, 11), None, 5));
    assert!(judge(&again).is_err());
    again.push(unknown((7, 8), Action::Delete));
    assert_eq!(judge(&again), Ok(()));
}

#[test]
fn an_unknown_deletion_does_not_act_before_it_began() {
    let history = [
        put((0, 1), 10, None, 2),
        get((2, 3), None, 3),
        unknown((4, 5), Action::Delete),
    ];
    assert!(judge(&history).is_err());
}

#[test]
fn a_chain_of_unknown_swaps_is_followed_back() {
    let swap = |span, from, to| {
        let from = Some(from);
        unknown(span, Action::Swap { from, to })
    };
    let history = [
        put((0, 1), 10, None, 2),
        swap((2, 3), 10, 11),
        swap((4, 5), 11, 12),
        swap((6, 7), 12, 13),
        get((8, 9), Some((13, 5)), 5),
    ];
    assert_eq!(judge(&history), Ok(()));
    for missing in [11, 12] {
        let mut gap = history.to_vec();
        gap.retain(|operation| operation.action.value() != Some(missing));
        assert!(judge(&gap).is_err());
    }
}

/// What a right store would answer to four clients that never rest, one of them often without an answer.
fn long(count: u64) -> Vec<Operation> {
    let mut history = Vec::new();
    let (mut value, mut revision): (Option<(Value, i64)>, i64) = (None, 1);
    for number in 0..count {
        let span = (number * 10, number * 10 + 35);
        let at = revision + 1;
        match number % 7 {
            0 | 3 => {
                history.push(put(span, number, value, at));
                value = Some((number, at));
                revision = at;
            }
            1 => {
                let from = value.map(|(value, _)| value);
                history.push(unknown(span, Action::Swap { from, to: number }));
                if number % 2 == 0 {
                    value = Some((number, at));
                    revision = at;
                }
            }
            2 => {
                history.push(unknown(span, Action::Delete));
                if number % 4 == 0 && value.is_some() {
                    value = None;
                    revision = at;
                }
            }
            4 if value.is_some() => {
                history.push(delete(span, value, at));
                value = None;
                revision = at;
            }
            _read => history.push(get(span, value, revision)),
        }
    }
    history
}

#[test]
fn a_hundred_thousand_operations_are_judged_at_once() {
    let mut history = long(100_000);
    assert_eq!(judge(&history), Ok(()));
    // A stale read in the midst of them.
    let at = history
        .iter()
        .position(|o| o.start > 500_000 && o.action == Action::Get);
    let (early, late) = (history[3].answer().unwrap().at, at.unwrap());
    history[late] = get(
        (history[late].start, history[late].end),
        Some((3, early)),
        early,
    );
    assert!(judge(&history).is_err());
}

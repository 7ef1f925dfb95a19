//! Watches that are right, and watches that are wrong on purpose.

use super::{Event, Heard, Watched, check, compare};
use crate::history::{Action, Answer, Found, Operation, Outcome, Value};

fn done(action: Action, at: i64) -> Operation {
    let before = Found {
        value: None,
        revision: 0,
    };
    let wrote = action != Action::Get;
    let outcome = Outcome::Done(Answer { before, wrote, at });
    operation(action, outcome)
}

fn operation(action: Action, outcome: Outcome) -> Operation {
    Operation {
        client: 0,
        key: 0,
        action,
        start: 0,
        end: 1,
        outcome,
        member: "c-0".to_owned(),
    }
}

fn unknown(action: Action) -> Operation {
    operation(action, Outcome::Unknown("deadline".to_owned()))
}

fn event(revision: i64, value: Option<Value>) -> Heard {
    Heard::Event(Event {
        revision,
        key: 0,
        value,
    })
}

fn watched(heard: &[Heard]) -> Watched {
    Watched {
        name: "w".to_owned(),
        from: 2,
        heard: heard.to_vec(),
        resumed: 0,
    }
}

/// Three writes at revisions 2, 3 and 4.
fn history() -> Vec<Operation> {
    vec![
        done(Action::Put(10), 2),
        done(Action::Get, 2),
        done(Action::Delete, 3),
        done(Action::Put(11), 4),
    ]
}

fn titles(heard: &[Heard], operations: &[Operation]) -> Vec<String> {
    let anomalies = check(&watched(heard), operations);
    anomalies.into_iter().map(|anomaly| anomaly.title).collect()
}

#[test]
fn a_watch_that_tells_all_is_fine() {
    let heard = [event(2, Some(10)), event(3, None), event(4, Some(11))];
    assert_eq!(titles(&heard, &history()), [""; 0]);
}

#[test]
fn a_missing_event_is_found_also_at_the_end() {
    let heard = [event(2, Some(10)), event(4, Some(11))];
    assert_eq!(titles(&heard, &history()), ["w did not receive revision 3"]);
    let heard = [event(2, Some(10)), event(3, None)];
    assert_eq!(titles(&heard, &history()), ["w did not receive revision 4"]);
}

#[test]
fn reordered_and_repeated_events_are_found() {
    let heard = [event(2, Some(10)), event(4, Some(11)), event(3, None)];
    let found = titles(&heard, &history());
    assert!(
        found.len() == 1 && found[0].contains("out of order"),
        "{found:?}"
    );
    let heard = [
        event(2, Some(10)),
        event(3, None),
        event(3, None),
        event(4, Some(11)),
    ];
    let found = titles(&heard, &history());
    assert!(found.len() == 1 && found[0].contains("twice"), "{found:?}");
}

#[test]
fn an_event_with_another_value_is_found() {
    let heard = [event(2, Some(10)), event(3, None), event(4, Some(12))];
    let found = titles(&heard, &history());
    assert!(
        found.len() == 1 && found[0].contains("something else"),
        "{found:?}"
    );
}

#[test]
fn an_event_without_a_write_is_found() {
    let heard = [
        event(2, Some(10)),
        event(3, None),
        event(4, Some(11)),
        event(5, Some(12)),
    ];
    let found = titles(&heard, &history());
    assert!(
        found.len() == 1 && found[0].contains("without a write"),
        "{found:?}"
    );
    let mut explained = history();
    explained.push(unknown(Action::Put(12)));
    assert_eq!(titles(&heard, &explained), [""; 0]);
}

#[test]
fn an_unknown_deletion_explains_one_event_only() {
    let heard = [
        event(2, Some(10)),
        event(3, None),
        event(4, Some(11)),
        event(5, None),
        event(6, None),
    ];
    let mut operations = history();
    operations.push(unknown(Action::Delete));
    assert_eq!(titles(&heard, &operations).len(), 1);
    operations.push(unknown(Action::Delete));
    assert_eq!(titles(&heard, &operations), [""; 0]);
}

#[test]
fn what_was_compacted_is_no_gap_and_is_told_of() {
    let heard = [event(2, Some(10)), Heard::Compacted(4), event(4, Some(11))];
    assert_eq!(titles(&heard, &history()), [""; 0]);
    assert_eq!(watched(&heard).compacted(), [(3, 4)]);
    // Only what was below the compacted revision is excused.
    let heard = [Heard::Compacted(3), event(4, Some(11))];
    assert_eq!(titles(&heard, &history()), ["w did not receive revision 3"]);
}

#[test]
fn two_watchers_must_agree_as_far_as_both_have_come() {
    let full = watched(&[event(2, Some(10)), event(3, None), event(4, Some(11))]);
    let behind = watched(&[event(2, Some(10)), event(3, None)]);
    assert!(compare(&full, &behind).is_empty());
    let hole = watched(&[event(2, Some(10)), event(4, Some(11))]);
    assert_eq!(compare(&full, &hole).len(), 1);
    assert!(compare(&hole, &full).is_empty());
}

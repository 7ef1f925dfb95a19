//! Which Restore fits which wait.

use gate::{Action, Identity};

use super::{super::tests::*, *};
use crate::permit::{MOST_BUMP, Permitted, Recovery, permit};

const TRAILING: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

struct Words {
    token: &'static str,
    initial_cluster: &'static str,
    directory: &'static str,
    trailer: &'static str,
    bump_revision: u64,
}

const GOOD: Words = Words {
    token: "uid-1-2",
    initial_cluster: "c-0=http://c-0:2380",
    directory: "restore-0a",
    trailer: TRAILING,
    bump_revision: 7,
};

fn restore(words: &Words) -> Action {
    Action::Restore {
        token: words.token.into(),
        initial_cluster: words.initial_cluster.into(),
        directory: words.directory.into(),
        trailer: words.trailer.into(),
        skip_hash_check: false,
        bump_revision: words.bump_revision,
    }
}

fn taken(wait: Wait<'_>, words: &Words) -> Result<Recovery, String> {
    match permit(wait, &grant(restore(words)))? {
        Permitted::Recover(recovery) => Ok(recovery),
        Permitted::Start(permit) => panic!("{permit:?}"),
    }
}

#[test]
fn an_empty_directory_and_fenced_data_take_a_restore_and_nothing_else_does() {
    for state in STATES {
        let taken = taken(wait(state), &GOOD);
        if matches!(state, State::Empty | State::Fenced) {
            assert_eq!(taken.unwrap().old, wait(state).head, "{state:?}");
        } else {
            let refusal = taken.unwrap_err();
            assert!(refusal.contains(&format!("this is {state:?}")), "{refusal}");
        }
    }
    let headless = Wait {
        head: None,
        ..wait(State::Fenced)
    };
    assert!(taken(headless, &GOOD).is_err());
}

#[test]
fn fenced_data_makes_way_only_for_an_incarnation_it_has_not_seen() {
    for (incarnation, fits) in [(None, true), (Some(1), true), (Some(2), false)] {
        let fenced = Wait {
            fence: Some(2),
            incarnation,
            ..wait(State::Fenced)
        };
        assert_eq!(taken(fenced, &GOOD).is_ok(), fits, "{incarnation:?}");
        // What an identity file says of data that is gone holds nothing up.
        let empty = Wait {
            incarnation,
            ..wait(State::Empty)
        };
        assert!(taken(empty, &GOOD).is_ok());
    }
    for state in [State::Empty, State::Fenced] {
        let behind = Wait {
            fence: Some(3),
            ..wait(state)
        };
        let refusal = taken(behind, &GOOD).unwrap_err();
        assert!(refusal.contains("behind the fence"), "{refusal}");
        let other = Wait {
            cluster_uid: "uid-2",
            ..wait(state)
        };
        assert!(taken(other, &GOOD).unwrap_err().contains("uid-2"));
    }
}

#[test]
fn what_is_permitted_is_what_the_grant_said() {
    let identity = Identity {
        cluster_uid: "uid-1".into(),
        incarnation: 2,
        nonce: "n".into(),
        pod: None,
        member_id: None,
        cluster_id: None,
        transport: None,
    };
    let snapshot = Snapshot {
        directory: "restore-0a".into(),
        trailer: TRAILING.into(),
        skip_hash_check: false,
    };
    let expected = Recovery {
        origin: Origin::Snapshot(snapshot.clone()),
        identity,
        old: None,
        token: "uid-1-2".into(),
        initial_cluster: "c-0=http://c-0:2380".into(),
        bump_revision: 7,
    };
    assert_eq!(taken(wait(State::Empty), &GOOD), Ok(expected));
    let skipping = Snapshot {
        skip_hash_check: true,
        ..snapshot
    };
    assert_eq!(
        parse_origin("restore-0a", TRAILING, true),
        Ok(Origin::Snapshot(skipping))
    );
}

#[test]
fn a_restore_bootstraps_one_member_under_the_token_of_its_incarnation() {
    let refused = |words: Words| taken(wait(State::Empty), &words).unwrap_err();
    for token in ["uid-1-1", "uid-1", "uid-2-2", ""] {
        assert!(refused(Words { token, ..GOOD }).contains("its token"));
    }
    let initial_cluster = "c-0=http://c-0:2380,c-1=http://c-1:2380";
    let refusal = refused(Words {
        initial_cluster,
        ..GOOD
    });
    assert_eq!(refusal, "a Restore must name one member alone");
    let initial_cluster = "c-0";
    let words = Words {
        initial_cluster,
        ..GOOD
    };
    assert!(refused(words).contains("no name=url"));
    for (bump_revision, fits) in [(0, true), (MOST_BUMP, true), (MOST_BUMP + 1, false)] {
        let words = Words {
            bump_revision,
            ..GOOD
        };
        assert_eq!(taken(wait(State::Empty), &words).is_ok(), fits);
    }
}

#[test]
fn a_restore_names_a_directory_on_the_volume_and_nothing_else() {
    for name in ["restore-0", "restore-00112233445566778899aabbccddeeff"] {
        assert!(is_directory(name), "{name}");
    }
    for directory in [
        "",
        "restore",
        "restore-",
        "restore-../x",
        "restore-..",
        "restore-0/..",
        "restore-0/1",
        "restore-0\\1",
        "/restore-0",
        "../restore-0",
        "./restore-0",
        "restore-0 ",
        "restore-0\0",
        "restore-0A",
        "restore-g",
        "restore-é",
        "restore-\u{660}",
        "Restore-0",
        "xrestore-0",
        "recover-00112233445566778899aabbccddeeff",
        "data",
        "restore-00112233445566778899aabbccddeeff0",
    ] {
        let words = Words { directory, ..GOOD };
        let refusal = taken(wait(State::Empty), &words).unwrap_err();
        assert!(refusal.contains("its directory"), "{refusal}");
    }
}

#[test]
fn a_trailer_is_a_whole_hash_in_lower_case() {
    for trailer in [
        "",
        "00",
        "00112233445566778899aabbccddeeff00112233445566778899aabbccddeef",
        "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff0",
        "00112233445566778899AABBCCDDEEFF00112233445566778899aabbccddeeff",
        "00112233445566778899aabbccddeeff00112233445566778899aabbccddee g",
        "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeé",
    ] {
        let words = Words { trailer, ..GOOD };
        let refusal = taken(wait(State::Empty), &words).unwrap_err();
        assert!(refusal.contains("its trailer"), "{refusal}");
    }
}

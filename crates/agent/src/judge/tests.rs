//! The table of section 4 of the contract.

use super::*;

const OURS: &str = "uid-1";

fn head() -> Wal {
    Wal::Head(Head {
        member_id: 0xa1,
        cluster_id: 0xc1,
    })
}

fn identity(object: &str, member: Option<&str>, cluster: Option<&str>) -> IdentityFile {
    IdentityFile::Says(Identity {
        cluster_uid: object.into(),
        incarnation: 1,
        nonce: "n".into(),
        pod: None,
        member_id: member.map(Into::into),
        cluster_id: cluster.map(Into::into),
        transport: None,
    })
}

fn unreadable_identity() -> IdentityFile {
    IdentityFile::Unreadable("x".into())
}

fn damaged() -> Log {
    Log {
        damage: Some("wrong CRC".into()),
        ..Log::default()
    }
}

fn state(wal: Wal, database: bool, identity: IdentityFile, log: Option<Log>) -> Option<State> {
    match judge(
        &Seen {
            place: Place::Data,
            wal,
            database,
            identity,
            log,
        },
        OURS,
        None,
    ) {
        Verdict::Start => None,
        Verdict::Wait(state, detail) => {
            assert!(!detail.is_empty());
            Some(state)
        }
    }
}

fn damaged_wal() -> Wal {
    Wal::Unreadable("x".into())
}

#[test]
fn data_that_is_ours_starts() {
    for identity in [
        identity(OURS, Some("a1"), Some("c1")),
        identity(OURS, Some("00A1"), Some("C1")),
        identity(OURS, None, None),
    ] {
        assert_eq!(state(head(), true, identity.clone(), None), None);
        // A WAL without a database is replayed by etcd.
        assert_eq!(state(head(), false, identity, None), None);
    }
}

#[test]
fn data_that_may_not_be_ours_waits() {
    use State::{Mismatch, OtherObject, Unidentified};
    for (identity, expected) in [
        (identity("uid-2", Some("a1"), Some("c1")), OtherObject),
        (identity("", None, None), OtherObject),
        (IdentityFile::Absent, Unidentified),
        (unreadable_identity(), Unidentified),
        (identity(OURS, Some("a2"), Some("c1")), Mismatch),
        (identity(OURS, Some("a1"), Some("c2")), Mismatch),
        (identity(OURS, None, Some("c2")), Mismatch),
        (identity(OURS, Some("zz"), None), Mismatch),
    ] {
        assert_eq!(state(head(), true, identity, None), Some(expected));
    }
}

#[test]
fn without_a_readable_wal_it_is_empty_or_damaged_whatever_its_identity() {
    for identity in [
        IdentityFile::Absent,
        unreadable_identity(),
        identity(OURS, Some("a1"), Some("c1")),
        identity("uid-2", None, None),
    ] {
        let state = |wal, database| state(wal, database, identity.clone(), None);
        assert_eq!(state(Wal::Absent, false), Some(State::Empty));
        assert_eq!(state(Wal::Absent, true), Some(State::Damaged));
        assert_eq!(state(damaged_wal(), false), Some(State::Damaged));
        assert_eq!(state(damaged_wal(), true), Some(State::Damaged));
    }
}

#[test]
fn a_damaged_log_of_others_is_damaged_and_ours_is_left_to_etcd() {
    assert_eq!(
        state(head(), true, IdentityFile::Absent, Some(damaged())),
        Some(State::Damaged)
    );
    let other = identity("uid-2", None, None);
    assert_eq!(
        state(head(), true, other, Some(damaged())),
        Some(State::Damaged)
    );
    assert_eq!(
        state(head(), true, identity(OURS, None, None), Some(damaged())),
        None
    );
}

#[test]
fn nothing_starts_without_a_wal_that_names_us() {
    let identities = || {
        [
            IdentityFile::Absent,
            unreadable_identity(),
            identity("uid-2", None, None),
            identity(OURS, None, None),
            identity(OURS, Some("a1"), Some("c1")),
        ]
    };
    for wal in [Wal::Absent, damaged_wal()] {
        for database in [false, true] {
            for log in [None, Some(Log::default()), Some(damaged())] {
                for identity in identities() {
                    assert!(state(wal.clone(), database, identity, log.clone()).is_some());
                }
            }
        }
    }
}

#[test]
fn an_empty_directory_says_whether_a_start_was_granted_before() {
    let identity = identity(OURS, Some("a1"), Some("c1"));
    let seen = Seen {
        place: Place::Data,
        wal: Wal::Absent,
        database: false,
        identity,
        log: None,
    };
    let Verdict::Wait(_, detail) = judge(&seen, OURS, None) else {
        panic!("an empty directory starts")
    };
    assert!(
        detail.contains("a start was granted here before"),
        "{detail}"
    );
    assert!(detail.contains("member a1"), "{detail}");
}

#[test]
fn a_log_that_was_not_read_to_its_end_says_so_and_is_not_damaged() {
    let log = Log {
        goes_on: true,
        ..Log::default()
    };
    let seen = Seen {
        place: Place::Data,
        wal: head(),
        database: true,
        identity: IdentityFile::Absent,
        log: Some(log),
    };
    let Verdict::Wait(state, detail) = judge(&seen, OURS, None) else {
        panic!("data without an identity starts")
    };
    assert_eq!(state, State::Unidentified);
    assert!(detail.contains("goes on"), "{detail}");
}

#[test]
fn data_in_the_root_waits_whatever_the_identity_file_says() {
    for identity in [
        IdentityFile::Absent,
        unreadable_identity(),
        identity("uid-2", None, None),
        identity(OURS, None, None),
        identity(OURS, Some("a1"), Some("c1")),
        identity(OURS, Some("a2"), Some("c1")),
    ] {
        for (wal, database, log, expected) in [
            (head(), true, None, State::Unidentified),
            (head(), false, Some(Log::default()), State::Unidentified),
            (head(), true, Some(damaged()), State::Damaged),
            (Wal::Absent, true, None, State::Damaged),
            (damaged_wal(), true, None, State::Damaged),
        ] {
            let seen = Seen {
                place: Place::Root,
                wal,
                database,
                identity: identity.clone(),
                log,
            };
            let Verdict::Wait(state, detail) = judge(&seen, OURS, None) else {
                panic!("data in the root starts: {seen:?}")
            };
            assert_eq!(state, expected, "{seen:?}");
            assert!(detail.contains("in the volume's root"), "{detail}");
        }
    }
}

#[test]
fn nothing_of_an_earlier_incarnation_passes_the_fence() {
    let state = |wal, database, identity, fence| {
        let seen = Seen {
            place: Place::Data,
            wal,
            database,
            identity,
            log: None,
        };
        match judge(&seen, OURS, fence) {
            Verdict::Start => None,
            Verdict::Wait(state, detail) => Some((state, detail)),
        }
    };
    let ours = || identity(OURS, Some("a1"), Some("c1"));
    for fence in [None, Some(0), Some(1)] {
        assert_eq!(state(head(), true, ours(), fence), None, "{fence:?}");
    }
    for fence in [2, 3, UNREADABLE_FENCE] {
        for identity in [
            ours(),
            identity(OURS, None, None),
            IdentityFile::Absent,
            unreadable_identity(),
        ] {
            let (found, detail) = state(head(), true, identity, Some(fence)).unwrap();
            assert_eq!(found, State::Fenced);
            assert!(detail.contains("held back by"), "{detail}");
        }
        // Whatever was no reason to start before is said as before.
        for (wal, identity, expected) in [
            (Wal::Absent, ours(), State::Damaged),
            (damaged_wal(), ours(), State::Damaged),
            (head(), identity("uid-2", None, None), State::OtherObject),
            (head(), identity(OURS, Some("a2"), None), State::Mismatch),
        ] {
            let (found, _) = state(wal, true, identity, Some(fence)).unwrap();
            assert_eq!(found, expected);
        }
        let (found, _) = state(Wal::Absent, false, ours(), Some(fence)).unwrap();
        assert_eq!(found, State::Empty);
    }
}

#[test]
fn a_damaged_log_behind_the_fence_is_damaged() {
    let seen = Seen {
        place: Place::Data,
        wal: head(),
        database: true,
        identity: identity(OURS, None, None),
        log: Some(damaged()),
    };
    let verdict = judge(&seen, OURS, Some(2));
    assert!(
        matches!(verdict, Verdict::Wait(State::Damaged, _)),
        "{verdict:?}"
    );
}

#[test]
fn data_below_its_floor_waits() {
    let log = |index, damage: Option<&str>, goes_on| Log {
        last: Position { term: 2, index },
        damage: damage.map(str::to_owned),
        goes_on,
        ..Log::default()
    };
    for (log, starts) in [
        (log(900, None, false), true),
        (log(901, None, false), true),
        (log(899, None, false), false),
        (log(0, None, false), false),
        // Nothing is known of what could not be read.
        (log(899, Some("torn"), false), true),
        (log(899, None, true), true),
    ] {
        let verdict = judge_length(&log, 900);
        assert_eq!(verdict == Verdict::Start, starts, "{log:?}: {verdict:?}");
    }
}

#[test]
fn the_volume_of_another_pod_waits() {
    let of = |pod: Option<&str>| match identity(OURS, None, None) {
        IdentityFile::Says(identity) => IdentityFile::Says(Identity {
            pod: pod.map(Into::into),
            ..identity
        }),
        other => other,
    };
    let Verdict::Wait(State::Mismatch, detail) = judge_pod(&of(Some("c-1")), Some("c-0")) else {
        panic!("the volume of another pod starts");
    };
    assert!(detail.contains("c-1"), "{detail}");
    for (written, pod) in [
        (Some("c-0"), Some("c-0")),
        (None, Some("c-0")),
        (Some("c-0"), None),
    ] {
        assert_eq!(judge_pod(&of(written), pod), Verdict::Start);
    }
    assert_eq!(
        judge_pod(&IdentityFile::Absent, Some("c-0")),
        Verdict::Start
    );
}

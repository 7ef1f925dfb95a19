//! Which grant fits which wait.

use super::*;

const UID: &str = "uid-1";
pub(crate) const STATES: [State; 7] = [
    State::Empty,
    State::OtherObject,
    State::Unidentified,
    State::Mismatch,
    State::Damaged,
    State::Fenced,
    State::RolledBack,
];

pub(super) fn grant(action: Action) -> Grant {
    Grant {
        nonce: "n".into(),
        cluster_uid: UID.into(),
        incarnation: 2,
        action,
    }
}

fn bootstrap(discard: bool) -> Action {
    Action::Bootstrap {
        token: "uid-1-2".into(),
        initial_cluster: "c-0=http://c-0:2380".into(),
        discard,
    }
}

fn join(discard: bool) -> Action {
    Action::Join {
        token: "uid-1-2".into(),
        initial_cluster: "c-0=http://c-0:2380,c-1=http://c-1:2380".into(),
        member_id: "a2".into(),
        cluster_id: "c1".into(),
        discard,
    }
}

fn resume(member_id: &str, cluster_id: &str) -> Action {
    Action::Resume {
        member_id: member_id.into(),
        cluster_id: cluster_id.into(),
    }
}

fn recover(token: &str, member_id: &str, cluster_id: &str) -> Action {
    Action::Recover {
        token: token.into(),
        initial_cluster: "c-0=http://c-0:2380".into(),
        member_id: member_id.into(),
        cluster_id: cluster_id.into(),
        bump_revision: 1_000_000,
    }
}

fn started(permitted: Permitted) -> Permit {
    match permitted {
        Permitted::Start(permit) => permit,
        Permitted::Recover(recovery) => panic!("{recovery:?}"),
    }
}

pub(super) fn wait(state: State) -> Wait<'static> {
    let head = match state {
        State::Empty | State::Damaged => None,
        State::OtherObject
        | State::Unidentified
        | State::Mismatch
        | State::Fenced
        | State::RolledBack => Some(Head {
            member_id: 0xa1,
            cluster_id: 0xc1,
        }),
    };
    Wait {
        cluster_uid: UID,
        fence: None,
        incarnation: None,
        state,
        head,
    }
}

#[test]
fn every_state_takes_only_what_fits_it() {
    for state in STATES {
        let takes = |action| permit(wait(state), &grant(action)).is_ok();
        let (empty, readable) = (state == State::Empty, wait(state).head.is_some());
        assert_eq!(takes(bootstrap(false)), empty, "{state:?}");
        assert_eq!(takes(join(false)), empty, "{state:?}");
        assert!(takes(bootstrap(true)) && takes(join(true)), "{state:?}");
        let fenced = state == State::Fenced;
        let held_back = fenced || state == State::RolledBack;
        assert_eq!(
            takes(resume("a1", "c1")),
            readable && !held_back,
            "{state:?}"
        );
        assert_eq!(takes(recover("uid-1-2", "a1", "c1")), fenced, "{state:?}");
        assert!(
            !takes(resume("a2", "c1")) && !takes(resume("a1", "c2")),
            "{state:?}"
        );
    }
    let damaged_with_a_head = Wait {
        state: State::Damaged,
        ..wait(State::OtherObject)
    };
    assert!(permit(damaged_with_a_head, &grant(resume("a1", "c1"))).is_err());
}

#[test]
fn a_grant_for_another_object_is_refused_in_every_state() {
    for state in STATES {
        for action in [
            bootstrap(true),
            join(true),
            resume("a1", "c1"),
            recover("uid-1-2", "a1", "c1"),
        ] {
            let grant = Grant {
                cluster_uid: "uid-2".into(),
                ..grant(action)
            };
            assert!(permit(wait(state), &grant).unwrap_err().contains("uid-2"));
        }
    }
}

#[test]
fn a_permit_carries_what_the_grant_said() {
    let taken = started(permit(wait(State::Damaged), &grant(join(true))).unwrap());
    let identity = Identity {
        cluster_uid: UID.into(),
        incarnation: 2,
        nonce: "n".into(),
        pod: None,
        member_id: Some("a2".into()),
        cluster_id: Some("c1".into()),
        transport: None,
    };
    let start = Start::Fresh {
        joins: true,
        initial_cluster: "c-0=http://c-0:2380,c-1=http://c-1:2380".into(),
        token: "uid-1-2".into(),
    };
    assert_eq!(
        taken,
        Permit {
            discard: true,
            identity: identity.clone(),
            start
        }
    );

    let taken = started(permit(wait(State::Empty), &grant(bootstrap(false))).unwrap());
    assert_eq!(
        taken.identity,
        Identity {
            member_id: None,
            cluster_id: None,
            ..identity
        }
    );
    assert!(matches!(taken.start, Start::Fresh { joins: false, .. }));

    let taken = started(permit(wait(State::OtherObject), &grant(resume("a1", "c1"))).unwrap());
    assert_eq!((taken.discard, taken.start), (false, Start::OnData));
    assert_eq!(taken.identity.member_id.as_deref(), Some("a1"));
}

#[test]
fn malformed_fields_are_refused() {
    let token = || "uid-1-2".to_owned();
    let one = || "c-0=http://c-0:2380".to_owned();
    let join = |token, initial_cluster, member_id: &str| Action::Join {
        token,
        initial_cluster,
        member_id: member_id.into(),
        cluster_id: "c1".into(),
        discard: false,
    };
    let bootstrap = |token, initial_cluster| Action::Bootstrap {
        token,
        initial_cluster,
        discard: false,
    };
    assert!(permit(wait(State::Empty), &grant(join(token(), one(), "a1"))).is_ok());
    let two_urls = "c-0=http://c-0:2380,c-0=http://c-0b:2380".to_owned();
    assert!(permit(wait(State::Empty), &grant(bootstrap(token(), two_urls))).is_ok());
    for action in [
        join("uid-1-1".into(), one(), "a1"),
        join(token(), String::new(), "a1"),
        join(token(), "c-0".into(), "a1"),
        join(token(), "=http://c-0".into(), "a1"),
        join(token(), one(), "0"),
        join(token(), one(), "0xa1"),
        bootstrap("uid-1".into(), one()),
        bootstrap(token(), "c-0=http://c-0:2380,c-1=http://c-1:2380".into()),
    ] {
        assert!(
            permit(wait(State::Empty), &grant(action.clone())).is_err(),
            "{action:?}"
        );
    }
}

#[test]
fn another_nonce_is_nothing_even_when_the_rest_is_nonsense() {
    let text = serde_json::to_string(&grant(join(false))).unwrap();
    assert_eq!(parse_offer(&text, "n"), Offer::Grant(grant(join(false))));
    assert_eq!(parse_offer(&text, "m"), Offer::Nothing);
    assert_eq!(
        parse_offer(r#"{"nonce":"m","action":"Dance"}"#, "n"),
        Offer::Nothing
    );
    for text in [
        r#"{"nonce":"n","action":"Dance"}"#,
        r#"{"nonce":"n"}"#,
        "{}",
        "",
        "null",
    ] {
        assert!(
            matches!(parse_offer(text, "n"), Offer::Unreadable(_)),
            "{text}"
        );
    }
}

#[test]
fn no_grant_leads_behind_the_fence() {
    for state in STATES {
        for action in [
            bootstrap(true),
            join(true),
            resume("a1", "c1"),
            recover("uid-1-2", "a1", "c1"),
        ] {
            let takes = |fence| {
                let wait = Wait {
                    fence,
                    ..wait(state)
                };
                permit(wait, &grant(action.clone()))
            };
            assert_eq!(takes(Some(2)), takes(None), "{state:?} {action:?}");
            let refusal = takes(Some(3)).unwrap_err();
            assert!(refusal.contains("behind the fence"), "{refusal}");
        }
    }
}

#[test]
fn a_recovery_is_for_this_data_and_for_an_incarnation_it_has_not_seen() {
    let fenced = Wait {
        fence: Some(2),
        incarnation: Some(1),
        ..wait(State::Fenced)
    };
    let recovery = match permit(fenced, &grant(recover("uid-1-2", "00A1", "C1"))) {
        Ok(Permitted::Recover(recovery)) => recovery,
        other => panic!("{other:?}"),
    };
    let identity = Identity {
        cluster_uid: UID.into(),
        incarnation: 2,
        nonce: "n".into(),
        pod: None,
        member_id: None,
        cluster_id: None,
        transport: None,
    };
    let expected = Recovery {
        origin: Origin::Data,
        identity,
        old: fenced.head,
        token: "uid-1-2".into(),
        initial_cluster: "c-0=http://c-0:2380".into(),
        bump_revision: 1_000_000,
    };
    assert_eq!(recovery, expected);

    let with = |initial_cluster: &str, bump_revision| Action::Recover {
        token: "uid-1-2".into(),
        initial_cluster: initial_cluster.into(),
        member_id: "a1".into(),
        cluster_id: "c1".into(),
        bump_revision,
    };
    let one = "c-0=http://c-0:2380";
    assert!(permit(fenced, &grant(with(one, 0))).is_ok());
    for action in [
        recover("uid-1-1", "a1", "c1"),
        recover("uid-1-2", "a2", "c1"),
        recover("uid-1-2", "a1", "c2"),
        recover("uid-1-2", "", "c1"),
        with("c-0=http://c-0:2380,c-1=http://c-1:2380", 1),
        with("c-0", 1),
        with(one, u64::MAX),
    ] {
        assert!(
            permit(fenced, &grant(action.clone())).is_err(),
            "{action:?}"
        );
    }
    for incarnation in [2, 3] {
        let seen = Wait {
            incarnation: Some(incarnation),
            ..fenced
        };
        assert!(permit(seen, &grant(recover("uid-1-2", "a1", "c1"))).is_err());
    }
}

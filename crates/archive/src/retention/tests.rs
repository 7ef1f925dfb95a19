//! What is kept, case by case and by its properties.

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::work::Kind;

fn object(name: &str) -> MadeBy {
    MadeBy {
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        kind: Kind::Scheduled,
    }
}

fn base(id: &str, time: &str) -> Kept {
    Kept {
        id: id.to_owned(),
        made_by: object("nightly"),
        time: time.parse().unwrap(),
        verified: None,
        damaged: false,
    }
}

fn gone(all: &[Kept], keep: &Keep) -> Vec<String> {
    let now = "2026-11-18T12:00:00Z".parse().unwrap();
    no_longer_kept(all, &object("nightly"), keep, "", now)
}

fn some() -> Vec<Kept> {
    vec![
        base("a", "2026-09-30T23:59:59Z"),
        base("b", "2026-10-01T00:00:00Z"),
        base("c", "2026-11-15T23:00:00Z"),
        base("d", "2026-11-16T01:00:00Z"),
        base("e", "2026-11-17T01:00:00Z"),
        base("f", "2026-11-17T02:00:00Z"),
        base("g", "2026-11-18T01:00:00Z"),
    ]
}

#[test]
fn what_was_just_made_stays_though_others_are_from_the_future() {
    let mut all = some();
    all.push(base("ahead", "2027-11-18T01:00:00Z"));
    let keep = Keep {
        newest: Some(1),
        ..Keep::default()
    };
    let now = "2026-11-18T12:00:00Z".parse().unwrap();
    let gone = no_longer_kept(&all, &object("nightly"), &keep, "g", now);
    assert!(!gone.contains(&"g".to_owned()), "{gone:?}");
}

#[test]
fn a_keep_that_says_nothing_keeps_all() {
    assert!(gone(&some(), &Keep::default()).is_empty());
}

#[test]
fn each_rule_keeps_what_it_says() {
    let of = |keep: Keep| gone(&some(), &keep).join("");
    let newest = |newest| Keep {
        newest: Some(newest),
        ..Keep::default()
    };
    assert_eq!(of(newest(2)), "abcde");
    assert_eq!(of(newest(0)), "abcdef");
    assert_eq!(of(newest(100)), "");
    let seconds = Some(36 * 3600);
    assert_eq!(
        of(Keep {
            seconds,
            ..Keep::default()
        }),
        "abcd"
    );
    let daily = Some(3);
    assert_eq!(
        of(Keep {
            daily,
            ..Keep::default()
        }),
        "abce"
    );
    // 2026-11-15 is a Sunday: another week than the day after it.
    let weekly = Some(2);
    assert_eq!(
        of(Keep {
            weekly,
            ..Keep::default()
        }),
        "abdef"
    );
    let monthly = Some(3);
    assert_eq!(
        of(Keep {
            monthly,
            ..Keep::default()
        }),
        "cdef"
    );
}

#[test]
fn what_any_rule_keeps_stays() {
    let keep = Keep {
        newest: Some(2),
        monthly: Some(3),
        ..Keep::default()
    };
    assert_eq!(gone(&some(), &keep).join(""), "cde");
}

#[test]
fn the_newest_that_was_verified_stays() {
    let mut all = some();
    all[1].verified = Some(Timestamp::UNIX_EPOCH);
    all[2].verified = Some(Timestamp::UNIX_EPOCH);
    let newest = Some(1);
    assert_eq!(
        gone(
            &all,
            &Keep {
                newest,
                ..Keep::default()
            }
        )
        .join(""),
        "abdef"
    );
}

#[test]
fn the_newest_counts_for_nothing_once_it_failed_its_trial() {
    let mut all = some();
    all[5].damaged = true;
    all[6].damaged = true;
    let newest = |newest| Keep {
        newest: Some(newest),
        ..Keep::default()
    };
    // It stays as long as any other would, and the newest that is left stays beside it.
    assert_eq!(gone(&all, &newest(1)).join(""), "abcdf");
    assert_eq!(gone(&all, &newest(3)).join(""), "ab");
    for base in &mut all {
        base.damaged = true;
    }
    assert_eq!(gone(&all, &newest(1)).join(""), "abcdef");
}

prop_compose! {
    fn kept()(
        id in "[a-z]{6}",
        name in prop_oneof![Just("nightly"), Just("other")],
        second in -3_000_000i64..4_000_000,
        verified in any::<bool>(),
        damaged in proptest::bool::weighted(0.3),
    ) -> Kept {
        Kept {
            id,
            made_by: object(name),
            time: Timestamp::from_second(1_700_000_000 + second).unwrap(),
            verified: (verified && !damaged).then_some(Timestamp::UNIX_EPOCH),
            damaged,
        }
    }
}

prop_compose! {
    fn keep()(
        newest in proptest::option::of(0u32..5),
        seconds in proptest::option::of(0u64..4_000_000),
        daily in proptest::option::of(0u32..5),
        weekly in proptest::option::of(0u32..5),
        monthly in proptest::option::of(0u32..5),
    ) -> Keep {
        Keep { newest, seconds, daily, weekly, monthly, spared: Vec::new() }
    }
}

fn now() -> Timestamp {
    Timestamp::from_second(1_700_000_000).unwrap()
}

proptest! {
    #[test]
    fn the_newest_and_the_newest_verified_stay_whatever_is_asked(all in vec(kept(), 0..40), keep in keep()) {
        let gone = no_longer_kept(&all, &object("nightly"), &keep, "", now());
        let own = || all.iter().filter(|base| base.made_by.name == "nightly" && !base.damaged);
        let newest = own().max_by_key(|base| (base.time, &base.id));
        let verified = own().filter(|base| base.verified.is_some());
        let verified = verified.max_by_key(|base| (base.time, &base.id));
        for base in newest.into_iter().chain(verified) {
            prop_assert!(!gone.contains(&base.id), "{base:?}");
        }
    }

    #[test]
    fn one_that_failed_its_trial_takes_no_place(all in vec(kept(), 0..40), keep in keep()) {
        let good: Vec<Kept> = all.iter().filter(|base| !base.damaged).cloned().collect();
        let gone = |all: &[Kept]| no_longer_kept(all, &object("nightly"), &keep, "", now());
        let (with, without) = (gone(&all), gone(&good));
        for base in &good {
            prop_assert_eq!(with.contains(&base.id), without.contains(&base.id), "{:?}", base);
        }
    }

    #[test]
    fn no_base_of_another_object_goes(all in vec(kept(), 0..40), keep in keep()) {
        let gone = no_longer_kept(&all, &object("nightly"), &keep, "", now());
        for base in all.iter().filter(|base| gone.contains(&base.id)) {
            prop_assert_eq!(base.made_by.name.as_str(), "nightly");
        }
    }

    #[test]
    fn what_went_once_changes_nothing_the_second_time(all in vec(kept(), 0..40), keep in keep()) {
        let gone = no_longer_kept(&all, &object("nightly"), &keep, "", now());
        let left: Vec<Kept> = all.iter().filter(|base| !gone.contains(&base.id)).cloned().collect();
        prop_assert!(no_longer_kept(&left, &object("nightly"), &keep, "", now()).is_empty());
    }

    #[test]
    fn to_ask_for_more_deletes_no_more(all in vec(kept(), 0..40), keep in keep()) {
        let more = Keep { newest: keep.newest.map(|n| n + 1).or(Some(1)), ..keep.clone() };
        let gone = no_longer_kept(&all, &object("nightly"), &keep, "", now());
        let fewer = no_longer_kept(&all, &object("nightly"), &more, "", now());
        prop_assert!(keep == Keep::default() || fewer.iter().all(|id| gone.contains(id)));
    }
}

#[test]
fn what_a_restore_needs_stays_and_takes_the_place_of_none() {
    let keep = Keep {
        newest: Some(2),
        spared: vec!["b".to_owned(), "unknown".to_owned()],
        ..Keep::default()
    };
    assert_eq!(gone(&some(), &keep).join(""), "acde");
}

//! Random observations: what can be seen, and much that cannot.

use gate::State;
use plan::Observed;
use proptest::prelude::*;

use crate::scene::{Claimed, Does, For, Listed, Scene, Slot};

const DOES: [Does; 14] = [
    Does::Absent,
    Does::Unknown,
    Does::Waits(State::Empty),
    Does::Waits(State::Empty),
    Does::Waits(State::OtherObject),
    Does::Waits(State::Unidentified),
    Does::Waits(State::Mismatch),
    Does::Waits(State::Damaged),
    Does::WaitsWithStranger,
    Does::Starts,
    Does::Serves,
    Does::Lags,
    Does::Leaderless,
    Does::ServesStranger,
];

/// One ordinal; healthy voters are likely, for without them nothing else is ever tried.
pub fn slot() -> impl Strategy<Value = Slot> {
    let fors = || prop_oneof![4 => Just(For::Nobody), 3 => Just(For::ThisWait), 1 => Just(For::FormerWait)];
    let does = prop::sample::select(DOES.to_vec());
    let listed = prop::sample::select(vec![
        Listed::No,
        Listed::No,
        Listed::New,
        Listed::Learner,
        Listed::Voter,
    ]);
    let claim = prop_oneof![
        1 => Just(Claimed::Absent), 8 => Just(Claimed::Ours),
        2 => Just(Claimed::Kept), 1 => Just(Claimed::Terminating),
    ];
    let rest = (
        prop::bool::weighted(0.1),
        any::<bool>(),
        0..60_i64,
        prop::bool::weighted(0.9),
        prop::bool::weighted(0.2),
        (prop::bool::weighted(0.3), prop::bool::weighted(0.2)),
    );
    let any = (does, listed, fors(), fors(), claim, rest).prop_map(
        |(
            does,
            listed,
            join,
            grant,
            claim,
            (terminating, ready, age, informed, leaves, (outdated, stuck)),
        )| Slot {
            does,
            listed,
            join,
            grant,
            claim,
            terminating,
            ready,
            age,
            informed,
            leaves,
            outdated,
            stuck,
        },
    );
    let outdated = Slot {
        outdated: true,
        ..Slot::voter()
    };
    prop_oneof![3 => Just(Slot::voter()), 2 => Just(outdated), 1 => growing(), 1 => leaving(), 4 => any]
}

/// A member on its way to a vote, and where that way has been lost.
fn growing() -> impl Strategy<Value = Slot> {
    let wait = Slot::empty();
    prop::sample::select(vec![
        wait,
        Slot {
            join: For::ThisWait,
            ..wait
        },
        Slot {
            join: For::ThisWait,
            listed: Listed::New,
            ..wait
        },
        Slot {
            join: For::ThisWait,
            listed: Listed::New,
            grant: For::ThisWait,
            ..wait
        },
        Slot {
            listed: Listed::New,
            grant: For::FormerWait,
            ..wait
        },
        Slot {
            join: For::ThisWait,
            listed: Listed::New,
            grant: For::FormerWait,
            ..wait
        },
        Slot {
            join: For::FormerWait,
            listed: Listed::New,
            ..wait
        },
        Slot {
            does: Does::Lags,
            listed: Listed::Learner,
            ..Slot::voter()
        },
        Slot {
            listed: Listed::Learner,
            ..Slot::voter()
        },
        Slot {
            does: Does::Waits(State::Damaged),
            join: For::ThisWait,
            listed: Listed::New,
            ..wait
        },
    ])
}

/// A member on its way out, as it goes when nothing goes wrong.
fn leaving() -> impl Strategy<Value = Slot> {
    let leaver = Slot {
        leaves: true,
        ..Slot::voter()
    };
    let gone = Slot {
        listed: Listed::No,
        ..leaver
    };
    prop::sample::select(vec![
        leaver,
        gone,
        Slot {
            does: Does::Starts,
            claim: Claimed::Terminating,
            ..gone
        },
        Slot {
            does: Does::Absent,
            claim: Claimed::Absent,
            ..gone
        },
    ])
}

/// A healthy cluster with members on their way and one ordinal of any kind.
fn healthy_slots() -> impl Strategy<Value = Vec<Slot>> {
    (
        1..6_usize,
        prop::collection::vec(
            prop_oneof![4 => growing().boxed(), 1 => leaving().boxed()],
            0..3,
        ),
        prop::option::of(slot()),
    )
        .prop_map(|(voters, moving, odd)| {
            let voters = std::iter::repeat_n(Slot::voter(), voters);
            odd.into_iter().chain(voters).chain(moving).collect()
        })
}

/// A healthy cluster in the middle of a rollout.
fn rolling_slots() -> impl Strategy<Value = Vec<Slot>> {
    let outdated = Slot {
        outdated: true,
        ..Slot::voter()
    };
    let stuck = Slot {
        stuck: true,
        does: Does::Unknown,
        ready: false,
        ..Slot::voter()
    };
    let one =
        prop_oneof![4 => Just(outdated), 4 => Just(Slot::voter()), 1 => Just(stuck), 1 => slot()];
    prop::collection::vec(one, 1..6)
}

/// A cluster that is about to begin.
fn young_slots() -> impl Strategy<Value = Vec<Slot>> {
    let quiet = Slot {
        does: Does::Unknown,
        ..Slot::empty()
    };
    let damaged = Slot {
        does: Does::Waits(State::Damaged),
        ..Slot::empty()
    };
    let one =
        prop_oneof![6 => Just(Slot::empty()), 2 => Just(quiet), 1 => Just(damaged), 1 => slot()];
    prop::collection::vec(one, 1..4)
}

/// A cluster on claims that an earlier object kept, before anything is written down.
fn kept_slots() -> impl Strategy<Value = Vec<Slot>> {
    let kept = |does| Slot {
        claim: Claimed::Kept,
        ..Slot::new(does, Listed::No)
    };
    let one = prop::sample::select(vec![
        kept(Does::Waits(State::OtherObject)),
        kept(Does::Waits(State::OtherObject)),
        kept(Does::Waits(State::Unidentified)),
        kept(Does::Waits(State::Empty)),
        kept(Does::WaitsWithStranger),
        kept(Does::Unknown),
        kept(Does::Absent),
        Slot::empty(),
    ]);
    prop::collection::vec(one, 1..5)
}

/// A whole scene of up to nine ordinals.
pub fn scene() -> impl Strategy<Value = Scene> {
    let slots = prop_oneof![
        4 => prop::collection::vec(slot(), 0..10).prop_map(|slots| (slots, None)),
        3 => healthy_slots().prop_map(|slots| (slots, Some(true))),
        3 => rolling_slots().prop_map(|slots| (slots, Some(true))),
        2 => young_slots().prop_map(|slots| (slots, Some(false))),
        1 => kept_slots().prop_map(|slots| (slots, Some(false))),
    ];
    let sizes = prop::sample::select(vec![0_u32, 1, 3, 3, 3, 5, 5, 7, 9]);
    let founder = prop::option::of((
        0..3_u32,
        prop_oneof![Just(For::ThisWait), Just(For::FormerWait)],
    ));
    let flags = (
        prop::bool::weighted(0.75),
        prop::bool::weighted(0.3),
        prop::bool::weighted(0.9),
        prop::bool::weighted(0.1),
        (prop::bool::weighted(0.3), prop::option::of(0..3_u32)),
    );
    (
        sizes,
        5..8_u8,
        slots,
        founder,
        flags,
        prop::option::of(0..10_u32),
    )
        .prop_map(
            |(
                size,
                minor,
                (slots, known),
                founder,
                (formed, resumed, list, drifted, (edited, trial)),
                replicas,
            )| {
                Scene {
                    edited,
                    trial: trial.filter(|_| edited),
                    size,
                    minor,
                    slots,
                    formed: known.unwrap_or(formed),
                    resumed,
                    founder,
                    list: list && known != Some(false),
                    drifted,
                    replicas,
                }
            },
        )
}

/// A cluster on claims that an earlier object kept.
pub fn kept_scene() -> impl Strategy<Value = Scene> {
    kept_slots().prop_map(|slots| Scene::unformed(3, slots))
}

/// A cluster as it should be, but for one ordinal at most.
pub fn nearly_settled() -> impl Strategy<Value = Scene> {
    (
        prop::sample::select(vec![1_u32, 3, 5]),
        prop::option::of((0..5_usize, slot())),
    )
        .prop_map(|(size, odd)| {
            let count = usize::try_from(size).unwrap_or(1);
            let mut slots = vec![Slot::voter(); count];
            if let Some((at, odd)) = odd
                && let Some(slot) = slots.get_mut(at)
            {
                *slot = odd;
            }
            Scene::formed(size, slots)
        })
}

/// What an operator might see of it.
pub fn observed() -> impl Strategy<Value = Observed> {
    scene().prop_map(|scene| scene.observed())
}

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
    );
    let any = (does, listed, fors(), fors(), claim, rest).prop_map(
        |(does, listed, join, grant, claim, (terminating, ready, age, informed))| Slot {
            does,
            listed,
            join,
            grant,
            claim,
            terminating,
            ready,
            age,
            informed,
        },
    );
    prop_oneof![
        3 => Just(Slot::voter()),
        1 => Just(Slot { listed: Listed::Learner, ..Slot::voter() }),
        4 => any,
    ]
}

/// A whole scene of up to nine ordinals.
pub fn scene() -> impl Strategy<Value = Scene> {
    let sizes = prop::sample::select(vec![0_u32, 1, 1, 3, 3, 3, 5, 5, 7, 9]);
    let founder = prop::option::of((
        0..3_u32,
        prop_oneof![Just(For::ThisWait), Just(For::FormerWait)],
    ));
    let flags = (
        prop::bool::weighted(0.75),
        prop::bool::weighted(0.3),
        prop::bool::weighted(0.9),
        prop::bool::weighted(0.1),
    );
    (
        sizes,
        5..8_u8,
        prop::collection::vec(slot(), 0..10),
        founder,
        flags,
        prop::option::of(0..10_u32),
    )
        .prop_map(
            |(size, minor, slots, founder, (formed, resumed, list, drifted), replicas)| Scene {
                size,
                minor,
                slots,
                formed,
                resumed,
                founder,
                list,
                drifted,
                replicas,
            },
        )
}

/// What an operator might see of it.
pub fn observed() -> impl Strategy<Value = Observed> {
    scene().prop_map(|scene| scene.observed())
}

//! Members that do not keep up, and what is remembered of members.

use gate::State;
use proptest::prelude::*;

use super::slots::put;
use crate::scene::{Does, For, Logs, Scene, Slot, Stalls};

/// What is remembered: voters, learners' seconds, whether logs are renewed, and what may be in them.
pub(super) type Memory = (bool, Option<i64>, bool, Logs);

/// Any of it.
pub(super) fn remembered() -> impl Strategy<Value = Memory> {
    let learning = prop::sample::select(vec![None, Some(10), Some(400), Some(2000)]);
    let logs = prop_oneof![
        6 => Just(Logs::AsAsked), 2 => (5..8_u8).prop_map(Logs::Since), 1 => Just(Logs::Unknown),
    ];
    (any::<bool>(), learning, prop::bool::weighted(0.1), logs)
}

/// A cluster of which one or two voters do not keep up, on every step of what is done about it, and of which another may
/// be anything, a rolled-back one too.
pub fn hanging_scene() -> impl Strategy<Value = Scene> {
    let stalls = vec![
        Stalls::Briefly,
        Stalls::Stuck,
        Stalls::Stuck,
        Stalls::SlowDisk,
    ];
    let does = vec![Does::Serves, Does::Lags, Does::Starts];
    let hung = vec![For::NoWait, For::NoWait, For::ThisWait, For::FormerWait];
    let one = (
        prop::sample::select(does),
        prop::sample::select(stalls),
        prop::sample::select(hung),
        prop::bool::weighted(0.2),
    );
    let one = one.prop_map(|(does, stalls, hung, leaves)| Slot {
        does,
        stalls,
        hung,
        leaves,
        replaced: leaves,
        ready: false,
        ..Slot::voter()
    });
    let rolled_back = Slot {
        does: Does::Waits(State::RolledBack),
        ready: false,
        ..Slot::voter()
    };
    let odd = prop_oneof![3 => super::slot().boxed(), 1 => Just(rolled_back).boxed()];
    let size = prop::sample::select(vec![1_usize, 3, 3, 5, 5]);
    let second = prop::option::weighted(0.2, (0..5_usize, one.clone()));
    let odd = prop::option::weighted(0.3, (0..5_usize, odd));
    (size, 0..5_usize, one, second, odd).prop_map(|(size, at, one, second, odd)| {
        let slots = put(vec![Slot::voter(); size], Some((at, one)));
        let slots = put(put(slots, second), odd);
        Scene::formed(u32::try_from(size).unwrap_or(1), slots)
    })
}

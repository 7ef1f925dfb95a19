//! Random observations: what can be seen, and much that cannot.

mod slots;
mod watched;

use api::v1alpha1::cluster::Retention;
use plan::Observed;
use proptest::prelude::*;
use proptest::test_runner::FileFailurePersistence;

use crate::scene::{Alarmed, Begun, Dark, For, HEAD, Made, Scene, Slot, Trial, Word};

pub use slots::slot;
pub use watched::hanging_scene;

/// So many random scenes, or as many as `PROPTEST_CASES` asks for. `PROPTEST_RNG_SEED` makes them the same each time. What
/// fails is kept in `crates/plan/tests/proptest-regressions/` and tried first from then on.
pub fn cases(usually: u32) -> ProptestConfig {
    let asked = std::env::var("PROPTEST_CASES").ok();
    ProptestConfig {
        cases: asked.and_then(|n| n.parse().ok()).unwrap_or(usually),
        max_global_rejects: 10_000_000,
        failure_persistence: Some(Box::new(FileFailurePersistence::SourceParallel(
            "proptest-regressions",
        ))),
        ..ProptestConfig::default()
    }
}

/// A whole scene of up to nine ordinals.
pub fn scene() -> impl Strategy<Value = Scene> {
    let scene = prop_oneof![
        4 => any_scene(),
        6 => formed(slots::healthy_slots().boxed()),
        5 => changing_scene(),
        2 => young(slots::young_slots().boxed()),
        2 => young(slots::kept_slots().boxed()),
        2 => volume_scene(),
        2 => shrinking_scene(),
        1 => stopped_scene(),
        1 => adopted_scene(),
        4 => upkeep_scene(),
        4 => dark_scene(),
        3 => hanging_scene(),
    ];
    (
        scene,
        prop::bool::weighted(0.02),
        prop::bool::weighted(0.02),
        watched::remembered(),
    )
        .prop_map(
            |(scene, paused, drifted, (known, learning, renewing, logs))| Scene {
                paused,
                drifted: drifted || scene.drifted,
                known,
                learning,
                renewing: renewing && scene.formed,
                logs,
                ..scene
            },
        )
}

fn sizes() -> impl Strategy<Value = u32> {
    prop::sample::select(vec![0_u32, 1, 3, 3, 3, 5, 5, 7, 9])
}

fn bootstrap() -> impl Strategy<Value = Option<(u32, For)>> {
    let wait = prop_oneof![Just(For::ThisWait), Just(For::FormerWait)];
    prop::option::of((0..3_u32, wait))
}

fn policy() -> impl Strategy<Value = Retention> {
    prop::sample::select(vec![Retention::Delete, Retention::Retain])
}

fn trial(members: u32) -> impl Strategy<Value = (u32, Trial)> {
    let stages = [
        Trial::Chosen,
        Trial::Written,
        Trial::Remade,
        Trial::Restored,
    ];
    (0..members.max(1), prop::sample::select(stages.to_vec()))
}

type Minors = (u8, bool, bool, Option<u8>);
type Policies = (Retention, Retention, bool, bool);
type Memory = (
    Minors,
    Option<(u32, Trial)>,
    Policies,
    (bool, bool),
    Option<u32>,
);

/// Minor versions of etcd, a trial, policies, sizes of volumes, pods in force.
fn memory() -> impl Strategy<Value = Memory> {
    (
        (
            5..8_u8,
            prop::bool::weighted(0.9),
            any::<bool>(),
            prop::option::of(5..8_u8),
        ),
        prop::option::of(trial(3)),
        (
            policy(),
            policy(),
            prop::bool::weighted(0.05),
            any::<bool>(),
        ),
        (prop::bool::weighted(0.2), any::<bool>()),
        prop::option::of(0..10_u32),
    )
}

/// Whatever can be painted.
fn any_scene() -> impl Strategy<Value = Scene> {
    let flags = (
        prop::bool::weighted(0.75),
        prop::bool::weighted(0.3),
        prop::bool::weighted(0.9),
        prop::bool::weighted(0.1),
        prop::bool::weighted(0.3),
    );
    let slots = prop::collection::vec(slot(), 0..10);
    (sizes(), 5..8_u8, slots, bootstrap(), flags, memory()).prop_map(
        |(size, minor, slots, bootstrap, (formed, resumed, list, drifted, edited), rest)| {
            let (
                minors,
                trial,
                (when_scaled, when_stopped, ending, clients),
                (larger, claims_follow),
                replicas,
            ) = rest;
            let (other, same, everywhere, downgrade) = minors;
            Scene {
                resumed,
                bootstrap,
                drifted,
                from: if same { minor } else { other },
                format: if same { minor } else { other },
                everywhere,
                downgrade: downgrade.filter(|_| !same),
                edited,
                trial: trial.filter(|_| edited && formed),
                when_scaled,
                when_stopped,
                ending,
                clients,
                larger,
                claims_follow,
                minor,
                list,
                formed,
                replicas,
                ..Scene::formed(size, slots)
            }
        },
    )
}

/// A cluster that has formed, of these.
fn formed(slots: BoxedStrategy<Vec<Slot>>) -> impl Strategy<Value = Scene> {
    (sizes(), 5..8_u8, slots, prop::bool::weighted(0.95)).prop_map(|(size, minor, slots, list)| {
        let scene = Scene::formed(size, slots);
        Scene {
            list: list && scene.list,
            minor,
            from: minor,
            format: minor,
            ..scene
        }
    })
}

/// A cluster that has not formed, of these.
fn young(slots: BoxedStrategy<Vec<Slot>>) -> impl Strategy<Value = Scene> {
    (sizes(), slots, bootstrap(), prop::option::of(0..10_u32)).prop_map(
        |(size, slots, bootstrap, replicas)| Scene {
            bootstrap,
            replicas,
            ..Scene::unformed(size, slots)
        },
    )
}

/// A cluster in the middle of a rollout, on its way from release to release or not.
pub fn changing_scene() -> impl Strategy<Value = Scene> {
    let minors = prop::sample::select(vec![
        (5_u8, 5_u8),
        (6, 6),
        (7, 7),
        (5, 6),
        (5, 6),
        (6, 5),
        (6, 5),
        (6, 7),
        (7, 6),
        (5, 7),
        (7, 5),
    ]);
    let flags = (
        prop::bool::weighted(0.7),
        prop::bool::weighted(0.9),
        any::<bool>(),
        prop::bool::weighted(0.95),
        prop::option::of(trial(4)),
    );
    let data = (
        any::<bool>(),
        prop::option::weighted(
            0.6,
            prop_oneof![4 => Just(None), 1 => (5..8_u8).prop_map(Some)],
        ),
    );
    (minors, slots::rolling_slots(), flags, data).prop_map(
        |((from, to), slots, (edited, everywhere, walk, list, trial), (ahead, downgrade))| {
            let size = u32::try_from(slots.len()).unwrap_or(0) | 1;
            let edited = edited || from != to;
            let scene = Scene {
                minor: to,
                from,
                walk,
                everywhere: everywhere
                    || !edited && slots.iter().all(|slot| slot.made == Made::AsAsked),
                edited,
                trial: trial.filter(|(ordinal, _)| *ordinal < size),
                ..Scene::formed(size, slots)
            };
            let hop = scene.target().intent.version.minor;
            let converts = if ahead { from.min(hop) } else { from };
            Scene {
                list: list && scene.list,
                format: converts,
                // A downgrade under way aims at what is asked for, or at something else.
                downgrade: downgrade.and_then(|other| other.or((hop < from).then_some(hop))),
                ..scene
            }
        },
    )
}

/// A change that is proven and has reached some, or is about to be tried.
pub fn waiting_scene() -> impl Strategy<Value = Scene> {
    let flags = (any::<bool>(), prop::option::of(trial(5)));
    (slots::waiting_slots(), flags).prop_map(|(slots, (edited, trial))| {
        let size = u32::try_from(slots.len()).unwrap_or(0);
        Scene {
            edited,
            everywhere: edited,
            trial: trial.filter(|(ordinal, _)| *ordinal < size),
            ..Scene::formed(size, slots)
        }
    })
}

/// A healthy cluster whose volumes are to grow.
fn volume_scene() -> impl Strategy<Value = Scene> {
    (
        slots::volume_slots(),
        prop::bool::weighted(0.9),
        any::<bool>(),
    )
        .prop_map(|(slots, larger, claims_follow)| {
            let size = u32::try_from(slots.len()).unwrap_or(0);
            Scene {
                larger,
                claims_follow,
                ..Scene::formed(size, slots)
            }
        })
}

fn shrinking_scene() -> impl Strategy<Value = Scene> {
    let size = prop::sample::select(vec![1_u32, 1, 3, 3, 5]);
    (slots::shrinking_slots(), size, policy()).prop_map(|(slots, size, when_scaled)| Scene {
        when_scaled,
        ..Scene::formed(size, slots)
    })
}

fn stopped_scene() -> impl Strategy<Value = Scene> {
    let size = prop::sample::select(vec![0_u32, 0, 0, 3]);
    (
        slots::stopped_slots(),
        size,
        policy(),
        any::<bool>(),
        any::<bool>(),
    )
        .prop_map(|(slots, size, when_stopped, ending, clients)| Scene {
            when_stopped,
            ending,
            clients,
            ..Scene::formed(size, slots)
        })
}

/// The cluster of an earlier operator, before and after it was taken over.
pub fn adopted_scene() -> impl Strategy<Value = Scene> {
    let flags = (any::<bool>(), prop::bool::weighted(0.7), any::<bool>());
    (
        prop_oneof![slots::rolling_slots().boxed(), slots::young_slots().boxed()],
        flags,
        5..7_u8,
    )
        .prop_map(|(slots, (formed, list, clients), minor)| {
            let size = u32::try_from(slots.len()).unwrap_or(0) | 1;
            let scene = Scene::edited(size, slots);
            Scene {
                formed,
                resumed: formed,
                list: list && scene.list,
                predecessor: true,
                clients,
                from: minor,
                format: minor,
                ..scene
            }
        })
}

/// A cluster that is well but for its databases.
pub fn upkeep_scene() -> impl Strategy<Value = Scene> {
    let alarm = prop::sample::select(vec![Alarmed::No, Alarmed::NoSpace, Alarmed::Corrupt]);
    let compacted = prop::sample::select(vec![None, Some(HEAD / 2), Some(HEAD - 1000)]);
    let memory = (alarm, prop::option::weighted(0.6, 0..3_u32), compacted);
    let trial = prop::option::weighted(0.1, trial(3));
    (slots::upkeep_slots(), memory, 5..8_u8, trial).prop_map(
        |(slots, (alarm, defragmenting, compacted), minor, trial)| {
            let size = u32::try_from(slots.len()).unwrap_or(0) | 1;
            Scene {
                alarm,
                defragmenting,
                compacted,
                minor,
                from: minor,
                format: minor,
                edited: trial.is_some(),
                trial,
                ..Scene::formed(size, slots)
            }
        },
    )
}

/// A cluster that lost its quorum, on every step of its recovery, and one in its second incarnation.
pub fn dark_scene() -> impl Strategy<Value = Scene> {
    let word = prop::sample::select(vec![Word::None, Word::This, Word::This, Word::Another]);
    let begun = prop_oneof![
        3 => Just(Begun::No), 3 => Just(Begun::Yes), 2 => Just(Begun::Over),
        3 => (0..5_u32, prop::bool::weighted(0.9)).prop_map(|(n, same)| Begun::Chosen(n, same)),
    ];
    let seconds = prop::sample::select(vec![None, Some(3), Some(20), Some(70), Some(900)]);
    let flags = (
        any::<bool>(),
        prop::bool::weighted(0.1),
        any::<bool>(),
        prop::bool::weighted(0.3),
    );
    (slots::dark_slots(), word, begun, seconds, flags).prop_map(
        |(slots, word, begun, seconds, (by_itself, list, clients, resumed))| {
            let size = u32::try_from(slots.len()).unwrap_or(0) | 1;
            let scene = Scene::formed(size, slots);
            Scene {
                list: scene.list && (list || begun == Begun::Over),
                clients,
                resumed,
                dark: Dark {
                    seconds,
                    word,
                    by_itself,
                    begun,
                },
                ..scene
            }
        },
    )
}

/// A cluster on claims that an earlier object kept.
pub fn kept_scene() -> impl Strategy<Value = Scene> {
    slots::kept_slots().prop_map(|slots| Scene::unformed(3, slots))
}

/// A cluster as it should be, but for one ordinal at most.
pub fn nearly_settled() -> impl Strategy<Value = Scene> {
    (
        prop::sample::select(vec![1_u32, 3, 5]),
        prop::option::of((0..5_usize, slot())),
    )
        .prop_map(|(size, odd)| {
            let count = usize::try_from(size).unwrap_or(1);
            let slots = vec![Slot::voter(); count];
            Scene::formed(size, slots::put(slots, odd))
        })
}

/// What an operator might see of it.
pub fn observed() -> impl Strategy<Value = Observed> {
    scene().prop_map(|scene| scene.observed())
}

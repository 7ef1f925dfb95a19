//! Random ordinals of every kind, and whole clusters that are in the middle of something.

use gate::State;
use proptest::prelude::*;

use crate::scene::{Claimed, Differs, Does, Fate, Fill, For, Listed, Log, Made, Sized, Slot};

const DOES: [Does; 15] = [
    Does::Absent,
    Does::Unknown,
    Does::Waits(State::Empty),
    Does::Waits(State::Empty),
    Does::Waits(State::OtherObject),
    Does::Waits(State::Unidentified),
    Does::Waits(State::Mismatch),
    Does::Waits(State::Damaged),
    Does::Waits(State::RolledBack),
    Does::WaitsWithStranger,
    Does::Starts,
    Does::Serves,
    Does::Lags,
    Does::Leaderless,
    Does::ServesStranger,
];

const LISTED: [Listed; 5] = [
    Listed::No,
    Listed::No,
    Listed::New,
    Listed::Learner,
    Listed::Voter,
];

/// One ordinal; healthy voters are likely, for without them nothing else is ever tried.
pub fn slot() -> impl Strategy<Value = Slot> {
    prop_oneof![3 => Just(Slot::voter()), 2 => Just(Slot::outdated()), 1 => growing(), 1 => leaving(), 2 => dead(), 4 => with_upkeep(any_slot())]
}

fn any_slot() -> impl Strategy<Value = Slot> {
    let fors = || prop_oneof![4 => Just(For::NoWait), 3 => Just(For::ThisWait), 1 => Just(For::FormerWait)];
    let does = prop::sample::select(DOES.to_vec());
    let listed = prop::sample::select(LISTED.to_vec());
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
        (made(), prop::bool::weighted(0.2)),
        (
            volume(),
            prop::option::weighted(0.1, 5..8_u8),
            prop::bool::weighted(0.1),
            (fate(), prop::bool::weighted(0.3)),
        ),
    );
    (does, listed, fors(), fors(), claim, rest).prop_map(
        |(
            does,
            listed,
            join,
            grant,
            claim,
            (
                terminating,
                ready,
                age,
                informed,
                leaves,
                (made, stuck),
                (volume, format, told, (fate, replaced)),
            ),
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
            made,
            stuck,
            volume,
            format,
            told,
            fate,
            replaced,
            ..Slot::voter()
        },
    )
}

fn made() -> impl Strategy<Value = Made> {
    prop_oneof![7 => Just(Made::AsAsked), 3 => Just(Made::Before), 1 => Just(Made::Otherwise)]
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        8 => Just(Fate::Unknown), 4 => Just(Fate::Fine), 1 => Just(Fate::Late), 1 => Just(Fate::Silent),
        1 => Just(Fate::OutOfService), 1 => Just(Fate::Deleted), 1 => Just(Fate::Lost), 1 => Just(Fate::Broken),
    ]
}

fn with_upkeep(slots: impl Strategy<Value = Slot>) -> impl Strategy<Value = Slot> {
    (slots, fill(), differs()).prop_map(|(slot, fill, differs)| Slot {
        fill,
        differs,
        ..slot
    })
}

fn fill() -> impl Strategy<Value = Fill> + Clone {
    prop_oneof![6 => Just(Fill::Roomy), 1 => Just(Fill::Loose), 1 => Just(Fill::Full), 1 => Just(Fill::Fragmented)]
}

fn differs() -> impl Strategy<Value = Differs> + Clone {
    prop_oneof![8 => Just(Differs::Unasked), 4 => Just(Differs::Agrees), 1 => Just(Differs::Differs)]
}

/// Voters in every state of their databases, of which one may be missing or joining.
pub(super) fn upkeep_slots() -> impl Strategy<Value = Vec<Slot>> {
    let one = (fill(), fill(), differs()).prop_map(|(fill, other, differs)| Slot {
        fill: if fill == Fill::Roomy { other } else { fill },
        differs,
        ..Slot::voter()
    });
    let one = one.boxed();
    let odd = prop::option::weighted(0.3, (0..5_usize, slot()));
    let some = prop::sample::select(vec![1_usize, 3, 3, 5]);
    let voters = some.prop_flat_map(move |some| prop::collection::vec(one.clone(), some));
    (voters, odd).prop_map(|(slots, odd)| put(slots, odd))
}

/// A member that cannot come back, on every step of being replaced.
fn dead() -> impl Strategy<Value = Slot> {
    let steps = prop::sample::select(vec![
        (Does::Unknown, Listed::Voter, false, Claimed::Ours),
        (Does::Unknown, Listed::Voter, true, Claimed::Ours),
        (Does::Absent, Listed::Voter, true, Claimed::Ours),
        (Does::Unknown, Listed::New, true, Claimed::Ours),
        (Does::Unknown, Listed::Learner, false, Claimed::Ours),
        (Does::Unknown, Listed::No, true, Claimed::Ours),
        (Does::Unknown, Listed::No, true, Claimed::Terminating),
        (Does::Absent, Listed::No, true, Claimed::Terminating),
    ]);
    (steps, fate()).prop_map(|((does, listed, leaves, claim), fate)| Slot {
        leaves,
        replaced: leaves,
        claim,
        fate,
        ..Slot::new(does, listed)
    })
}

fn volume() -> impl Strategy<Value = Sized> {
    prop_oneof![
        8 => Just(Sized::AsAsked), 2 => Just(Sized::Small), 1 => Just(Sized::Fixed),
        1 => Just(Sized::Classless), 1 => Just(Sized::Growing), 1 => Just(Sized::Huge),
    ]
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
pub(super) fn healthy_slots() -> impl Strategy<Value = Vec<Slot>> {
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
pub(super) fn rolling_slots() -> impl Strategy<Value = Vec<Slot>> {
    let away = Slot {
        does: Does::Absent,
        ..Slot::voter()
    };
    let starts = Slot {
        does: Does::Starts,
        ready: false,
        ..Slot::voter()
    };
    let ends = Slot {
        terminating: true,
        ..Slot::outdated()
    };
    let vain = Slot {
        made: Made::Otherwise,
        ..Slot::stuck()
    };
    let hidden = Slot {
        does: Does::Unknown,
        ..Slot::outdated()
    };
    let odd = prop::sample::select(vec![Slot::stuck(), vain, away, starts, ends, hidden]);
    let odd = prop_oneof![3 => odd.boxed(), 1 => slot().boxed()];
    let odd = move || prop::option::weighted(0.6, (0..5_usize, odd.clone()));
    let one = prop_oneof![7 => Just(Slot::outdated()), 5 => Just(Slot::voter())];
    let some = prop_oneof![2 => 1..6_usize, 1 => Just(5)];
    let slots = some.prop_flat_map(move |some| prop::collection::vec(one.clone(), some));
    (slots, odd(), odd()).prop_map(|(slots, one, another)| put(put(slots, one), another))
}

/// Members that all wait for their restart, of which some may be missing and one may be joining.
pub(super) fn waiting_slots() -> impl Strategy<Value = Vec<Slot>> {
    let odd = |does, terminating| Slot {
        does,
        terminating,
        ..Slot::outdated()
    };
    let odd = prop::sample::select(vec![
        odd(Does::Absent, false),
        odd(Does::Serves, true),
        odd(Does::Unknown, false),
        odd(Does::Starts, false),
        odd(Does::Leaderless, false),
        odd(Does::Lags, false),
        Slot::stuck(),
        Slot::voter(),
    ]);
    let voters = (
        prop::sample::select(vec![1_usize, 3, 3, 5, 5]),
        0..5_usize,
        0..5_usize,
    );
    let odds = (prop::option::of(odd.clone()), prop::option::of(odd));
    let joins = prop::option::weighted(0.3, growing());
    (voters, odds, joins).prop_map(|((voters, first, second), odds, joins)| {
        let slots = vec![Slot::outdated(); voters];
        let slots = put(slots, odds.0.map(|odd| (first, odd)));
        let slots = put(slots, odds.1.map(|odd| (second, odd)));
        slots.into_iter().chain(joins).collect()
    })
}

/// A healthy cluster whose volumes are to grow.
pub(super) fn volume_slots() -> impl Strategy<Value = Vec<Slot>> {
    let one = volume().prop_map(|volume| Slot {
        volume,
        ..Slot::voter()
    });
    prop::collection::vec(one, 1..6)
}

/// A cluster that was made smaller, or is to be.
pub(super) fn shrinking_slots() -> impl Strategy<Value = Vec<Slot>> {
    let leaver = Slot {
        leaves: true,
        ..Slot::voter()
    };
    let kept = |does| Slot {
        leaves: true,
        ..Slot::new(does, Listed::No)
    };
    let top = prop::sample::select(vec![
        Slot::voter(),
        leaver,
        leaver,
        Slot {
            does: Does::Starts,
            ..leaver
        },
        kept(Does::Unknown),
        kept(Does::Starts),
        kept(Does::Waits(State::Empty)),
        kept(Does::Waits(State::Mismatch)),
        kept(Does::Absent),
        Slot {
            told: true,
            ..kept(Does::Unknown)
        },
        Slot {
            claim: Claimed::Absent,
            ..kept(Does::Absent)
        },
    ]);
    (1..4_usize, prop::collection::vec(top, 1..4)).prop_map(|(voters, top)| {
        std::iter::repeat_n(Slot::voter(), voters)
            .chain(top)
            .collect()
    })
}

/// A cluster that was stopped or is stopping.
pub(super) fn stopped_slots() -> impl Strategy<Value = Vec<Slot>> {
    let gone = Slot::new(Does::Absent, Listed::No);
    let stopping = Slot {
        terminating: true,
        ..Slot::new(Does::Serves, Listed::Voter)
    };
    let one = prop_oneof![
        4 => Just(gone),
        3 => Just(Slot { claim: Claimed::Terminating, ..gone }),
        3 => Just(Slot { claim: Claimed::Absent, ..gone }),
        1 => Just(stopping),
    ];
    prop::collection::vec(one, 0..5)
}

/// Puts an odd one among others.
pub(super) fn put(mut slots: Vec<Slot>, odd: Option<(usize, Slot)>) -> Vec<Slot> {
    if let Some((at, odd)) = odd
        && let Some(slot) = slots.get_mut(at)
    {
        *slot = odd;
    }
    slots
}

/// A cluster that is about to begin.
pub(super) fn young_slots() -> impl Strategy<Value = Vec<Slot>> {
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

/// A cluster on claims that an earlier object kept, before anything is recorded.
pub(super) fn kept_slots() -> impl Strategy<Value = Vec<Slot>> {
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

/// What is left of a cluster without a quorum, before and behind a fence.
pub(super) fn dark_slots() -> impl Strategy<Value = Vec<Slot>> {
    let does = prop::sample::select(vec![
        Does::Absent,
        Does::Unknown,
        Does::Unknown,
        Does::Waits(State::Fenced),
        Does::Waits(State::Fenced),
        Does::Waits(State::Empty),
        Does::Waits(State::Damaged),
        Does::Waits(State::OtherObject),
        Does::Waits(State::Unidentified),
        Does::Starts,
        Does::Leaderless,
        Does::Serves,
        Does::ServesStranger,
    ]);
    let odd = (prop::bool::weighted(0.1), prop::bool::weighted(0.1));
    let listed = prop::sample::select(vec![Listed::Voter, Listed::Voter, Listed::New, Listed::No]);
    let one = (
        does,
        listed,
        fate(),
        prop::bool::weighted(0.7),
        odd,
        (grant_of_now(), log()),
    );
    let one = one.prop_map(
        |(does, listed, fate, fenced, (terminating, stuck), (grant, log))| Slot {
            fate,
            fenced,
            log,
            terminating,
            stuck: stuck && does == Does::Unknown,
            grant,
            ..Slot::new(does, listed)
        },
    );
    prop::collection::vec(one, 1..6)
}

fn log() -> impl Strategy<Value = Log> {
    prop_oneof![3 => Just(Log::Whole), 2 => Just(Log::Shorter), 1 => Just(Log::LaterTerm)]
}

fn grant_of_now() -> impl Strategy<Value = For> {
    prop_oneof![6 => Just(For::NoWait), 1 => Just(For::ThisWait), 1 => Just(For::FormerWait)]
}

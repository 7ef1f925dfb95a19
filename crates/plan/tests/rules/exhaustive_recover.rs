//! Every small recovery from lost quorum in which all members were stopped: which survivor is chosen, and which member is
//! waited for. What is expected follows from how the scene was painted, by definitions of this file.

use std::cmp::Reverse;

use gate::State;
use plan::{Step, decide};
use testkit::Scene;
use testkit::scene::{Begun, Dark, Does, Fate, Listed, Log, Slot, Word};

/// What an ordinal can show behind the fence, or why it shows nothing.
fn slots() -> Vec<Slot> {
    let behind_the_fence = |does, listed| Slot {
        fenced: true,
        ..Slot::new(does, listed)
    };
    let logs = [Log::Whole, Log::Shorter, Log::LaterTerm];
    let mut all = Vec::new();
    for log in logs {
        for listed in [Listed::Voter, Listed::Learner] {
            let slot = behind_the_fence(Does::Waits(State::Fenced), listed);
            all.push(Slot { log, ..slot });
        }
        let slot = behind_the_fence(Does::Waits(State::OtherObject), Listed::Voter);
        all.push(Slot { log, ..slot });
    }
    all.push(behind_the_fence(Does::Waits(State::Empty), Listed::Voter));
    for fate in [
        Fate::Unknown,
        Fate::Fine,
        Fate::Late,
        Fate::Silent,
        Fate::Deleted,
    ] {
        let slot = behind_the_fence(Does::Unknown, Listed::Voter);
        all.push(Slot { fate, ..slot });
    }
    all
}

/// What must come of it.
#[derive(Debug, PartialEq)]
enum Expected {
    /// This one goes on.
    Survivor(u32),
    /// A member is waited for, or a person.
    Wait,
}

fn expected(scene: &Scene) -> Expected {
    let asked = scene.dark.word == Word::This;
    let speaks_later = |slot: &Slot| match (slot.does, slot.fate) {
        (Does::Unknown, Fate::Deleted) => false,
        (Does::Unknown, Fate::Late | Fate::Silent) => !asked,
        (does, _) => does == Does::Unknown,
    };
    if scene.slots.iter().any(speaks_later) {
        return Expected::Wait;
    }
    let no_voter_known = !scene.known || scene.voters().next().is_none();
    let of = |state| {
        let all = (0_u32..).zip(&scene.slots);
        all.filter(move |(_, slot)| slot.does == Does::Waits(state))
    };
    let best = of(State::Fenced).max_by_key(|(ordinal, slot)| {
        let voted = no_voter_known || slot.listed == Listed::Voter;
        (slot.log.end(), voted, Reverse(*ordinal))
    });
    let longest = best.map_or((0, 0), |(_, slot)| slot.log.end());
    // It was never let through under this object, so that it cannot go on; but it holds more.
    if of(State::OtherObject).any(|(_, slot)| slot.log.end() > longest) {
        return Expected::Wait;
    }
    best.map_or(Expected::Wait, |(ordinal, _)| Expected::Survivor(ordinal))
}

#[test]
fn every_small_recovery_goes_on_from_the_longest_log() {
    let (slots, mut visited, mut chosen) = (slots(), 0, 0);
    for word in [Word::This, Word::None] {
        for known in [true, false] {
            for (a, b, c) in triples(&slots) {
                let scene = Scene {
                    list: false,
                    resumed: true,
                    known,
                    dark: Dark {
                        word,
                        ..Dark::approved(Begun::Yes)
                    },
                    ..Scene::formed(3, vec![a, b, c])
                };
                let observed = scene.observed();
                let decision = decide(&observed);
                assert_eq!(decision.forbidden, None, "{decision:?} on {scene:?}");
                let is = match &decision.step {
                    Step::Latch(new) => {
                        let recovery = new.recovery.as_ref().unwrap();
                        let survivor = recovery.survivor.as_ref().unwrap();
                        let name = &observed.cluster.name;
                        chosen += 1;
                        Expected::Survivor(api::names::ordinal(name, &survivor.member).unwrap())
                    }
                    Step::Wait => Expected::Wait,
                    other => panic!("{other:?} on {scene:?}"),
                };
                assert_eq!(is, expected(&scene), "{decision:?} on {scene:?}");
                visited += 1;
            }
        }
    }
    println!("{visited} recoveries, {chosen} survivors");
    assert!(visited > 10_000 && chosen > 2_000, "{visited} {chosen}");
}

fn triples(slots: &[Slot]) -> impl Iterator<Item = (Slot, Slot, Slot)> {
    slots.iter().flat_map(move |a| {
        let pairs = slots
            .iter()
            .flat_map(move |b| slots.iter().map(|c| (*b, *c)));
        pairs.map(|(b, c)| (*a, b, c))
    })
}

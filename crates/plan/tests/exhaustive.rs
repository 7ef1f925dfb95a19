//! Every small world: all combinations of what up to three ordinals can do, be listed as and have
//! written down, with every state of the memory. No decision panics, is refused, or goes without a reason.

use gate::State;
use plan::{decide, invariants};
use testkit::Scene;
use testkit::scene::{Claimed, Does, For, Listed, Slot};

/// Every ordinal there can be. What cannot matter is left out: a join or grant is looked at only where an
/// agent waits, or, for a grant, where a member is being started.
fn slots(listed: &[Listed]) -> Vec<Slot> {
    let mut all = Vec::new();
    for listed in listed {
        for does in [Does::Absent, Does::Serves, Does::Lags, Does::Leaderless] {
            all.push(Slot::new(does, *listed));
        }
        for does in [Does::Unknown, Does::Starts] {
            all.push(Slot::new(does, *listed));
            all.push(Slot {
                grant: For::FormerWait,
                ..Slot::new(does, *listed)
            });
        }
        for state in [State::Empty, State::Damaged, State::OtherObject] {
            let waits = Slot::new(Does::Waits(state), *listed);
            all.push(waits);
            all.push(Slot {
                grant: For::FormerWait,
                ..waits
            });
            if state != State::OtherObject {
                all.push(Slot {
                    join: For::ThisWait,
                    ..waits
                });
                all.push(Slot {
                    join: For::ThisWait,
                    grant: For::ThisWait,
                    ..waits
                });
            }
        }
    }
    all
}

/// Visits every combination of up to three slots, in every order.
fn visit(paint: &dyn Fn(Vec<Slot>) -> Scene, slots: &[Slot]) -> usize {
    let mut visited = 0;
    let mut judge = |slots: Vec<Slot>| {
        let observed = paint(slots).observed();
        let decision = decide(&observed);
        let allowed = invariants::check(&observed, &decision.step);
        assert_eq!(allowed, Ok(()), "{decision:?} on {observed:#?}");
        assert!(!decision.why.is_empty(), "{decision:?}");
        visited += 1;
    };
    judge(Vec::new());
    for first in slots {
        judge(vec![*first]);
        for second in slots {
            judge(vec![*first, *second]);
            for third in slots {
                judge(vec![*first, *second, *third]);
            }
        }
    }
    visited
}

const LISTED: [Listed; 4] = [Listed::No, Listed::New, Listed::Learner, Listed::Voter];

#[test]
fn every_small_formed_cluster_of_three_is_judged() {
    let visited = visit(
        &|slots| Scene {
            list: true,
            ..Scene::formed(3, slots)
        },
        &slots(&LISTED),
    );
    println!("{visited} formed worlds of size 3");
    assert!(visited > 350_000);
}

#[test]
fn every_small_formed_cluster_of_one_is_judged() {
    let paint = |slots| Scene {
        list: true,
        minor: 5,
        ..Scene::formed(1, slots)
    };
    let visited = visit(&paint, &slots(&[Listed::New, Listed::Voter]));
    println!("{visited} formed worlds of size 1");
}

#[test]
fn every_small_world_without_a_member_list_is_judged() {
    let mut visited = 0;
    for size in [0, 1, 3] {
        for (formed, resumed) in [(false, false), (true, false), (true, true)] {
            for founder in [None, Some((0, For::ThisWait)), Some((0, For::FormerWait))] {
                let paint = |slots| Scene {
                    formed,
                    resumed,
                    founder,
                    ..Scene::unformed(size, slots)
                };
                visited += visit(&paint, &slots(&[Listed::No]));
            }
        }
    }
    println!("{visited} worlds without a member list");
}

#[test]
fn every_small_world_on_kept_claims_is_judged() {
    let mut kept = Vec::new();
    for slot in slots(&[Listed::No]) {
        for claim in [
            Claimed::Ours,
            Claimed::Kept,
            Claimed::Absent,
            Claimed::Terminating,
        ] {
            kept.push(Slot { claim, ..slot });
        }
    }
    kept.retain(|slot| slot.grant == For::Nobody && slot.join == For::Nobody);
    let mut visited = 0;
    for (formed, resumed) in [(false, false), (true, true)] {
        let paint = |slots| Scene {
            formed,
            resumed,
            ..Scene::unformed(3, slots)
        };
        visited += visit(&paint, &kept);
    }
    println!("{visited} worlds on kept claims");
}

#[test]
fn every_small_world_whose_status_was_lost_is_judged() {
    let paint = |slots| Scene {
        list: true,
        ..Scene::unformed(3, slots)
    };
    let visited = visit(&paint, &slots(&[Listed::No, Listed::Voter]));
    println!("{visited} worlds that serve without a memory");
}

//! Every small world: all combinations of what up to three ordinals can do, be listed as and have
//! recorded, with every state of the memory. No decision panics, is refused, or goes without a reason.

use gate::State;
use plan::observed::quorum;
use plan::{Step, decide};
use testkit::Scene;
use testkit::scene::{Claimed, Does, For, Listed, Made, Slot, Trial};

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
pub(super) fn visit(paint: &dyn Fn(Vec<Slot>) -> Scene, slots: &[Slot]) -> usize {
    let mut visited = 0;
    let mut judge = |slots: Vec<Slot>| {
        let observed = paint(slots).observed();
        let decision = decide(&observed);
        assert_eq!(decision.forbidden, None, "{decision:?} on {observed:#?}");
        assert!(!decision.why.to_string().is_empty(), "{decision:?}");
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

/// Every voter there can be in a rollout.
fn rolling() -> Vec<Slot> {
    let mut all = vec![Slot {
        does: Does::Absent,
        ..Slot::voter()
    }];
    for made in [Made::AsAsked, Made::Before, Made::Otherwise] {
        for does in [Does::Serves, Does::Unknown, Does::Starts, Does::Leaderless] {
            all.push(Slot {
                does,
                made,
                ready: does == Does::Serves,
                ..Slot::voter()
            });
        }
        all.push(Slot {
            made,
            ..Slot::stuck()
        });
        all.push(Slot {
            made,
            terminating: true,
            ..Slot::voter()
        });
    }
    all
}

/// Judges a rollout; true if a member is restarted. No restart is refused, none costs a quorum, and a member that is
/// restarted on an untried template is the one that tries it.
fn judge_rollout(scene: &Scene) -> bool {
    let observed = scene.observed();
    let decision = decide(&observed);
    assert_eq!(decision.forbidden, None, "{decision:?} on {observed:#?}");
    let Step::RestartPod { ordinal, .. } = decision.step else {
        return false;
    };
    if !scene.slot(ordinal).runs_nothing() {
        let others = scene.other_voters(ordinal);
        let stay = others.filter(|other| other.takes_part() && !other.is_away());
        let (stay, all) = (stay.count(), scene.voters().count());
        assert!(stay >= quorum(all) || all == 1, "{decision:?} on {scene:?}");
    }
    let untried = matches!(scene.trial, Some((_, Trial::Written | Trial::Remade)));
    let chosen = scene.trial.map(|(chosen, _)| chosen) == Some(ordinal);
    assert!(
        !(scene.edited && untried) || chosen,
        "{decision:?} on {scene:?}"
    );
    true
}

#[test]
fn every_small_rollout_is_judged() {
    let stages = [
        Trial::Chosen,
        Trial::Written,
        Trial::Remade,
        Trial::Restored,
    ];
    let trials = (0..3).flat_map(|ordinal| stages.map(|stage| Some((ordinal, stage))));
    let trials: Vec<Option<(u32, Trial)>> = std::iter::once(None).chain(trials).collect();
    let (mut visited, mut restarts, mut all) = (0, 0, vec![Vec::new()]);
    for size in 1..=3_u32 {
        let longer = all.iter().flat_map(|slots: &Vec<Slot>| {
            let one = rolling().into_iter();
            one.map(|slot| [slots.clone(), vec![slot]].concat())
        });
        all = longer.collect();
        for slots in &all {
            let up = slots.iter().filter(|slot| slot.takes_part()).count();
            // Without a quorum there is no leader, and the list cannot be had.
            let list = up >= quorum(slots.len());
            let mut slots = slots.clone();
            for slot in slots.iter_mut().filter(|slot| slot.takes_part() && !list) {
                slot.does = Does::Leaderless;
            }
            let edited = |trial: &Option<(u32, Trial)>| Scene {
                list,
                trial: *trial,
                ..Scene::edited(size, slots.clone())
            };
            let settled = Scene {
                list,
                ..Scene::formed(size, slots.clone())
            };
            let possible = trials
                .iter()
                .filter(|trial| trial.is_none_or(|(n, _)| n < size));
            for scene in possible.map(edited).chain([settled]) {
                restarts += usize::from(judge_rollout(&scene));
                visited += 1;
            }
        }
    }
    println!("{visited} rollouts, {restarts} restarts");
    assert!(visited > 90_000 && restarts > 2_000, "{visited} {restarts}");
}

/// The same between minor versions of etcd, with data of every format.
#[test]
fn every_small_change_of_the_minor_version_is_judged() {
    let mut slots = Vec::new();
    for made in [Made::AsAsked, Made::Before] {
        for format in [5, 6, 7] {
            slots.push(Slot {
                made,
                format: Some(format),
                ..Slot::voter()
            });
        }
        slots.push(Slot {
            made,
            ..Slot::stuck()
        });
        slots.push(Slot {
            made,
            does: Does::Unknown,
            ..Slot::voter()
        });
    }
    let mut visited = 0;
    for (from, to) in [(5, 6), (6, 5), (6, 7), (7, 6), (5, 7), (7, 5)] {
        for downgrade in [None, Some(5), Some(6)] {
            for trial in [None, Some((0, Trial::Written)), Some((2, Trial::Chosen))] {
                let paint = |slots: Vec<Slot>| Scene {
                    downgrade,
                    trial,
                    walk: true,
                    ..Scene::between(from, to, slots)
                };
                visited += visit(&paint, &slots);
            }
        }
    }
    println!("{visited} changes of the minor version");
    assert!(visited > 50_000);
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
            for bootstrap in [None, Some((0, For::ThisWait)), Some((0, For::FormerWait))] {
                let paint = |slots| Scene {
                    formed,
                    resumed,
                    bootstrap,
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
    kept.retain(|slot| slot.grant == For::NoWait && slot.join == For::NoWait);
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

//! Every small world of what rests on several looks or on memory: members that hang, learners that are late, voters that are
//! recorded, volumes that were rolled back, snapshots that are taken; and clusters that are stopped.

use api::v1alpha1::cluster::Retention;
use gate::State;
use plan::observed::quorum;
use plan::{Step, decide};
use testkit::Scene;
use testkit::scene::{Claimed, Does, For, Listed, Logs, Made, Slot, Stalls};

use super::exhaustive::visit;

/// Voters that hang, on every step of what is done about it, and what the others may be meanwhile.
fn hanging() -> Vec<Slot> {
    let mut all = Vec::new();
    for does in [Does::Serves, Does::Lags, Does::Starts] {
        for stalls in [Stalls::Briefly, Stalls::Stuck, Stalls::SlowDisk] {
            for hung in [For::NoWait, For::ThisWait, For::FormerWait] {
                all.push(Slot {
                    does,
                    stalls,
                    hung,
                    ready: false,
                    ..Slot::voter()
                });
            }
        }
    }
    let leaves = Slot {
        stalls: Stalls::Stuck,
        hung: For::FormerWait,
        leaves: true,
        replaced: true,
        ..Slot::voter()
    };
    let ends = Slot {
        terminating: true,
        stalls: Stalls::Stuck,
        ..Slot::voter()
    };
    all.extend([leaves, ends, Slot::voter(), Slot::empty()]);
    all.push(Slot::new(Does::Absent, Listed::Voter));
    all.push(Slot::new(Does::Unknown, Listed::Voter));
    all.push(Slot::new(Does::Serves, Listed::Learner));
    all
}

#[test]
fn every_small_cluster_with_members_that_hang_is_judged() {
    let mut visited = 0;
    for known in [false, true] {
        let paint = |slots| Scene {
            known,
            list: true,
            ..Scene::formed(3, slots)
        };
        visited += visit(&paint, &hanging());
    }
    println!("{visited} worlds with members that hang");
    assert!(visited > 50_000);
}

/// No member that hangs is restarted where the others are no quorum, or before that was recorded.
#[test]
fn every_restart_of_a_member_that_hangs_was_recorded_and_leaves_a_quorum() {
    let (slots, mut restarts) = (hanging(), 0);
    for first in &slots {
        for second in &slots {
            for third in &slots {
                let scene = Scene::formed(3, vec![*first, *second, *third]);
                let Step::RestartPod { ordinal, .. } = decide(&scene.observed()).step else {
                    continue;
                };
                assert_eq!(scene.slot(ordinal).hung, For::ThisWait, "{scene:?}");
                let others = scene.other_voters(ordinal);
                let here = others.filter(|slot| slot.takes_part() && !slot.is_away());
                assert!(here.count() >= quorum(scene.voters().count()), "{scene:?}");
                restarts += 1;
            }
        }
    }
    assert!(restarts > 20, "{restarts}");
}

/// Volumes that were rolled back, and learners, with everything that can be remembered of them.
#[test]
fn every_small_cluster_with_volumes_that_were_rolled_back_is_judged() {
    let mut slots = vec![Slot::voter(), Slot::new(Does::Absent, Listed::Voter)];
    for listed in [Listed::No, Listed::New, Listed::Learner, Listed::Voter] {
        let waits = Slot::new(Does::Waits(State::RolledBack), listed);
        let both = |join, grant| Slot {
            join,
            grant,
            ..waits
        };
        slots.extend([
            waits,
            both(For::ThisWait, For::NoWait),
            both(For::ThisWait, For::ThisWait),
            both(For::FormerWait, For::FormerWait),
        ]);
        for does in [Does::Starts, Does::Lags, Does::Unknown] {
            slots.push(Slot::new(does, listed));
        }
    }
    let mut visited = 0;
    for (known, learning) in [
        (true, None),
        (true, Some(10)),
        (true, Some(2000)),
        (false, Some(2000)),
    ] {
        let paint = |slots| Scene {
            known,
            learning,
            list: true,
            ..Scene::formed(3, slots)
        };
        visited += visit(&paint, &slots);
    }
    println!("{visited} worlds with volumes that were rolled back");
    assert!(visited > 100_000);
}

/// On the way to 3.7 and back from it, with everything that the logs may hold.
#[test]
fn every_small_renewal_of_the_logs_is_judged() {
    let mut slots = vec![Slot::new(Does::Unknown, Listed::Voter)];
    for made in [Made::AsAsked, Made::Before] {
        for (format, terminating) in [(5, false), (6, false), (7, false), (6, true)] {
            slots.push(Slot {
                made,
                terminating,
                format: Some(format),
                ..Slot::voter()
            });
        }
    }
    let mut visited = 0;
    for (from, to) in [(6, 7), (7, 6), (6, 6), (5, 7)] {
        for downgrade in [None, Some(5), Some(6)] {
            for logs in [Logs::AsAsked, Logs::Since(5), Logs::Since(6), Logs::Unknown] {
                for renewing in [false, true] {
                    let paint = |slots: Vec<Slot>| Scene {
                        downgrade,
                        logs,
                        renewing,
                        walk: true,
                        ..Scene::between(from, to, slots)
                    };
                    visited += visit(&paint, &slots);
                }
            }
        }
    }
    println!("{visited} renewals of the logs");
    assert!(visited > 70_000);
}

/// Only data that this object has used is deleted, and all of that is.
#[test]
fn every_small_cluster_that_is_stopped_deletes_what_it_has_used_and_nothing_else() {
    let claims = [
        Claimed::Absent,
        Claimed::Ours,
        Claimed::Kept,
        Claimed::Terminating,
    ];
    let slot = |claim| Slot {
        claim,
        ..Slot::new(Does::Absent, Listed::No)
    };
    let slots = claims.map(slot);
    let mut deleted = 0;
    for (formed, ending) in [(false, false), (false, true), (true, false), (true, true)] {
        for when_stopped in [Retention::Delete, Retention::Retain] {
            for at in 0..64 {
                let three = [slots[at / 16], slots[at / 4 % 4], slots[at % 4]];
                let scene = Scene {
                    formed,
                    ending,
                    when_stopped,
                    ..Scene::unformed(0, three.to_vec())
                };
                let decision = decide(&scene.observed());
                assert_eq!(decision.forbidden, None, "{decision:?} on {scene:?}");
                let used = |claim: Claimed| match claim {
                    Claimed::Absent => false,
                    Claimed::Ours => true,
                    Claimed::Kept | Claimed::Terminating => formed,
                };
                let stays = |slot: &Slot| used(slot.claim) && slot.claim != Claimed::Terminating;
                let first = three.iter().position(stays).filter(|_| ending);
                let goes = match &decision.step {
                    Step::DeleteClaim { ordinal, .. } => usize::try_from(*ordinal).ok(),
                    _other => None,
                };
                assert_eq!(goes, first, "{decision:?} on {scene:?}");
                let begins = matches!(&decision.step, Step::Latch(new) if new.ending);
                let asked = when_stopped == Retention::Delete && !ending;
                let any = three.iter().any(|slot| used(slot.claim));
                assert_eq!(begins, asked && any, "{decision:?} on {scene:?}");
                deleted += usize::from(goes.is_some());
            }
        }
    }
    assert!(deleted > 50, "{deleted}");
}

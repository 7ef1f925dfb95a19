//! Stories of volumes that were rolled back or exchanged, in the simulated Kubernetes and etcd.

use api::Reason;
use api::v1alpha1::cluster::{OnQuorumLoss, Retention};
use testkit::Run;
use testkit::run::{Faults, killed_at_every_write};
use testkit::story::{BOUND, seeds, settle, settled};

/// A cluster with a history that was seen, and what its clients were told then.
fn grown(size: u32, seed: u64) -> Run<'static> {
    let mut run = settled(size, 6, seed);
    let id = run.world.clusters.keys().next().copied().unwrap_or(0);
    run.world.write(id, 5000);
    run.turns(20);
    settle(&mut run, "seen");
    run
}

fn ids(run: &Run<'_>) -> Vec<u64> {
    let clusters = run.world.clusters.values();
    clusters
        .flat_map(|cluster| cluster.members.iter().map(|member| member.id))
        .collect()
}

fn replaced(before: &[u64], run: &Run<'_>) -> usize {
    let after = ids(run);
    before.iter().filter(|id| !after.contains(id)).count()
}

#[test]
fn a_volume_that_was_rolled_back_is_held_and_its_member_replaced() {
    for seed in seeds(15) {
        for size in [3, 5] {
            let mut run = grown(size, seed);
            let before = ids(&run);
            let victim = u32::try_from(seed % u64::from(size)).unwrap();
            run.world.roll_back(victim, 900);
            settle(&mut run, &format!("{victim} of {size}, seed {seed}"));
            assert_eq!(replaced(&before, &run), 1, "{victim}, seed {seed}");
            assert_eq!(run.world.healthy_voters(), usize::try_from(size).unwrap());
        }
    }
}

#[test]
fn it_is_held_also_while_the_operator_is_away() {
    for seed in seeds(15) {
        let mut run = grown(3, seed);
        let before = ids(&run);
        run.faults = Faults {
            absent: 100,
            ..Faults::default()
        };
        run.world.roll_back(1, 900);
        run.turns(60);
        let serving = run.world.healthy_voters();
        assert_eq!(serving, 2, "seed {seed}");
        run.faults = Faults::default();
        settle(&mut run, &format!("seed {seed}"));
        assert_eq!(replaced(&before, &run), 1, "seed {seed}");
    }
}

#[test]
fn a_start_on_the_same_volume_is_never_taken_for_a_rollback() {
    for seed in seeds(15) {
        let mut run = grown(3, seed);
        let before = ids(&run);
        run.faults = Faults {
            crash: 3,
            delete_pod: 2,
            stale: 20,
            torn: 20,
            ..Faults::default()
        };
        run.turns(400);
        run.faults = Faults::default();
        settle(&mut run, &format!("seed {seed}"));
        assert_eq!(replaced(&before, &run), 0, "seed {seed}");
    }
}

#[test]
fn where_most_were_rolled_back_a_person_decides() {
    for seed in seeds(10) {
        for (size, victims) in [(1, 0..1), (3, 0..2), (3, 0..3)] {
            let mut run = grown(size, seed);
            run.world.quiet = true;
            // What they lack may exist elsewhere: that is never the operator's to decide.
            run.world.object.on_quorum_loss = OnQuorumLoss::FromSurvivor;
            for victim in victims.clone() {
                run.world.roll_back(victim, 900);
            }
            run.turns(50);
            run.world.sleep(600);
            run.turns(50);
            let what = format!("{victims:?} of {size}, seed {seed}");
            assert_eq!(run.world.clusters.len(), 1, "{what}");
            assert!(run.reasons.contains_key(&Reason::QuorumLost), "{what}");
            run.world.approve_recovery();
            run.world.quiet = false;
            settle(&mut run, &what);
            assert_eq!(run.world.clusters.len(), 2, "{what}");
            assert_eq!(run.world.healthy_voters(), usize::try_from(size).unwrap());
        }
    }
}

#[test]
fn the_volume_of_another_cluster_is_held_and_the_member_replaced() {
    for seed in seeds(15) {
        let mut run = grown(3, seed);
        let before = ids(&run);
        let victim = u32::try_from(seed % 3).unwrap();
        run.world.exchange_volume(victim, 0xbad);
        settle(&mut run, &format!("{victim}, seed {seed}"));
        assert_eq!(replaced(&before, &run), 1, "seed {seed}");
    }
}

#[test]
fn killed_at_every_write_the_repair_goes_on() {
    for (seed, foreign) in [(1, false), (2, true)] {
        let mut world = grown(3, seed).world;
        if foreign {
            world.exchange_volume(1, 0xbad);
        } else {
            world.roll_back(1, 900);
        }
        world.writes = 0;
        killed_at_every_write(&world, &|run| run.settle(BOUND)).unwrap();
    }
}

#[test]
fn two_of_five_whose_volumes_were_exchanged_are_replaced() {
    for seed in seeds(15) {
        let mut run = grown(5, seed);
        let before = ids(&run);
        run.world.swap_volumes(1, 3);
        settle(&mut run, &format!("seed {seed}"));
        assert_eq!(replaced(&before, &run), 2, "seed {seed}");
        assert_eq!(run.world.healthy_voters(), 5);
    }
}

#[test]
fn where_most_were_exchanged_they_are_waited_for_until_a_person_decides() {
    for seed in seeds(15) {
        for back in [true, false] {
            let mut run = grown(3, seed);
            run.world.quiet = true;
            run.world.object.on_quorum_loss = OnQuorumLoss::FromSurvivor;
            run.world.swap_volumes(0, 2);
            run.turns(50);
            run.world.sleep(600);
            run.turns(50);
            let what = format!("back {back}, seed {seed}");
            assert_eq!(run.world.clusters.len(), 1, "{what}");
            assert!(run.reasons.contains_key(&Reason::QuorumLost), "{what}");
            if back {
                run.world.swap_volumes(0, 2);
            } else {
                run.world.approve_recovery();
            }
            run.world.quiet = false;
            settle(&mut run, &what);
            let clusters = if back { 1 } else { 2 };
            assert_eq!(run.world.clusters.len(), clusters, "{what}");
            assert_eq!(run.world.healthy_voters(), 3);
        }
    }
}

/// The lowest index below which a voter's log counts as rolled back.
fn lowest_floor(run: &Run<'_>) -> i64 {
    let voters = run.world.memory().voters;
    voters
        .iter()
        .map(|voter| voter.index.unwrap_or(0))
        .min()
        .unwrap_or(0)
}

#[test]
fn a_claim_that_is_kept_does_not_end_the_protection() {
    for seed in seeds(10) {
        let mut run = settled(5, 6, seed);
        run.world.object.when_scaled = Retention::Retain;
        run.world.resize(3);
        settle(&mut run, &format!("seed {seed}"));
        assert_eq!(run.world.claims.len(), 5, "seed {seed}");
        let id = run.world.clusters.keys().next().copied().unwrap_or(0);
        run.world.write(id, 5000);
        // Indexes are not recorded more often.
        run.world.sleep(600);
        run.turns(20);
        settle(&mut run, &format!("seed {seed}"));
        assert!(lowest_floor(&run) > 4000, "seed {seed}");
    }
}

#[test]
fn a_pod_made_again_before_its_new_member_joins_does_not_start_on_removed_data() {
    for seed in seeds(20) {
        let mut run = grown(3, seed);
        let before = ids(&run);
        run.world.roll_back(1, 900);
        for _ in 0..BOUND {
            if ids(&run).len() == 2 {
                break;
            }
            run.turn();
        }
        assert_eq!(ids(&run).len(), 2, "seed {seed}");
        // etcd refuses to add a member for a while, and the pod is made again meanwhile.
        for _ in 0..(seed % 8) {
            run.turn();
            run.world.tick();
            run.world.pods.remove(&1);
        }
        settle(&mut run, &format!("seed {seed}"));
        assert_eq!(replaced(&before, &run), 1, "seed {seed}");
        assert_eq!(run.world.healthy_voters(), 3, "seed {seed}");
    }
}

/// Each of them costs a write of the StatefulSet.
#[test]
fn indexes_are_recorded_at_most_every_ten_minutes_unless_a_voter_comes() {
    for seed in seeds(3) {
        let mut run = settled(1, 6, seed);
        let id = run.world.clusters.keys().next().copied().unwrap();
        let floors = |run: &Run<'_>| run.world.set.as_ref().unwrap().template.floors.clone();
        let (mut last, mut times) = (floors(&run), 0);
        for _ in 0..30 {
            run.world.write(id, 1000);
            run.turns(10);
            run.world.sleep(58);
            times += usize::from(floors(&run) != last);
            last = floors(&run);
        }
        assert!((2..=4).contains(&times), "{times}, seed {seed}");
        assert!(last.values().all(|floor| *floor > 10_000), "{last:?}");
        // One that comes waits for nothing.
        run.world.resize(3);
        settle(&mut run, "grown");
        assert_eq!(floors(&run).len(), 3, "seed {seed}");
    }
}

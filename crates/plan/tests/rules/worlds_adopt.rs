//! Stories of the cluster that an earlier operator runs: taken over in place, rolled onto the gate one member at a
//! time, never begun again beside it.

use testkit::run::{Faults, killed_at_every_write};
use testkit::story::{BOUND, seeds, settle};
use testkit::{Run, World};

/// All members run behind the gate, in the one cluster there ever was, and every write is there.
fn is_taken_over(run: &Run<'_>, size: u32) -> Result<(), String> {
    let world = &run.world;
    let gated = world.pods.values().all(|pod| !pod.template.ungated);
    let identified = world
        .claims
        .values()
        .all(|claim| claim.volume.identity.is_some());
    let voters = usize::try_from(size).ok();
    let whole = world.clusters.len() == 1 && Some(world.healthy_voters()) == voters;
    let kept = world
        .clusters
        .values()
        .all(|cluster| cluster.acknowledged >= 7 && cluster.removed.is_empty());
    if gated && identified && whole && kept {
        return Ok(());
    }
    Err(format!(
        "gated {gated}, identified {identified}, whole {whole}, kept {kept}"
    ))
}

#[test]
fn the_cluster_of_an_earlier_operator_is_taken_over_in_place() {
    for seed in seeds(20) {
        for (size, minor) in [(1, 5), (3, 5), (5, 5), (3, 6)] {
            let mut run = Run::new(World::of_predecessor(size, minor, seed));
            settle(&mut run, &format!("size {size}, seed {seed}"));
            is_taken_over(&run, size).unwrap();
            assert!(run.world.most_away <= 1, "size {size}, seed {seed}");
        }
    }
}

#[test]
fn taking_over_survives_a_kill_at_every_write() {
    for size in [1, 3] {
        let world = World::of_predecessor(size, 5, 3);
        let played = killed_at_every_write(&world, &|run| {
            let turns = run.settle(BOUND)?;
            is_taken_over(run, size).map(|()| turns)
        });
        println!("{} kills", played.unwrap());
    }
}

#[test]
fn taking_over_survives_every_fault_at_once() {
    for seed in seeds(40) {
        let mut run = Run::new(World::of_predecessor(3, 5, seed));
        run.faults = Faults::ALL;
        run.turns(200);
        settle(&mut run, &format!("seed {seed}"));
        is_taken_over(&run, 3).unwrap();
    }
}

#[test]
fn what_an_earlier_operator_runs_is_left_alone_until_a_quorum_answers() {
    for seed in seeds(20) {
        let mut run = Run::new(World::of_predecessor(3, 5, seed));
        run.world.freeze(0, true);
        run.world.freeze(1, true);
        let before = run.world.set.clone();
        run.turns(80);
        assert_eq!(run.world.set, before, "seed {seed}");
        assert!(run.world.memory().proven.is_none() && run.world.small.is_empty());
        assert!(run.world.pods.values().all(|pod| pod.template.ungated));
        run.world.freeze(0, false);
        run.world.freeze(1, false);
        settle(&mut run, &format!("seed {seed}"));
        is_taken_over(&run, 3).unwrap();
    }
}

#[test]
fn a_status_wiped_while_taking_over_is_found_again() {
    for seed in seeds(60) {
        let mut run = Run::new(World::of_predecessor(3, 5, seed));
        run.turns(usize::try_from(seed).unwrap());
        run.world.wipe_status();
        settle(&mut run, &format!("seed {seed}"));
        is_taken_over(&run, 3).unwrap();
    }
}

#[test]
fn taking_over_and_upgrading_at_once_end_at_both() {
    for seed in seeds(20) {
        let mut run = Run::new(World::of_predecessor(3, 5, seed));
        run.turns(usize::try_from(seed * 2).unwrap());
        run.world.upgrade(6);
        settle(&mut run, &format!("seed {seed}"));
        is_taken_over(&run, 3).unwrap();
        assert!(run.world.minors().iter().all(|runs| *runs == 6));
    }
}

#[test]
fn a_volume_lost_while_taking_over_is_replaced() {
    for seed in seeds(20) {
        for victim in 0..3 {
            let mut run = Run::new(World::of_predecessor(3, 5, seed));
            run.turns(usize::try_from(seed * 2).unwrap());
            run.world.lose_claim(victim);
            settle(&mut run, &format!("victim {victim}, seed {seed}"));
            assert_eq!(
                (run.world.healthy_voters(), run.world.clusters.len()),
                (3, 1)
            );
        }
    }
}

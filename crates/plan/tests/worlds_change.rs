//! Stories of changes that reach the pods, in the simulated Kubernetes and etcd: rollouts, releases, what becomes of
//! volumes. A member at a time, and whatever was tried in vain goes back when the edit is taken back.

use api::Reason;
use api::v1alpha1::cluster::Retention;
use plan::Decision;
use testkit::Run;
use testkit::run::{Faults, killed_at_every_write};
use testkit::story::{BOUND, seeds, settle, settled};

fn is_halted(decision: &Decision) -> bool {
    decision.reason == Reason::RolloutHalted
}

/// Every pod was made from what is asked for.
fn is_rolled_out(run: &Run<'_>) -> bool {
    let look = run
        .world
        .look_around(&testkit::world::observe::Blind::default());
    let wanted = look.observed.cluster.target.unwrap().template;
    run.world.templates().iter().all(|hash| *hash == wanted)
}

#[test]
fn a_change_reaches_every_member_one_at_a_time() {
    for seed in seeds(20) {
        for (size, minor) in [(1, 6), (3, 5), (3, 6), (5, 7)] {
            let mut run = settled(size, minor, seed);
            run.world.most_away = 0;
            run.world.edit(1);
            settle(&mut run, &format!("size {size}, seed {seed}"));
            assert!(is_rolled_out(&run), "size {size}, seed {seed}");
            assert!(run.world.most_away <= 1, "size {size}, seed {seed}");
            assert_eq!(run.world.clusters.len(), 1);
        }
    }
}

#[test]
fn a_rollout_survives_a_kill_at_every_write() {
    for (size, minor) in [(1, 6), (3, 6)] {
        let mut run = settled(size, minor, 3);
        run.world.edit(1);
        run.world.writes = 0;
        killed_at_every_write(&run.world, &|run| {
            let turns = run.settle(BOUND)?;
            if is_rolled_out(run) {
                Ok(turns)
            } else {
                Err("not every pod was made anew".to_owned())
            }
        })
        .unwrap();
    }
}

#[test]
fn a_rollout_survives_every_fault_at_once() {
    for seed in seeds(40) {
        let mut run = settled(3, 6, seed);
        run.world.edit(1);
        run.faults = Faults::ALL;
        run.turns(200);
        settle(&mut run, &format!("seed {seed}"));
        assert!(is_rolled_out(&run), "seed {seed}");
    }
}

#[test]
fn a_change_that_does_not_come_up_stops_at_the_first_member_and_goes_back() {
    for seed in seeds(20) {
        for size in [1, 3, 5] {
            let mut run = settled(size, 6, seed);
            run.world.bad_edits.insert(1);
            run.world.edit(1);
            run.world.most_away = 0;
            run.settle_as(BOUND, &|decision| size == 1 || is_halted(decision))
                .unwrap();
            run.turns(60);
            let tried = run.world.pods.values().filter(|pod| pod.template.bad);
            assert!(
                tried.count() <= 1 && run.world.most_away <= 1,
                "seed {seed}"
            );
            // Whoever comes back meanwhile comes back on what is proven.
            if size > 1 {
                let well = run.world.pods.iter().find(|(_, pod)| !pod.template.bad);
                let well = *well.unwrap().0;
                run.world.delete_pod(well);
                run.turns(80);
                assert!(!run.world.pods[&well].template.bad, "seed {seed}");
            }
            run.world.edit(0);
            settle(&mut run, &format!("size {size}, seed {seed}"));
            assert!(is_rolled_out(&run), "size {size}, seed {seed}");
        }
    }
}

#[test]
fn a_change_that_does_not_come_up_can_be_mended_by_another() {
    for seed in seeds(15) {
        for size in [1, 3] {
            let mut run = settled(size, 6, seed);
            run.world.bad_edits.insert(1);
            run.world.edit(1);
            run.turns(80);
            run.world.edit(2);
            settle(&mut run, &format!("size {size}, seed {seed}"));
            assert!(is_rolled_out(&run), "size {size}, seed {seed}");
        }
    }
}

#[test]
fn a_change_that_is_changed_on_its_way_ends_at_the_last_one() {
    for seed in seeds(40) {
        let mut run = settled(3, 6, seed);
        for edit in [1, 2, 3] {
            run.world.edit(edit);
            run.turns(usize::try_from(seed).unwrap());
        }
        settle(&mut run, &format!("seed {seed}"));
        assert!(is_rolled_out(&run), "seed {seed}");
        assert!(run.world.most_away <= 1, "seed {seed}");
    }
}

#[test]
fn a_cluster_walks_up_and_down_the_lines_of_etcd() {
    for seed in seeds(15) {
        for size in [1, 3] {
            let mut run = settled(size, 5, seed);
            run.world.most_away = 0;
            for minor in [6, 7, 6, 5, 6] {
                run.world.upgrade(minor);
                settle(&mut run, &format!("to 3.{minor}, size {size}, seed {seed}"));
                assert!(run.world.minors().iter().all(|runs| *runs == minor));
            }
            assert!(run.world.most_away <= 1 && run.world.clusters.len() == 1);
        }
    }
}

#[test]
fn an_upgrade_that_does_not_come_up_can_be_mended_by_another() {
    for seed in seeds(15) {
        for (from, to) in [(5, 6), (6, 7), (6, 5), (7, 6)] {
            let mut run = settled(3, from, seed);
            run.world.bad_edits.insert(1);
            run.world.edit(1);
            run.world.upgrade(to);
            run.turns(120);
            run.world.edit(2);
            settle(&mut run, &format!("3.{from} to 3.{to}, seed {seed}"));
            assert!(run.world.minors().iter().all(|runs| *runs == to));
        }
    }
}

#[test]
fn an_upgrade_survives_a_kill_at_every_write() {
    let mut run = settled(3, 5, 4);
    run.world.object.walk = true;
    run.world.upgrade(7);
    run.world.writes = 0;
    killed_at_every_write(&run.world, &|run| run.settle(BOUND)).unwrap();
}

#[test]
fn a_downgrade_survives_a_kill_at_every_write() {
    let mut run = settled(3, 6, 4);
    run.world.upgrade(5);
    run.world.writes = 0;
    killed_at_every_write(&run.world, &|run| run.settle(BOUND)).unwrap();
}

#[test]
fn upgrades_survive_every_fault_at_once() {
    for seed in seeds(25) {
        let mut run = settled(3, 5, seed);
        run.world.object.walk = true;
        run.world.forgiving = true;
        run.world.upgrade(7);
        run.faults = Faults::ALL;
        run.turns(150);
        run.world.upgrade(if seed % 2 == 0 { 7 } else { 6 });
        run.turns(100);
        settle(&mut run, &format!("seed {seed}"));
    }
}

#[test]
fn an_upgrade_taken_back_at_any_moment_ends_where_it_began() {
    for seed in seeds(60) {
        let mut run = settled(3, 5, seed);
        run.world.upgrade(6);
        run.turns(usize::try_from(seed * 2).unwrap());
        run.world.upgrade(5);
        settle(&mut run, &format!("seed {seed}"));
        assert!(run.world.minors().iter().all(|runs| *runs == 5));
    }
}

#[test]
fn whatever_line_is_asked_for_at_whatever_moment_is_reached() {
    for seed in seeds(60) {
        let mut run = settled(if seed % 3 == 0 { 1 } else { 3 }, 5, seed);
        run.world.object.walk = true;
        for _ in 0..6 {
            let minor = 5 + u8::try_from(run.world.rng.below(3)).unwrap();
            run.world.upgrade(minor);
            let turns = run.world.rng.below(90);
            run.turns(usize::try_from(turns).unwrap());
        }
        let wanted = run.world.object.minor;
        settle(&mut run, &format!("seed {seed}"));
        assert!(run.world.minors().iter().all(|runs| *runs == wanted));
    }
}

#[test]
fn whatever_line_is_asked_for_under_every_fault_is_reached() {
    for seed in seeds(30) {
        let mut run = settled(if seed % 3 == 0 { 1 } else { 3 }, 5, seed);
        run.world.object.walk = true;
        run.world.forgiving = seed % 2 == 0;
        run.faults = Faults {
            delete_pod: if seed % 2 == 0 { 2 } else { 0 },
            ..Faults::ALL
        };
        for _ in 0..5 {
            let minor = 5 + u8::try_from(run.world.rng.below(3)).unwrap();
            run.world.upgrade(minor);
            let turns = run.world.rng.below(90);
            run.turns(usize::try_from(turns).unwrap());
        }
        let wanted = run.world.object.minor;
        settle(&mut run, &format!("seed {seed}"));
        assert!(run.world.minors().iter().all(|runs| *runs == wanted));
    }
}

#[test]
fn walking_down_survives_a_kill_at_every_write() {
    let mut run = settled(3, 7, 4);
    run.world.object.walk = true;
    run.world.upgrade(5);
    run.world.writes = 0;
    killed_at_every_write(&run.world, &|run| run.settle(BOUND)).unwrap();
}

#[test]
fn a_jump_over_a_line_is_refused_unless_it_may_be_walked() {
    let mut run = settled(3, 5, 1);
    run.world.upgrade(7);
    run.settle_as(BOUND, &|decision| decision.reason == Reason::Refused)
        .unwrap();
    assert!(run.world.minors().iter().all(|runs| *runs == 5));
    run.world.object.walk = true;
    settle(&mut run, "walking");
    assert!(run.world.minors().iter().all(|runs| *runs == 7));
}

#[test]
fn scaling_and_upgrading_at_once_end_at_both() {
    for seed in seeds(20) {
        for (from, to) in [(1, 3), (3, 5), (5, 3), (3, 1)] {
            let mut run = settled(from, 5, seed);
            run.world.upgrade(6);
            run.turns(usize::try_from(seed * 2).unwrap());
            run.world.resize(to);
            settle(&mut run, &format!("{from} to {to}, seed {seed}"));
            assert_eq!(run.world.healthy_voters(), usize::try_from(to).unwrap());
            assert!(run.world.minors().iter().all(|runs| *runs == 6));
        }
    }
}

#[test]
fn a_cluster_stopped_under_delete_begins_a_new_life() {
    for seed in seeds(10) {
        let mut run = settled(3, 6, seed);
        run.world.object.when_stopped = Retention::Delete;
        run.world.resize(0);
        settle(&mut run, "stopping");
        assert!(run.world.claims.is_empty() && run.world.pods.is_empty());
        run.world.resize(3);
        settle(&mut run, "starting anew");
        assert_eq!(run.world.object.status.incarnation, Some(2));
        assert_eq!(run.world.clusters.len(), 2);
    }
}

#[test]
fn a_cluster_stopped_under_delete_is_never_started_on_what_is_left() {
    for seed in seeds(40) {
        let mut run = settled(3, 6, seed);
        run.world.object.when_stopped = Retention::Delete;
        run.world.resize(0);
        run.turns(usize::try_from(seed).unwrap());
        run.world.resize(3);
        settle(&mut run, &format!("seed {seed}"));
        assert_eq!(run.world.healthy_voters(), 3);
    }
}

#[test]
fn a_volume_kept_after_scaling_in_is_used_again_but_its_data_is_not() {
    for seed in seeds(20) {
        let mut run = settled(3, 6, seed);
        run.world.object.when_scaled = Retention::Retain;
        for size in [1, 3, 1, 5] {
            run.world.resize(size);
            settle(&mut run, &format!("to {size}, seed {seed}"));
            assert_eq!(run.world.healthy_voters(), usize::try_from(size).unwrap());
            assert!(run.world.claims.len() >= 3, "claims are kept");
        }
        assert_eq!(run.world.clusters.len(), 1);
    }
}

//! Stories of changes that reach the pods, in the simulated Kubernetes and etcd: rollouts, releases, what becomes of
//! volumes. A member at a time, and whatever was tried in vain goes back when the edit is taken back.

use api::Reason;
use plan::Decision;
use testkit::Run;
use testkit::run::{Faults, killed_at_every_write};
use testkit::story::{BOUND, seeds, settle, settled};

fn is_halted(decision: &Decision) -> bool {
    decision.reason() == Reason::RolloutHalted
}

/// Every pod was made from what is asked for.
fn is_rolled_out(run: &Run<'_>) -> bool {
    let look = run
        .world
        .look_around(&testkit::world::observe::Blind::default());
    let wanted = look.observed.cluster.target.map(|target| target.template);
    let mut templates = run.world.templates().into_iter();
    templates.all(|hash| Some(hash) == wanted)
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
                Err("not every pod was recreated".to_owned())
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
            // A pod that comes back meanwhile comes back on what is proven.
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
fn a_change_that_does_not_come_up_can_be_corrected_by_another() {
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
fn a_rollout_goes_on_though_a_volume_is_lost() {
    for seed in seeds(40) {
        for victim in 0..3 {
            let mut run = settled(3, 6, seed);
            run.world.edit(1);
            run.turns(usize::try_from(seed).unwrap());
            run.world.lose_claim(victim);
            settle(&mut run, &format!("victim {victim}, seed {seed}"));
            assert!(is_rolled_out(&run), "victim {victim}, seed {seed}");
            assert_eq!(run.world.clusters.len(), 1);
        }
    }
}

#[test]
fn two_operators_at_once_roll_out_one_member_at_a_time() {
    for seed in seeds(80) {
        for size in [3, 5] {
            let mut run = settled(size, 6, seed);
            run.world.most_away = 0;
            run.world.edit(1);
            // Every other look is an old picture: the second operator's, or that of a cache that is late.
            run.faults = Faults {
                stale: 25,
                torn: 25,
                late: 40,
                ..Faults::default()
            };
            run.turns(150);
            assert!(run.world.most_away <= 1, "size {size}, seed {seed}");
            settle(&mut run, &format!("size {size}, seed {seed}"));
            assert!(is_rolled_out(&run), "size {size}, seed {seed}");
        }
    }
}

#[test]
fn pods_deleted_at_random_during_a_bad_rollout_come_back_on_what_is_proven() {
    let mut more_than_one = 0;
    for seed in seeds(60) {
        for size in [3, 5] {
            let mut run = settled(size, 6, seed);
            run.world.bad_edits.insert(1);
            run.world.most_untried = 0;
            run.world.edit(1);
            run.faults = Faults {
                delete_pod: 6,
                ..Faults::default()
            };
            run.turns(200);
            more_than_one += usize::from(run.world.most_untried > 1);
            run.settle_as(BOUND, &is_halted)
                .unwrap_or_else(|why| panic!("size {size}, seed {seed}: {why}"));
            // The pod that was deleted last comes back meanwhile.
            run.turns(60);
            let tried = run.world.pods.values().filter(|pod| pod.template.bad);
            assert_eq!(tried.count(), 1, "size {size}, seed {seed}");
            let well = usize::try_from(size).unwrap() - 1;
            assert_eq!(run.world.healthy_voters(), well, "size {size}, seed {seed}");
            run.world.edit(0);
            settle(&mut run, &format!("size {size}, seed {seed}"));
        }
    }
    // The window is hit now and then; otherwise this would prove little.
    assert!(more_than_one > 3, "{more_than_one}");
    println!("{more_than_one} times a second pod met the untried template and was healed");
}

#[test]
fn a_status_wiped_in_the_middle_of_a_rollout_is_found_again() {
    for seed in seeds(80) {
        let mut run = settled(3, 6, seed);
        run.world.edit(1);
        run.turns(usize::try_from(seed).unwrap());
        run.world.most_away = 0;
        run.world.wipe_status();
        settle(&mut run, &format!("seed {seed}"));
        assert!(is_rolled_out(&run), "seed {seed}");
        assert!(run.world.most_away <= 1, "seed {seed}");
        assert_eq!(run.world.clusters.len(), 1);
    }
}

#[test]
fn a_status_wiped_while_the_operator_is_half_blind_costs_no_second_member() {
    for seed in seeds(80) {
        let mut run = settled(3, 6, seed);
        run.world.edit(1);
        run.turns(usize::try_from(seed % 50).unwrap());
        run.world.wipe_status();
        run.world.most_away = 0;
        run.faults = Faults {
            blind_pod: 40,
            blind_list: 40,
            ..Faults::default()
        };
        run.turns(60);
        assert!(run.world.most_away <= 1, "seed {seed}");
        settle(&mut run, &format!("seed {seed}"));
        assert!(is_rolled_out(&run), "seed {seed}");
    }
}

#[test]
fn a_bad_rollout_whose_status_was_wiped_reaches_no_other_member() {
    for seed in seeds(40) {
        let mut run = settled(3, 6, seed);
        run.world.bad_edits.insert(1);
        run.world.edit(1);
        run.settle_as(BOUND, &is_halted).unwrap();
        run.world.wipe_status();
        run.turns(100);
        let tried = run.world.pods.values().filter(|pod| pod.template.bad);
        assert_eq!(tried.count(), 1, "seed {seed}");
        run.world.edit(0);
        settle(&mut run, &format!("seed {seed}"));
    }
}

#[test]
fn an_object_created_anew_with_another_edit_resumes_and_runs_on_it() {
    for seed in seeds(20) {
        for size in [1, 3] {
            let mut run = settled(size, 6, seed);
            run.world.edit(1);
            run.turns(usize::try_from(seed * 2).unwrap());
            run.world.create_again(size);
            run.turns(usize::try_from(seed % 7).unwrap());
            run.world.edit(2);
            settle(&mut run, &format!("size {size}, seed {seed}"));
            assert!(is_rolled_out(&run), "size {size}, seed {seed}");
            assert_eq!(run.world.clusters.len(), 1);
        }
    }
}

#[test]
fn a_paused_rollout_stands_still() {
    for seed in seeds(20) {
        let mut run = settled(3, 6, seed);
        run.world.edit(1);
        // A rollout takes longer than this.
        run.turns(usize::try_from(seed % 8).unwrap());
        run.world.pause(true);
        run.turns(100);
        assert!(!is_rolled_out(&run), "seed {seed}");
        run.world.pause(false);
        settle(&mut run, &format!("seed {seed}"));
        assert!(is_rolled_out(&run), "seed {seed}");
    }
}

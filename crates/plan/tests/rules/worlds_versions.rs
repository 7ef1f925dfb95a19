//! Stories of releases in the simulated Kubernetes and etcd: up and down the minor versions, reverted, corrected,
//! killed.

use api::Reason;
use testkit::Run;
use testkit::run::{Faults, killed_at_every_write};
use testkit::story::{BOUND, seeds, settle, settled};

#[test]
fn a_cluster_walks_up_and_down_the_minor_versions_of_etcd() {
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
        // A user who deletes all the others' pods while one tries the next minor version brings all of them there at
        // once, and a pod that is deleted after that meets data that has followed: it refuses to start until the set
        // follows, too.
        run.faults = Faults {
            delete_pod: 0,
            ..Faults::ALL
        };
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
fn a_jump_over_a_minor_version_is_refused_unless_it_may_be_walked() {
    let mut run = settled(3, 5, 1);
    run.world.upgrade(7);
    run.settle_as(BOUND, &|decision| {
        decision.reason() == Reason::ChangeRefused
    })
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
fn upgrades_of_five_survive_a_kill_at_every_write() {
    let mut run = settled(5, 5, 2);
    run.world.object.walk = true;
    run.world.upgrade(7);
    run.world.writes = 0;
    let played = killed_at_every_write(&run.world, &|run| run.settle(BOUND)).unwrap();
    println!("{played} kills");
}

#[test]
fn two_operators_at_once_upgrade_one_member_at_a_time() {
    for seed in seeds(60) {
        let mut run = settled(3, 5, seed);
        run.world.object.walk = true;
        run.world.most_away = 0;
        run.world.upgrade(7);
        run.faults = Faults {
            stale: 25,
            torn: 25,
            late: 40,
            ..Faults::default()
        };
        run.turns(250);
        assert!(run.world.most_away <= 1, "seed {seed}");
        settle(&mut run, &format!("seed {seed}"));
        assert!(
            run.world.minors().iter().all(|runs| *runs == 7),
            "seed {seed}"
        );
    }
}

#[test]
fn a_downgrade_taken_back_at_any_moment_ends_where_it_began() {
    for seed in seeds(60) {
        let mut run = settled(3, 6, seed);
        run.world.upgrade(5);
        run.turns(usize::try_from(seed * 2).unwrap());
        run.world.upgrade(6);
        settle(&mut run, &format!("seed {seed}"));
        assert!(
            run.world.minors().iter().all(|runs| *runs == 6),
            "seed {seed}"
        );
        run.turns(40);
        let cluster = run.world.clusters.values().next().unwrap();
        assert_eq!(cluster.downgrade, None, "seed {seed}");
        let data = run
            .world
            .claims
            .values()
            .filter_map(|claim| claim.volume.data);
        let formats: Vec<u8> = data.map(|data| data.storage).collect();
        assert_eq!(formats, vec![6; 3], "seed {seed}");
    }
}

#[test]
fn an_upgrade_that_does_not_come_up_can_be_corrected_by_another() {
    for seed in seeds(10) {
        for (size, from, to) in [
            (1, 5, 6),
            (3, 5, 6),
            (3, 6, 7),
            (3, 6, 5),
            (3, 7, 6),
            (5, 6, 5),
        ] {
            let mut run = settled(size, from, seed);
            run.world.bad_edits.insert(1);
            run.world.edit(1);
            run.world.upgrade(to);
            run.turns(120);
            let what = format!("3.{from} to 3.{to}, size {size}, seed {seed}");
            run.world.edit(2);
            settle(&mut run, &what);
            assert!(run.world.minors().iter().all(|runs| *runs == to), "{what}");
        }
    }
}

#[test]
fn a_downgrade_of_one_that_does_not_come_up_goes_back() {
    for seed in seeds(10) {
        let mut run = settled(1, 6, seed);
        run.world.bad_edits.insert(1);
        run.world.edit(1);
        run.world.upgrade(5);
        run.turns(120);
        run.world.edit(0);
        run.world.upgrade(6);
        settle(&mut run, &format!("seed {seed}"));
        run.world.upgrade(5);
        settle(&mut run, &format!("seed {seed}"));
    }
}

#[test]
fn a_status_wiped_in_the_middle_of_a_walk_is_found_again() {
    for seed in seeds(80) {
        let mut run = settled(3, 5, seed);
        run.world.object.walk = true;
        run.world.upgrade(7);
        // A member that is unwell goes first, and the one with the lowest ordinal is asked first after the wipe.
        run.world.freeze(0, seed % 2 == 0);
        run.turns(10);
        run.world.freeze(0, false);
        run.turns(usize::try_from(seed / 2).unwrap());
        run.world.wipe_status();
        settle(&mut run, &format!("seed {seed}"));
        assert!(
            run.world.minors().iter().all(|runs| *runs == 7),
            "seed {seed}"
        );
    }
}

#[test]
fn a_downgrade_that_is_cancelled_by_hand_starts_no_member_on_data_that_it_cannot_read() {
    for seed in seeds(60) {
        let mut run = settled(3, 6, seed);
        run.world.upgrade(5);
        for _ in 0..4 {
            run.turns(usize::try_from(seed % 11).unwrap());
            // A user who does so while a member is being restarted asks for it.
            let stands = run.world.minors().len() == 3
                && run.world.pods.values().all(|pod| !pod.terminating);
            for cluster in run.world.clusters.values_mut().filter(|_| stands) {
                cluster.downgrade = None;
            }
        }
        settle(&mut run, &format!("seed {seed}"));
        assert!(
            run.world.minors().iter().all(|runs| *runs == 5),
            "seed {seed}"
        );
    }
}

#[test]
fn whatever_minor_version_is_asked_for_at_whatever_moment_is_reached() {
    for seed in seeds(60) {
        let mut run = settled(if seed % 3 == 0 { 1 } else { 3 }, 5, seed);
        wavers(&mut run, 6, seed);
    }
}

#[test]
fn whatever_minor_version_is_asked_for_under_every_fault_is_reached() {
    for seed in seeds(30) {
        // A single member whose pod vanishes in the second in which its data turns new, while another minor version is
        // asked for, is left to the user.
        let alone = seed % 3 == 0 && seed % 2 == 1;
        let mut run = settled(if alone { 1 } else { 3 }, 5, seed);
        run.world.forgiving = seed % 2 == 0;
        run.faults = Faults {
            delete_pod: if seed % 2 == 0 { 2 } else { 0 },
            ..Faults::ALL
        };
        wavers(&mut run, 5, seed);
    }
}

/// Its owner asks for any minor version at any moment, so many times, and gets the last of them.
fn wavers(run: &mut Run<'_>, times: usize, seed: u64) {
    run.world.object.walk = true;
    for _ in 0..times {
        let minor = 5 + u8::try_from(run.world.rng.below(3)).unwrap_or(0);
        run.world.upgrade(minor);
        let turns = run.world.rng.below(90);
        run.turns(usize::try_from(turns).unwrap_or(0));
    }
    let wanted = run.world.object.minor;
    settle(run, &format!("seed {seed}"));
    assert!(run.world.minors().iter().all(|runs| *runs == wanted));
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
fn members_that_are_asked_for_while_logs_are_renewed_join_after_it() {
    for seed in seeds(60) {
        let mut run = settled(3, 5, seed);
        run.world.object.walk = true;
        run.world.upgrade(6);
        settle(&mut run, &format!("to 3.6, seed {seed}"));
        run.world.upgrade(7);
        run.turns(usize::try_from(seed % 12).unwrap());
        run.world.resize(5);
        settle(&mut run, &format!("to 3.7 and five, seed {seed}"));
        assert!(run.world.minors().iter().all(|runs| *runs == 7));
        assert_eq!(run.world.healthy_voters(), 5);
    }
}

//! Whole stories in a simulated Kubernetes and etcd. However they go, they end with what was asked
//! for, and nothing happens on the way that must never happen: no fork, no amnesia, no lost write.

use api::Reason;
use api::v1alpha1::cluster::Retention;
use plan::{Decision, Step};
use testkit::run::{Faults, killed_at_every_write};
use testkit::story::{BOUND, seeds, settle, settled};
use testkit::{Run, World};

fn incarnation(run: &Run<'_>) -> u64 {
    plan::status::latched(&run.world.object.status).incarnation
}

#[test]
fn a_cluster_of_every_size_is_created_on_every_minor_version() {
    for minor in [5, 6, 7] {
        for size in [1, 3, 5, 7, 9] {
            for seed in seeds(10) {
                let run = settled(size, minor, seed);
                assert_eq!(run.world.healthy_voters(), usize::try_from(size).unwrap());
                assert_eq!(incarnation(&run), 1, "3.{minor}, size {size}, seed {seed}");
                assert_eq!(run.world.clusters.len(), 1);
            }
        }
    }
}

#[test]
fn creation_survives_a_kill_at_every_write() {
    let mut played = 0;
    for (size, minor) in [(1, 5), (3, 5), (3, 6), (5, 6)] {
        for seed in seeds(3) {
            let world = World::new(size, minor, seed);
            played += killed_at_every_write(&world, &|run| run.settle(BOUND)).unwrap();
        }
    }
    println!("{played} kills");
}

#[test]
fn a_replacement_survives_a_kill_at_every_write() {
    let mut run = settled(3, 6, 7);
    run.world.writes = 0;
    for lose in [World::lose_claim, World::empty_volume, World::damage_volume] {
        let mut world = run.world.clone();
        lose(&mut world, 1);
        killed_at_every_write(&world, &|run| run.settle(BOUND)).unwrap();
    }
}

#[test]
fn growth_survives_a_kill_at_every_write() {
    for minor in [5, 6] {
        let mut run = settled(1, minor, 3);
        run.world.resize(3);
        run.world.writes = 0;
        killed_at_every_write(&run.world, &|run| run.settle(BOUND)).unwrap();
    }
}

#[test]
fn creation_survives_every_fault_at_once() {
    for seed in seeds(60) {
        for (size, minor) in [(3, 5), (5, 6)] {
            let mut run = Run::new(World::new(size, minor, seed));
            run.faults = Faults::ALL;
            run.turns(150);
            settle(&mut run, &format!("size {size}, seed {seed}"));
            assert_eq!(
                run.world
                    .clusters
                    .values()
                    .filter(|c| c.acknowledged > 0)
                    .count(),
                1
            );
        }
    }
}

#[test]
fn a_settled_cluster_survives_every_fault_at_once() {
    for seed in seeds(40) {
        let mut run = settled(3, 6, seed);
        run.faults = Faults::ALL;
        run.turns(150);
        settle(&mut run, &format!("seed {seed}"));
        assert_eq!(run.world.clusters.len(), 1);
    }
}

#[test]
fn two_operators_at_once_do_no_harm() {
    for seed in seeds(60) {
        let mut run = Run::new(World::new(3, if seed % 2 == 0 { 5 } else { 6 }, seed));
        // Every other look is an old picture: the second operator's.
        run.faults = Faults {
            stale: 35,
            torn: 35,
            crash: 3,
            ..Faults::default()
        };
        run.turns(200);
        settle(&mut run, &format!("seed {seed}"));
    }
}

#[test]
fn a_first_volume_lost_before_the_cluster_formed_raises_the_incarnation() {
    let mut raised = 0;
    for seed in seeds(40) {
        for lose in [World::lose_claim, World::empty_volume] {
            let mut run = Run::new(World::new(3, 6, seed));
            let chosen = loop {
                run.turn();
                if let Some(intent) = &run.world.memory().bootstrap {
                    break api::names::ordinal("db", &intent.member).unwrap();
                }
            };
            run.turns(usize::try_from(seed % 4).unwrap());
            if run.world.object.status.cluster_id.is_some() {
                continue;
            }
            lose(&mut run.world, chosen);
            settle(&mut run, &format!("seed {seed}"));
            assert!(incarnation(&run) > 1, "seed {seed}");
            raised += 1;
        }
    }
    assert!(raised > 30, "{raised}");
}

#[test]
fn a_voter_that_lost_its_volume_is_replaced_without_losing_a_write() {
    for seed in seeds(30) {
        for lose in [World::lose_claim, World::empty_volume, World::damage_volume] {
            for (size, minor) in [(3, 5), (3, 6), (5, 6)] {
                let mut run = settled(size, minor, seed);
                let (id, cluster) = run.world.clusters.first_key_value().unwrap();
                let (id, before) = (*id, cluster.acknowledged);
                run.world.write(id, 5000);
                let victim = u32::try_from(seed).unwrap() % size;
                lose(&mut run.world, victim);
                settle(&mut run, &format!("size {size}, seed {seed}"));
                let after = &run.world.clusters[&id];
                assert!(after.acknowledged > before && run.world.clusters.len() == 1);
                assert_eq!(after.removed.len(), 1);
            }
        }
    }
}

#[test]
fn volumes_lost_one_after_another_under_faults_cost_nothing() {
    for seed in seeds(30) {
        let mut run = settled(3, 6, seed);
        for victim in [0, 1, 2] {
            run.world.lose_claim(victim);
            run.faults = Faults {
                blind_pod: 20,
                blind_list: 20,
                stale: 30,
                ..Faults::default()
            };
            run.turns(60);
            settle(&mut run, &format!("victim {victim}, seed {seed}"));
        }
        assert_eq!(run.world.clusters.len(), 1);
    }
}

#[test]
fn never_removes_a_voter_while_another_is_down() {
    for seed in seeds(20) {
        let mut run = settled(3, 6, seed);
        run.world.freeze(2, true);
        run.world.lose_claim(1);
        run.turns(200);
        let cluster = run.world.clusters.values().next().unwrap();
        assert!(cluster.removed.is_empty() && cluster.members.len() == 3);
        run.verdict().unwrap();
        run.world.freeze(2, false);
        settle(&mut run, &format!("seed {seed}"));
    }
}

#[test]
fn an_object_created_anew_resumes_what_was_kept() {
    for seed in seeds(20) {
        for size in [1, 3, 5] {
            let mut run = settled(size, 6, seed);
            let acknowledged = run.world.clusters.values().next().unwrap().acknowledged;
            run.world.create_again(size);
            settle(&mut run, &format!("size {size}, seed {seed}"));
            let cluster = run.world.clusters.values().next().unwrap();
            assert!(cluster.acknowledged >= acknowledged && run.world.clusters.len() == 1);
            assert!(run.world.memory().resumed);
        }
    }
}

#[test]
fn resuming_survives_a_kill_at_every_write() {
    let mut run = settled(3, 6, 11);
    run.world.create_again(3);
    run.world.writes = 0;
    killed_at_every_write(&run.world, &|run| run.settle(BOUND)).unwrap();
}

#[test]
fn an_object_created_anew_resumes_though_one_volume_is_empty() {
    for seed in seeds(20) {
        for empty in 0..3 {
            let mut run = settled(3, 5, seed);
            run.world.create_again(3);
            run.world.empty_volume(empty);
            settle(&mut run, &format!("{empty} empty, seed {seed}"));
            let cluster = run.world.clusters.values().next().unwrap();
            assert!(cluster.removed.len() == 1 && run.world.clusters.len() == 1);
        }
    }
}

#[test]
fn an_object_created_anew_larger_resumes_and_grows() {
    for seed in seeds(10) {
        let mut run = settled(3, 6, seed);
        run.world.create_again(5);
        settle(&mut run, &format!("seed {seed}"));
        assert_eq!(
            (run.world.healthy_voters(), run.world.clusters.len()),
            (5, 1)
        );
    }
}

#[test]
fn claims_that_are_deleted_with_their_object_are_not_resumed() {
    for seed in seeds(10) {
        let mut run = settled(3, 6, seed);
        run.world.object.when_deleted = Retention::Delete;
        // What the owner deletes on purpose is no lost write.
        for cluster in run.world.clusters.values_mut() {
            cluster.acknowledged = 0;
        }
        run.world.small.remove("client");
        run.world.create_again(3);
        settle(&mut run, &format!("seed {seed}"));
        assert!(!run.world.memory().resumed);
        assert_eq!(run.world.clusters.len(), 2);
    }
}

#[test]
fn data_of_several_clusters_is_left_to_a_person() {
    for seed in seeds(10) {
        let mut world = World::new(3, 6, seed);
        world.plant_foreign_claim(0, 0xf001);
        world.plant_foreign_claim(1, 0xf002);
        let mut run = Run::new(world);
        let held = |decision: &Decision| {
            decision.step == Step::Refuse && decision.reason() == Reason::VolumeRejected
        };
        run.settle_as(BOUND, &held).unwrap();
        assert_eq!(run.world.claims[&0].volume.data.unwrap().cluster, 0xf001);
        assert_eq!(run.world.claims[&1].volume.data.unwrap().cluster, 0xf002);
    }
}

#[test]
fn data_of_a_cluster_without_identity_files_is_resumed_as_a_whole() {
    for seed in seeds(10) {
        let mut world = World::new(3, 6, seed);
        for ordinal in 0..3 {
            world.plant_foreign_claim(ordinal, 0xf001);
        }
        let mut run = Run::new(world);
        settle(&mut run, &format!("seed {seed}"));
        assert_eq!(run.world.clusters.len(), 1);
    }
}

#[test]
fn a_status_wiped_by_hand_is_found_again_while_members_serve() {
    for seed in seeds(20) {
        let mut run = settled(3, 6, seed);
        let known = run.world.object.status.cluster_id.clone();
        run.world.wipe_status();
        settle(&mut run, &format!("seed {seed}"));
        assert_eq!(run.world.object.status.cluster_id, known);
    }
}

#[test]
fn a_status_wiped_at_any_point_of_creation_is_found_again() {
    for seed in seeds(60) {
        let mut run = Run::new(World::new(3, 6, seed));
        run.turns(usize::try_from(seed).unwrap());
        let served = run.world.healthy_voters() > 0;
        if !served {
            continue;
        }
        run.world.wipe_status();
        settle(&mut run, &format!("seed {seed}"));
    }
}

#[test]
fn a_stopped_cluster_keeps_its_data_and_starts_again() {
    for seed in seeds(10) {
        for size in [1, 3, 5] {
            let mut run = settled(size, 6, seed);
            run.world.resize(0);
            settle(&mut run, "stopping");
            assert!(run.world.pods.is_empty() && !run.world.claims.is_empty());
            run.world.resize(size);
            settle(&mut run, "starting again");
            assert_eq!(run.world.clusters.len(), 1);
        }
    }
}

#[test]
fn a_cluster_grows_by_every_edit_of_its_size() {
    for seed in seeds(20) {
        for minor in [5, 6] {
            let mut run = settled(1, minor, seed);
            for size in [3, 5] {
                run.world.resize(size);
                settle(&mut run, &format!("3.{minor} to {size}, seed {seed}"));
                assert_eq!(run.world.healthy_voters(), usize::try_from(size).unwrap());
            }
        }
    }
}

#[test]
fn a_status_wiped_by_hand_never_begins_a_second_cluster() {
    for seed in seeds(40) {
        // Grown pods wait on empty volumes while the one member with data is away.
        let mut run = settled(1, 6, seed);
        run.world.freeze(0, true);
        run.world.wipe_status();
        run.world.resize(3);
        run.turns(60);
        run.verdict().unwrap();
        run.world.freeze(0, false);
        settle(&mut run, &format!("seed {seed}"));
        assert_eq!(run.world.clusters.len(), 1);
    }
}

#[test]
fn a_status_wiped_while_stopped_never_begins_a_second_cluster() {
    for seed in seeds(40) {
        let mut run = settled(3, 6, seed);
        run.world.resize(0);
        settle(&mut run, "stopping");
        run.world.wipe_status();
        run.world.empty_volume(1);
        run.world.resize(3);
        settle(&mut run, &format!("seed {seed}"));
        assert_eq!(run.world.clusters.len(), 1);
    }
}

#[test]
fn a_status_wiped_while_resuming_is_found_again() {
    for seed in seeds(30) {
        let mut run = settled(3, 6, seed);
        run.world.create_again(3);
        while run.world.healthy_voters() == 0 {
            run.turn();
        }
        run.world.wipe_status();
        settle(&mut run, &format!("seed {seed}"));
        assert_eq!(run.world.clusters.len(), 1);
    }
}

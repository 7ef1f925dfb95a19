//! Stories of volumes in the simulated Kubernetes and etcd: kept, deleted by policy, and grown under running members.

use api::Reason;
use api::v1alpha1::cluster::Retention;
use testkit::Run;
use testkit::run::{Faults, killed_at_every_write};
use testkit::story::{BOUND, seeds, settle, settled};

#[test]
fn a_cluster_stopped_under_delete_begins_a_new_incarnation() {
    for seed in seeds(10) {
        let mut run = settled(3, 6, seed);
        run.world.object.when_stopped = Retention::Delete;
        run.world.resize(0);
        settle(&mut run, "stopping");
        assert!(run.world.claims.is_empty() && run.world.pods.is_empty());
        run.world.resize(3);
        settle(&mut run, "starting over");
        assert_eq!(run.world.memory().incarnation, 2);
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
/// Every volume, the claim template and etcd's quota have followed.
fn has_grown(run: &Run<'_>, gib: u64) -> bool {
    let claims = run.world.claims.values();
    claims
        .map(|claim| claim.capacity)
        .all(|capacity| capacity == gib)
        && run.world.set.as_ref().is_some_and(|set| set.storage == gib)
        && run.world.memory().storage == Some(gib << 30)
}

#[test]
fn volumes_grow_under_running_members() {
    for seed in seeds(15) {
        for size in [1, 3, 5] {
            let mut run = settled(size, 6, seed);
            run.world.most_away = 0;
            run.world.enlarge(15);
            settle(&mut run, &format!("size {size}, seed {seed}"));
            assert!(has_grown(&run, 15), "size {size}, seed {seed}");
            // The quota follows by a rollout like any other.
            assert!(run.world.most_away <= 1 && run.world.clusters.len() == 1);
        }
    }
}

#[test]
fn growth_of_volumes_survives_a_kill_at_every_write() {
    let mut run = settled(3, 6, 5);
    run.world.enlarge(12);
    run.world.writes = 0;
    killed_at_every_write(&run.world, &|run| {
        let turns = run.settle(BOUND)?;
        if has_grown(run, 12) {
            Ok(turns)
        } else {
            Err("not grown".to_owned())
        }
    })
    .unwrap();
}

#[test]
fn growth_of_volumes_survives_every_fault_at_once() {
    for seed in seeds(30) {
        let mut run = settled(3, 6, seed);
        run.world.enlarge(12);
        run.faults = Faults::ALL;
        run.turns(150);
        settle(&mut run, &format!("seed {seed}"));
        assert!(has_grown(&run, 12), "seed {seed}");
    }
}

#[test]
fn volumes_that_cannot_grow_are_refused_and_everything_goes_on() {
    let mut run = settled(3, 6, 1);
    run.world.expandable = false;
    run.world.enlarge(15);
    run.settle_as(BOUND, &|decision| {
        decision.reason() == Reason::ChangeRefused
    })
    .unwrap();
    assert_eq!(run.world.healthy_voters(), 3);
    // A smaller wish is no wish: nothing ever shrinks.
    run.world.enlarge(10);
    settle(&mut run, "taken back");
    run.world.enlarge(5);
    settle(&mut run, "smaller");
    assert!(run.world.claims.values().all(|claim| claim.capacity == 10));
}

#[test]
fn a_cluster_grows_and_its_volumes_do_and_its_spec_is_edited_at_once() {
    for seed in seeds(20) {
        let mut run = settled(3, 6, seed);
        run.world.enlarge(12);
        run.turns(usize::try_from(seed).unwrap());
        run.world.edit(1);
        run.turns(usize::try_from(seed).unwrap());
        run.world.resize(5);
        settle(&mut run, &format!("seed {seed}"));
        assert_eq!(run.world.healthy_voters(), 5);
        assert!(has_grown(&run, 12), "seed {seed}");
        assert!(run.world.tried.len() > 1);
    }
}

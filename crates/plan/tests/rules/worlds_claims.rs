//! What becomes of claims, in the simulated Kubernetes and etcd.

use api::Lineage;
use api::v1alpha1::cluster::Retention;
use plan::cluster::{Fate, fate};
use plan::invariants::{self, Violation};
use plan::{Step, decide};
use testkit::run::{Faults, killed_at_every_write};
use testkit::story::{BOUND, seeds, settle, settled};

#[test]
fn an_edit_taken_back_within_a_second_leaves_no_claim() {
    for seed in seeds(20) {
        for turns in [0, 1, 2, 4, 8] {
            let what = format!("after {turns} turns, seed {seed}");
            let mut run = settled(3, 6, seed);
            run.world.resize(7);
            run.turns(turns);
            run.world.resize(5);
            settle(&mut run, &what);
            assert_eq!(run.world.healthy_voters(), 5, "{what}");
            assert_eq!(run.world.claims.len(), 5, "{what}");
            assert!(run.world.memory().retiring.is_empty(), "{what}");
        }
    }
}

#[test]
fn what_is_not_used_is_kept_where_the_policy_says_so() {
    for seed in seeds(10) {
        let mut run = settled(3, 6, seed);
        run.world.object.when_scaled = Retention::Retain;
        run.world.resize(7);
        run.turns(2);
        let made = run.world.claims.len();
        run.world.resize(3);
        settle(&mut run, &format!("kept, seed {seed}"));
        assert!(run.world.claims.len() >= made, "seed {seed}");
        run.world.object.when_scaled = Retention::Delete;
        run.world.object.revision += 1;
        settle(&mut run, &format!("deleted, seed {seed}"));
        assert_eq!(run.world.claims.len(), 3, "seed {seed}");
    }
}

#[test]
fn a_member_that_lost_its_data_above_the_size_leaves_no_claim() {
    for seed in seeds(20) {
        for retention in [Retention::Delete, Retention::Retain] {
            let what = format!("{retention:?}, seed {seed}");
            let mut run = settled(5, 6, seed);
            run.world.object.when_scaled = retention;
            run.world.resize(3);
            run.world.empty_volume(4);
            run.turns(usize::try_from(seed).unwrap());
            settle(&mut run, &what);
            let kept = if retention == Retention::Delete { 3 } else { 5 };
            assert_eq!(run.world.claims.len(), kept, "{what}");
            run.world.resize(5);
            settle(&mut run, &what);
            assert_eq!(run.world.healthy_voters(), 5, "{what}");
        }
    }
}

#[test]
fn no_pod_is_made_for_a_member_that_was_removed_before_a_stop() {
    for seed in seeds(20) {
        let what = format!("seed {seed}");
        let mut run = settled(5, 6, seed);
        run.world.object.when_scaled = Retention::Retain;
        run.world.resize(3);
        settle(&mut run, &what);
        run.world.resize(0);
        settle(&mut run, &what);
        assert_eq!(run.world.claims.len(), 5, "{what}");
        run.world.resize(3);
        for _ in 0..100 {
            run.turn();
            assert!(run.world.pods.keys().all(|n| *n < 3), "{what}");
        }
        settle(&mut run, &what);
        assert_eq!(run.world.healthy_voters(), 3, "{what}");
        // Its volume is used again, and what lies on it is not.
        run.world.resize(5);
        settle(&mut run, &what);
        assert_eq!(run.world.healthy_voters(), 5, "{what}");
    }
}

#[test]
fn a_voter_whose_removal_was_only_written_down_comes_back_after_a_stop() {
    for seed in seeds(20) {
        let what = format!("seed {seed}");
        let mut run = settled(3, 6, seed);
        run.world.object.when_scaled = Retention::Retain;
        run.world.resize(1);
        for _ in 0..BOUND {
            if !run.world.memory().retiring.is_empty() {
                break;
            }
            run.turn();
        }
        run.world.resize(0);
        settle(&mut run, &what);
        run.world.resize(1);
        settle(&mut run, &what);
        assert_eq!(run.world.healthy_voters(), 1, "{what}");
    }
}

#[test]
fn sweeping_survives_a_kill_at_every_write() {
    let mut run = settled(3, 6, 5);
    run.world.resize(7);
    run.turns(2);
    run.world.resize(3);
    run.world.writes = 0;
    killed_at_every_write(&run.world, &|run| run.settle(BOUND)).unwrap();
}

#[test]
fn sweeping_survives_every_fault_at_once() {
    for seed in seeds(20) {
        let mut run = settled(3, 6, seed);
        run.faults = Faults::ALL;
        for size in [7, 3, 5] {
            run.world.resize(size);
            run.turns(usize::try_from(seed % 30).unwrap());
        }
        settle(&mut run, &format!("seed {seed}"));
        assert_eq!(run.world.claims.len(), 5, "seed {seed}");
    }
}

#[test]
fn a_claim_that_may_hold_another_clusters_data_is_kept() {
    let mut run = settled(3, 6, 1);
    run.world.resize(7);
    run.turns(2);
    run.world.resize(3);
    let swept = (0..BOUND).find_map(|_| {
        let look = run.look();
        let step = decide(&look.observed).step;
        let sweeps = matches!(&step, Step::Latch(new) if !new.retiring.is_empty());
        run.turn();
        sweeps.then_some((look.observed, step))
    });
    let (mut observed, step) = swept.unwrap();
    let Step::Latch(new) = &step else {
        panic!("{step:?}")
    };
    let intent = new.retiring.first().unwrap().clone();
    let ordinal = api::names::ordinal("db", &intent.member).unwrap();
    let judge = |observed: &plan::Observed| {
        let claim = observed.claims.get(&ordinal).unwrap();
        let mut latched = observed.cluster.latched.clone();
        latched.retiring = vec![intent.clone()];
        let checked = invariants::check(observed, &Step::Latch(latched));
        (fate(observed, ordinal, claim), checked)
    };
    assert_eq!(judge(&observed), (Some(Fate::Garbage), Ok(())));
    let of = |incarnation, id: Option<&str>| Lineage {
        incarnation,
        cluster_id: id.map(str::to_owned),
        ..Lineage::default()
    };
    let kept = (Some(Fate::Kept), Err(Violation::LastCopy));
    let claim = observed.claims.get_mut(&ordinal).unwrap();
    claim.lineage = Some(of(1, Some("bad")));
    assert_eq!(judge(&observed), kept, "it says so itself");
    observed.cluster.latched.incarnation = 2;
    let claim = observed.claims.get_mut(&ordinal).unwrap();
    claim.lineage = Some(of(1, None));
    assert_eq!(judge(&observed), kept, "made before the data started over");
    let claim = observed.claims.get_mut(&ordinal).unwrap();
    claim.lineage = None;
    assert_eq!(judge(&observed), kept, "nothing is known of it");
}

//! Stories of writes that the API server refuses, puts off or lets something undo, in the simulated Kubernetes and etcd:
//! whatever is refused, what can be repaired is repaired, and when the refusals end the world settles.
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "test code: a failure is the point"
)]

use api::Reason;
use api::v1alpha1::cluster::{OnQuorumLoss, Retention};
use plan::Decision;
use plan::observed::NodeState;
use testkit::run::Faults;
use testkit::story::{BOUND, seeds, settle, settled};
use testkit::world::refuse::{How, OBJECTS};
use testkit::{Run, World};

const EVERY: [How; 5] = How::ALL;
/// Longer than the longest pause between two tries.
const LONG: i64 = 310;

/// Everything is done but what cannot be written.
fn is_all_but(decision: &Decision) -> bool {
    matches!(
        decision.reason(),
        Reason::WriteRefused | Reason::ForeignObject
    )
}

fn settle_all_but(run: &mut Run<'_>, what: &str) {
    if let Err(why) = run.settle_as(BOUND, &is_all_but) {
        panic!("{what}: {why}");
    }
}

/// Writes of this object end so from now on, and there is something to be written.
fn refuse(run: &mut Run<'_>, object: &'static str, how: How) {
    run.world.refuse(object, Some(how));
    if object.starts_with("claim") || object == "StatefulSet" {
        run.world.resize(5);
    }
    run.world.small.remove(object);
    run.turns(40);
}

/// A member that has what the refused object is for still votes.
fn heals(run: &mut Run<'_>, what: &str) {
    settle_all_but(run, what);
    assert!(run.world.healthy_voters() >= 3, "{what}");
    let list = run.world.clusters.values().next_back();
    let listed = list.map_or(0, |list| list.members.len());
    assert_eq!(run.world.healthy_voters(), listed, "{what}");
}

fn ends(run: &mut Run<'_>, what: &str) {
    let size = usize::try_from(run.world.object.size).unwrap();
    run.world.refuses.clear();
    run.world.sleep(LONG);
    settle(run, what);
    assert_eq!(run.world.healthy_voters(), size, "{what}");
}

#[test]
fn a_lost_volume_is_repaired_while_a_quota_refuses_a_claim_for_growth() {
    for seed in seeds(15) {
        let mut run = settled(3, 6, seed);
        refuse(&mut run, "claim 3", How::Refused);
        run.world.empty_volume(1);
        heals(&mut run, &format!("seed {seed}"));
        let said = format!("{:?}", run.world.object.status.conditions);
        assert!(said.contains("PersistentVolumeClaim data-db-3"), "{said}");
        assert!(said.contains("exceeded quota: compute"), "{said}");
        ends(&mut run, &format!("seed {seed}"));
    }
}

/// What a claim for growth is refused for does not touch the members that vote.
fn objects() -> impl Iterator<Item = &'static str> {
    let claims = ["claim 0", "claim 1", "claim 2"];
    OBJECTS
        .into_iter()
        .filter(move |object| !claims.contains(object))
}

#[test]
fn whatever_is_refused_a_lost_volume_is_repaired() {
    for seed in seeds(3) {
        for (object, how) in objects().flat_map(|object| EVERY.map(|how| (object, how))) {
            let what = format!("{object} {how:?}, seed {seed}");
            let mut run = settled(3, 6, seed);
            refuse(&mut run, object, how);
            run.world.empty_volume(1);
            heals(&mut run, &what);
            ends(&mut run, &what);
        }
    }
}

#[test]
fn whatever_is_refused_a_lost_node_is_repaired() {
    for seed in seeds(3) {
        for (object, how) in objects().flat_map(|object| EVERY.map(|how| (object, how))) {
            let what = format!("{object} {how:?}, seed {seed}");
            let mut run = settled(3, 6, seed);
            refuse(&mut run, object, how);
            run.world.set_node(1, NodeState::Deleted);
            heals(&mut run, &what);
            ends(&mut run, &what);
        }
    }
}

#[test]
fn whatever_is_refused_a_database_without_space_gets_room() {
    for seed in seeds(2) {
        for (object, how) in objects().flat_map(|object| EVERY.map(|how| (object, how))) {
            let what = format!("{object} {how:?}, seed {seed}");
            let mut run = settled(3, 6, seed);
            run.world.upkeep.row = (1 << 20) / 64;
            run.world.set_quota(64 << 20);
            settle(&mut run, &what);
            refuse(&mut run, object, how);
            let id = *run.world.clusters.keys().next().unwrap();
            run.world.write(id, 5000);
            run.turns(3);
            assert!(!run.world.upkeep.alarms.is_empty(), "{what}");
            heals(&mut run, &what);
            assert!(run.world.upkeep.alarms.is_empty(), "{what}");
            ends(&mut run, &what);
        }
    }
}

/// Without the fence in the StatefulSet nothing of the old cluster may be stopped: its pods would come back as they were.
#[test]
fn whatever_is_refused_but_the_statefulset_a_lost_quorum_is_recovered() {
    for seed in seeds(2) {
        for (object, how) in objects().flat_map(|object| EVERY.map(|how| (object, how))) {
            let what = format!("{object} {how:?}, seed {seed}");
            let mut run = settled(3, 6, seed);
            refuse(&mut run, object, how);
            run.world.quiet = true;
            for ordinal in [0, 2] {
                run.world.set_node(ordinal, NodeState::Deleted);
            }
            run.turns(20);
            run.world.approve_recovery();
            run.world.quiet = false;
            if object == "StatefulSet" && how != How::Mutated {
                let pod = run.world.pods.get(&1).map(|pod| pod.uid.clone());
                run.turns(100);
                let now = run.world.pods.get(&1).map(|pod| pod.uid.clone());
                assert_eq!(pod, now, "{what}");
            } else {
                heals(&mut run, &what);
            }
            ends(&mut run, &what);
        }
    }
}

/// The template of a rollout is refused: nothing waits for it, and it is tried again when it may be.
#[test]
fn a_template_that_is_refused_holds_up_no_repair() {
    for seed in seeds(5) {
        for how in EVERY {
            let what = format!("{how:?}, seed {seed}");
            let mut run = settled(3, 6, seed);
            run.world.refuse("StatefulSet", Some(how));
            run.world.edit(1);
            run.turns(60);
            run.world.empty_volume(1);
            heals(&mut run, &what);
            let tries = run.world.writes;
            run.turns(100);
            assert!(run.world.writes - tries < 20, "{what}");
            ends(&mut run, &what);
        }
    }
}

/// A policy against smaller StatefulSets: members leave, and what they leave behind keeps no member from being
/// repaired.
#[test]
fn a_shrink_that_is_refused_holds_up_no_repair() {
    for seed in seeds(5) {
        for how in EVERY {
            let what = format!("{how:?}, seed {seed}");
            let mut run = settled(5, 6, seed);
            run.world.refuse("StatefulSet", Some(how));
            run.world.resize(3);
            run.turns(100);
            run.world.empty_volume(1);
            run.turns(300);
            assert_eq!(run.world.healthy_voters(), 3, "{what}");
            ends(&mut run, &what);
        }
    }
}

/// Nothing is left to do but what a user must correct.
fn settle_invalid(run: &mut Run<'_>, what: &str) {
    let told = |decision: &Decision| decision.reason() == Reason::InvalidSpec;
    if let Err(why) = run.settle_as(BOUND, &told) {
        panic!("{what}: {why}");
    }
}

#[test]
fn a_spec_that_makes_no_sense_stops_changes_and_no_repair() {
    for seed in seeds(5) {
        for minor in [5, 6] {
            let what = format!("3.{minor}, seed {seed}");
            let mut run = settled(3, minor, seed);
            let before = run.world.set.clone();
            // Nothing of this is read while the spec as a whole cannot be.
            run.world.spoil_spec(true);
            run.world.resize(5);
            run.world.edit(1);
            run.turns(40);
            run.world.empty_volume(1);
            settle_invalid(&mut run, &format!("volume, {what}"));
            assert_eq!(run.world.healthy_voters(), 3, "{what}");
            run.world.set_node(2, NodeState::Deleted);
            settle_invalid(&mut run, &format!("node, {what}"));
            assert_eq!(run.world.healthy_voters(), 3, "{what}");
            let template = |set: &Option<testkit::world::Set>| {
                let set = set.as_ref();
                set.map(|set| (set.replicas, set.template.hash.clone()))
            };
            assert_eq!(template(&run.world.set), template(&before), "{what}");
            run.world.spoil_spec(false);
            settle(&mut run, &what);
            assert_eq!(run.world.healthy_voters(), 5, "{what}");
        }
    }
}

#[test]
fn a_spec_that_makes_no_sense_deletes_nothing_by_policy_and_recovers_on_a_persons_word_only() {
    for seed in seeds(5) {
        let what = format!("seed {seed}");
        let mut run = settled(3, 6, seed);
        run.world.object.on_quorum_loss = OnQuorumLoss::FromSurvivor;
        run.world.object.when_scaled = Retention::Delete;
        run.world.spoil_spec(true);
        run.turns(20);
        run.world.quiet = true;
        for ordinal in [0, 2] {
            run.world.set_node(ordinal, NodeState::Deleted);
        }
        run.turns(10);
        run.world.sleep(600);
        run.turns(100);
        assert_eq!(run.world.clusters.len(), 1, "{what}");
        run.world.approve_recovery();
        run.world.quiet = false;
        settle_invalid(&mut run, &what);
        assert_eq!(run.world.healthy_voters(), 3, "{what}");
        run.world.spoil_spec(false);
        settle(&mut run, &what);
    }
}

/// Before there is a cluster nothing can be in force.
#[test]
fn nothing_is_formed_from_a_spec_that_makes_no_sense() {
    let mut run = Run::new(World::new(3, 6, 1));
    run.world.spoil_spec(true);
    settle_invalid(&mut run, "unformed");
    assert!(run.world.pods.is_empty() && run.world.set.is_none());
    run.world.spoil_spec(false);
    settle(&mut run, "corrected");
}

/// Everything goes wrong at once, and the API server takes some writes and others not; when that ends, all is well.
#[test]
fn whatever_is_refused_for_a_while_the_world_settles_when_that_ends() {
    for seed in seeds(20) {
        for (size, minor) in [(1, 6), (3, 5), (3, 6), (5, 7)] {
            let what = format!("size {size} of 3.{minor}, seed {seed}");
            let mut run = Run::new(World::new(size, minor, seed));
            run.faults = Faults::REFUSING;
            run.turns(120);
            match seed % 4 {
                0 => run.world.resize(size + 2),
                1 => run.world.edit(1),
                2 if run.world.healthy_voters() >= 3 => run.world.empty_volume(1),
                _other => run.world.enlarge(20),
            }
            run.turns(150);
            let size = usize::try_from(run.world.object.size).unwrap();
            settle(&mut run, &what);
            assert_eq!(run.world.healthy_voters(), size, "{what}");
            assert!(run.world.memory().trial().is_none(), "{what}");
        }
    }
}

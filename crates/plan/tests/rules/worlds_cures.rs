//! Stories of remedies: what repairs a cluster can be carried out while the cluster is unwell.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "test code: a failure is the point"
)]

use api::Reason;
use plan::observed::NodeState;
use plan::{Decision, Step};
use testkit::Run;
use testkit::run::Faults;
use testkit::story::{BOUND, seeds, settle, settled};
use testkit::world::observe::Blind;

/// Hash of the template that is proven.
fn proven(run: &Run<'_>) -> String {
    run.world.memory().proven.unwrap().template
}

/// Hash of the template that pods are made from.
fn in_force(run: &Run<'_>) -> String {
    run.world.set.as_ref().unwrap().template.hash.clone()
}

#[test]
fn a_voter_that_crashes_on_a_full_disk_gets_a_larger_one() {
    for seed in seeds(10) {
        for size in [1, 3, 5] {
            let what = format!("size {size}, seed {seed}");
            let mut run = settled(size, 6, seed);
            run.world.fill_disk(size - 1, 12);
            run.turns(20);
            run.world.enlarge(12);
            settle(&mut run, &what);
            let all = usize::try_from(size).unwrap();
            assert_eq!(run.world.healthy_voters(), all, "{what}");
            assert_eq!(run.world.clusters.len(), 1, "{what}");
            assert!(run.world.claims.values().all(|c| c.capacity == 12));
        }
    }
}

#[test]
fn a_full_disk_is_repaired_in_the_middle_of_a_rollout() {
    for seed in seeds(30) {
        let mut run = settled(3, 6, seed);
        run.world.edit(1);
        run.turns(usize::try_from(seed).unwrap());
        run.world.fill_disk(1, 12);
        run.turns(20);
        run.world.enlarge(12);
        settle(&mut run, &format!("seed {seed}"));
        assert_eq!(run.world.healthy_voters(), 3, "seed {seed}");
    }
}

#[test]
fn full_disks_that_cost_the_quorum_are_repaired() {
    for seed in seeds(10) {
        let mut run = settled(3, 6, seed);
        for ordinal in 0..3 {
            run.world.fill_disk(ordinal, 12);
        }
        run.turns(40);
        run.world.enlarge(12);
        settle(&mut run, &format!("seed {seed}"));
        assert_eq!(run.world.clusters.len(), 1, "seed {seed}");
        assert_eq!(run.world.healthy_voters(), 3, "seed {seed}");
    }
}

/// A recovery whose survivor lacks the room for it.
fn cramped(seed: u64) -> Run<'static> {
    let mut run = settled(3, 6, seed);
    for ordinal in [0, 2] {
        run.world.set_node(ordinal, NodeState::Deleted);
    }
    run.turns(10);
    run.world.approve_recovery();
    run.world.claims.get_mut(&1).unwrap().volume.needs = 12;
    run.turns(150);
    assert!(run.world.memory().recovery.is_some(), "seed {seed}");
    run
}

#[test]
fn a_recovery_that_needs_room_gets_it() {
    for seed in seeds(10) {
        let mut run = cramped(seed);
        let set = run.world.set.as_ref().unwrap().uid.clone();
        run.world.enlarge(12);
        let mut turns = 0;
        while run.world.memory().recovery.is_some() {
            run.turn();
            run.world.sleep(1);
            turns += 1;
            assert!(turns < 300, "seed {seed}");
            // The StatefulSet is not recreated in the middle of it.
            assert_eq!(run.world.set.as_ref().unwrap().uid, set, "seed {seed}");
        }
        settle(&mut run, &format!("seed {seed}"));
        assert_eq!(run.world.healthy_voters(), 3, "seed {seed}");
    }
}

/// Turns until a trial's pod is being deleted.
fn trying(run: &mut Run<'_>) -> u32 {
    for _ in 0..200 {
        run.turn();
        let trial = run.world.memory().trial().cloned();
        let ordinal = trial.and_then(|trial| api::names::ordinal("db", &trial.member));
        let pod = ordinal.and_then(|ordinal| run.world.pods.get(&ordinal));
        if pod.is_some_and(|pod| pod.terminating) {
            return ordinal.unwrap();
        }
    }
    panic!("no member tries anything");
}

#[test]
fn a_recovery_that_begins_during_a_trial_calls_it_off() {
    for seed in seeds(30) {
        let mut run = settled(3, 6, seed);
        run.world.bad_edits.insert(1);
        run.world.most_untried = 0;
        run.world.edit(1);
        let first = trying(&mut run);
        for ordinal in (0..3).filter(|n| *n != first).take(2) {
            run.world
                .set_node(ordinal, NodeState::NotReady(run.world.now));
        }
        run.turns(usize::try_from(seed % 5).unwrap());
        run.world.sleep(20);
        run.world.approve_recovery();
        // Whatever was recorded, the survivor speaks.
        run.settle_as(BOUND, &|decision: &Decision| {
            decision.reason() == Reason::RolloutHalted
        })
        .unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        assert_eq!(run.world.clusters.len(), 2, "seed {seed}");
        assert!(run.world.most_untried <= 1, "seed {seed}");
    }
}

#[test]
fn a_pause_brings_the_proven_template_back_and_changes_nothing_else() {
    for seed in seeds(3) {
        for turns in 0..25 {
            let what = format!("after {turns} turns, seed {seed}");
            let mut run = settled(3, 6, seed);
            run.world.bad_edits.insert(1);
            run.world.edit(1);
            run.turns(turns);
            run.world.pause(true);
            let replicas = run.world.set.as_ref().unwrap().replicas;
            run.world.resize(5);
            run.turns(30);
            assert_eq!(in_force(&run), proven(&run), "{what}");
            assert_eq!(run.world.set.as_ref().unwrap().replicas, replicas, "{what}");
            let revision = run.world.set.as_ref().unwrap().revision;
            run.turns(30);
            let now = run.world.set.as_ref().unwrap().revision;
            assert_eq!(now, revision, "{what}: it stands still");
            assert_eq!(run.world.claims.len(), 3, "{what}");
            run.world.edit(2);
            run.world.pause(false);
            settle(&mut run, &what);
            assert_eq!(run.world.healthy_voters(), 5, "{what}");
        }
    }
}

#[test]
fn a_member_on_a_silent_node_tries_nothing() {
    for seed in seeds(10) {
        for silent in 0..3 {
            let what = format!("silent {silent}, seed {seed}");
            let mut run = settled(3, 6, seed);
            run.world.freeze(silent, true);
            run.turns(10);
            run.world.edit(1);
            for _ in 0..80 {
                run.turn();
                assert_eq!(in_force(&run), proven(&run), "{what}");
                let pod = &run.world.pods[&silent];
                assert!(!pod.terminating, "{what}");
            }
            run.world.freeze(silent, false);
            settle(&mut run, &what);
            assert_eq!(in_force(&run), proven(&run), "{what}");
        }
    }
}

#[test]
fn a_trial_on_a_node_that_falls_silent_is_called_off() {
    for seed in seeds(30) {
        let what = format!("seed {seed}");
        let mut run = settled(3, 6, seed);
        run.world.edit(1);
        let first = trying(&mut run);
        if !run.world.pods.contains_key(&first) {
            continue;
        }
        run.world.freeze(first, true);
        run.turns(20);
        assert_eq!(in_force(&run), proven(&run), "{what}");
        run.turns(60);
        assert_eq!(in_force(&run), proven(&run), "{what}");
        run.world.freeze(first, false);
        settle(&mut run, &what);
        assert_eq!(in_force(&run), proven(&run), "{what}");
    }
}

#[test]
fn a_survivor_that_hangs_and_still_names_a_leader_blocks_no_recovery() {
    for seed in seeds(10) {
        let what = format!("seed {seed}");
        let mut run = settled(3, 6, seed);
        run.world.quiet = true;
        run.world.hang(1, false);
        for ordinal in [0, 2] {
            run.world.set_node(ordinal, NodeState::Deleted);
        }
        run.turns(10);
        let look = run.world.look_around(&Blind::default()).observed;
        let serving = look.pods[&1].serving().unwrap();
        assert_ne!(serving.leader, 0, "{what}: it names one");
        run.world.approve_recovery();
        run.world.quiet = false;
        settle(&mut run, &what);
        assert_eq!(run.world.clusters.len(), 2, "{what}");
        assert_eq!(run.world.healthy_voters(), 3, "{what}");
    }
}

/// A recovery that waits for a pod which cannot start, on a template that is the proven one.
fn unpullable(seed: u64) -> Run<'static> {
    let mut run = settled(3, 6, seed);
    for ordinal in [0, 2] {
        run.world.set_node(ordinal, NodeState::Deleted);
    }
    run.turns(10);
    // The image vanished from its registry since: a pod that is recreated cannot pull it.
    run.world.set.as_mut().unwrap().template.bad = true;
    run.world.approve_recovery();
    run.turns(100);
    run
}

#[test]
fn a_corrected_image_reaches_a_recovery_whose_pods_cannot_start() {
    for seed in seeds(10) {
        let what = format!("seed {seed}");
        let mut run = unpullable(seed);
        assert!(run.world.memory().recovery.is_some(), "{what}");
        assert!(run.world.pods.values().all(|pod| pod.template.bad));
        run.world.most_untried = 0;
        run.world.bad_edits.insert(1);
        run.world.edit(1);
        run.turns(100);
        assert!(run.world.memory().recovery.is_some(), "{what}");
        // What does not help either reaches one pod.
        let wrong: Vec<_> = run.world.pods.values().collect();
        let wrong = wrong.iter().filter(|pod| pod.template.hash != proven(&run));
        assert!(wrong.count() <= 1, "{what}");
        run.world.edit(2);
        settle(&mut run, &what);
        assert_eq!(run.world.clusters.len(), 2, "{what}");
        assert_eq!(run.world.healthy_voters(), 3, "{what}");
    }
}

#[test]
fn corrected_resources_reach_the_survivor_that_could_not_go_on() {
    for seed in seeds(10) {
        let what = format!("seed {seed}");
        let mut run = settled(3, 6, seed);
        for ordinal in [0, 2] {
            run.world.set_node(ordinal, NodeState::Deleted);
        }
        run.turns(10);
        run.world.approve_recovery();
        run.world.claims.get_mut(&1).unwrap().volume.stubborn = true;
        run.turns(150);
        let before = run.world.pods[&1].uid.clone();
        let last = run.turn();
        assert_ne!(last.step, Step::Nothing, "{what}");
        run.world.edit(1);
        // More memory is what it lacked.
        let mut turns = 0;
        while run.world.pods.get(&1).is_none_or(|pod| pod.uid == before) {
            run.turn();
            run.world.sleep(1);
            turns += 1;
            assert!(turns < 100, "{what}");
        }
        run.world.claims.get_mut(&1).unwrap().volume.stubborn = false;
        settle(&mut run, &what);
        assert_eq!(run.world.clusters.len(), 2, "{what}");
        assert_eq!(run.world.healthy_voters(), 3, "{what}");
    }
}

#[test]
fn cures_survive_every_fault_at_once() {
    for seed in seeds(20) {
        let mut run = unpullable(seed);
        run.world.claims.get_mut(&1).unwrap().volume.needs = 12;
        run.world.edit(2);
        run.world.enlarge(12);
        run.faults = Faults {
            delete_pod: 0,
            crash: 0,
            ..Faults::ALL
        };
        run.turns(150);
        settle(&mut run, &format!("seed {seed}"));
        assert_eq!(run.world.healthy_voters(), 3, "seed {seed}");
    }
}

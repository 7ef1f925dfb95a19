//! Stories of steps that the API server or etcd rejects, in the simulated Kubernetes and etcd: a step that fails holds up
//! no rule below it, makes nothing possible that was not, is told, and is taken when it may be.
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "test code: a failure is the point"
)]

use api::v1alpha1::cluster::Retention;
use plan::observed::NodeState;
use testkit::Run;
use testkit::story::{BOUND, seeds, settle, settled};
use testkit::world::refuse::STEPS;

/// Longer than the longest pause between two tries.
const LONG: i64 = 610;

fn ends(run: &mut Run<'_>, what: &str) {
    let size = usize::try_from(run.world.object.size).unwrap();
    run.world.rejects.clear();
    run.world.sleep(LONG);
    settle(run, what);
    assert_eq!(run.world.healthy_voters(), size, "{what}");
    let said = said(run);
    assert!(!said.contains("denied"), "{what}: {said}");
}

/// What the conditions say.
fn said(run: &Run<'_>) -> String {
    format!("{:?}", run.world.object.status.conditions)
}

/// It is told with the words of the API server.
fn tells(run: &Run<'_>, step: &str, what: &str) {
    let said = said(run);
    let words = format!("admission webhook denied {step}");
    assert!(said.contains(&words), "{what}: {said}");
    assert!(
        said.contains("whatever does not need it continues"),
        "{what}: {said}"
    );
}

/// A node does not respond for longer than its owner waits; what ran there may still run.
fn silence(run: &mut Run<'_>, ordinal: u32) {
    let since = run.world.now;
    run.world.set_node(ordinal, NodeState::NotReady(since));
    run.turns(5);
    run.world.sleep(LONG);
}

/// So many voters are healthy, at the latest after so many turns.
fn comes_to(run: &mut Run<'_>, voters: usize, what: &str) {
    for _ in 0..BOUND {
        run.turn();
        if run.world.healthy_voters() == voters {
            return;
        }
    }
    panic!(
        "{what}: {} of {voters}: {}",
        run.world.healthy_voters(),
        said(run)
    );
}

#[test]
fn a_claim_that_cannot_be_deleted_holds_up_no_repair() {
    for seed in seeds(5) {
        let what = format!("seed {seed}");
        let mut run = settled(5, 6, seed);
        run.world.reject("DeleteClaim", None);
        run.world.resize(3);
        run.turns(200);
        tells(&run, "DeleteClaim", &what);
        // Whose data is gone, and whose disk is too small.
        run.world.empty_volume(1);
        run.turns(5);
        comes_to(&mut run, 3, &what);
        run.world.edit(1);
        run.turns(300);
        assert!(run.world.tried.len() > 1, "{what}: {}", said(&run));
        ends(&mut run, &what);
    }
}

/// Its pod is not stopped before its claim goes: it would come back on the data of a removed member.
#[test]
fn while_a_claim_cannot_be_deleted_its_pod_is_left_alone() {
    for seed in seeds(5) {
        let what = format!("seed {seed}");
        let mut run = settled(5, 6, seed);
        run.world.reject("DeleteClaim", Some(1));
        silence(&mut run, 1);
        let pod = run.world.pods.get(&1).map(|pod| pod.uid.clone());
        run.turns(150);
        tells(&run, "DeleteClaim", &what);
        let now = run.world.pods.get(&1).map(|pod| pod.uid.clone());
        assert_eq!(pod, now, "{what}");
        // Another member is lost meanwhile, and is replaced.
        silence(&mut run, 3);
        run.turns(5);
        comes_to(&mut run, 4, &what);
        ends(&mut run, &what);
    }
}

#[test]
fn a_pod_that_cannot_be_stopped_holds_up_no_other_repair() {
    for seed in seeds(5) {
        let what = format!("seed {seed}");
        let mut run = settled(5, 6, seed);
        run.world.reject("StopPod", Some(1));
        silence(&mut run, 1);
        run.turns(150);
        tells(&run, "StopPod", &what);
        silence(&mut run, 3);
        run.turns(5);
        comes_to(&mut run, 4, &what);
        ends(&mut run, &what);
    }
}

#[test]
fn an_expansion_that_is_rejected_holds_up_neither_the_others_nor_a_repair() {
    for seed in seeds(5) {
        let what = format!("seed {seed}");
        let mut run = settled(3, 6, seed);
        run.world.reject("ExpandClaim", Some(0));
        run.world.enlarge(20);
        run.turns(100);
        tells(&run, "ExpandClaim", &what);
        let sizes = run.world.claims.values().map(|claim| claim.capacity);
        let sizes: Vec<u64> = sizes.collect();
        assert_eq!(sizes, [10, 20, 20], "{what}");
        run.world.empty_volume(0);
        run.turns(5);
        comes_to(&mut run, 3, &what);
        ends(&mut run, &what);
        assert!(
            run.world.claims.values().all(|claim| claim.capacity == 20),
            "{what}"
        );
    }
}

/// A member without room on its disk, without a quorum: the expansion of another one's claim is rejected.
#[test]
fn an_expansion_that_is_rejected_holds_up_no_recovery() {
    for seed in seeds(5) {
        let what = format!("seed {seed}");
        let mut run = settled(3, 6, seed);
        run.world.quiet = true;
        run.world.reject("ExpandClaim", Some(1));
        run.world.enlarge(20);
        for ordinal in [0, 2] {
            run.world.set_node(ordinal, NodeState::Deleted);
        }
        run.turns(50);
        let said = said(&run);
        assert!(said.contains("kubectl annotate"), "{what}: {said}");
        run.world.approve_recovery();
        run.world.quiet = false;
        comes_to(&mut run, 3, &what);
        ends(&mut run, &what);
    }
}

#[test]
fn a_statefulset_that_cannot_be_recreated_holds_up_no_repair() {
    for seed in seeds(5) {
        let what = format!("seed {seed}");
        let mut run = settled(3, 6, seed);
        run.world.reject("OrphanPods", None);
        run.world.enlarge(20);
        run.turns(150);
        tells(&run, "OrphanPods", &what);
        assert!(
            run.world.claims.values().all(|claim| claim.capacity == 20),
            "{what}"
        );
        assert_eq!(run.world.memory().storage, Some(20 << 30), "{what}");
        run.world.edit(1);
        run.turns(300);
        assert!(run.world.tried.len() > 1, "{what}: {}", said(&run));
        ends(&mut run, &what);
    }
}

#[test]
fn a_grant_that_cannot_be_written_holds_up_no_other_member() {
    for seed in seeds(5) {
        let what = format!("seed {seed}");
        let mut run = settled(3, 6, seed);
        run.world.reject("Grant", Some(3));
        run.world.resize(5);
        comes_to(&mut run, 4, &what);
        tells(&run, "Grant", &what);
        run.world.empty_volume(1);
        run.turns(5);
        comes_to(&mut run, 4, &what);
        ends(&mut run, &what);
    }
}

/// After its object was deleted and created again every pod must be granted its start.
#[test]
fn a_grant_to_resume_that_cannot_be_written_holds_up_no_other_member() {
    for seed in seeds(5) {
        let what = format!("seed {seed}");
        let mut run = settled(3, 6, seed);
        run.world.reject("Grant", Some(0));
        run.world.create_again(3);
        run.turns(60);
        comes_to(&mut run, 2, &what);
        tells(&run, "Grant", &what);
        ends(&mut run, &what);
    }
}

#[test]
fn a_defragmentation_that_fails_holds_up_no_other_member_and_no_rollout() {
    for seed in seeds(5) {
        let what = format!("seed {seed}");
        let mut run = settled(3, 6, seed);
        run.world.upkeep.row = (1 << 20) / 64;
        run.world.set_quota(64 << 20);
        settle(&mut run, &what);
        run.world.reject("Defragment", Some(0));
        let id = *run.world.clusters.keys().next().unwrap();
        run.world.write(id, 5000);
        run.turns(150);
        tells(&run, "Defragment", &what);
        assert_eq!(run.world.memory().defragmenting(), None, "{what}");
        let done = &run.world.upkeep.defragmented;
        assert!(!done.is_empty(), "{what}: {}", said(&run));
        run.world.edit(1);
        run.turns(300);
        assert!(run.world.tried.len() > 1, "{what}: {}", said(&run));
        ends(&mut run, &what);
    }
}

/// Every step that there is, one after the other: what does not need it is done, and what needs it is done later.
#[test]
fn whichever_step_fails_a_lost_volume_is_repaired_or_waits_for_that_very_step() {
    for seed in seeds(2) {
        for step in STEPS {
            let what = format!("{step}, seed {seed}");
            let mut run = settled(5, 6, seed);
            run.world.object.when_scaled = Retention::Delete;
            run.world.reject(step, Some(4));
            run.world.reject(step, Some(3));
            run.world.resize(3);
            run.world.enlarge(20);
            run.turns(60);
            run.world.empty_volume(1);
            run.turns(150);
            ends(&mut run, &what);
        }
    }
}

/// What fails at size 0: the other claims go.
#[test]
fn a_claim_that_cannot_be_deleted_keeps_no_other_when_a_cluster_is_stopped() {
    for seed in seeds(5) {
        let what = format!("seed {seed}");
        let mut run = settled(3, 6, seed);
        run.world.object.when_stopped = Retention::Delete;
        run.world.reject("DeleteClaim", Some(0));
        run.world.resize(0);
        run.turns(150);
        let left: Vec<u32> = run.world.claims.keys().copied().collect();
        assert_eq!(left, [0], "{what}");
        assert!(run.world.memory().ending, "{what}");
        tells(&run, "DeleteClaim", &what);
        run.world.rejects.clear();
        run.world.sleep(LONG);
        settle(&mut run, &what);
        assert!(run.world.claims.is_empty(), "{what}");
    }
}

/// A pod of the old cluster that cannot be stopped keeps the recovery from going on, and no other pod from being stopped.
#[test]
fn a_recovery_waits_for_a_pod_that_cannot_be_stopped() {
    for seed in seeds(5) {
        let what = format!("seed {seed}");
        let mut run = settled(5, 6, seed);
        run.world.quiet = true;
        for ordinal in [0, 2, 4] {
            run.world.set_node(ordinal, NodeState::Deleted);
        }
        run.turns(20);
        run.world.reject("StopPod", Some(1));
        let before = run.world.pods.get(&3).map(|pod| pod.uid.clone());
        run.world.approve_recovery();
        run.turns(100);
        tells(&run, "StopPod", &what);
        assert_eq!(run.world.clusters.len(), 1, "{what}");
        let now = run.world.pods.get(&3).map(|pod| pod.uid.clone());
        assert_ne!(before, now, "{what}");
        run.world.quiet = false;
        ends(&mut run, &what);
    }
}

#[test]
fn what_fails_is_tried_again_after_pauses() {
    let mut run = settled(5, 6, 1);
    run.world.reject("DeleteClaim", None);
    run.world.resize(3);
    run.turns(200);
    let writes = run.world.writes;
    for _ in 0..200 {
        run.turn();
        run.world.sleep(1);
    }
    // Two claims, each of them every minute, and the status that says so.
    let tried = run.world.writes - writes;
    assert!((2..40).contains(&tried), "{tried}");
}

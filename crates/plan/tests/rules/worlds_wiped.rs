//! Stories of memories that are lost: the status is wiped, an older one is restored, edited, or in the fields of another release, or the object
//! comes back under another UID, at any moment. Nothing is destroyed for it, no condition advises to destroy anything, and it settles again.
#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "test code: a failure is the point"
)]

use api::Reason;
use api::v1alpha1::cluster::Retention;
use plan::observed::NodeState;
use plan::{Decision, Observed, Step};
use testkit::story::{BOUND, seeds, settle, settled};
use testkit::{Run, World};

use crate::memory::{edit, former};

/// What happens to the memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Harm {
    /// The status is wiped.
    Wiped,
    /// The status is the one that it was when the story began.
    Older,
    /// The object is deleted and restored with its status, under another UID.
    OtherObject,
    /// The operator is rolled back: it does not know the key that the memory stands under, and finds none of its own.
    RolledBack,
    /// The operator is upgraded: the memory stands in the fields of the release before.
    Upgraded,
    /// A person edits the memory.
    Edited,
}

/// What happens to the cluster meanwhile.
const STORIES: [&str; 9] = [
    "create", "grow", "shrink", "retain", "replace", "recover", "stop", "start", "resume",
];

fn begin(story: &str, seed: u64) -> World {
    match story {
        "create" => World::new(3, 6, seed),
        "grow" => {
            let mut run = settled(3, 6, seed);
            run.world.resize(5);
            run.world
        }
        "shrink" | "retain" => {
            let mut run = settled(5, 6, seed);
            if story == "retain" {
                run.world.object.when_scaled = Retention::Retain;
            }
            run.world.resize(3);
            run.world
        }
        "replace" => {
            let mut run = settled(3, 6, seed);
            run.world.set_node(1, NodeState::Deleted);
            run.world
        }
        "recover" => {
            let mut run = settled(3, 6, seed);
            run.world.set_node(0, NodeState::Deleted);
            run.world.set_node(2, NodeState::Deleted);
            run.world.approve_recovery();
            run.world
        }
        "stop" => {
            let mut run = settled(3, 6, seed);
            run.world.resize(0);
            run.world
        }
        "start" => {
            let mut run = settled(3, 6, seed);
            run.world.resize(0);
            settle(&mut run, "stopping");
            run.world.resize(3);
            run.world
        }
        "resume" => {
            let mut run = settled(3, 6, seed);
            run.world.create_again(3);
            run.world
        }
        other => panic!("{other} is no story"),
    }
}

/// Decides as the operator does, and notes where a person is told to delete data.
fn careful(observed: &Observed) -> Decision {
    let decision = plan::decide(observed);
    let destroys = ["delete the claims", "and its claims", "delete the volume"];
    let told = destroys
        .iter()
        .any(|words| decision.why.to_string().contains(words));
    assert!(!told, "advice that destroys: {}", decision.why);
    decision
}

fn is_end(decision: &Decision) -> bool {
    decision.step == Step::Nothing
        && matches!(decision.reason(), Reason::AsExpected | Reason::Stopped)
}

/// An object that takes kept volumes over waits until each has been looked at, also where the node of one is gone. In the
/// middle of a recovery they hold two clusters, of which one came from the other: a person says which.
fn is_left_to_a_person(story: &str, harm: Harm, decision: &Decision) -> bool {
    let gone = matches!(story, "recover" | "replace") && harm == Harm::OtherObject;
    let waits = matches!(decision.step, Step::Wait | Step::Refuse);
    gone && waits && matches!(decision.reason(), Reason::VolumeRejected | Reason::Resuming)
}

fn play(story: &str, harm: Harm, seed: u64, turns: usize) -> bool {
    let what = format!("{story}, {harm:?} after {turns} turns, seed {seed}");
    let world = begin(story, seed);
    let older = world.object.status.clone();
    let size = usize::try_from(world.object.size).unwrap();
    let mut run = Run::with(world, &careful);
    for _ in 0..turns {
        if is_end(&run.turn()) && run.world.healthy_voters() == size {
            return false;
        }
    }
    match harm {
        Harm::Wiped => run.world.wipe_status(),
        Harm::Older => run.world.restore_status(older),
        Harm::OtherObject => run.world.restore_object(),
        Harm::RolledBack => {
            let mut status = run.world.object.status.clone();
            status.memory = None;
            run.world.restore_status(status);
        }
        Harm::Upgraded => {
            let status = former(&run.world.object.status);
            run.world.restore_status(status);
        }
        Harm::Edited => edit(&mut run.world, turns / 2 + usize::try_from(seed).unwrap()),
    }
    let end = |decision: &Decision| is_end(decision) || is_left_to_a_person(story, harm, decision);
    if let Err(why) = run.settle_as(BOUND, &end) {
        panic!("{what}: {why}");
    }
    let gone = matches!(story, "recover" | "replace") && harm == Harm::OtherObject;
    if !gone {
        assert_eq!(run.world.healthy_voters(), size, "{what}");
    }
    true
}

/// Every second turn of every story, until it has settled by itself.
fn at_every_point(harm: Harm) {
    for (number, story) in STORIES.iter().enumerate() {
        for seed in seeds(3) {
            let seed = seed * 16 + u64::try_from(number).unwrap();
            let mut points = (0..80).map(|point| point * 2 + usize::try_from(seed % 2).unwrap());
            let played = points.by_ref().take_while(|n| play(story, harm, seed, *n));
            assert!(played.count() > 1, "{story}");
        }
    }
}

#[test]
fn a_status_wiped_at_any_moment_destroys_nothing() {
    at_every_point(Harm::Wiped);
}

#[test]
fn an_older_status_restored_at_any_moment_destroys_nothing() {
    at_every_point(Harm::Older);
}

#[test]
fn an_object_restored_under_another_uid_at_any_moment_destroys_nothing() {
    at_every_point(Harm::OtherObject);
}

#[test]
fn an_operator_rolled_back_at_any_moment_destroys_nothing() {
    at_every_point(Harm::RolledBack);
}

#[test]
fn an_operator_upgraded_at_any_moment_destroys_nothing() {
    at_every_point(Harm::Upgraded);
}

#[test]
fn a_memory_edited_at_any_moment_destroys_nothing() {
    at_every_point(Harm::Edited);
}

#[test]
fn without_status_and_client_service_an_empty_volume_bootstraps_nothing_beside_data() {
    for seed in seeds(20) {
        let mut run = settled(3, 6, seed);
        run.world.freeze(0, true);
        run.world.freeze(2, true);
        run.world.empty_volume(1);
        run.world.small.remove("client");
        run.world.wipe_status();
        run.turns(60);
        run.verdict().unwrap();
        run.world.freeze(0, false);
        run.world.freeze(2, false);
        settle(&mut run, &format!("seed {seed}"));
        assert_eq!(run.world.clusters.len(), 1, "seed {seed}");
    }
}

#[test]
fn a_wiped_status_does_not_forget_how_often_the_data_started_over() {
    for seed in seeds(10) {
        let what = format!("seed {seed}");
        let mut run = settled(3, 6, seed);
        run.world.object.when_stopped = Retention::Delete;
        run.world.resize(0);
        settle(&mut run, &what);
        run.world.resize(3);
        settle(&mut run, &what);
        assert_eq!(run.world.memory().incarnation, 2, "{what}");
        run.world.wipe_status();
        settle(&mut run, &what);
        assert_eq!(run.world.memory().incarnation, 2, "{what}");
        // The next recovery fences what came before it.
        run.world.set_node(0, NodeState::Deleted);
        run.world.set_node(2, NodeState::Deleted);
        run.world.approve_recovery();
        settle(&mut run, &what);
        assert_eq!(run.world.memory().incarnation, 3, "{what}");
        assert_eq!(run.world.healthy_voters(), 3, "{what}");
    }
}

#[test]
fn where_claims_say_nothing_a_wiped_recovery_goes_on_by_what_the_volumes_hold() {
    for seed in seeds(10) {
        for turns in 0..40 {
            let mut run = Run::with(begin("recover", seed), &careful);
            run.turns(turns);
            let mut pods = run.world.pods.values();
            let fenced = pods.all(|pod| pod.template.fence.is_some());
            if run.world.memory().recovery.is_none() || !fenced {
                continue;
            }
            // As an earlier version of the operator left them.
            for claim in run.world.claims.values_mut() {
                claim.lineage = String::new();
            }
            run.world.wipe_status();
            settle(&mut run, &format!("after {turns} turns, seed {seed}"));
            assert_eq!(run.world.healthy_voters(), 3, "seed {seed}");
        }
    }
}

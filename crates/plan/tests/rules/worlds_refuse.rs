//! Stories of writes that the API server refuses, puts off or lets something undo, in the simulated Kubernetes and etcd:
//! whatever is refused, what can be repaired is repaired, and when the refusals end the world settles.

use api::Reason;
use plan::Decision;
use plan::observed::NodeState;
use testkit::Run;
use testkit::story::{BOUND, seeds, settle, settled};
use testkit::world::refuse::{How, OBJECTS};

const EVERY: [How; 4] = [How::Refused, How::Later, How::Undone, How::Foreign];
/// Longer than the longest pause between two tries.
const LONG: i64 = 310;

/// Everything is done but what cannot be written.
fn is_all_but(decision: &Decision) -> bool {
    matches!(
        decision.reason,
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

/// Whoever has what the refused object is for still votes.
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

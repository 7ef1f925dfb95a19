//! Stories of clusters that lost their quorum with a zone: the volumes that are in it name no node, so that pods which
//! are stopped there leave nothing behind that would tell why their successors wait.

use api::Reason;
use api::v1alpha1::cluster::OnQuorumLoss;
use plan::Step;
use plan::observed::NodeState;
use testkit::Run;
use testkit::run::{Faults, killed_at_every_write};
use testkit::story::{BOUND, seeds, settle, settled};
use testkit::world::observe::Blind;

/// A zone is away with those who were in it.
fn without_a_zone(size: u32, seed: u64, away: &[u32]) -> Run<'static> {
    let mut run = settled(size, 6, seed);
    run.world.quiet = true;
    run.world.zonal = true;
    for ordinal in away {
        run.world.freeze(*ordinal, true);
    }
    run.turns(10);
    run
}

fn is_over(run: &Run<'_>) -> bool {
    run.world.clusters.len() > 1 && run.world.memory().recovery.is_none()
}

/// Until something is so, while a second passes with every turn.
fn until(run: &mut Run<'_>, what: &str, so: impl Fn(&Run<'_>) -> bool) {
    let reached = (0..600).any(|_| {
        run.turn();
        run.world.sleep(1);
        so(run)
    });
    assert!(reached, "{what}: {:?}", run.world.memory().recovery);
    assert_eq!(run.verdict(), Ok(()), "{what}");
}

fn chosen(run: &Run<'_>) -> Option<u32> {
    let recovery = run.world.memory().recovery?;
    api::names::ordinal("db", &recovery.survivor.as_ref()?.member)
}

/// The nodes come back, and nothing of the old cluster with them.
fn zone_returns(run: &mut Run<'_>, what: &str) {
    let old = run.world.clusters.keys().next().copied();
    for state in run.world.nodes.values_mut() {
        *state = NodeState::Ready;
    }
    run.world.quiet = false;
    for _ in 0..100 {
        run.turn();
        let mut live = run.world.live();
        let none = live.all(|(_, process)| Some(process.cluster) != old);
        assert!(none, "{what}: something of the old cluster runs");
    }
    settle(run, what);
    let healthy = u32::try_from(run.world.healthy_voters());
    assert_eq!(healthy, Ok(run.world.object.size), "{what}");
}

#[test]
fn a_zone_that_is_away_holds_up_no_recovery_that_was_asked_for() {
    for seed in seeds(20) {
        let what = format!("seed {seed}");
        let mut run = without_a_zone(3, seed, &[1, 2]);
        run.world.approve_recovery();
        until(&mut run, &what, is_over);
        zone_returns(&mut run, &what);
        assert_eq!(run.world.clusters.len(), 2, "{what}");
    }
}

#[test]
fn nodes_out_of_service_are_known_to_be_gone_after_their_pods_went() {
    for seed in seeds(20) {
        let what = format!("seed {seed}");
        let mut run = without_a_zone(3, seed, &[1, 2]);
        run.world.object.on_quorum_loss = OnQuorumLoss::FromSurvivor;
        for state in run.world.nodes.values_mut() {
            *state = NodeState::OutOfService;
        }
        run.world.sleep(60);
        until(&mut run, &what, is_over);
        zone_returns(&mut run, &what);
        assert_eq!(run.world.clusters.len(), 2, "{what}");
    }
}

/// A pod that returns before one is chosen reports its data; a pod that returns later joins.
#[test]
fn a_zone_may_return_at_any_moment() {
    for seed in seeds(60) {
        let what = format!("seed {seed}");
        let mut run = without_a_zone(3, seed, &[1, 2]);
        run.world.approve_recovery();
        for _ in 0..run.world.rng.below(60) {
            run.turn();
            run.world.sleep(1);
        }
        for state in run.world.nodes.values_mut() {
            *state = NodeState::Ready;
        }
        for ordinal in [1, 2] {
            run.world.freeze(ordinal, false);
        }
        run.world.quiet = false;
        settle(&mut run, &what);
        assert_eq!(run.world.healthy_voters(), 3, "{what}");
    }
}

#[test]
fn who_was_excused_stays_so_where_another_has_to_be_chosen() {
    for seed in seeds(20) {
        let what = format!("seed {seed}");
        let mut run = without_a_zone(5, seed, &[0, 1, 4]);
        run.world.approve_recovery();
        until(&mut run, &what, |run| chosen(run).is_some());
        let first = chosen(&run).unwrap();
        run.world.set_node(first, NodeState::OutOfService);
        let another = |run: &Run<'_>| is_over(run) || chosen(run).is_some_and(|n| n != first);
        until(&mut run, &what, another);
        until(&mut run, &what, is_over);
        zone_returns(&mut run, &what);
    }
}

#[test]
fn a_pod_that_was_only_just_made_may_still_find_a_node() {
    let mut run = without_a_zone(3, 1, &[1, 2]);
    run.world.approve_recovery();
    let mut seen = 0;
    for _ in 0..600 {
        let mut look = run.world.look_around(&Blind::default()).observed;
        if let Step::Latch(latched) = plan::decide(&look).step
            && latched.recovery.is_some_and(|r| r.survivor.is_some())
        {
            seen += 1;
            let waits = |look: &plan::Observed| plan::decide(look).step == Step::Wait;
            let pod = look.pods.get_mut(&1).unwrap();
            // Nor is one passed over that has a node of which nothing could be read.
            pod.scheduled = true;
            assert!(waits(&look));
            let pod = look.pods.get_mut(&1).unwrap();
            (pod.scheduled, pod.created) = (false, look.now);
            assert!(waits(&look));
        }
        run.turn();
        run.world.sleep(1);
    }
    assert!(seen > 0, "no survivor was chosen");
}

#[test]
fn it_survives_a_kill_at_every_write() {
    let mut run = without_a_zone(3, 3, &[1, 2]);
    run.world.approve_recovery();
    run.world.writes = 0;
    let story = |run: &mut Run<'_>| {
        until(run, "killed", is_over);
        for state in run.world.nodes.values_mut() {
            *state = NodeState::Ready;
        }
        run.settle(BOUND)
    };
    killed_at_every_write(&run.world, &story).unwrap();
}

#[test]
fn it_survives_every_fault_at_once() {
    for seed in seeds(20) {
        let mut run = without_a_zone(3, seed, &[0, 2]);
        run.world.approve_recovery();
        run.faults = Faults::ALL;
        run.turns(200);
        let what = format!("seed {seed}");
        for state in run.world.nodes.values_mut() {
            *state = NodeState::Ready;
        }
        run.world.quiet = false;
        settle(&mut run, &what);
        assert_eq!(run.world.healthy_voters(), 3, "{what}");
    }
}

/// The pods of nodes that were deleted went before any was asked, and nothing is known of the next ones.
#[test]
fn a_pod_that_is_waited_for_in_vain_can_be_given_up() {
    for seed in seeds(10) {
        let what = format!("seed {seed}");
        let mut run = without_a_zone(3, seed, &[]);
        for ordinal in [1, 2] {
            run.world.set_node(ordinal, NodeState::Deleted);
        }
        run.turns(10);
        run.world.sleep(120);
        run.world.approve_recovery();
        let mut told = String::new();
        for _ in 0..200 {
            let decision = run.turn();
            run.world.sleep(1);
            told = decision.why.to_string();
            if told.contains("recover without it") {
                break;
            }
        }
        let command =
            "kubectl delete pvc -n ns data-db-1 --wait=false; kubectl delete pod -n ns db-1";
        assert!(told.ends_with(command), "{what}: {told}");
        for ordinal in [1, 2] {
            run.world.lose_claim(ordinal);
        }
        run.world.quiet = false;
        settle(&mut run, &what);
        assert_eq!(run.world.healthy_voters(), 3, "{what}");
        assert!(run.reasons.contains_key(&Reason::Recovering), "{what}");
    }
}

/// A node is gone, and the volumes that were used there can be used elsewhere: Kubernetes takes its time, and they come
/// back as they were.
#[test]
fn a_volume_that_can_be_used_elsewhere_is_waited_for() {
    for seed in seeds(10) {
        for away in [vec![1], vec![0, 2]] {
            for policy in [OnQuorumLoss::Ask, OnQuorumLoss::FromSurvivor] {
                let what = format!("{away:?}, {policy:?}, seed {seed}");
                let mut run = settled(3, 6, seed);
                run.world.mobile = true;
                run.world.object.on_quorum_loss = policy;
                let claims = |run: &Run<'_>| -> Vec<String> {
                    let claims = run.world.claims.values();
                    claims.map(|claim| claim.uid.clone()).collect()
                };
                let before = claims(&run);
                for ordinal in &away {
                    run.world.set_node(*ordinal, NodeState::OutOfService);
                }
                for _ in 0..60 {
                    run.turn();
                    run.world.sleep(3);
                }
                assert!(run.world.memory().recovery.is_none(), "{what}");
                for ordinal in &away {
                    run.world.collect(*ordinal);
                }
                settle(&mut run, &what);
                assert_eq!(claims(&run), before, "{what}");
                assert_eq!(run.world.clusters.len(), 1, "{what}");
            }
        }
    }
}

/// The pod there is never given up: a finalizer holds it, or its volume stays attached.
#[test]
fn a_volume_that_can_be_used_elsewhere_and_never_is_is_replaced() {
    for seed in seeds(10) {
        for state in [
            NodeState::OutOfService,
            NodeState::NotReady(jiff::Timestamp::MAX),
        ] {
            let what = format!("{state:?}, seed {seed}");
            let mut run = settled(3, 6, seed);
            run.world.mobile = true;
            let before = run.world.claims[&1].uid.clone();
            run.world.set_node(1, state);
            for _ in 0..80 {
                run.turn();
                run.world.sleep(3);
            }
            assert_eq!(
                run.world.claims[&1].uid, before,
                "{what}: not before its time"
            );
            for _ in 0..100 {
                run.turn();
                run.world.sleep(3);
            }
            // A node that may still report is another matter.
            let gone = state == NodeState::OutOfService;
            assert_eq!(run.world.claims[&1].uid != before, gone, "{what}");
            assert_eq!(
                run.world.healthy_voters(),
                if gone { 3 } else { 2 },
                "{what}"
            );
            run.verdict().unwrap();
        }
    }
}

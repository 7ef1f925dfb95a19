//! Stories of members that cannot come back, in the simulated Kubernetes and etcd.

use api::v1alpha1::status::{KnownVoter, RetireIntent};
use plan::observed::{NodeState, format_id};
use plan::status::{Outcome, decide_status};
use plan::{Observed, Step, invariants};
use testkit::Run;
use testkit::run::{Faults, killed_at_every_write};
use testkit::story::{BOUND, seeds, settle, settled};
use testkit::world::observe::{Blind, Look};

/// Longer than any owner waits for a node.
const LONG: i64 = 600;

fn members(run: &Run<'_>) -> Vec<u64> {
    let cluster = run.world.clusters.values().next();
    let mut ids: Vec<u64> = cluster
        .iter()
        .flat_map(|cluster| cluster.members.iter().map(|member| member.id))
        .collect();
    ids.sort_unstable();
    ids
}

fn voters(size: u32) -> usize {
    usize::try_from(size).unwrap_or(0)
}

#[test]
fn a_member_whose_node_is_gone_comes_back_on_another() {
    for seed in seeds(15) {
        for (size, minor) in [(3, 5), (3, 6), (5, 7)] {
            for state in [NodeState::Deleted, NodeState::OutOfService] {
                let mut run = settled(size, minor, seed);
                let before = members(&run);
                let victim = u32::try_from(seed % u64::from(size)).unwrap();
                run.world.set_node(victim, state);
                settle(&mut run, &format!("{state:?} of {victim}, seed {seed}"));
                assert_eq!(run.world.healthy_voters(), voters(size));
                let after = members(&run);
                let same = after.iter().filter(|id| before.contains(id)).count();
                assert_eq!(same, voters(size) - 1, "one and only one was replaced");
                assert!(run.world.memory().retiring.is_empty());
            }
        }
    }
}

#[test]
fn a_member_whose_data_is_no_use_is_replaced() {
    for seed in seeds(15) {
        for (size, minor) in [(3, 5), (3, 6), (5, 7)] {
            let mut run = settled(size, minor, seed);
            let victim = u32::try_from(seed % u64::from(size)).unwrap();
            run.world.break_volume(victim);
            settle(&mut run, &format!("{victim} of {size}, seed {seed}"));
            assert_eq!(run.world.healthy_voters(), voters(size));
            assert!(run.world.claims.values().all(|claim| !claim.volume.broken));
        }
    }
}

#[test]
fn data_that_is_no_use_on_most_volumes_is_kept() {
    for seed in seeds(15) {
        for (size, victims) in [(1, 0..1), (3, 0..2), (5, 1..4)] {
            let mut run = settled(size, 6, seed);
            for victim in victims.clone() {
                run.world.break_volume(victim);
            }
            run.turns(300);
            run.verdict().unwrap();
            let kept = run.world.claims.values().filter(|c| c.volume.broken);
            assert_eq!(kept.count(), victims.len(), "size {size}, seed {seed}");
        }
    }
}

#[test]
fn a_silent_node_is_waited_for_and_no_longer_than_that() {
    for seed in seeds(15) {
        let mut run = settled(3, 6, seed);
        let before = members(&run);
        run.world.freeze(1, true);
        run.turns(200);
        assert_eq!(members(&run), before, "seed {seed}");
        // Back in time.
        run.world.freeze(1, false);
        settle(&mut run, &format!("back in time, seed {seed}"));
        assert_eq!(members(&run), before, "seed {seed}");
        run.world.freeze(1, true);
        run.turns(5);
        run.world.sleep(LONG);
        settle(&mut run, &format!("gone, seed {seed}"));
        assert_ne!(members(&run), before, "seed {seed}");
        // Back too late: nothing of it is used again.
        let node = run.world.nodes.keys().next().unwrap().clone();
        run.world.nodes.insert(node, NodeState::Ready);
        settle(&mut run, &format!("back too late, seed {seed}"));
        assert_eq!(run.world.clusters.len(), 1);
    }
}

#[test]
fn without_a_quorum_of_the_others_no_member_is_replaced() {
    for seed in seeds(20) {
        for (size, gone) in [(1, vec![0]), (3, vec![0, 2]), (5, vec![0, 1, 4])] {
            let mut run = settled(size, 6, seed);
            let before = members(&run);
            for ordinal in &gone {
                run.world.set_node(*ordinal, NodeState::Deleted);
            }
            run.turns(5);
            run.world.sleep(LONG);
            run.turns(200);
            run.verdict().unwrap();
            assert_eq!(members(&run), before, "size {size}, seed {seed}");
        }
    }
}

#[test]
fn two_of_five_nodes_go_at_once() {
    for seed in seeds(20) {
        let mut run = settled(5, 6, seed);
        run.world.set_node(1, NodeState::Deleted);
        run.world.set_node(4, NodeState::OutOfService);
        settle(&mut run, &format!("seed {seed}"));
        assert_eq!(run.world.healthy_voters(), 5);
    }
}

#[test]
fn replacing_survives_a_kill_at_every_write() {
    for (size, minor, victim) in [(3, 5, 0), (3, 6, 1), (5, 7, 4)] {
        let mut run = settled(size, minor, 3);
        run.world.set_node(victim, NodeState::OutOfService);
        run.world.writes = 0;
        killed_at_every_write(&run.world, &|run| run.settle(BOUND)).unwrap();
    }
}

#[test]
fn replacing_survives_every_fault_at_once() {
    for seed in seeds(30) {
        let mut run = settled(if seed % 2 == 0 { 3 } else { 5 }, 6, seed);
        let victim = u32::try_from(seed % 3).unwrap();
        run.world.set_node(victim, NodeState::OutOfService);
        run.faults = Faults::ALL;
        run.turns(150);
        settle(&mut run, &format!("victim {victim}, seed {seed}"));
    }
}

#[test]
fn a_node_that_goes_in_the_middle_of_a_change_keeps_nothing_from_ending() {
    for seed in seeds(30) {
        let mut run = settled(3, 6, seed);
        match seed % 4 {
            0 => run.world.resize(5),
            1 => run.world.edit(1),
            2 => run.world.upgrade(7),
            _ => run.world.resize(1),
        }
        let turns = run.world.rng.below(40);
        run.turns(usize::try_from(turns).unwrap());
        let pods: Vec<u32> = run.world.pods.keys().copied().collect();
        let pick = run.world.rng.below(u64::try_from(pods.len()).unwrap());
        let victim = pods[usize::try_from(pick).unwrap()];
        // The last voter of a cluster that shrinks is the only copy.
        if seed % 4 == 3 && run.world.healthy_voters() < 3 {
            continue;
        }
        run.world.set_node(victim, NodeState::OutOfService);
        let what = format!("change {}, node of {victim}, seed {seed}", seed % 4);
        settle(&mut run, &what);
        assert_eq!(run.world.clusters.len(), 1, "{what}");
    }
}

/// A member is added and does not get there.
fn joining(minor: u8, seed: u64) -> Run<'static> {
    let mut run = settled(1, minor, seed);
    run.world.resize(3);
    while run.world.claims.len() < 3 {
        run.turn();
    }
    run.world.make_sluggish(1);
    for _ in 0..BOUND {
        run.turn();
        if !run.world.memory().learners.is_empty() {
            break;
        }
    }
    run
}

#[test]
fn a_learner_that_never_serves_is_given_up_after_a_while() {
    for seed in seeds(15) {
        for minor in [5, 6] {
            let mut run = joining(minor, seed);
            run.turns(200);
            let look = run.world.look_around(&Blind::default());
            assert!(plan::cluster::is_awaited(&look.observed), "no pod to nudge");
            let what = format!("3.{minor}, seed {seed}");
            assert!(run.world.healthy_voters() < 3, "{what}");
            // No member is given up so soon.
            assert!(run.world.memory().retiring.is_empty(), "{what}");
            run.world.sleep(LONG);
            settle(&mut run, &what);
            assert_eq!(run.world.healthy_voters(), 3, "{what}");
            let look = run.world.look_around(&Blind::default());
            assert!(!plan::cluster::is_awaited(&look.observed), "{what}");
        }
    }
}

#[test]
fn a_learner_that_never_serves_does_not_keep_others_from_being_repaired() {
    for seed in seeds(15) {
        let mut run = settled(5, 5, seed);
        run.world.set_node(0, NodeState::OutOfService);
        for _ in 0..BOUND {
            run.turn();
            let fresh = run.world.claims.get(&0).map(|claim| claim.uid.clone());
            let retiring = run.world.memory().retiring;
            let replaced = retiring.iter();
            let mut old = replaced.map(|intent| intent.claim_uid.clone());
            if fresh.is_some_and(|uid| old.all(|old| old != uid)) {
                run.world.make_sluggish(0);
            }
            if !run.world.memory().learners.is_empty() {
                break;
            }
        }
        // Now another one is lost, and there is but one place for a learner.
        run.world.empty_volume(1);
        run.turns(50);
        run.world.sleep(LONG);
        settle(&mut run, &format!("seed {seed}"));
        assert_eq!(run.world.healthy_voters(), 5, "seed {seed}");
    }
}

#[test]
fn a_stranger_is_reported_left_alone_and_not_counted_on() {
    for seed in seeds(10) {
        for learner in [false, true] {
            let mut run = settled(3, 6, seed);
            let before = members(&run);
            run.world.add_stranger(0x57, learner);
            run.turns(100);
            run.world.sleep(LONG);
            run.turns(100);
            let what = format!("learner {learner}, seed {seed}");
            run.verdict().unwrap();
            let mut after = members(&run);
            after.retain(|id| *id != 0x57);
            assert_eq!(after, before, "{what}");
            assert_eq!(members(&run).len(), 4, "{what}");
            let conditions = run.world.object.status.conditions.iter();
            let mut told = conditions.filter(|condition| condition.type_ == "Degraded");
            assert!(told.any(|c| c.reason == "UnmanagedMember"), "{what}");
            // As a voter it would have to agree to a removal; otherwise it is harmless.
            run.world.empty_volume(1);
            run.turns(200);
            let replaced = before.iter().any(|id| !members(&run).contains(id));
            assert_eq!(replaced, learner, "{what}");
            run.verdict().unwrap();
        }
    }
}

#[test]
fn data_that_goes_bad_while_a_change_is_tried_on_it_is_no_fault_of_the_change() {
    for seed in seeds(15) {
        for later in 0..8 {
            let mut run = settled(3, 6, seed);
            run.world.edit(2);
            let trial = (0..BOUND).find_map(|_| {
                run.turn();
                run.world.memory().trial().cloned()
            });
            run.turns(later);
            let member = trial.map(|trial| trial.member).unwrap_or_default();
            let victim = api::names::ordinal("db", &member).unwrap();
            run.world.break_volume(victim);
            settle(&mut run, &format!("{later} later, seed {seed}"));
            assert_eq!(run.world.healthy_voters(), 3, "{later} later, seed {seed}");
        }
    }
}

#[test]
fn a_cluster_that_lost_two_of_five_can_be_made_smaller() {
    for seed in seeds(15) {
        for victims in [[3, 4], [1, 4], [0, 3]] {
            let mut run = settled(5, 6, seed);
            for victim in victims {
                run.world.set_node(victim, NodeState::Deleted);
            }
            run.world.resize(3);
            settle(&mut run, &format!("{victims:?} of 5, seed {seed}"));
            assert_eq!(run.world.healthy_voters(), 3);
        }
    }
}

/// `etcdctl member remove`, not by the operator.
fn removed_by_hand(run: &mut Run<'_>, victim: usize) -> u64 {
    let cluster = run.world.clusters.keys().next().copied().unwrap_or(0);
    let member = members(run).get(victim).copied().unwrap_or(0);
    let removed = run.world.member_remove(cluster, member);
    assert_eq!(removed, Ok(()));
    member
}

#[test]
fn a_member_that_was_removed_by_hand_joins_again() {
    for seed in seeds(15) {
        for (size, minor) in [(3, 5), (3, 6), (5, 7)] {
            let mut run = settled(size, minor, seed);
            let victim = usize::try_from(seed).unwrap() % voters(size);
            let member = removed_by_hand(&mut run, victim);
            settle(&mut run, &format!("member {victim} of {size}, seed {seed}"));
            assert_eq!(run.world.healthy_voters(), voters(size));
            assert!(!members(&run).contains(&member));
        }
    }
}

#[test]
fn joining_again_after_a_removal_by_hand_survives_every_fault() {
    for seed in seeds(15) {
        let mut run = settled(3, 6, seed);
        removed_by_hand(&mut run, usize::try_from(seed % 3).unwrap());
        run.faults = Faults::ALL;
        run.turns(150);
        settle(&mut run, &format!("seed {seed}"));
        assert_eq!(run.world.healthy_voters(), 3);
    }
}

#[test]
fn joining_anew_survives_a_kill_at_every_write() {
    let mut run = settled(3, 6, 3);
    removed_by_hand(&mut run, 1);
    run.world.writes = 0;
    killed_at_every_write(&run.world, &|run| run.settle(BOUND)).unwrap();
}

/// Its process has not heard of it yet.
#[test]
fn a_voter_that_vanished_is_remembered_until_its_agent_knows() {
    let mut run = settled(3, 6, 3);
    let member = format_id(removed_by_hand(&mut run, 1));
    let Look {
        observed, status, ..
    } = run.world.look_around(&Blind::default());
    assert!(observed.vanished().next().is_some());
    let decision = plan::decide(&observed);
    assert!(!matches!(decision.step, Step::MarkRemoved { .. }));
    let status = decide_status(&observed, &decision, &Outcome::Done, &status);
    let voters = plan::status::latched(&status.unwrap()).voters;
    assert!(voters.iter().any(|known| known.member_id == member));
}

/// It was given another address by hand: it is still a member, and its data is its own.
#[test]
fn a_voter_with_another_address_has_not_vanished() {
    let mut run = settled(3, 6, 3);
    for cluster in run.world.clusters.values_mut() {
        cluster.members[1].peer_urls = vec!["http://elsewhere:2380".to_owned()];
    }
    for ordinal in 0..3 {
        let mut world = run.world.clone();
        world.crash(ordinal);
        let observed = world.look_around(&Blind::default()).observed;
        assert!(observed.etcd.members.is_some());
        assert_eq!(observed.vanished().count(), 0);
    }
}

/// Another member has its place by now: what is known of the former one is of no use any more.
#[test]
fn a_voter_whose_place_is_taken_has_not_vanished() {
    let mut run = settled(3, 6, 3);
    let memory = run.world.object.status.memory.as_mut().unwrap();
    memory.voters.push(KnownVoter {
        member: "db-1".to_owned(),
        member_id: "beef".to_owned(),
        index: None,
    });
    run.world.crash(1);
    let observed = run.world.look_around(&Blind::default()).observed;
    assert!(observed.etcd.members.is_some());
    assert_eq!(observed.vanished().count(), 0);
}

/// Members of a cluster whose nodes are gone, with a list from before, and one that is recorded to leave.
fn shrinking(size: u32, gone: &[u32], leaver: u32) -> (Observed, Step) {
    let mut run = settled(size, 6, 3);
    run.world.resize(3);
    let list = run.world.look_around(&Blind::default()).observed.etcd;
    for ordinal in gone {
        run.world.set_node(*ordinal, NodeState::Deleted);
    }
    let mut observed = run.world.look_around(&Blind::default()).observed;
    observed.etcd = list;
    observed.objects.drifted.clear();
    let id = observed.member_of(leaver).map_or(0, |member| member.id);
    observed.cluster.latched.retiring = vec![RetireIntent {
        member: observed.member_name(leaver),
        member_id: format_id(id),
        claim_uid: observed
            .claims
            .get(&leaver)
            .map_or_else(String::new, |c| c.uid.clone()),
        replaced: None,
    }];
    let step = Step::RetireMember {
        id,
        ordinal: leaver,
    };
    (observed, step)
}

#[test]
fn the_dead_who_are_not_asked_for_leave_only_where_a_quorum_can_do_without() {
    let (observed, step) = shrinking(5, &[3, 4], 4);
    assert_eq!(invariants::check(&observed, &step), Ok(()));
    assert_eq!(plan::decide(&observed).step, step);
    // One of them is asked for, or the rest of seven is no quorum: neither the rules nor the invariants let it go.
    for (size, gone, leaver) in [(5, vec![1, 4], 4), (7, vec![3, 4, 5, 6], 6)] {
        let (observed, step) = shrinking(size, &gone, leaver);
        assert!(invariants::check(&observed, &step).is_err(), "{gone:?}");
        assert_ne!(plan::decide(&observed).step, step, "{gone:?}");
    }
}

//! Stories of clusters that lost their quorum for good, in the simulated Kubernetes and etcd.

use std::cell::RefCell;
use std::collections::BTreeSet;

use api::Reason;
use api::v1alpha1::cluster::{OnQuorumLoss, Retention};
use plan::Observed;
use plan::events::{Event, decide_events};
use plan::observed::{NodeState, Pod, Process};
use plan::status::Outcome;
use testkit::Run;
use testkit::run::{Faults, killed_at_every_write};
use testkit::story::{BOUND, seeds, settle, settled};
use testkit::world::observe::Blind;

/// A cluster with writes that only a quorum has, and so many nodes gone.
fn stricken(size: u32, seed: u64, gone: &[u32]) -> Run<'static> {
    let mut run = settled(size, 6, seed);
    let id = run.world.clusters.keys().next().copied();
    run.world.quiet = true;
    run.world.write(id.unwrap_or(0), 3000);
    for ordinal in gone {
        run.world.set_node(*ordinal, NodeState::Deleted);
    }
    run
}

/// What a reachable volume holds of the old cluster at most.
fn longest(run: &Run<'_>) -> u64 {
    let claims = run.world.claims.values();
    let here = claims.filter(|claim| {
        let node = claim.node.as_ref().and_then(|n| run.world.nodes.get(n));
        node.is_none()
    });
    let logs = here.filter_map(|claim| Some(claim.volume.data?.log));
    logs.max().unwrap_or(0)
}

#[test]
fn nothing_is_touched_before_a_person_says_so() {
    for seed in seeds(20) {
        for (size, gone) in [(3, vec![0, 2]), (5, vec![0, 1, 4])] {
            let mut run = stricken(size, seed, &gone);
            run.turns(20);
            run.world.sleep(600);
            run.turns(200);
            run.verdict().unwrap();
            assert_eq!(run.world.clusters.len(), 1);
            assert!(run.world.memory().recovery.is_none());
            assert!(
                run.reasons.contains_key(&Reason::QuorumLost),
                "{:?}",
                run.reasons
            );
        }
    }
}

#[test]
fn on_request_the_longest_log_is_continued() {
    for seed in seeds(20) {
        for (size, gone) in [(3, vec![0, 2]), (3, vec![1, 2]), (5, vec![0, 1, 4])] {
            let mut run = stricken(size, seed, &gone);
            run.turns(10);
            let best = longest(&run);
            run.world.approve_recovery();
            run.world.quiet = false;
            let what = format!("size {size}, gone {gone:?}, seed {seed}");
            settle(&mut run, &what);
            assert_eq!(
                run.world.healthy_voters(),
                usize::try_from(size).unwrap(),
                "{what}"
            );
            assert_eq!(run.world.clusters.len(), 2, "{what}");
            let now = run.world.clusters.values().next_back().unwrap();
            assert!(now.acknowledged >= best, "{what}");
            assert!(run.world.memory().recovery.is_none(), "{what}");
        }
    }
}

#[test]
fn every_step_that_is_written_down_is_told() {
    let told = RefCell::new(Vec::new());
    let decide = |observed: &Observed| {
        let decision = plan::decide(observed);
        let events = decide_events(observed, &decision, &Outcome::Done, (None, None));
        let of_recovery = |event: &Event| event.reason == Reason::Recovering;
        told.borrow_mut()
            .extend(events.into_iter().filter(of_recovery));
        decision
    };
    let mut run = Run::with(stricken(3, 1, &[0, 2]).world, &decide);
    run.world.approve_recovery();
    run.world.quiet = false;
    settle(&mut run, "told");
    let told = told.take();
    assert!(told.len() >= 3, "{told:?}");
    assert!(told.iter().all(|event| event.warning), "{told:?}");
}

/// One member that starts for long, beside two that never voted and wait with empty volumes.
fn slow_start(look: &Observed) -> Observed {
    let mut observed = look.clone();
    observed.etcd.members = None;
    let pods = observed.pods.values_mut();
    for pod in pods.filter(|pod| pod.held().is_none()) {
        pod.process = Process::Starting;
    }
    observed.cluster.unavailable_since = Some(observed.now - jiff::SignedDuration::from_secs(600));
    observed.cluster.recover = None;
    if let Ok(intent) = &mut observed.cluster.intent {
        intent.on_quorum_loss = OnQuorumLoss::FromSurvivor;
    }
    observed
}

#[test]
fn a_member_that_never_voted_proves_nothing() {
    let mut run = settled(1, 6, 3);
    run.world.resize(3);
    let mut seen = 0;
    for _ in 0..200 {
        let look = run.world.look_around(&Blind::default()).observed;
        let waiting = look.pods.values().filter(|pod| pod.held().is_some());
        if waiting.count() == 2 {
            seen += 1;
            let observed = slow_start(&look);
            let decision = plan::decide(&observed);
            assert_ne!(decision.reason(), Reason::Recovering, "{}", decision.why);
            assert_ne!(decision.reason(), Reason::QuorumLost, "{}", decision.why);
            // Where the voters were never recorded, it would look like that.
            let mut forgotten = observed;
            forgotten.cluster.latched.voters = Vec::new();
            assert_eq!(plan::decide(&forgotten).reason(), Reason::Recovering);
        }
        run.turn();
    }
    assert!(seen > 0, "no pod waited");
}

#[test]
fn retained_claims_of_members_that_left_hold_up_no_recovery() {
    for seed in seeds(10) {
        let mut run = settled(5, 6, seed);
        run.world.object.when_scaled = Retention::Retain;
        run.world.resize(3);
        settle(&mut run, &format!("smaller, seed {seed}"));
        assert_eq!(run.world.claims.len(), 5, "seed {seed}");
        for ordinal in [0, 2] {
            run.world.set_node(ordinal, NodeState::Deleted);
        }
        run.turns(10);
        run.world.approve_recovery();
        settle(&mut run, &format!("seed {seed}"));
        assert_eq!(run.world.healthy_voters(), 3, "seed {seed}");
    }
}

#[test]
fn a_word_for_another_cluster_changes_nothing() {
    for seed in seeds(10) {
        let mut run = stricken(3, seed, &[0, 2]);
        run.world.object.recover = Some(0xdead);
        run.world.object.revision += 1;
        run.turns(200);
        run.verdict().unwrap();
        assert_eq!(run.world.clusters.len(), 1);
    }
}

#[test]
fn a_word_that_was_given_too_early_turns_no_election_into_a_recovery() {
    for seed in seeds(20) {
        let mut run = settled(3, 6, seed);
        run.world.approve_recovery();
        run.turns(50);
        for _ in 0..4 {
            // Every member is away for a moment, and for longer none can be asked.
            for ordinal in 0..3 {
                run.world.crash(ordinal);
            }
            run.faults = Faults {
                blind_pod: 60,
                blind_list: 60,
                ..Faults::default()
            };
            run.turns(20);
            settle(&mut run, &format!("seed {seed}"));
        }
        assert_eq!(run.world.clusters.len(), 1, "seed {seed}");
    }
}

#[test]
fn by_itself_it_goes_on_only_by_proof() {
    for seed in seeds(20) {
        let mut run = stricken(3, seed, &[0]);
        run.world.object.on_quorum_loss = OnQuorumLoss::FromSurvivor;
        // Silence proves nothing, however long it lasts.
        run.world.freeze(2, true);
        run.turns(20);
        run.world.sleep(3600);
        run.turns(200);
        assert_eq!(run.world.clusters.len(), 1, "seed {seed}");
        run.world.set_node(2, NodeState::Deleted);
        run.world.quiet = false;
        settle(&mut run, &format!("proved, seed {seed}"));
        assert_eq!(
            (run.world.clusters.len(), run.world.healthy_voters()),
            (2, 3)
        );
    }
}

#[test]
fn volumes_that_are_empty_are_proof_as_well() {
    for seed in seeds(20) {
        let mut run = stricken(3, seed, &[]);
        run.world.object.on_quorum_loss = OnQuorumLoss::FromSurvivor;
        run.world.empty_volume(0);
        run.world.damage_volume(1);
        run.turns(20);
        run.world.sleep(100);
        run.world.quiet = false;
        settle(&mut run, &format!("seed {seed}"));
        assert_eq!(
            (run.world.clusters.len(), run.world.healthy_voters()),
            (2, 3)
        );
    }
}

#[test]
fn where_nothing_is_left_nothing_begins_again() {
    for seed in seeds(20) {
        let mut run = stricken(3, seed, &[]);
        run.world.object.on_quorum_loss = OnQuorumLoss::FromSurvivor;
        for ordinal in 0..3 {
            run.world.empty_volume(ordinal);
        }
        run.world.approve_recovery();
        run.world.sleep(100);
        run.turns(300);
        run.verdict().unwrap();
        assert_eq!(run.world.clusters.len(), 1, "seed {seed}");
    }
}

/// The member that was recorded to go on.
fn chosen(run: &Run<'_>) -> Option<u32> {
    let recovery = run.world.memory().recovery?;
    api::names::ordinal("db", &recovery.survivor.as_ref()?.member)
}

#[test]
fn where_the_chosen_one_is_lost_the_next_is_chosen() {
    for seed in seeds(20) {
        // Anything may happen between the choice of the survivor and its bootstrap.
        for later in 0..6 {
            let mut run = stricken(5, seed, &[0, 1, 4]);
            run.turns(10);
            run.world.approve_recovery();
            let what = format!("seed {seed}, {later} later");
            let first = (0..200).find_map(|_| {
                run.turn();
                chosen(&run)
            });
            let first = first.unwrap();
            run.turns(later);
            if run.world.memory().recovery.is_none() {
                // Over: whatever happens now happens to another cluster.
                continue;
            }
            run.world.set_node(first, NodeState::Deleted);
            run.turns(30);
            run.world.approve_recovery();
            run.world.quiet = false;
            settle(&mut run, &what);
            assert_eq!(run.world.healthy_voters(), 5, "{what}");
        }
    }
}

#[test]
fn a_survivor_that_cannot_go_on_is_told_of_tried_again_in_time_and_can_be_given_up() {
    for seed in seeds(10) {
        let what = format!("seed {seed}");
        let mut run = stricken(5, seed, &[0, 1, 4]);
        run.turns(10);
        run.world.approve_recovery();
        let first = (0..200).find_map(|_| {
            run.turn();
            chosen(&run)
        });
        let first = first.unwrap();
        let claim = run.world.claims.get_mut(&first).unwrap();
        claim.volume.stubborn = true;
        let failed = |run: &Run<'_>| {
            let look = run.world.look_around(&Blind::default()).observed;
            let report = look.pods.get(&first).and_then(Pod::held).cloned();
            report.and_then(|report| Some((report.failed?, report.nonce)))
        };
        let begun = run.world.now;
        let mut attempts = BTreeSet::new();
        let mut told = BTreeSet::new();
        for _ in 0..400 {
            let decision = run.turn();
            run.world.sleep(1);
            if let Some((_, nonce)) = failed(&run) {
                attempts.insert(nonce);
                assert_eq!(decision.reason(), Reason::Recovering, "{what}");
                told.insert(decision.why.to_string());
            }
        }
        let seconds = run.world.now.duration_since(begun).as_secs();
        let most = usize::try_from(seconds / 30 + 1).unwrap();
        assert!((2..=most).contains(&attempts.len()), "{what}: {attempts:?}");
        let last = told.iter().next_back().unwrap();
        let commands = format!(
            "kubectl delete pvc -n ns data-db-{first} --wait=false; kubectl delete pod -n ns db-{first}"
        );
        assert!(last.contains("removed all voters"), "{what}: {last}");
        assert!(last.ends_with(&commands), "{what}: {last}");
        assert_eq!(run.world.clusters.len(), 1, "{what}");
        run.world.lose_claim(first);
        run.world.delete_pod(first);
        run.world.quiet = false;
        settle(&mut run, &what);
        assert_eq!(run.world.healthy_voters(), 5, "{what}");
    }
}

#[test]
fn recovering_survives_a_kill_at_every_write() {
    let mut run = stricken(3, 3, &[0, 2]);
    run.turns(10);
    run.world.approve_recovery();
    run.world.quiet = false;
    run.world.writes = 0;
    killed_at_every_write(&run.world, &|run| run.settle(BOUND)).unwrap();
}

#[test]
fn recovering_survives_every_fault_at_once() {
    for seed in seeds(40) {
        let mut run = stricken(if seed % 2 == 0 { 3 } else { 5 }, seed, &[]);
        let size = run.world.object.size;
        for ordinal in 0..=size / 2 {
            run.world.set_node(ordinal, NodeState::OutOfService);
        }
        run.turns(5);
        run.world.approve_recovery();
        run.faults = Faults::ALL;
        run.turns(200);
        run.world.quiet = false;
        settle(&mut run, &format!("seed {seed}"));
        assert_eq!(run.world.clusters.len(), 2, "seed {seed}");
    }
}

#[test]
fn members_that_return_too_late_are_no_second_cluster() {
    for seed in seeds(30) {
        let mut run = stricken(3, seed, &[]);
        run.world.freeze(0, true);
        run.world.freeze(2, true);
        run.turns(10);
        run.world.approve_recovery();
        let turns = run.world.rng.below(60);
        run.turns(usize::try_from(turns).unwrap());
        for ordinal in [0, 2] {
            run.world.set_node(ordinal, NodeState::Ready);
        }
        let nodes: Vec<String> = run.world.nodes.keys().cloned().collect();
        for node in nodes {
            run.world.nodes.insert(node, NodeState::Ready);
        }
        run.world.quiet = false;
        settle(&mut run, &format!("seed {seed}"));
        assert_eq!(run.world.healthy_voters(), 3, "seed {seed}");
    }
}

/// Nodes become `NotReady`, a user asks for the recovery, the status is wiped, and the nodes come back.
#[test]
fn a_status_that_is_wiped_after_the_fence_restarts_no_fenced_data() {
    for seed in seeds(3) {
        for turns in 0..60 {
            let mut run = settled(5, 6, seed);
            run.world.quiet = true;
            let since = run.world.now;
            for ordinal in [0, 1, 2] {
                run.world.set_node(ordinal, NodeState::NotReady(since));
            }
            run.turns(10);
            run.world.sleep(60);
            run.world.approve_recovery();
            run.turns(turns);
            let fenced = run.world.memory().fence.is_some();
            run.world.wipe_status();
            run.turns(5);
            let nodes: Vec<String> = run.world.nodes.keys().cloned().collect();
            for node in nodes {
                run.world.nodes.insert(node, NodeState::Ready);
            }
            for ordinal in 0..5 {
                run.world.delete_pod(ordinal);
            }
            run.turns(150);
            let what = format!("after {turns} turns, seed {seed}, fenced {fenced}");
            assert_eq!(run.verdict(), Ok(()), "{what}");
            let serving = run.world.live().filter(|(_, process)| process.serving);
            let clusters: BTreeSet<u64> = serving.map(|(_, process)| process.cluster).collect();
            assert!(clusters.len() <= 1, "{what}: {clusters:x?}");
        }
    }
}

//! Tests of the tests: operators that replace or recover wrongly, in one way each. Every one of them is caught by the
//! check before the act, and where its mistake can do harm also by what the world records when that check is off.

use api::v1alpha1::status::{RecoveryIntent, RetireIntent, Survivor};
use gate::{Action, Grant, State};
use plan::invariants::Violation;
use plan::observed::{Latched, NodeState, format_id};
use plan::{Observed, Step};
use testkit::Run;
use testkit::mutant::{Caught, Mutant, decide_as};
use testkit::story::settled;

/// A cluster of which one member, or two of three, fell silent or are gone.
fn stories(mutant: Mutant) -> Caught {
    let mut caught = Caught::default();
    for seed in 0..12 {
        for (gone, state) in [
            (1, NodeState::OutOfService),
            (2, NodeState::OutOfService),
            (1, NodeState::Ready),
        ] {
            let wrong = |observed: &Observed| decide_as(mutant, observed);
            let mut world = settled(3, 6, seed).world;
            let id = *world.clusters.first_key_value().unwrap().0;
            world.quiet = true;
            world.write(id, 3000);
            if state == NodeState::Ready {
                world.freeze(0, true);
            }
            for ordinal in 0..gone {
                world.set_node(ordinal, state);
            }
            if gone == 2 && seed % 2 == 0 {
                world.set_node(0, NodeState::Ready);
                world.empty_volume(0);
                world.damage_volume(1);
            }
            if seed % 3 == 0 {
                world.approve_recovery();
            }
            let mut run = Run::with(world, &wrong);
            run.turns(120);
            caught.note(&run);
        }
    }
    caught
}

fn refused_as(mutant: Mutant, violation: &Violation) {
    stories(mutant).assert_refused(violation);
}

fn latch(observed: &Observed, change: impl FnOnce(&mut Latched)) -> Step {
    let mut latched = observed.cluster.latched.clone();
    change(&mut latched);
    Step::Latch(latched)
}

/// Invariant 7: replaces a member that does not respond, whatever is known of its node.
fn replaces_who_is_silent(observed: &Observed) -> Option<Step> {
    let list = observed.etcd.members.as_ref()?;
    list.voters().find_map(|voter| {
        let ordinal = observed.ordinal_of(voter)?;
        if observed.serving_as(voter.id).is_some() {
            return None;
        }
        let intent = RetireIntent {
            member: observed.member_name(ordinal),
            member_id: format_id(voter.id),
            claim_uid: observed.claims.get(&ordinal)?.uid.clone(),
            replaced: Some("it does not answer".to_owned()),
        };
        let written = observed.cluster.latched.retiring.contains(&intent);
        Some(if written {
            let id = voter.id;
            Step::RetireMember { id, ordinal }
        } else {
            latch(observed, |latched| latched.retiring = vec![intent])
        })
    })
}

/// Invariant 5: deletes the pod of a member that is still listed.
fn frees_before_the_member(observed: &Observed) -> Option<Step> {
    observed.pods.iter().find_map(|(ordinal, pod)| {
        observed.member_of(*ordinal)?;
        observed.node_bindings.get(ordinal)?;
        Some(Step::StopPod {
            ordinal: *ordinal,
            uid: pod.uid.clone(),
            force: true,
        })
    })
}

fn lost(observed: &Observed) -> Option<u64> {
    let latched = &observed.cluster.latched;
    latched
        .cluster_id
        .filter(|_| observed.etcd.members.is_none())
}

/// Begins to recover without a word and without proof.
fn recovers_unasked(observed: &Observed) -> Option<Step> {
    let cluster = lost(observed)?;
    let begun = observed.cluster.latched.recovery.is_some();
    (!begun && observed.cluster.recover.is_none()).then(|| {
        latch(observed, |latched| {
            latched.incarnation += 1;
            latched.fence = Some(latched.incarnation);
            latched.recovery = Some(RecoveryIntent {
                cluster_id: format_id(cluster),
                survivor: None,
                excused: Vec::new(),
            });
        })
    })
}

/// Pods that might still report are not waited for.
fn excuses_all(observed: &Observed) -> Option<Step> {
    let Step::Latch(mut latched) = plan::decide(observed).step else {
        return None;
    };
    let begun = observed.cluster.latched.recovery.is_some();
    let recovery = latched.recovery.as_mut().filter(|_| !begun)?;
    let all = observed.pods.keys();
    recovery.excused = all.map(|n| observed.member_name(*n)).collect();
    Some(Step::Latch(latched))
}

/// One more pod is excused when one is chosen.
fn excuses_late(observed: &Observed) -> Option<Step> {
    let Step::Latch(mut latched) = plan::decide(observed).step else {
        return None;
    };
    let begun = observed.cluster.latched.recovery.is_some();
    let recovery = latched.recovery.as_mut().filter(|_| begun)?;
    recovery.excused.push("db-1".to_owned());
    Some(Step::Latch(latched))
}

/// The last one is continued with, however short its log.
fn goes_on_with_the_last(observed: &Observed) -> Option<Step> {
    let recovery = observed.cluster.latched.recovery.clone()?;
    let waits = |state: State| state == State::Fenced;
    let mut fenced = observed.pods.iter().rev();
    let (ordinal, _) = fenced.find(|(_, pod)| pod.held().is_some_and(|r| waits(r.state)))?;
    let claim_uid = observed.claims.get(ordinal)?.uid.clone();
    recovery.survivor.is_none().then(|| {
        let member = observed.member_name(*ordinal);
        latch(observed, |latched| {
            latched.recovery = Some(RecoveryIntent {
                survivor: Some(Survivor { member, claim_uid }),
                ..recovery
            });
        })
    })
}

/// Lets every pod that is left bootstrap a cluster of its own.
fn lets_all_bootstrap(observed: &Observed) -> Option<Step> {
    let latched = &observed.cluster.latched;
    latched.recovery.as_ref()?;
    observed.pods.iter().find_map(|(ordinal, pod)| {
        let report = pod.held().filter(|report| report.state == State::Fenced)?;
        let data = report.data.as_ref().filter(|_| !pod.is_granted())?;
        Some(Step::Grant {
            ordinal: *ordinal,
            pod_uid: pod.uid.clone(),
            grant: Grant {
                nonce: report.nonce.clone(),
                cluster_uid: observed.cluster.uid.clone(),
                incarnation: latched.incarnation,
                action: Action::Recover {
                    token: format!("{}-{}", observed.cluster.uid, latched.incarnation),
                    initial_cluster: String::new(),
                    member_id: data.member_id.clone(),
                    cluster_id: data.cluster_id.clone(),
                    bump_revision: 1,
                },
            },
        })
    })
}

#[test]
fn replacing_who_is_merely_silent_is_refused() {
    refused_as(replaces_who_is_silent, &Violation::Unknown);
}

#[test]
fn freeing_a_pod_before_its_member_is_refused() {
    refused_as(frees_before_the_member, &Violation::DataBeforeMember);
}

#[test]
fn recovering_without_a_word_is_refused() {
    refused_as(recovers_unasked, &Violation::NotAskedFor);
}

/// Two of five are left, one of which may have less than the other.
fn two_left(mutant: Mutant, unchecked: bool) -> Caught {
    let mut caught = Caught::default();
    let wrong = |observed: &Observed| decide_as(mutant, observed);
    for seed in 0..20 {
        let mut world = settled(5, 6, seed).world;
        let id = *world.clusters.first_key_value().unwrap().0;
        world.quiet = true;
        world.write(id, 3000);
        for ordinal in [0, 2, 3] {
            world.set_node(ordinal, NodeState::Deleted);
        }
        world.approve_recovery();
        let mut run = Run::with(world, &wrong);
        run.unchecked = unchecked;
        run.turns(150);
        caught.note(&run);
    }
    caught
}

#[test]
fn going_on_with_a_shorter_log_is_refused_and_would_lose_writes() {
    let refused = two_left(goes_on_with_the_last, false);
    refused.assert_refused(&Violation::LastCopy);
    // And none is chosen before every pod has reported.
    refused.assert_refused(&Violation::Unknown);
    two_left(goes_on_with_the_last, true).assert_harm("passed over");
}

#[test]
fn excusing_a_pod_that_could_report_is_refused() {
    two_left(excuses_all, false).assert_refused(&Violation::Unknown);
    two_left(excuses_late, false).assert_refused(&Violation::Forgets);
}

#[test]
fn two_survivors_that_found_are_refused_and_would_fork() {
    two_left(lets_all_bootstrap, false).assert_refused(&Violation::SecondBootstrap);
    two_left(lets_all_bootstrap, true).assert_harm("second bootstrap");
}

#[test]
fn nothing_of_this_happens_to_the_operator_as_it_is() {
    stories(|_| None).assert_nothing();
    two_left(|_| None, true).assert_nothing();
}

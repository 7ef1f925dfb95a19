//! Tests of the tests: operators that treat members that hang wrongly, in one way each. Every one of them is caught by
//! the check before the act, and where its mistake can do harm also by what the world records when that check is off.

use api::v1alpha1::status::{HangIntent, RetireIntent};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use plan::invariants::Violation;
use plan::observed::{Latched, Member, format_id};
use plan::{Observed, Step};
use testkit::Run;
use testkit::mutant::{Caught, Mutant, decide_as};
use testkit::story::settled;

/// Of three or five members some hang: few enough to be spared, or one too many.
fn stories(mutant: Mutant, unchecked: bool) -> Caught {
    let mut caught = Caught::default();
    for seed in 0..8 {
        for (size, hung, crashed) in [(3, 1, 0), (5, 2, 0), (3, 1, 1)] {
            let wrong = |observed: &Observed| decide_as(mutant, observed);
            let mut world = settled(size, 6, seed).world;
            for ordinal in 0..hung {
                world.hang(ordinal, true);
            }
            let mut run = Run::with(world, &wrong);
            run.unchecked = unchecked;
            run.turns(10);
            if crashed > 0 {
                run.world.freeze(2, true);
            }
            for _ in 0..100 {
                run.turn();
                run.world.sleep(1);
            }
            caught.note(&run);
        }
    }
    caught
}

fn latch(observed: &Observed, change: impl FnOnce(&mut Latched)) -> Step {
    let mut latched = observed.cluster.latched.clone();
    change(&mut latched);
    Step::Latch(latched)
}

/// Voters that stall, for however short a time.
fn stalled(observed: &Observed) -> Option<(u32, &Member)> {
    let list = observed.etcd.members.as_ref()?;
    list.voters().find_map(|voter| {
        let ordinal = observed.ordinal_of(voter)?;
        observed.pods.get(&ordinal)?.stall?;
        Some((ordinal, voter))
    })
}

fn intent(observed: &Observed, ordinal: u32, member: &Member, pod_uid: &str) -> HangIntent {
    HangIntent {
        member: observed.member_name(ordinal),
        member_id: format_id(member.id),
        pod_uid: pod_uid.to_owned(),
        time: Time(observed.now),
    }
}

/// Replaces who hangs without having restarted it.
fn replaces_at_once(observed: &Observed) -> Option<Step> {
    let (ordinal, member) = stalled(observed)?;
    observed.hangs(member)?;
    let intent = RetireIntent {
        member: observed.member_name(ordinal),
        member_id: format_id(member.id),
        claim_uid: observed.claims.get(&ordinal)?.uid.clone(),
        replaced: Some("it hangs".to_owned()),
    };
    let written = observed.cluster.latched.retiring.contains(&intent);
    Some(if written {
        let id = member.id;
        Step::RetireMember { id, ordinal }
    } else {
        latch(observed, |latched| latched.retiring = vec![intent])
    })
}

/// Records a restart that never was, so that the replacement looks like the second attempt.
fn writes_down_another_pod(observed: &Observed) -> Option<Step> {
    let (ordinal, member) = stalled(observed)?;
    observed.hangs(member)?;
    let lie = intent(observed, ordinal, member, "a pod that never was");
    let hung = &observed.cluster.latched.hung;
    let told = hung.iter().any(|known| known.member == lie.member);
    (!told).then(|| latch(observed, |latched| latched.hung = vec![lie]))
}

/// Restarts any member that stalls, and waits for nothing.
fn restarts_too_early(observed: &Observed) -> Option<Step> {
    let (ordinal, member) = stalled(observed)?;
    let pod = observed.pods.get(&ordinal).filter(|pod| !pod.terminating)?;
    let intent = intent(observed, ordinal, member, &pod.uid);
    let hung = &observed.cluster.latched.hung;
    let told = hung.iter().any(|known| known.pod_uid == pod.uid);
    observed.hangs(member).is_none().then(|| {
        if told {
            let uid = pod.uid.clone();
            Step::RestartPod { ordinal, uid }
        } else {
            latch(observed, |latched| latched.hung = vec![intent])
        }
    })
}

/// Restarts who hangs, whether or not the others can do without it.
fn restarts_regardless(observed: &Observed) -> Option<Step> {
    let (ordinal, member) = stalled(observed)?;
    observed.hangs(member)?;
    let pod = observed.pods.get(&ordinal).filter(|pod| !pod.terminating)?;
    let intent = intent(observed, ordinal, member, &pod.uid);
    let hung = &observed.cluster.latched.hung;
    let told = hung.iter().any(|known| known.pod_uid == pod.uid);
    Some(if told {
        let uid = pod.uid.clone();
        Step::RestartPod { ordinal, uid }
    } else {
        latch(observed, |latched| latched.hung = vec![intent])
    })
}

#[test]
fn a_replacement_without_a_restart_is_refused_and_would_be_seen() {
    stories(replaces_at_once, false).assert_refused(&Violation::Unknown);
    stories(replaces_at_once, true).assert_harm("had never been restarted");
}

#[test]
fn a_restart_that_never_was_is_refused_and_would_be_seen() {
    stories(writes_down_another_pod, false).assert_refused(&Violation::NotAskedFor);
    stories(writes_down_another_pod, true).assert_harm("had never been restarted");
}

#[test]
fn a_restart_too_early_is_refused() {
    stories(restarts_too_early, false).assert_refused(&Violation::Unknown);
}

/// Of three voters one hangs, and when that is known another one does not answer.
#[test]
fn a_restart_without_a_quorum_of_the_others_is_refused() {
    let mut caught = Caught::default();
    for seed in 0..8 {
        let wrong = |observed: &Observed| decide_as(restarts_regardless, observed);
        let mut world = settled(3, 6, seed).world;
        world.hang(0, true);
        let mut run = Run::with(world, &wrong);
        // It is known to hang, and only then one of the others goes.
        run.turns(20);
        run.world.sleep(40);
        let mut look = run.look();
        for pod in look.observed.pods.values_mut().skip(2) {
            pod.process = plan::observed::Process::Unknown;
        }
        run.reconcile(&look);
        caught.note(&run);
    }
    caught.assert_refused(&Violation::Quorum);
}

#[test]
fn nothing_of_this_happens_to_the_operator_as_it_is() {
    stories(|_| None, true).assert_nothing();
    let run = settled(3, 6, 1);
    assert!(run.world.hung().is_empty() && run.refused.is_empty());
    assert_eq!(run.world.memory().hung, vec![]);
    assert!(run.world.clusters.first_key_value().unwrap().1.acknowledged > 0);
}

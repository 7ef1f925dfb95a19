//! Stories of pods that Kubernetes does not create, in the simulated Kubernetes and etcd: a template that a quota or an
//! admission policy rejects costs one member for a stated time, and no more.

use api::Reason;
use jiff::SignedDuration;
use plan::observed::Refusals;
use plan::{Step, decide};
use testkit::Run;
use testkit::scene::{Does, Listed, Scene, Slot, Trial};
use testkit::story::{seeds, settle, settled};

/// Lets so many seconds pass, with a look every few of them.
fn pass(run: &mut Run<'_>, seconds: i64) {
    let end = run.world.now + SignedDuration::from_secs(seconds);
    while run.world.now < end {
        run.turn();
        run.world.sleep(2);
    }
}

fn said(run: &Run<'_>) -> String {
    format!("{:?}", run.world.object.status.conditions)
}

/// Which pods there are.
fn uids(run: &Run<'_>) -> Vec<String> {
    run.world.pods.values().map(|pod| pod.uid.clone()).collect()
}

/// A cluster whose first member was deleted to try a template from which no pod can be created.
fn rejected(size: u32, seed: u64) -> Run<'static> {
    let mut run = settled(size, 6, seed);
    run.world.rejected_edits.insert(1);
    run.world.edit(1);
    let all = usize::try_from(size).unwrap();
    while run.world.pods.len() == all {
        run.turn();
    }
    run
}

#[test]
fn a_template_from_which_no_pod_can_be_created_costs_no_member_for_ever() {
    for seed in seeds(10) {
        for size in [1, 3, 5] {
            let what = format!("size {size}, seed {seed}");
            let mut run = rejected(size, seed);
            let all = usize::try_from(size).unwrap();
            pass(&mut run, 200);
            assert_eq!(run.world.pods.len(), all - 1, "{what}: not before its time");
            pass(&mut run, 200);
            assert_eq!(run.world.healthy_voters(), all, "{what}: {}", said(&run));
            // It is not tried again, and every member stays.
            let before = uids(&run);
            pass(&mut run, 2000);
            assert_eq!(uids(&run), before, "{what}");
            let said = said(&run);
            assert!(said.contains("RolloutHalted"), "{what}: {said}");
            assert!(
                said.contains("kubectl describe statefulset -n ns db"),
                "{what}: {said}"
            );
            // The correction is tried at once.
            run.world.edit(2);
            settle(&mut run, &what);
            assert_eq!(run.world.healthy_voters(), all, "{what}");
            assert_eq!(run.world.memory().called_off, None, "{what}");
        }
    }
}

/// The quota is raised, and the owner asks for the same once more.
#[test]
fn a_template_that_was_called_off_is_tried_again_on_request() {
    for seed in seeds(5) {
        let what = format!("seed {seed}");
        let mut run = rejected(3, seed);
        pass(&mut run, 400);
        run.world.rejected_edits.clear();
        run.world.edit(0);
        settle(&mut run, &what);
        run.world.edit(1);
        settle(&mut run, &what);
        assert_eq!(run.world.healthy_voters(), 3, "{what}");
    }
}

/// Another member loses its volume while the first one has no pod, and after the trial was called off.
#[test]
fn no_repair_waits_for_a_template_that_was_called_off() {
    for seed in seeds(5) {
        let what = format!("seed {seed}");
        let mut run = rejected(5, seed);
        pass(&mut run, 400);
        let victim = *run.world.pods.keys().next().unwrap();
        run.world.empty_volume(victim);
        pass(&mut run, 300);
        assert_eq!(run.world.healthy_voters(), 5, "{what}: {}", said(&run));
        // Growth is a wish that needs no pod of that template.
        run.world.resize(7);
        pass(&mut run, 300);
        assert_eq!(run.world.healthy_voters(), 7, "{what}: {}", said(&run));
        assert!(run.reasons.contains_key(&Reason::RolloutHalted), "{what}");
    }
}

/// What was recorded is lost: it is tried once more, and called off once more.
#[test]
fn a_wiped_status_costs_one_more_try() {
    for seed in seeds(5) {
        let what = format!("seed {seed}");
        let mut run = rejected(3, seed);
        pass(&mut run, 400);
        run.world.wipe_status();
        pass(&mut run, 1000);
        assert_eq!(run.world.healthy_voters(), 3, "{what}: {}", said(&run));
        let before = uids(&run);
        pass(&mut run, 1000);
        assert_eq!(uids(&run), before, "{what}");
    }
}

/// Two of three are lost while the first member has no pod.
#[test]
fn a_template_that_is_rejected_keeps_no_quorum_from_coming_back() {
    for seed in seeds(10) {
        let what = format!("seed {seed}");
        let mut run = rejected(3, seed);
        let other = *run.world.pods.keys().next().unwrap();
        run.world.delete_pod(other);
        pass(&mut run, 900);
        assert_eq!(run.world.healthy_voters(), 3, "{what}: {}", said(&run));
    }
}

/// Of three pods one is missing; what the controller counts, and what is made of that after ten minutes.
#[test]
fn a_controller_that_does_not_run_is_held_against_no_template() {
    let scene = Scene {
        trial: Some((2, Trial::Written)),
        ..Scene::edited(
            3,
            vec![
                Slot::outdated(),
                Slot::outdated(),
                Slot::new(Does::Absent, Listed::Voter),
            ],
        )
    };
    for (created, called_off) in [(Some(2), true), (Some(3), false), (None, false)] {
        let mut known = Refusals::default();
        let mut observed = scene.observed();
        observed.objects.created = created;
        known.sort(&mut observed, Vec::new());
        assert_eq!(decide(&observed).step, Step::Wait, "{created:?}: too early");
        observed.now += SignedDuration::from_mins(10);
        known.sort(&mut observed, Vec::new());
        let recorded = match decide(&observed).step {
            Step::Latch(latched) => latched.called_off,
            _other => None,
        };
        assert_eq!(recorded.is_some(), called_off, "{created:?}");
    }
}

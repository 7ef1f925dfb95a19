//! Tests of the tests: wrong cures, in one way each, that the check before the act refuses.
#![expect(clippy::unwrap_used, reason = "test code: a failure is the point")]

use api::Reason;
use api::v1alpha1::status::TrialIntent;
use plan::observed::{Latched, NodeBinding, NodeState, Process};
use plan::{Observed, Step, decide};
use testkit::scene::{Begun, Dark, Does, Fate, For, Scene, Slot, Stalls, Trial};

use crate::cures::{at, edit, failed};

use gate::{Action, Grant};
use manifests::{Shape, Template};
use plan::invariants::{Violation, check};

fn trial_of(observed: &Observed, ordinal: u32) -> TrialIntent {
    TrialIntent {
        member: observed.member_name(ordinal),
        template: observed.cluster.target.as_ref().unwrap().template.clone(),
        pod_uid: format!("pod-{ordinal}"),
    }
}

#[test]
fn a_recovery_that_keeps_a_trial_open_is_refused() {
    let slots = vec![
        at(Does::Leaderless, Fate::Unknown),
        at(Does::Unknown, Fate::Silent),
        Slot::stuck(),
    ];
    let scene = Scene {
        list: false,
        trial: Some((2, Trial::Remade)),
        dark: Dark::approved(Begun::No),
        ..Scene::edited(3, slots)
    };
    let observed = scene.observed();
    let Step::Latch(begins) = decide(&observed).step else {
        panic!("{:?}", decide(&observed))
    };
    assert!(begins.recovery.is_some() && begins.trial().is_none());
    assert_eq!(check(&observed, &Step::Latch(begins.clone())), Ok(()));
    let keeps = Step::Latch(Latched {
        disturbance: observed.cluster.latched.disturbance.clone(),
        ..begins
    });
    assert_eq!(check(&observed, &keeps), Err(Violation::Unproven));
}

#[test]
fn a_trial_on_a_silent_node_is_refused() {
    let mut observed = Scene::edited(3, vec![Slot::outdated(); 3]).observed();
    let silent = NodeBinding {
        node: "n1".to_owned(),
        state: NodeState::NotReady(observed.now),
        elsewhere: None,
        gone_since: None,
    };
    let step = |observed: &Observed| {
        let tries = Some(trial_of(observed, 2));
        Step::Latch(observed.cluster.latched.clone().with_trial(tries))
    };
    assert_eq!(check(&observed, &step(&observed)), Ok(()));
    observed.node_bindings.insert(2, silent);
    assert_eq!(check(&observed, &step(&observed)), Err(Violation::Unproven));
    // Nor does its template stay where the pod does not end.
    let tries = Some(trial_of(&observed, 2));
    observed.cluster.latched = observed.cluster.latched.with_trial(tries);
    observed.pods.get_mut(&2).unwrap().terminating = true;
    let tries = Step::ApplyObjects(Shape {
        template: Template::Try,
        replicas: 3,
        ..Shape::default()
    });
    assert_eq!(check(&observed, &tries), Err(Violation::Unproven));
    observed.node_bindings.clear();
    assert_eq!(check(&observed, &tries), Ok(()));
}

#[test]
fn a_pause_that_writes_another_template_is_refused() {
    let scene = Scene {
        paused: true,
        trial: Some((2, Trial::Written)),
        ..Scene::edited(3, vec![Slot::outdated(); 3])
    };
    let observed = scene.observed();
    let Step::RestoreTemplate(shape) = decide(&observed).step else {
        panic!("{:?}", decide(&observed))
    };
    assert_eq!(
        check(&observed, &Step::RestoreTemplate(shape.clone())),
        Ok(())
    );
    for template in [Template::Try, Template::Render, Template::Live] {
        let step = Step::RestoreTemplate(Shape {
            template,
            ..shape.clone()
        });
        assert_eq!(
            check(&observed, &step),
            Err(Violation::Unproven),
            "{template:?}"
        );
    }
    let mut lost = observed;
    lost.objects.kept_template = Some("another".to_owned());
    let step = Step::RestoreTemplate(shape);
    assert_eq!(check(&lost, &step), Err(Violation::Unproven));
}

/// Another release was refused, and the StatefulSet was deleted: it came back with the release that runs, under
/// another hash.
#[test]
fn a_release_that_was_refused_restarts_nothing_and_makes_no_statefulset_again() {
    let scene = Scene {
        larger: true,
        claims_follow: false,
        format: 5,
        ..Scene::between(5, 7, vec![Slot::outdated(); 3])
    };
    let mut observed = scene.observed();
    let orphan = Step::OrphanPods {
        uid: observed.objects.set_uid.clone().unwrap(),
    };
    assert_ne!(decide(&observed).step, orphan);
    assert_eq!(check(&observed, &orphan), Err(Violation::Unproven));
    // Every volume has grown by now.
    observed.cluster.latched.storage = Some(20 << 30);
    observed.objects.template = Some("rendered".to_owned());
    observed.objects.kept_template = None;
    observed.pods.get_mut(&2).unwrap().template = "rendered".to_owned();
    let decision = decide(&observed);
    assert_eq!(decision.reason(), Reason::ChangeRefused, "{decision:?}");
    observed.cluster.latched.proven.as_mut().unwrap().everywhere = false;
    let step = decide(&observed).step;
    assert_eq!(check(&observed, &step), Ok(()), "{step:?}");
    assert!(!matches!(step, Step::RestartPod { .. }), "{step:?}");
}

#[test]
fn a_pod_of_a_recovery_that_may_run_is_not_restarted() {
    let mut observed = failed();
    edit(&mut observed);
    let restart = Step::RestartPod {
        ordinal: 0,
        uid: "pod-0".to_owned(),
    };
    assert_eq!(
        check(&observed, &restart),
        Err(Violation::NotAskedFor),
        "no other template"
    );
    let target = observed.cluster.target.as_ref().unwrap().template.clone();
    observed.objects.template = Some(target);
    assert_eq!(check(&observed, &restart), Ok(()));
    let mut unfenced = observed.clone();
    unfenced.pods.get_mut(&0).unwrap().fence = None;
    assert_eq!(check(&unfenced, &restart), Err(Violation::OpenGrant));
    let mut runs = observed.clone();
    runs.pods.get_mut(&0).unwrap().process = Process::Starting;
    assert_eq!(check(&runs, &restart), Err(Violation::Unknown));
    let pod = observed.pods.get_mut(&0).unwrap();
    pod.grant = Some(Grant {
        nonce: pod.held().unwrap().nonce.clone(),
        cluster_uid: "uid".to_owned(),
        incarnation: 2,
        action: Action::Resume {
            member_id: "a0".to_owned(),
            cluster_id: "c1".to_owned(),
        },
    });
    assert_eq!(check(&observed, &restart), Err(Violation::OpenGrant));
}

/// It would cost a member once more, for as long as it takes to know that no pod comes.
#[test]
fn a_template_that_was_called_off_is_tried_by_no_member() {
    let mut observed = Scene::edited(3, vec![Slot::outdated(); 3]).observed();
    let step = |observed: &Observed| {
        let tries = Some(trial_of(observed, 2));
        Step::Latch(observed.cluster.latched.clone().with_trial(tries))
    };
    assert_eq!(check(&observed, &step(&observed)), Ok(()));
    let asked = observed.cluster.target.as_ref().unwrap().template.clone();
    observed.cluster.latched.called_off = Some(asked);
    assert_eq!(check(&observed, &step(&observed)), Err(Violation::Unproven));
}

/// While a pod may still be made from what is tried, the member that hangs would get it.
#[test]
fn a_member_that_hangs_is_not_restarted_onto_what_another_tries() {
    let hangs = Slot {
        stalls: Stalls::Stuck,
        hung: For::ThisWait,
        ..Slot::outdated()
    };
    let slots = vec![
        hangs,
        Slot::outdated(),
        Slot::outdated(),
        Slot::outdated(),
        Slot::stuck(),
    ];
    let mut observed = Scene {
        trial: Some((4, Trial::Restored)),
        ..Scene::edited(5, slots)
    }
    .observed();
    let uid = observed.pods[&0].uid.clone();
    let step = Step::RestartPod { ordinal: 0, uid };
    assert_eq!(check(&observed, &step), Ok(()));
    observed.objects.template = observed
        .cluster
        .target
        .as_ref()
        .map(|it| it.template.clone());
    assert_eq!(check(&observed, &step), Err(Violation::NotAskedFor));
}

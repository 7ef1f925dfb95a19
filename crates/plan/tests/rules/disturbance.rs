//! At most one disturbance is recorded, and a repair displaces a wish.

use plan::invariants::{Violation, check};
use plan::observed::Disturbance;
use plan::{Observed, Step, decide};
use testkit::scene::{Begun, Dark, Does, Fate, Scene, Slot, Trial};

use crate::cures::at;

fn wishes() -> [Disturbance; 2] {
    let member = "db-1".to_owned();
    [Disturbance::Defragment { member }, Disturbance::RenewLogs]
}

fn disturbed(scene: &Scene, by: &Disturbance) -> Observed {
    let mut observed = scene.observed();
    observed.cluster.latched.disturbance = Some(by.clone());
    observed
}

#[test]
fn a_replacement_displaces_what_waits_for_every_member() {
    let lost = at(Does::Unknown, Fate::Lost);
    let scene = Scene::formed(3, vec![lost, Slot::voter(), Slot::voter()]);
    for wish in wishes() {
        let observed = disturbed(&scene, &wish);
        let decision = decide(&observed);
        let Step::Latch(new) = &decision.step else {
            panic!("{wish:?}: {decision:?}")
        };
        assert_eq!(new.retiring.len(), 1, "{wish:?}");
        assert_eq!(new.disturbance, None, "{wish:?}");
    }
}

#[test]
fn a_recovery_displaces_every_disturbance() {
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
    let trial = scene.observed().cluster.latched.disturbance;
    for disturbance in wishes().into_iter().chain(trial) {
        let observed = disturbed(&scene, &disturbance);
        let Step::Latch(new) = decide(&observed).step else {
            panic!("{disturbance:?}: {:?}", decide(&observed))
        };
        assert!(new.recovery.is_some(), "{disturbance:?}");
        assert_eq!(new.disturbance, None, "{disturbance:?}");
    }
}

/// Its pod may be on the way to another template: no other wish may make that forgotten.
#[test]
fn no_wish_displaces_a_trial() {
    let scene = Scene {
        trial: Some((2, Trial::Chosen)),
        ..Scene::edited(3, vec![Slot::outdated(); 3])
    };
    let observed = scene.observed();
    for wish in wishes() {
        let latched = observed.cluster.latched.clone();
        let step = Step::Latch(latched.with_disturbance(wish.clone()));
        assert_eq!(check(&observed, &step), Err(Violation::Busy), "{wish:?}");
    }
}

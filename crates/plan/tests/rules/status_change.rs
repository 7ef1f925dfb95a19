//! What a user reads while a cluster changes: snapshots of typical situations. Each has to say how far it is, which
//! member it waits for, and what to do.

use api::v1alpha1::status::Phase;
use gate::State;
use plan::Observed;
use plan::status::Outcome;
use testkit::Scene;
use testkit::scene::{Does, Listed, Made, Sized, Slot, Trial};
use testkit::told::report;

fn shown(observed: &Observed, phase: Phase) -> String {
    report(observed, &Outcome::Done, Some(phase))
}

fn young(does: Does, made: Made) -> Slot {
    Slot {
        does,
        made,
        ready: false,
        age: 3,
        ..Slot::voter()
    }
}

#[test]
fn a_member_that_is_to_try_a_change_is_named() {
    let scene = Scene::edited(3, vec![Slot::outdated(); 3]);
    insta::assert_snapshot!("to_try", shown(&scene.observed(), Phase::Running));
}

#[test]
fn a_member_that_tries_a_change_is_named() {
    let tries = young(Does::Starts, Made::AsAsked);
    let scene = Scene {
        trial: Some((2, Trial::Restored)),
        ..Scene::edited(3, vec![Slot::outdated(), Slot::outdated(), tries])
    };
    insta::assert_snapshot!("trying", shown(&scene.observed(), Phase::Upgrading));
}

#[test]
fn a_rollout_says_how_far_it_is_and_which_member_it_waits_for() {
    let back = young(Does::Starts, Made::AsAsked);
    let scene = Scene {
        everywhere: false,
        ..Scene::formed(3, vec![Slot::outdated(), back, Slot::voter()])
    };
    insta::assert_snapshot!("rolling", shown(&scene.observed(), Phase::Upgrading));
}

#[test]
fn a_leader_hands_over_before_it_is_restarted() {
    let scene = Scene {
        everywhere: false,
        ..Scene::formed(3, vec![Slot::outdated(), Slot::voter(), Slot::voter()])
    };
    insta::assert_snapshot!("handing_over", shown(&scene.observed(), Phase::Upgrading));
}

#[test]
fn a_rollout_that_does_not_come_up_says_so_and_what_to_do() {
    let scene = Scene {
        trial: Some((2, Trial::Restored)),
        ..Scene::edited(3, vec![Slot::outdated(), Slot::outdated(), Slot::stuck()])
    };
    insta::assert_snapshot!("halted", shown(&scene.observed(), Phase::Upgrading));
}

#[test]
fn a_single_member_that_does_not_come_up_says_so_and_what_to_do() {
    let scene = Scene {
        list: false,
        trial: Some((0, Trial::Restored)),
        ..Scene::edited(1, vec![Slot::stuck()])
    };
    insta::assert_snapshot!("halted_alone", shown(&scene.observed(), Phase::Upgrading));
}

#[test]
fn a_single_member_whose_downgrade_does_not_come_up_says_how_to_get_back() {
    let stuck = Slot {
        made: Made::Otherwise,
        ..Slot::stuck()
    };
    let scene = Scene {
        list: false,
        ..Scene::between(6, 5, vec![stuck])
    };
    insta::assert_snapshot!("halted_below", shown(&scene.observed(), Phase::Upgrading));
}

#[test]
fn a_downgrade_says_what_etcd_is_doing() {
    let scene = Scene::between(6, 5, vec![Slot::outdated(); 3]);
    insta::assert_snapshot!("downgrading", shown(&scene.observed(), Phase::Running));
    let converting = Scene {
        downgrade: Some(5),
        ..scene
    };
    let mut observed = converting.observed();
    for (_, pod) in observed
        .pods
        .iter_mut()
        .filter(|(ordinal, _)| **ordinal > 0)
    {
        if let plan::observed::Process::Serving(serving) = &mut pod.process {
            serving.storage = Some(5);
        }
    }
    insta::assert_snapshot!("converting", shown(&observed, Phase::Upgrading));
}

#[test]
fn a_downgrade_that_cannot_begin_says_which_member_it_waits_for() {
    let dark = Slot {
        does: Does::Unknown,
        ready: false,
        ..Slot::outdated()
    };
    let scene = Scene::between(6, 5, vec![Slot::outdated(), dark, Slot::outdated()]);
    insta::assert_snapshot!("downgrade_waits", shown(&scene.observed(), Phase::Running));
}

#[test]
fn a_kept_volume_of_a_member_that_was_removed_says_what_to_do() {
    let left = Slot {
        ready: false,
        ..Slot::new(Does::Waits(State::OtherObject), Listed::No)
    };
    let scene = Scene {
        resumed: true,
        ..Scene::formed(3, vec![Slot::voter(), Slot::voter(), left])
    };
    insta::assert_snapshot!("left_behind", shown(&scene.observed(), Phase::Running));
}

#[test]
fn an_upgrade_that_waits_for_the_data_says_for_whose() {
    let late = Slot {
        format: Some(5),
        ..Slot::outdated()
    };
    let slots = vec![Slot::outdated(), late, Slot::outdated()];
    let scene = Scene::between(6, 7, slots);
    insta::assert_snapshot!("ascending", shown(&scene.observed(), Phase::Upgrading));
}

#[test]
fn a_release_that_cannot_be_reached_is_refused_with_the_way() {
    let scene = Scene::between(5, 7, vec![Slot::voter(); 3]);
    insta::assert_snapshot!("refused_jump", shown(&scene.observed(), Phase::Running));
}

#[test]
fn volumes_that_grow_say_how_far_they_are() {
    let small = Slot {
        volume: Sized::Small,
        ..Slot::voter()
    };
    let grows = Slot {
        volume: Sized::Growing,
        ..Slot::voter()
    };
    let asking = Scene {
        larger: true,
        ..Scene::formed(3, vec![Slot::voter(), small, small])
    };
    insta::assert_snapshot!("expanding", shown(&asking.observed(), Phase::Running));
    let growing = Scene {
        larger: true,
        ..Scene::formed(3, vec![Slot::voter(), grows, grows])
    };
    insta::assert_snapshot!("growing", shown(&growing.observed(), Phase::Running));
}

#[test]
fn a_volume_that_cannot_grow_is_refused_with_what_to_do() {
    let fixed = Slot {
        volume: Sized::Fixed,
        ..Slot::voter()
    };
    let scene = Scene {
        larger: true,
        ..Scene::formed(3, vec![Slot::voter(), fixed, Slot::voter()])
    };
    insta::assert_snapshot!("not_expandable", shown(&scene.observed(), Phase::Running));
}

#[test]
fn a_pause_is_told_with_the_annotation_that_holds_it() {
    let scene = Scene {
        paused: true,
        ..Scene::edited(3, vec![Slot::outdated(), Slot::outdated(), Slot::voter()])
    };
    insta::assert_snapshot!("paused", shown(&scene.observed(), Phase::Upgrading));
}

#[test]
fn the_cluster_of_an_earlier_operator_is_taken_over_in_words() {
    let before = Scene {
        formed: false,
        predecessor: true,
        ..Scene::edited(3, vec![Slot::outdated(); 3])
    };
    insta::assert_snapshot!("adopting", report(&before.observed(), &Outcome::Done, None));
    let dark = Scene {
        list: false,
        ..before.clone()
    };
    insta::assert_snapshot!(
        "adopting_dark",
        report(&dark.observed(), &Outcome::Done, None)
    );
    let waits = Slot {
        ready: false,
        ..Slot::new(Does::Waits(State::Unidentified), Listed::Voter)
    };
    let rolling = Scene {
        formed: true,
        resumed: true,
        trial: Some((2, Trial::Restored)),
        slots: vec![Slot::outdated(), Slot::outdated(), waits],
        ..before
    };
    insta::assert_snapshot!("adopted", shown(&rolling.observed(), Phase::Upgrading));
}

#[test]
fn data_that_is_being_deleted_by_policy_is_told() {
    let gone = Slot::new(Does::Absent, Listed::No);
    let scene = Scene {
        ending: true,
        when_stopped: api::v1alpha1::cluster::Retention::Delete,
        ..Scene::formed(0, vec![gone; 3])
    };
    insta::assert_snapshot!("ending", shown(&scene.observed(), Phase::Scaling));
}

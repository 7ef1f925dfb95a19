//! Properties of what rests on several looks or on memory: members that hang, learners that are late, volumes that were
//! rolled back, logs that are renewed.

use gate::State;
use plan::observed::quorum;
use plan::{Step, decide};
use proptest::prelude::*;
use testkit::Scene;
use testkit::scene::{Does, For, Listed};
use testkit::strategies::{cases, hanging_scene, scene};

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn never_proposes_what_the_invariants_refuse(scene in hanging_scene()) {
        let decision = decide(&scene.observed());
        prop_assert_eq!(&decision.forbidden, &None, "{:?}", decision);
    }

    #[test]
    fn invariant_1_one_that_hangs_is_written_down_restarted_and_only_then_replaced(scene in hanging_scene()) {
        let observed = scene.observed();
        let old = &observed.cluster.latched;
        match decide(&observed).step {
            Step::Latch(new) => {
                for intent in new.hung.iter().filter(|intent| !old.hung.contains(intent)) {
                    let ordinal = api::names::ordinal(&observed.cluster.name, &intent.member).unwrap();
                    prop_assert!(scene.slot(ordinal).hangs() && can_be_spared(&scene, ordinal));
                }
                for leaver in new.retiring.iter().filter(|leaver| !old.retiring.contains(leaver)) {
                    let ordinal = api::names::ordinal(&observed.cluster.name, &leaver.member).unwrap();
                    let slot = scene.slot(ordinal);
                    prop_assert!(!slot.hangs() || slot.hangs_again() || scene.is_dead(ordinal));
                }
            }
            Step::RestartPod { ordinal, .. } if scene.slot(ordinal).hangs() => {
                prop_assert_eq!(scene.slot(ordinal).hung, For::ThisWait);
                prop_assert!(can_be_spared(&scene, ordinal));
            }
            _other => {}
        }
    }
}

/// Without it a quorum takes part.
fn can_be_spared(scene: &Scene, ordinal: u32) -> bool {
    let others = scene.other_voters(ordinal);
    others.filter(|slot| slot.takes_part()).count() >= quorum(scene.voters().count())
}

/// A property proves nothing about what is never reached.
#[test]
fn the_random_scenes_reach_hangs_renewals_and_volumes_that_were_rolled_back() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let strategy = scene();
    let mut reached = std::collections::BTreeMap::<&str, usize>::new();
    for _ in 0..12_000 {
        let scene = strategy.new_tree(&mut runner).unwrap().current();
        let observed = scene.observed();
        let old = &observed.cluster.latched;
        let what = match decide(&observed).step {
            Step::Latch(new) if new.hung.len() > old.hung.len() => "a hang is recorded",
            Step::Latch(new)
                if (new.log_line, new.is_renewing()) != (old.log_line, old.is_renewing()) =>
            {
                "logs are renewed"
            }
            Step::RestartPod { ordinal, .. } if scene.slot(ordinal).hangs() => {
                "a hang is restarted"
            }
            Step::RetireMember { ordinal, .. } if scene.slot(ordinal).hangs_again() => {
                "a hang is replaced"
            }
            Step::RetireMember { ordinal, .. } if scene.is_late(ordinal) => "a learner is given up",
            Step::RemoveMember { ordinal, .. }
                if scene.slot(ordinal).does == Does::Waits(State::RolledBack)
                    && scene.slot(ordinal).listed == Listed::Voter =>
            {
                "a rolled-back member is removed"
            }
            _other => continue,
        };
        *reached.entry(what).or_default() += 1;
    }
    println!("{reached:?}");
    assert!(
        reached.len() == 6 && reached.values().all(|count| *count >= 5),
        "{reached:?}"
    );
}

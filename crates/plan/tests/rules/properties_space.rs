//! Properties of the upkeep of databases, on random observations, stated in terms of how the scene was painted.

use gate::Action;
use plan::observed::{Alarm, AlarmKind, quorum};
use plan::{Step, decide};
use proptest::prelude::*;
use testkit::scene::{Alarmed, Differs, Does, Fill, HEAD, Listed, Scene, Slot, member_id};
use testkit::strategies::{cases, scene, upkeep_scene};

fn some_scene() -> impl Strategy<Value = Scene> {
    prop_oneof![3 => upkeep_scene().boxed(), 1 => scene().boxed()]
}

/// Every voter takes part and stays, and no member is joining or leaving.
fn is_calm(scene: &Scene) -> bool {
    let well = |slot: &Slot| slot.takes_part() && !slot.is_away();
    let learner = |slot: &Slot| matches!(slot.listed, Listed::New | Listed::Learner);
    let leaves = |slot: &Slot| slot.leaves && slot.listed != Listed::No;
    scene.voters().all(well)
        && !scene.slots.iter().any(learner)
        && !scene.slots.iter().any(leaves)
        && !scene.grant_is_open()
        && scene.trial.is_none()
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn never_proposes_what_the_invariants_refuse(scene in upkeep_scene()) {
        let observed = scene.observed();
        let decision = decide(&observed);
        prop_assert_eq!(&decision.forbidden, &None, "{:?}", decision);
    }

    #[test]
    fn invariant_11_upkeep_happens_only_while_nothing_else_does(scene in some_scene()) {
        let step = decide(&scene.observed()).step;
        if matches!(step, Step::Compact { .. } | Step::Defragment { .. }) {
            prop_assert!(is_calm(&scene), "{:?}", step);
        }
    }

    #[test]
    fn invariant_11_one_at_a_time_announced_and_never_the_leader(scene in some_scene()) {
        if let Step::Defragment { id, ordinal } = decide(&scene.observed()).step {
            prop_assert_eq!(scene.defragmenting, Some(ordinal));
            prop_assert_eq!(member_id(ordinal), id);
            prop_assert!(scene.voters().count() == 1 || scene.leader() != Some(ordinal));
            let fill = scene.slot(ordinal).fill;
            prop_assert!(matches!(fill, Fill::Loose | Fill::Fragmented), "{:?}", fill);
        }
    }

    #[test]
    fn invariant_11_a_thousand_revisions_are_kept(scene in some_scene()) {
        if let Step::Compact { revision } = decide(&scene.observed()).step {
            prop_assert!(revision + 1000 <= HEAD);
            prop_assert!(scene.compacted.is_none_or(|before| revision > before));
        }
    }

    #[test]
    fn invariant_11_no_alarm_goes_before_its_cause(scene in some_scene()) {
        let Step::Disarm { alarm } = decide(&scene.observed()).step else {
            return Ok(());
        };
        let Alarm { kind, member_id: whose } = alarm;
        prop_assert_eq!(whose, member_id(0));
        match kind {
            AlarmKind::NoSpace => {
                prop_assert_eq!(scene.alarm, Alarmed::NoSpace);
                let roomy = |slot: &Slot| matches!(slot.fill, Fill::Roomy | Fill::Fragmented);
                prop_assert!(scene.voters().all(roomy));
            }
            AlarmKind::Corrupt => {
                prop_assert_eq!(scene.alarm, Alarmed::Corrupt);
                let mut kinds: Vec<Differs> = scene.voters().map(|slot| slot.differs).collect();
                kinds.dedup();
                prop_assert!(kinds.len() == 1 && kinds != [Differs::Unasked], "{:?}", kinds);
            }
        }
    }

    #[test]
    fn a_member_that_serves_is_replaced_only_if_it_is_outvoted(scene in some_scene()) {
        let observed = scene.observed();
        let step = decide(&observed).step;
        let known: Vec<&String> = observed.cluster.latched.retiring.iter().map(|r| &r.member).collect();
        if let Step::Latch(new) = &step {
            for intent in new.retiring.iter().filter(|i| i.replaced.is_some() && !known.contains(&&i.member)) {
                let ordinal = api::names::ordinal("db", &intent.member).unwrap();
                let serves = scene.slot(ordinal).takes_part();
                prop_assert!(!serves || scene.is_outvoted(ordinal), "{:?}", intent);
            }
        }
    }

    #[test]
    fn where_it_is_not_known_whose_data_is_right_nothing_is_touched(scene in upkeep_scene()) {
        let observed = scene.observed();
        let told = |what: Differs| scene.voters().filter(move |slot| {
            slot.differs == what && matches!(slot.does, Does::Serves | Does::Lags | Does::Leaderless)
        }).count();
        let (agree, differ) = (told(Differs::Agrees), told(Differs::Differs));
        let needed = quorum(scene.voters().count());
        let torn = agree > 0 && differ > 0 && agree < needed && differ < needed;
        // A member that was wiped, or joins, gets the data of the leader.
        let regrows = (0_u32..).zip(&scene.slots).any(|(ordinal, slot)| {
            let joins = matches!(slot.listed, Listed::New | Listed::Learner);
            joins || slot.is_blank() || scene.is_misled(ordinal)
        });
        if torn && scene.list && !regrows {
            let step = decide(&observed).step;
            // Nor does a member that starts on its own data change any: it is one more that can be asked.
            let harmless = match &step {
                Step::Wait | Step::Refuse | Step::Nothing | Step::ApplyObjects(_) => true,
                Step::Grant { grant, .. } => matches!(grant.action, Action::Resume { .. }),
                _touches => false,
            };
            prop_assert!(harmless, "{:?}", step);
        }
    }
}

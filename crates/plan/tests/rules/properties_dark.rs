//! Properties of every decision on a cluster that lost its quorum, on random observations of every step of its
//! recovery, stated in terms of how the scene was painted.

use gate::{Action, State};
use plan::invariants::Violation;
use plan::observed::{Process, quorum};
use plan::{Decision, Observed, Step, decide, invariants};
use proptest::prelude::*;
use testkit::scene::{Begun, Dark, Does, FENCE, Fate, HEAD, Listed, Scene, Slot, Word, claim_uid};
use testkit::strategies::{cases, dark_scene};

fn runs(does: Does) -> bool {
    matches!(
        does,
        Does::Starts | Does::Serves | Does::Lags | Does::Leaderless | Does::ServesStranger
    )
}

/// It is known what became of the volume of an ordinal.
fn is_proved_gone(scene: &Scene, ordinal: u32) -> bool {
    let slot = scene.slot(ordinal);
    match slot.does {
        Does::Waits(state) => matches!(state, State::Empty | State::Damaged),
        Does::Absent | Does::Unknown => {
            matches!(slot.fate, Fate::OutOfService | Fate::Deleted | Fate::Lost)
        }
        _answers => false,
    }
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn never_proposes_what_the_invariants_refuse(scene in dark_scene()) {
        let observed = scene.observed();
        let decision = decide(&observed);
        prop_assert_eq!(&decision.forbidden, &None, "{:?}", decision);
    }

    #[test]
    fn a_recovery_begins_on_request_or_by_proof_and_in_another_incarnation(scene in dark_scene()) {
        if let Step::Latch(new) = decide(&scene.observed()).step
            && new.recovery.is_some()
            && !scene.dark.is_recovering()
        {
            let dark = scene.dark;
            let asked = dark.word == Word::This;
            let all = (0..).zip(&scene.slots).map(|(n, _)| n);
            let gone = all.filter(|n| is_proved_gone(&scene, *n)).count();
            // What cannot be an election need not be waited for.
            let hopeless = scene.slots.len() - gone < quorum(scene.slots.len());
            let dark_for = dark.seconds.filter(|s| hopeless || *s >= 15);
            prop_assert!(!scene.list && dark_for.is_some());
            let proved = gone * 2 >= scene.slots.len();
            prop_assert!(asked || (dark.by_itself && proved && dark.seconds >= Some(60)));
            prop_assert!(new.incarnation > dark.incarnation() && new.fence == Some(new.incarnation));
        }
    }

    #[test]
    fn a_survivor_bootstraps_only_where_nothing_of_the_old_cluster_can_run(scene in dark_scene()) {
        if let Step::Grant { ordinal, grant, .. } = decide(&scene.observed()).step
            && let Action::Recover { .. } = grant.action
        {
            prop_assert_eq!(scene.dark.begun, Begun::Chosen(ordinal, true));
            prop_assert_eq!(grant.incarnation, FENCE);
            let pods = scene.slots.iter().filter(|slot| slot.does != Does::Absent);
            for slot in pods {
                prop_assert!(slot.fenced && !runs(slot.does), "{:?}", slot);
            }
        }
    }

    #[test]
    fn nothing_of_the_old_cluster_starts_while_it_is_recovered(scene in dark_scene()) {
        if let Step::Grant { grant, .. } = decide(&scene.observed()).step {
            let resumes = matches!(grant.action, Action::Resume { .. });
            prop_assert!(!(resumes && scene.dark.is_recovering()));
        }
    }

    #[test]
    fn no_survivor_is_changed_for_another_unless_it_is_gone(scene in dark_scene()) {
        if let (Step::Latch(new), Begun::Chosen(ordinal, same)) =
            (decide(&scene.observed()).step, scene.dark.begun)
            && let Some(recovery) = new.recovery
        {
            let survivor = recovery.survivor.map(|survivor| survivor.claim_uid);
            if survivor.is_none() {
                let has_claim = scene.observed().claims.contains_key(&ordinal);
                prop_assert!(!same || !has_claim || is_proved_gone(&scene, ordinal));
                prop_assert!(new.incarnation > scene.dark.incarnation());
                prop_assert_eq!(new.fence, Some(new.incarnation));
                return Ok(());
            }
            let claim = claim_uid(ordinal);
            let claim = if same { claim } else { format!("former-{claim}") };
            prop_assert_eq!(survivor, Some(claim));
        }
    }

    #[test]
    fn while_it_recovers_only_pods_from_before_the_fence_are_stopped(scene in dark_scene()) {
        if let (Step::StopPod { ordinal, force, .. }, true) =
            (decide(&scene.observed()).step, scene.dark.is_recovering())
        {
            let slot = scene.slot(ordinal);
            prop_assert!(!slot.fenced);
            let away = [Fate::Late, Fate::Silent, Fate::OutOfService, Fate::Deleted];
            prop_assert!(!force || away.contains(&slot.fate));
        }
    }
}

/// Two that are fenced, one of them behind, and one whose volume was never let through under this object.
fn unrun(state: State, index: u64) -> Observed {
    let slot = |state| Slot {
        fenced: true,
        ..Slot::new(Does::Waits(state), Listed::Voter)
    };
    let slots = [State::Fenced, State::Fenced, state].map(slot);
    let scene = Scene {
        list: false,
        resumed: true,
        dark: Dark::approved(Begun::Yes),
        ..Scene::formed(3, slots.to_vec())
    };
    let mut observed = scene.observed();
    if let Some(pod) = observed.pods.get_mut(&2)
        && let Process::Held(report) = &mut pod.process
        && let Some(data) = &mut report.data
    {
        data.index = index;
    }
    observed
}

#[test]
fn what_was_never_run_under_this_object_is_not_passed_over() {
    for state in [State::OtherObject, State::Unidentified] {
        let behind = unrun(state, HEAD - 1);
        let Decision { step, .. } = decide(&behind);
        let Step::Latch(chosen) = step else {
            panic!("{step:?}")
        };
        let survivor = chosen.recovery.clone().and_then(|r| r.survivor);
        assert_eq!(survivor.map(|s| s.member).as_deref(), Some("db-0"));
        let ahead = unrun(state, HEAD + 1);
        let Decision { step, why, .. } = decide(&ahead);
        assert_eq!(step, Step::Wait);
        assert!(
            why.to_string().contains("db-2 has the latest data"),
            "{why}"
        );
        let refused = invariants::check(&ahead, &Step::Latch(chosen));
        assert_eq!(refused, Err(Violation::LastCopy));
    }
}

#[test]
fn pods_of_an_earlier_operator_cannot_be_fenced() {
    let scene = Scene {
        list: false,
        predecessor: true,
        dark: Dark::approved(Begun::No),
        ..Scene::formed(3, vec![Slot::new(Does::Leaderless, Listed::Voter); 3])
    };
    let mut observed = scene.observed();
    observed.objects.predecessor = false;
    let decision = decide(&observed);
    assert_eq!(decision.step, Step::Wait, "{decision:?}");
    assert!(
        decision.why.to_string().contains("recreate it"),
        "{decision:?}"
    );
}

//! Properties of every decision that changes what members run on, or ends their data. Each is written from its
//! invariant's sentence and in terms of how the scene was painted.

use api::v1alpha1::status::KnownVoter;
use gate::Action;
use manifests::Template;
use plan::observed::quorum;
use plan::shape::decide_shape;
use plan::{Step, decide, invariants};
use proptest::prelude::*;
use testkit::Scene;
use testkit::scene::{Claimed, Does, LARGE, Listed, Made, SMALL, Sized, Slot, Trial, pod_uid};
use testkit::strategies::{adopted_scene, cases, changing_scene, scene, waiting_scene};

/// Rollouts of every kind, and everything else.
fn rollouts() -> impl Strategy<Value = Scene> {
    prop_oneof![3 => changing_scene(), 3 => waiting_scene(), 1 => scene()]
}

/// Who is restarted, or recorded to be restarted next.
fn restarted(scene: &Scene) -> Option<u32> {
    let observed = scene.observed();
    match decide(&observed).step {
        Step::RestartPod { ordinal, .. } => Some(ordinal),
        Step::Latch(new) => {
            let old = observed.cluster.latched.trial().cloned();
            let chosen = new.trial().cloned().filter(|new| {
                old.is_none_or(|old| {
                    (old.member, &old.template) != (new.member.clone(), &new.template)
                })
            })?;
            api::names::ordinal(&observed.cluster.name, &chosen.member)
        }
        _other => None,
    }
}

/// The minor version of etcd that pods are made for from now on.
fn minor_of_set(scene: &Scene) -> u8 {
    match scene.trial {
        Some((_, Trial::Written | Trial::Remade)) => scene.target().intent.version.minor,
        _other => scene.from,
    }
}

/// Minor version of etcd whose format the data of an ordinal has.
fn format_of(scene: &Scene, slot: &Slot) -> u8 {
    slot.format.unwrap_or(scene.format)
}

/// A process of this minor version can read data of that format.
fn can_read(minor: u8, format: u8) -> bool {
    minor == format || minor == format + 1
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn never_proposes_a_change_that_the_invariants_refuse(scene in rollouts()) {
        let observed = scene.observed();
        let decision = decide(&observed);
        prop_assert_eq!(&decision.forbidden, &None, "{:?}", decision);
    }

    #[test]
    fn invariant_1_a_voter_that_takes_part_is_restarted_only_while_all_the_others_take_part(scene in rollouts()) {
        if let Some(ordinal) = restarted(&scene) {
            let slot = scene.slot(ordinal);
            if slot.listed == Listed::Voter && slot.takes_part() {
                let others = scene.other_voters(ordinal).count();
                let part = scene.other_voters(ordinal).filter(|other| other.takes_part()).count();
                prop_assert_eq!(part, others);
                prop_assert!(others == 0 || part >= quorum(others + 1), "{} of {}", part, others + 1);
            }
        }
    }

    #[test]
    fn invariant_1_the_leader_of_several_is_never_restarted(scene in rollouts()) {
        if let Some(ordinal) = restarted(&scene) {
            let alone = scene.other_voters(ordinal).count() == 0;
            prop_assert!(alone || scene.leader() != Some(ordinal));
        }
    }

    #[test]
    fn invariant_1_never_two_are_away_at_once(scene in rollouts()) {
        if let Some(ordinal) = restarted(&scene) {
            let slot = scene.slot(ordinal);
            let away = scene.other_voters(ordinal).any(Slot::is_away);
            // Of what runs nothing, nothing is lost; nor of an agent that waits.
            let harmless = slot.runs_nothing()
                || matches!(slot.does, Does::Waits(_) | Does::WaitsWithStranger);
            prop_assert!(harmless || slot.listed != Listed::Voter || !away);
        }
    }

    #[test]
    fn invariant_1_no_member_that_takes_part_is_restarted_while_another_joins(scene in rollouts()) {
        if let Some(ordinal) = restarted(&scene) {
            let slot = scene.slot(ordinal);
            if slot.listed == Listed::Voter && slot.takes_part() {
                prop_assert!(!scene.grant_is_open());
                let learns = |slot: &Slot| matches!(slot.listed, Listed::New | Listed::Learner);
                prop_assert!(!scene.slots.iter().any(learns));
            }
        }
    }

    #[test]
    fn invariant_1_leadership_goes_only_to_a_voter_that_takes_part(scene in rollouts()) {
        if let Step::MoveLeader { to, .. } = decide(&scene.observed()).step {
            let transferee = scene.slot_of(to);
            prop_assert!(transferee.listed == Listed::Voter && transferee.takes_part());
        }
    }

    #[test]
    fn a_pod_that_runs_nothing_is_made_anew_whatever_the_others_do(
        others in prop::collection::vec(any::<bool>(), 0..4), at in 0..5_usize, joins in any::<bool>(),
    ) {
        // What is proven is asked for, and one pod is stuck on something else.
        let dark = Slot { does: Does::Unknown, ready: false, ..Slot::voter() };
        let mut slots: Vec<Slot> = others.iter().map(|up| if *up { Slot::voter() } else { dark }).collect();
        let at = at.min(slots.len());
        slots.insert(at, Slot { made: Made::Otherwise, ..Slot::stuck() });
        let ordinal = u32::try_from(at).unwrap();
        let up = slots.iter().filter(|slot| slot.takes_part()).count();
        let list = up >= quorum(slots.len());
        // Without a quorum there is no leader.
        for slot in slots.iter_mut().filter(|slot| slot.takes_part() && !list) {
            slot.does = Does::Leaderless;
        }
        if joins && list {
            slots.push(Slot { does: Does::Lags, listed: Listed::Learner, ..Slot::voter() });
        }
        let size = u32::try_from(slots.len()).unwrap();
        let scene = Scene { list, everywhere: false, ..Scene::formed(size, slots) };
        let restart = Step::RestartPod { ordinal, uid: pod_uid(ordinal) };
        prop_assert_eq!(decide(&scene.observed()).step, restart);
    }

    #[test]
    fn invariant_9_a_template_that_no_member_has_run_well_on_reaches_at_most_one_member(scene in rollouts()) {
        let observed = scene.observed();
        let unproven = scene.formed && scene.proven() != scene.asked_for();
        let steps_on_it = match decide(&observed).step {
            Step::RestartPod { ordinal, .. } => (minor_is_tried(&scene) && unproven).then_some(ordinal),
            _other => None,
        };
        // The pod that is recreated while the untried template stands in the StatefulSet is the one that tries it.
        if let Some(ordinal) = steps_on_it {
            prop_assert_eq!(scene.trial.map(|(tries, _)| tries), Some(ordinal));
        }
    }

    #[test]
    fn invariant_9_what_is_proven_was_seen_to_run(scene in rollouts()) {
        let observed = scene.observed();
        let Some(before) = observed.cluster.latched.proven.clone() else { return Ok(()) };
        if let Step::Latch(new) = decide(&observed).step
            && let Some(proven) = new.proven.filter(|proven| proven.template != before.template)
        {
            let serves = |slot: &Slot| slot.listed == Listed::Voter && slot.takes_part();
            let led = scene.slots.iter().any(serves);
            let runs = |slot: &Slot| {
                let made = slot.made == Made::AsAsked && slot.does != Does::Absent;
                // Where there is no leader, that it comes up is all that can be had.
                let comes_up = !slot.stuck && slot.does != Does::Unknown && !led;
                made && if scene.list { serves(slot) } else { comes_up }
            };
            prop_assert_eq!(proven.template, scene.asked_for());
            prop_assert!(scene.slots.iter().any(runs));
        }
    }

    #[test]
    fn what_is_found_running_has_reached_every_member_only_if_all_pods_are_alike(mut scene in rollouts()) {
        scene.formed = false;
        if let Step::Latch(new) = decide(&scene.observed()).step
            && let Some(proven) = new.proven
        {
            let mut made: Vec<Made> = scene.slots.iter().filter(|slot| slot.does != Does::Absent)
                .map(|slot| slot.made).collect();
            made.sort_unstable();
            made.dedup();
            prop_assert!(!proven.everywhere || made.len() == 1 || scene.predecessor);
        }
    }

    #[test]
    fn invariant_9_the_template_is_the_proven_one_unless_a_trial_is_being_made(mut scene in rollouts()) {
        scene.drifted = true;
        let observed = scene.observed();
        let Some(shape) = decide_shape(&observed) else { return Ok(()) };
        let (proven, asked_for, live) = (scene.proven(), scene.asked_for(), observed.objects.template.clone());
        if !scene.formed || live.is_none() {
            return Ok(());
        }
        let made = |ordinal: u32| {
            let slot = scene.slot(ordinal);
            slot.does != Does::Absent && !slot.terminating && slot.made == Made::AsAsked
        };
        // Where there is no other pod, no other can start on it.
        let alone = observed.pods.len() <= 1 && observed.objects.replicas == Some(1);
        let trying = scene.trial.is_some_and(|(ordinal, _)| alone || !made(ordinal));
        match shape.template {
            Template::Try => prop_assert!(trying),
            Template::Render => prop_assert_eq!(asked_for, proven),
            Template::Kept => prop_assert_eq!(observed.objects.kept_template, Some(proven)),
            Template::Live => prop_assert_eq!(live, Some(proven)),
        }
    }

    #[test]
    fn no_older_minor_version_meets_data_that_it_cannot_read(scene in rollouts()) {
        let observed = scene.observed();
        let minor = match decide(&observed).step {
            Step::RestartPod { ordinal, .. } if scene.formed => {
                // What cannot be seen is known from before the trial.
                let slot = scene.slot(ordinal);
                let seen = matches!(slot.does, Does::Serves | Does::Lags | Does::Leaderless);
                prop_assert!(!seen || can_read(minor_of_set(&scene), format_of(&scene, &slot)));
                return Ok(());
            }
            Step::ApplyObjects(shape) if shape.template == Template::Try => {
                scene.target().intent.version.minor
            }
            _other => return Ok(()),
        };
        let seen = |slot: &&Slot| {
            slot.listed != Listed::No && slot.made == Made::Before
                && matches!(slot.does, Does::Serves | Does::Lags | Does::Leaderless)
        };
        for slot in scene.slots.iter().filter(seen) {
            prop_assert!(can_read(minor, format_of(&scene, slot)), "3.{} on {:?}", minor, slot);
        }
    }

    #[test]
    fn no_trial_of_another_minor_version_is_recorded_before_the_data_is_ready(scene in rollouts()) {
        let observed = scene.observed();
        let before = &observed.cluster.latched;
        if let Step::Latch(new) = decide(&observed).step
            && let Some(trial) = new.trial()
            && trial.template != scene.proven() && before.trial().is_none() && scene.list
        {
            let minor = scene.target().intent.version.minor;
            let listed = scene.slots.iter().filter(|slot| slot.listed != Listed::No);
            for slot in listed.filter(|slot| matches!(slot.does, Does::Serves | Does::Lags | Does::Leaderless)) {
                let runs = scene.version_of(slot).minor;
                prop_assert!(runs <= minor || can_read(minor, format_of(&scene, slot)));
                prop_assert!(runs.abs_diff(minor) <= 1);
            }
            let older = |slot: &Slot| slot.takes_part() && scene.version_of(slot).minor <= minor;
            let held = scene.downgrade == Some(minor) || scene.slots.iter().any(older);
            prop_assert!(minor >= scene.from || held, "nothing keeps the data at 3.{}", minor);
        }
    }

    #[test]
    fn invariant_6_data_goes_only_with_its_member_or_by_the_owners_policy(scene in scene()) {
        let observed = scene.observed();
        match decide(&observed).step {
            Step::DeleteClaim { ordinal, .. } => {
                let slot = scene.slot(ordinal);
                let ended = scene.ending && scene.slots.iter().all(|slot| slot.does == Does::Absent);
                prop_assert!(ended || (slot.listed == Listed::No && scene.list && slot.leaves));
                // What an earlier object kept is not this one's to delete, unless it has taken it over.
                prop_assert!(slot.claim == Claimed::Ours || scene.formed);
            }
            Step::Latch(new) if new.ending && !scene.ending => {
                let runs = |slot: &Slot| slot.does != Does::Absent;
                prop_assert!(scene.size == 0 && !scene.slots.iter().any(runs));
                prop_assert_eq!(observed.cluster.intent.unwrap().storage.when_stopped, scene.when_stopped);
                prop_assert_eq!(scene.when_stopped, api::v1alpha1::cluster::Retention::Delete);
            }
            Step::Latch(new) if scene.ending && !new.ending => {
                let left = |slot: &Slot| slot.does != Does::Absent || slot.claim != Claimed::Absent;
                prop_assert!(!scene.slots.iter().any(left) && !scene.clients);
                prop_assert!(new.incarnation > 1 && new.cluster_id.is_none());
            }
            _other => {}
        }
    }

    #[test]
    fn invariant_5_only_the_data_of_a_member_that_left_is_called_removed(scene in scene()) {
        if let Step::MarkRemoved { ordinal, members, .. } = decide(&scene.observed()).step {
            let slot = scene.slot(ordinal);
            prop_assert!(scene.list && slot.listed == Listed::No && slot.leaves);
            prop_assert_eq!(members, vec![testkit::scene::member_id(ordinal)]);
        }
    }

    #[test]
    fn invariant_5_so_is_that_of_a_voter_that_is_listed_no_more(scene in scene(), voted in 0..32_u8) {
        let mut observed = scene.observed();
        let voted = |ordinal: u32| voted & (1 << ordinal) != 0;
        observed.cluster.latched.voters = (0..5).filter(|ordinal| voted(*ordinal)).map(|ordinal| KnownVoter {
            member: observed.member_name(ordinal),
            member_id: format!("{:x}", testkit::scene::member_id(ordinal)),
            index: None,
        }).collect();
        let step = decide(&observed).step;
        prop_assert!(invariants::check(&observed, &step).is_ok());
        if let Step::MarkRemoved { ordinal, members, .. } = step {
            let slot = scene.slot(ordinal);
            prop_assert!(scene.list && slot.listed == Listed::No && (slot.leaves || voted(ordinal)));
            prop_assert_eq!(members, vec![testkit::scene::member_id(ordinal)]);
        }
    }

    #[test]
    fn what_another_cluster_lists_changes_nothing(scene in scene(), size in 1..6_u32) {
        let mut observed = scene.observed();
        if let Ok(intent) = &mut observed.cluster.intent {
            intent.size = size;
        }
        let (Some(list), Some(known)) = (&mut observed.etcd.members, observed.cluster.latched.cluster_id) else {
            return Ok(());
        };
        list.cluster_id = known + 1;
        let mut blind = observed.clone();
        blind.etcd.members = None;
        let replicas = |observed| decide_shape(observed).map(|shape| shape.replicas);
        prop_assert_eq!(replicas(&observed), replicas(&blind));
    }

    #[test]
    fn claims_are_expanded_and_never_shrunk(scene in scene()) {
        if let Step::ExpandClaim { ordinal, size, .. } = decide(&scene.observed()).step {
            prop_assert!(scene.larger && size == "20Gi" && LARGE > SMALL);
            prop_assert_eq!(scene.slot(ordinal).volume, Sized::Small);
            // Where no list can be had, every pod that the StatefulSet makes may be of a member.
            let made = scene.replicas.is_some_and(|replicas| ordinal < replicas);
            prop_assert!(made || scene.slot(ordinal).listed != Listed::No);
        }
    }

    #[test]
    fn larger_volumes_are_counted_on_only_when_every_volume_has_grown(scene in scene()) {
        let observed = scene.observed();
        let before = observed.cluster.latched.storage;
        if let Step::Latch(new) = decide(&observed).step
            && new.storage != before && before.is_some() && !scene.ending
        {
            let listed = scene.slots.iter().filter(|slot| slot.listed != Listed::No);
            let mut claimed = listed.filter(|slot| slot.claim != Claimed::Absent);
            prop_assert!(new.storage == Some(LARGE) && claimed.all(|slot| matches!(slot.volume, Sized::AsAsked | Sized::Huge)));
        }
    }

    #[test]
    fn a_pause_brings_the_proven_template_back_and_changes_nothing_else(mut scene in scene()) {
        scene.paused = true;
        match decide(&scene.observed()).step {
            Step::Nothing => {}
            Step::RestoreTemplate(shape) => {
                prop_assert!(scene.formed && minor_is_tried(&scene));
                prop_assert_eq!((shape.template, Some(shape.replicas)), (Template::Kept, scene.replicas));
            }
            other => prop_assert!(false, "{:?}", other),
        }
    }

    #[test]
    fn invariant_2_nothing_begins_beside_an_earlier_operators_cluster(scene in adopted_scene()) {
        let observed = scene.observed();
        match decide(&observed).step {
            Step::Grant { grant, .. } => {
                let begins = matches!(grant.action, Action::Bootstrap { .. });
                prop_assert!(!begins);
            }
            Step::Latch(new) => {
                prop_assert!(new.bootstrap.is_none() || new.bootstrap == observed.cluster.latched.bootstrap);
                prop_assert!(scene.formed || scene.list);
            }
            // Before it is known by what its members say, nothing of it is touched.
            Step::ApplyObjects(_) | Step::RestartPod { .. } | Step::DeleteClaim { .. } => {
                prop_assert!(scene.formed);
            }
            _other => {}
        }
    }

    #[test]
    fn invariant_7_no_restart_of_an_unformed_cluster_rests_on_silence(mut scene in scene()) {
        scene.formed = false;
        scene.list = false;
        if let Step::RestartPod { ordinal, .. } = decide(&scene.observed()).step {
            let slot = scene.slot(ordinal);
            let known = slot.stuck || matches!(slot.does, Does::Waits(_) | Does::WaitsWithStranger);
            prop_assert!(known, "{:?}", slot);
        }
    }

    #[test]
    fn invariant_5_data_of_a_member_that_is_no_longer_listed_is_not_resumed(scene in scene()) {
        if let Step::Grant { ordinal, grant, .. } = decide(&scene.observed()).step
            && let Action::Resume { .. } = grant.action
        {
            prop_assert!(!scene.list || scene.slot(ordinal).listed != Listed::No);
        }
    }
}

/// The untried template stands in the StatefulSet.
fn minor_is_tried(scene: &Scene) -> bool {
    matches!(scene.trial, Some((_, Trial::Written | Trial::Remade)))
}

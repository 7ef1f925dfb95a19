//! Properties of every decision, on random observations of up to nine members. Each invariant of the
//! design has one that is named after it and stated in terms of how the scene was painted, not of how
//! the rules or the runtime check read it.

use crate::steps::kind;
use gate::{Action, State};
use plan::observed::{Process, quorum};
use plan::shape::decide_shape;
use plan::{Decision, Observed, Step, decide, invariants};
use proptest::prelude::*;
use testkit::scene::{
    CLUSTER, Claimed, Does, Fate, For, Listed, Slot, UID, member_id, nonce, pod_uid,
};
use testkit::strategies::{cases, kept_scene, scene};

/// A step that changes who is a member, or takes data away.
fn commits_to_membership(step: &Step) -> bool {
    matches!(
        step,
        Step::AddLearner { .. }
            | Step::RemoveMember { .. }
            | Step::RetireMember { .. }
            | Step::DeleteClaim { .. }
    )
}

/// A step that cannot be taken back.
fn commits(step: &Step) -> bool {
    match step {
        Step::Grant { .. }
        | Step::Fetch(_)
        | Step::AddLearner { .. }
        | Step::Promote { .. }
        | Step::RetireMember { .. }
        | Step::DeleteClaim { .. }
        | Step::StopPod { .. }
        | Step::Downgrade { .. }
        | Step::ExpandClaim { .. }
        | Step::MarkRemoved { .. }
        | Step::Compact { .. }
        | Step::Disarm { .. }
        | Step::UpdatePeer { .. }
        | Step::RemoveMember { .. } => true,
        Step::Nothing
        | Step::Wait
        | Step::Refuse
        | Step::RemoveFinalizer
        | Step::ApplyObjects(_)
        | Step::RestoreTemplate(_)
        | Step::EndFetch { .. }
        | Step::RepeatGrant { .. }
        | Step::MoveLeader { .. }
        | Step::Defragment { .. }
        | Step::RestartPod { .. }
        | Step::OrphanPods { .. }
        | Step::IssueCertificates(_)
        | Step::RequestCertificate
        | Step::RotateAuthority(_)
        | Step::RefreshCertificates { .. }
        | Step::ChangeAuth(_)
        | Step::AddDebugContainer { .. }
        | Step::Latch(_) => false,
    }
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn never_proposes_what_the_invariants_refuse(scene in scene()) {
        let observed = scene.observed();
        let decision = decide(&observed);
        prop_assert_eq!(&decision.forbidden, &None, "{:?}", decision);
        prop_assert!(!decision.why.to_string().is_empty());
    }

    #[test]
    fn decides_the_same_on_the_same_facts(scene in scene()) {
        prop_assert_eq!(decide(&scene.observed()), decide(&scene.observed()));
    }

    #[test]
    fn invariant_1_no_voluntary_step_leaves_fewer_healthy_voters_than_a_quorum(scene in scene()) {
        let (all, healthy) = (scene.voters().count(), scene.voters().filter(|s| s.takes_part()).count());
        match decide(&scene.observed()).step {
            Step::RemoveMember { id, .. } => {
                let gone = scene.slot_of(id);
                let left = all - usize::from(gone.listed == Listed::Voter);
                prop_assert!(!gone.takes_part());
                prop_assert!(healthy >= quorum(all) && healthy >= quorum(left));
            }
            Step::RetireMember { id, ordinal } => {
                let gone = scene.slot_of(id);
                let others = healthy - usize::from(gone.takes_part() && gone.listed == Listed::Voter);
                let left = all - usize::from(gone.listed == Listed::Voter);
                prop_assert!(gone.leaves && left > 0);
                if ordinal >= scene.size {
                    prop_assert!(others == left, "{} healthy of {} that stay", others, left);
                } else {
                    prop_assert!(gone.replaced && scene.is_dead(ordinal));
                    prop_assert!(healthy >= quorum(all) && healthy >= quorum(left));
                }
            }
            Step::Promote { id, .. } => {
                prop_assert!(scene.slot_of(id).takes_part() && !scene.slot_of(id).terminating);
                prop_assert!(healthy + 1 >= quorum(all + 1), "{} of {}", healthy, all);
            }
            Step::ApplyObjects(shape) => {
                let highest = scene.slots.iter().rposition(|slot| slot.listed != Listed::No);
                let needed = highest.filter(|_| scene.list).map_or(0, |highest| highest + 1);
                let stopped = scene.size == 0 || scene.ending;
                prop_assert!(stopped || usize::try_from(shape.replicas).unwrap() >= needed);
            }
            _other => {}
        }
    }

    #[test]
    fn invariant_1_the_member_list_stands_still_while_a_grant_is_open(scene in scene()) {
        let step = decide(&scene.observed()).step;
        let changes = matches!(
            step,
            Step::AddLearner { .. } | Step::RemoveMember { .. } | Step::RetireMember { .. }
        );
        // The grant of one that cannot come back holds up no other.
        let open = scene.observed().open_grant();
        let own = matches!(step, Step::RetireMember { ordinal, .. }
            if scene.is_dead(ordinal) && open == Some(ordinal));
        prop_assert!(own || !(changes && scene.grant_is_open()), "{:?}", step);
    }

    #[test]
    fn invariant_5_who_is_asked_for_again_is_no_longer_leaving_before_any_member_changes(scene in scene()) {
        let mut again = (0_u32..).zip(&scene.slots);
        let again = again.any(|(n, slot)| {
            let replaced = slot.replaced && scene.is_dead(n);
            slot.leaves && slot.listed != Listed::No && n < scene.size && !replaced
        });
        let step = decide(&scene.observed()).step;
        // What ends by its owner's policy is not asked for again.
        let again = again && scene.list && !scene.ending;
        prop_assert!(!(again && commits_to_membership(&step)), "{:?}", step);
    }

    #[test]
    fn invariant_5_data_goes_only_after_the_member_that_was_recorded(scene in scene()) {
        if let Step::DeleteClaim { ordinal, .. } = decide(&scene.observed()).step {
            let slot = scene.slot(ordinal);
            let left = scene.list && slot.leaves && slot.listed == Listed::No;
            prop_assert!(left || scene.ending);
        }
    }

    #[test]
    fn invariant_5_a_pod_is_freed_only_after_its_member_and_with_its_claim(scene in scene()) {
        let step = decide(&scene.observed()).step;
        if let (Step::StopPod { ordinal, force, .. }, false) = (step, scene.dark.is_recovering()) {
            let slot = scene.slot(ordinal);
            prop_assert!(scene.list && slot.leaves && slot.listed == Listed::No);
            prop_assert!(slot.replaced || scene.is_dead(ordinal));
            prop_assert_eq!(slot.claim, Claimed::Terminating);
            let away = [Fate::Late, Fate::Silent, Fate::OutOfService, Fate::Deleted];
            prop_assert!(!force || away.contains(&slot.fate));
        }
    }

    #[test]
    fn invariant_7_who_may_come_back_is_never_replaced(scene in scene()) {
        let observed = scene.observed();
        if let Step::Latch(new) = decide(&observed).step {
            let old = &observed.cluster.latched.retiring;
            let written = new.retiring.iter().filter(|one| one.replaced.is_some() && !old.contains(one));
            for one in written {
                let ordinal = api::names::ordinal("db", &one.member).unwrap();
                let healthy = scene.voters().filter(|s| s.takes_part()).count();
                prop_assert!(scene.is_dead(ordinal));
                prop_assert!(healthy >= quorum(scene.voters().count()));
            }
        }
    }

    #[test]
    fn invariant_2_no_member_bootstraps_that_was_not_recorded_first(scene in scene()) {
        if let Step::Grant { ordinal, grant, .. } = decide(&scene.observed()).step
            && let Action::Bootstrap { token, .. } = grant.action
        {
            prop_assert!(!scene.formed);
            prop_assert_eq!(scene.bootstrap, Some((ordinal, For::ThisWait)));
            prop_assert_eq!(token, format!("{UID}-1"));
        }
    }

    #[test]
    fn invariant_2_another_bootstrap_needs_another_incarnation(scene in scene()) {
        let observed = scene.observed();
        if let Step::Latch(new) = decide(&observed).step {
            let old = &observed.cluster.latched;
            let begins = new.bootstrap.is_some() && new.bootstrap != old.bootstrap;
            prop_assert!(!(begins && scene.formed));
            let later = old.bootstrap.is_none() || new.incarnation > old.incarnation;
            prop_assert!(!begins || later);
            let another = scene.has_ended() || scene.continues();
            prop_assert!(!scene.formed || another || new.cluster_id == Some(CLUSTER));
        }
    }

    #[test]
    fn invariant_2_clients_come_only_once_the_cluster_id_is_latched(mut scene in scene()) {
        scene.drifted = true;
        if let Some(shape) = decide_shape(&scene.observed()) {
            prop_assert_eq!(shape.client_service, scene.formed && !scene.ending);
        }
    }

    #[test]
    fn invariant_2_nothing_begins_again_where_clients_were_let_in(mut scene in scene()) {
        scene.formed = false;
        let mut observed = scene.observed();
        observed.objects.client_service = true;
        let begins = match decide(&observed).step {
            Step::Latch(new) => new.bootstrap != observed.cluster.latched.bootstrap,
            Step::Grant { grant, .. } => matches!(grant.action, Action::Bootstrap { .. }),
            _other => false,
        };
        prop_assert!(!begins);
    }

    #[test]
    fn invariant_3_only_the_wait_that_stands_is_granted(scene in scene()) {
        if let Step::Grant { ordinal, pod_uid: uid, grant } = decide(&scene.observed()).step {
            prop_assert!(matches!(scene.slot(ordinal).does, Does::Waits(_) | Does::WaitsWithStranger));
            prop_assert_eq!((uid, grant.nonce), (pod_uid(ordinal), nonce(ordinal, For::ThisWait)));
        }
    }

    #[test]
    fn invariant_3_a_member_id_is_granted_at_most_once(scene in scene()) {
        if let Step::Grant { ordinal, grant, .. } = decide(&scene.observed()).step
            && let Action::Join { member_id: id, .. } = grant.action
        {
            let slot = scene.slot(ordinal);
            prop_assert_eq!((slot.listed, slot.join), (Listed::New, For::ThisWait));
            prop_assert_eq!(id, format!("{:x}", member_id(ordinal)));
            // The pod carries no grant of this ID yet, for whatever wait.
            prop_assert_eq!(slot.grant, For::NoWait);
        }
    }

    #[test]
    fn invariant_3_a_joiner_is_let_through_only_where_every_voter_is_seen_to_list_it(scene in scene()) {
        if let Step::Grant { grant, .. } = decide(&scene.observed()).step
            && let Action::Join { .. } = grant.action
        {
            let answers = |slot: &Slot| matches!(slot.does, Does::Serves | Does::Lags | Does::Leaderless);
            prop_assert!(scene.voters().all(|slot| answers(slot) && slot.informed));
        }
    }

    #[test]
    fn kept_data_is_taken_over_only_when_every_kept_volume_was_looked_at(scene in kept_scene()) {
        let observed = scene.observed();
        if let Step::Latch(new) = decide(&observed).step
            && new.resumed && !observed.cluster.latched.resumed
        {
            let kept = scene.slots.iter().filter(|slot| {
                matches!(slot.claim, Claimed::Kept | Claimed::Terminating)
            });
            let looked = |slot: &Slot| matches!(slot.does, Does::Waits(_) | Does::WaitsWithStranger);
            prop_assert!(kept.clone().all(looked));
        }
    }

    #[test]
    fn invariant_3_a_wait_is_written_down_before_a_member_is_added_for_it(scene in scene()) {
        if let Step::AddLearner { ordinal, .. } = decide(&scene.observed()).step {
            let slot = scene.slot(ordinal);
            prop_assert!(slot.is_blank() || scene.is_misled(ordinal));
            prop_assert!(slot.join == For::ThisWait && slot.listed == Listed::No);
        }
    }

    #[test]
    fn invariant_4_a_second_learner_only_where_every_member_is_seen_on_3_6(scene in scene()) {
        if let Step::AddLearner { .. } = decide(&scene.observed()).step {
            let listed = || scene.slots.iter().filter(|slot| slot.listed != Listed::No);
            let learners = listed().filter(|slot| slot.listed != Listed::Voter).count();
            let seen = listed().filter(|slot| slot.listed != Listed::New).all(|slot| {
                let answers = matches!(
                    slot.does,
                    Does::Serves | Does::Lags | Does::Leaderless | Does::ServesStranger
                );
                answers && scene.version_of(slot).minor >= 6
            });
            prop_assert!(learners == 0 || (scene.from >= 6 && seen));
        }
    }

    #[test]
    fn invariant_4_only_a_learner_that_has_caught_up_is_promoted(scene in scene()) {
        if let Step::Promote { id, .. } = decide(&scene.observed()).step {
            let slot = scene.slot_of(id);
            prop_assert_eq!((slot.listed, slot.does), (Listed::Learner, Does::Serves));
        }
    }

    #[test]
    fn invariant_5_a_member_leaves_the_list_before_its_data_goes(scene in scene()) {
        if let Step::Grant { ordinal, grant, .. } = decide(&scene.observed()).step
            && let Action::Join { discard: true, .. } = grant.action
        {
            // What is moved aside belonged to a member that is no longer listed: this one is new.
            prop_assert_eq!(scene.slot(ordinal).listed, Listed::New);
        }
    }

    #[test]
    fn invariant_6_what_may_be_the_last_copy_is_left_alone(scene in scene()) {
        let (all, healthy) = (scene.voters().count(), scene.voters().filter(|s| s.takes_part()).count());
        match decide(&scene.observed()).step {
            Step::Grant { ordinal, grant, .. } => {
                let state = scene.slot(ordinal).does;
                match grant.action {
                    Action::Join { discard, .. } => {
                        let given_up = scene.is_given_up(ordinal);
                        prop_assert!(scene.slot(ordinal).is_blank() || given_up);
                        prop_assert_eq!(discard, state != Does::Waits(State::Empty));
                        prop_assert!(!discard || healthy >= quorum(all));
                    }
                    Action::Bootstrap { discard, .. } => {
                        prop_assert_eq!(discard, state == Does::Waits(State::Damaged));
                    }
                    Action::Resume { .. } => {}
                    Action::Recover { .. } => prop_assert!(scene.dark.is_recovering()),
                    Action::Restore { .. } => prop_assert!(false, "no scene asks for a backup"),
                }
            }
            Step::RemoveMember { ordinal, .. } => {
                // Data of an earlier incarnation is of no use to a quorum of this one.
                let fenced = scene.slot(ordinal).does == Does::Waits(State::Fenced);
                prop_assert!(scene.slot(ordinal).is_blank() || (fenced && healthy >= quorum(all)));
            }
            _other => {}
        }
    }

    #[test]
    fn invariant_7_no_step_rests_on_a_pod_that_does_not_answer(scene in scene()) {
        let decision = decide(&scene.observed());
        let ordinal = match decision.step {
            Step::Grant { ordinal, .. }
            | Step::AddLearner { ordinal, .. }
            | Step::Promote { ordinal, .. }
            | Step::RemoveMember { ordinal, .. } => ordinal,
            _other => return Ok(()),
        };
        prop_assert_ne!(scene.slot(ordinal).does, Does::Unknown);
        let bootstraps_or_resumes = matches!(
            &decision.step,
            Step::Grant { grant, .. } if !matches!(grant.action, Action::Join { .. })
        );
        prop_assert!(scene.list || bootstraps_or_resumes);
    }

    #[test]
    fn invariant_7_what_is_decided_half_blind_is_allowed_with_open_eyes(
        scene in scene(), hidden in prop::collection::btree_set(0..9_u32, 1..4), list in any::<bool>(),
    ) {
        let open = scene.observed();
        let mut blind: Observed = open.clone();
        // Silence beside a node that is gone, or a container that has ended, is what a replacement rests on, and a
        // recovery on the request of a user who knows that a `NotReady` node will not come back.
        let speaks = |ordinal: &&u32| match scene.slot(**ordinal).fate {
            Fate::Broken => false,
            Fate::Late => !scene.dark.is_recovering(),
            fate => !fate.is_final(),
        };
        for ordinal in hidden.iter().filter(speaks) {
            if let Some(pod) = blind.pods.get_mut(ordinal) {
                pod.process = Process::Unknown;
            }
        }
        if list {
            blind.etcd.members = None;
        }
        let step = decide(&blind).step;
        // A member that was removed and is let through on its own data ends by itself: the others tell it so.
        let resumes = matches!(&step, Step::Grant { grant, .. } if matches!(grant.action, Action::Resume { .. }));
        prop_assume!(commits(&step) && !resumes);
        prop_assert_eq!(invariants::check(&open, &step), Ok(()), "{:?}", step);
    }

    #[test]
    fn invariant_7_no_pod_goes_because_the_member_list_could_not_be_read(scene in scene()) {
        let known = scene.observed();
        let mut blind = known.clone();
        blind.etcd.members = None;
        let (Some(known), Some(unknown)) = (decide_shape(&known), decide_shape(&blind)) else {
            return Ok(());
        };
        let kept = scene.replicas.map_or(0, |live| live.min(known.replicas));
        prop_assert!(unknown.replicas >= kept);
    }

    #[test]
    fn no_member_is_added_whose_name_may_not_resolve_yet(scene in scene()) {
        let mut observed = scene.observed();
        for pod in observed.pods.values_mut() {
            pod.resolvable = false;
            pod.created = observed.now;
        }
        let step = decide(&observed).step;
        prop_assert!(!matches!(step, Step::AddLearner { .. }), "{:?}", step);
    }

    #[test]
    fn invariant_8_readiness_of_a_pod_changes_no_decision(scene in scene()) {
        // A rollout does wait: clients are led to the member that was restarted before the next one goes.
        prop_assume!(!scene.is_changing());
        prop_assume!(scene.everywhere);
        let observed = scene.observed();
        let decision: Decision = decide(&observed);
        let mut other = observed;
        for pod in other.pods.values_mut() {
            pod.ready = !pod.ready;
        }
        prop_assert_eq!(decide(&other), decision);
    }
}

/// A property proves nothing about steps that are never reached.
#[test]
fn the_random_scenes_reach_every_kind_of_step() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let strategy = scene();
    let mut reached = std::collections::BTreeMap::<&str, usize>::new();
    for _ in 0..12_000 {
        let scene = strategy.new_tree(&mut runner).unwrap().current();
        *reached
            .entry(kind(&decide(&scene.observed()).step))
            .or_default() += 1;
    }
    println!("{reached:?}");
    for wanted in [
        "add",
        "apply",
        "bootstrap",
        "join",
        "latch",
        "promote",
        "remove",
        "resume",
        "retire",
        "delete",
        "free",
        "restart",
        "move",
        "downgrade",
        "expand",
        "orphan",
        "tell",
        "remind",
        "compact",
        "defragment",
        "disarm",
        "refuse",
        "nothing",
    ] {
        assert!(
            reached.get(wanted).is_some_and(|count| *count >= 20),
            "{wanted}: {reached:?}"
        );
    }
}

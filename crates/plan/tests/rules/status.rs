//! What a person reads: the status and the events of telling situations, as snapshots, and that no
//! status ever claims more than is known.

use api::conditions::ConditionType;
use api::v1alpha1::status::Phase;
use api::{EtcdClusterStatus, Reason};
use gate::State;
use manifests::Kind;
use plan::observed::{Answer, Attempt, Process, Refusals, Wish, quorum};
use plan::status::{Outcome, decide_status, with_latched};
use plan::{Decision, Observed, Step, decide};
use proptest::prelude::*;
use testkit::Scene;
use testkit::scene::{Claimed, Does, For, Listed, Slot, wish};
use testkit::strategies;
use testkit::told::report;

fn shown(observed: &Observed, phase: Phase) -> String {
    report(observed, &Outcome::Done, Some(phase))
}

fn three(slots: [Slot; 3]) -> Observed {
    Scene::formed(3, slots.to_vec()).observed()
}

#[test]
fn a_cluster_that_is_being_created_says_what_it_waits_for() {
    let young = Slot {
        does: Does::Unknown,
        age: 1,
        ..Slot::empty()
    };
    let observed = Scene::unformed(3, vec![young; 3]).observed();
    insta::assert_snapshot!("creating", report(&observed, &Outcome::Done, None));
}

#[test]
fn a_bootstrap_is_reported_before_it_begins() {
    let mut scene = Scene::unformed(3, vec![Slot::empty(); 3]);
    scene.bootstrap = Some((0, For::ThisWait));
    insta::assert_snapshot!(
        "bootstrap_recorded",
        shown(&scene.observed(), Phase::Creating)
    );
}

#[test]
fn a_learner_that_is_being_added_is_told_of_with_what_etcd_answered() {
    let waits = Slot {
        join: For::ThisWait,
        ..Slot::empty()
    };
    let observed = three([Slot::voter(), waits, waits]);
    let refused = Outcome::NotNow("etcdserver: unhealthy cluster".to_owned());
    insta::assert_snapshot!("adding", report(&observed, &refused, Some(Phase::Creating)));
}

#[test]
fn a_pod_that_cannot_be_scheduled_is_quoted() {
    let stuck = Slot {
        does: Does::Unknown,
        ..Slot::empty()
    };
    let mut observed = three([Slot::voter(), Slot::voter(), stuck]);
    observed.pods.get_mut(&2).unwrap().problem =
        Some("0/3 nodes are available: 3 Insufficient memory.".to_owned());
    insta::assert_snapshot!("unschedulable", shown(&observed, Phase::Creating));
}

#[test]
fn one_member_down_degrades_and_does_not_stop() {
    let down = Slot {
        does: Does::Unknown,
        ..Slot::voter()
    };
    insta::assert_snapshot!(
        "one_down",
        shown(&three([Slot::voter(), down, Slot::voter()]), Phase::Running)
    );
}

#[test]
fn a_lost_quorum_is_a_failure_that_says_who_is_missing() {
    let (down, starts) = (
        Slot {
            does: Does::Unknown,
            ..Slot::voter()
        },
        Slot::new(Does::Starts, Listed::Voter),
    );
    let mut scene = Scene::formed(3, vec![starts, starts, down]);
    scene.list = false;
    insta::assert_snapshot!("quorum_lost", shown(&scene.observed(), Phase::Running));
}

#[test]
fn a_lost_volume_is_replaced_and_told() {
    let lost = Slot {
        listed: Listed::Voter,
        ..Slot::empty()
    };
    insta::assert_snapshot!(
        "volume_lost",
        shown(&three([Slot::voter(), Slot::voter(), lost]), Phase::Running)
    );
}

#[test]
fn a_volume_that_is_held_back_says_why() {
    let held = Slot::new(Does::Waits(State::Mismatch), Listed::Voter);
    insta::assert_snapshot!(
        "volume_held",
        shown(&three([Slot::voter(), held, Slot::voter()]), Phase::Running)
    );
}

#[test]
fn kept_data_of_two_clusters_is_left_to_a_person() {
    let kept = Slot {
        claim: Claimed::Kept,
        ..Slot::new(Does::Waits(State::OtherObject), Listed::No)
    };
    let strange = Slot {
        does: Does::WaitsWithStranger,
        ..kept
    };
    let observed = Scene::unformed(3, vec![kept, strange, kept]).observed();
    insta::assert_snapshot!("several_clusters", shown(&observed, Phase::Creating));
}

#[test]
fn a_foreign_object_is_named_and_left_alone() {
    let mut observed = Scene::unformed(3, Vec::new()).observed();
    observed.objects.foreign = vec!["Service db-peer".to_owned()];
    insta::assert_snapshot!("foreign", shown(&observed, Phase::Creating));
}

#[test]
fn a_failed_step_is_quoted() {
    let mut scene = Scene::unformed(3, Vec::new());
    scene.drifted = true;
    let failed = Outcome::Failed("Service db-peer: quota exceeded".to_owned());
    insta::assert_snapshot!(
        "failed",
        report(&scene.observed(), &failed, Some(Phase::Creating))
    );
}

#[test]
fn a_note_for_pods_to_come_leaves_a_cluster_ready_and_another_write_does_not() {
    let floors = format!(
        ".spec.template.metadata.annotations.{}",
        gate::FLOORS_ANNOTATION
    );
    for (field, refused, ready) in [
        (floors.as_str(), false, true),
        (floors.as_str(), true, false),
        (".spec.replicas", false, false),
    ] {
        let mut observed = three([Slot::voter(); 3]);
        observed.objects.drifted = vec![Wish {
            field: Some(field.to_owned()),
            ..wish(Kind::StatefulSet, "db")
        }];
        let answer = if refused {
            Answer::Refused("quota".to_owned())
        } else {
            Answer::Written
        };
        let outcome = Outcome::Applied(vec![Attempt {
            wish: wish(Kind::StatefulSet, "db"),
            answer,
            manager: None,
        }]);
        let said = report(&observed, &outcome, Some(Phase::Running));
        let is_ready = said.contains("Ready True") && said.contains("Progressing False");
        assert_eq!(is_ready, ready, "{field} {refused}: {said}");
    }
}

#[test]
fn a_stopped_cluster_says_that_its_data_is_kept() {
    let gone = Slot::new(Does::Absent, Listed::No);
    let observed = Scene::formed(0, vec![gone; 3]).observed();
    insta::assert_snapshot!("stopped", shown(&observed, Phase::Scaling));
}

#[test]
fn a_ready_cluster_says_so() {
    insta::assert_snapshot!("ready", shown(&three([Slot::voter(); 3]), Phase::Creating));
}

#[test]
fn an_alarm_is_told_and_the_cluster_is_not_ready() {
    let mut observed = three([Slot::voter(); 3]);
    if let Some(Process::Serving(serving)) = observed.pods.get_mut(&1).map(|pod| &mut pod.process) {
        serving.errors = vec!["memberID:161 alarm:NOSPACE".to_owned()];
    }
    insta::assert_snapshot!("alarm", shown(&observed, Phase::Running));
}

fn is_true(status: &EtcdClusterStatus, kind: ConditionType) -> bool {
    status
        .conditions
        .iter()
        .any(|c| c.type_ == kind.to_string() && c.status == "True")
}

proptest! {
    #![proptest_config(strategies::cases(1000))]

    #[test]
    fn a_status_that_was_written_is_not_written_again(scene in scene(), phase in phases(), done in outcomes()) {
        let observed = scene.observed();
        let decision = decide(&observed);
        let done = possible(&decision.step, done);
        let old = EtcdClusterStatus { phase, ..EtcdClusterStatus::default() };
        if let Some(new) = decide_status(&observed, &decision, &done, &old) {
            let again = decide_status(&observed, &decision, &done, &new);
            prop_assert_eq!(again, None);
        }
    }

    #[test]
    fn ready_means_that_every_member_asked_for_votes_and_nothing_is_left_to_do(scene in scene(), done in outcomes()) {
        let (decision, new) = judged(&scene, done);
        if is_true(&new, ConditionType::Ready) {
            let size = usize::try_from(scene.size).unwrap();
            prop_assert_eq!(scene.slots.iter().take(size).filter(|slot| votes(slot)).count(), size);
            prop_assert_eq!(voters(&scene).count(), size);
            prop_assert!(size > 0 && scene.list && scene.formed);
            prop_assert_eq!(&decision.step, &Step::Nothing);
            prop_assert!(is_true(&new, ConditionType::Available));
            prop_assert!(!is_true(&new, ConditionType::Degraded));
            prop_assert!(!is_true(&new, ConditionType::Progressing));
        }
    }

    #[test]
    fn available_means_a_quorum_of_healthy_voters(scene in scene(), done in outcomes()) {
        let (_, new) = judged(&scene, done);
        if is_true(&new, ConditionType::Available) {
            let healthy = voters(&scene).filter(|slot| votes(slot)).count();
            prop_assert!(scene.list && healthy >= quorum(voters(&scene).count()) && healthy > 0);
        }
    }

    #[test]
    fn nothing_is_wrong_only_while_every_voter_is_known_to_be_healthy(scene in scene(), done in outcomes()) {
        let (decision, new) = judged(&scene, done);
        let runs = scene.size > 0 && scene.formed && !scene.ending && !matches!(decision.step, Step::ApplyObjects(_));
        if runs && !is_true(&new, ConditionType::Degraded) {
            let exists = |slot: &&Slot| slot.does != Does::Absent;
            let young = scene.slots.iter().filter(exists).all(|slot| slot.age < 10);
            let granting = matches!(decision.step, Step::Grant { .. } | Step::Latch(_));
            prop_assert!(scene.list || young || granting || scene.resumed, "{:?}", decision);
            prop_assert!(!scene.list || voters(&scene).all(votes));
        }
    }

    #[test]
    fn a_report_never_forgets_what_is_latched(scene in scene(), done in outcomes()) {
        let observed = scene.observed();
        let old = with_latched(&EtcdClusterStatus::default(), &observed.cluster.uid, &observed.cluster.latched);
        let decision = decide(&observed);
        let new = decide_status(&observed, &decision, &done, &old).unwrap();
        let (mut kept, mut was) = (plan::status::latched(&new), observed.cluster.latched.clone());
        // What was compacted or defragmented is remembered by the report on it.
        match decision.step {
            Step::Compact { revision } if done == Outcome::Done => was.compacted = Some(revision),
            Step::Defragment { .. } if done == Outcome::Done => was = was.undisturbed(),
            _other => {}
        }
        (kept.replicas, was.replicas) = (None, None);
        // Who votes is told again by every list.
        if observed.etcd.members.is_some() {
            prop_assert_eq!(kept.voters.len(), scene.voters().count());
            kept.voters.clone_from(&was.voters);
            kept.learners.clone_from(&was.learners);
        }
        prop_assert_eq!(kept, was);
    }
}

fn judged(scene: &Scene, outcome: Outcome) -> (Decision, EtcdClusterStatus) {
    let observed = scene.observed();
    let decision = decide(&observed);
    let outcome = possible(&decision.step, outcome);
    let new = decide_status(
        &observed,
        &decision,
        &outcome,
        &EtcdClusterStatus::default(),
    )
    .unwrap();
    (decision, new)
}

fn voters(scene: &Scene) -> impl Iterator<Item = &Slot> {
    scene
        .slots
        .iter()
        .filter(|slot| slot.listed == Listed::Voter)
}

/// A voter that is known to take part.
fn votes(slot: &Slot) -> bool {
    slot.listed == Listed::Voter && matches!(slot.does, Does::Serves | Does::Lags)
}

/// Clusters of every kind, and many that are as they should be but for one thing.
fn scene() -> impl Strategy<Value = Scene> {
    prop_oneof![strategies::scene(), strategies::nearly_settled()]
}

/// Where nothing is done, nothing can fail.
fn possible(step: &Step, outcome: Outcome) -> Outcome {
    if matches!(step, Step::Nothing | Step::Wait | Step::Refuse) {
        Outcome::Done
    } else {
        outcome
    }
}

fn phases() -> impl Strategy<Value = Option<Phase>> {
    prop::sample::select(vec![
        None,
        Some(Phase::Creating),
        Some(Phase::Running),
        Some(Phase::Scaling),
        Some(Phase::Failed),
        Some(Phase::Stopped),
    ])
}

fn attempt(answer: Answer) -> Attempt {
    Attempt {
        wish: Wish {
            kind: Kind::Service,
            name: "db-nodeport".to_owned(),
            field: None,
            body: 1,
            template: None,
        },
        answer,
        manager: None,
    }
}

#[test]
fn a_write_that_is_refused_is_told_when_it_begins_and_for_as_long_as_it_lasts() {
    let mut observed = three([Slot::voter(); 3]);
    let quota = attempt(Answer::Refused("exceeded quota".to_owned()));
    let outcome = Outcome::Applied(vec![quota.clone()]);
    let begins = report(&observed, &outcome, Some(Phase::Running));
    let mut memory = Refusals::default();
    memory.note(observed.now, std::slice::from_ref(&quota));
    memory.sort(&mut observed, vec![quota.wish]);
    let lasts = shown(&observed, Phase::Running);
    for told in [&begins, &lasts] {
        for words in [
            "Degraded True WriteRefused",
            "Service db-nodeport",
            "exceeded quota",
        ] {
            assert!(told.contains(words), "{words}\n{told}");
        }
    }
    let event = "Warning WriteRefused";
    assert!(
        begins.contains(event) && !lasts.contains(event),
        "{begins}\n{lasts}"
    );
    assert!(lasts.contains("Ready False WriteRefused"), "{lasts}");
    assert!(lasts.contains("Available True"), "{lasts}");
}

fn outcomes() -> impl Strategy<Value = Outcome> {
    prop::sample::select(vec![
        Outcome::Done,
        Outcome::NotNow("not now".to_owned()),
        Outcome::Failed("failed".to_owned()),
        Outcome::Applied(vec![attempt(Answer::Foreign)]),
        Outcome::Applied(vec![attempt(Answer::Refused("exceeded quota".to_owned()))]),
    ])
}

#[test]
fn every_reason_has_a_meaning() {
    assert!(
        Reason::ALL
            .iter()
            .all(|(_, meaning)| !meaning.trim().is_empty())
    );
}

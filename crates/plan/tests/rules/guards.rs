//! Guards that random scenes seldom reach, each on the one observation that needs it.

use api::Reason;
use api::v1alpha1::cluster::Retention;
use api::v1alpha1::status::{EtcdClusterStatus, KnownVoter};
use gate::{Action, Grant, State};
use jiff::SignedDuration;
use manifests::Kind;
use plan::cluster::first_allowed;
use plan::invariants::{self, Violation};
use plan::observed::{Answer, Attempt, FailedStep, Refusals, Vain, Wish, format_id};
use plan::status::{Outcome, decide_status};
use plan::why::{Bootstrap, Join, Space};
use plan::{Decision, Step, decide};
use testkit::scene::{Alarmed, Begun, Claimed, Dark, Does, Listed, Scene, Slot, UID};

#[test]
fn what_an_earlier_object_kept_outlives_a_stop() {
    let kept = |claim| Slot {
        claim,
        ..Slot::new(Does::Absent, Listed::No)
    };
    let scene = |claim| Scene {
        when_stopped: Retention::Delete,
        ..Scene::unformed(0, vec![kept(claim); 3])
    };
    let Decision { step, why, .. } = decide(&scene(Claimed::Kept).observed());
    assert_eq!(step, Step::Nothing, "{why}");
    assert!(why.to_string().contains("retained"), "{why}");
    let ended = Scene {
        ending: true,
        ..scene(Claimed::Kept)
    };
    let delete = Step::DeleteClaim {
        ordinal: 0,
        uid: "claim-0".to_owned(),
    };
    let refused = invariants::check(&ended.observed(), &delete);
    assert_eq!(refused, Err(Violation::LastCopy));
    // The end comes all the same, and does not wait for it.
    let Step::Latch(new) = decide(&ended.observed()).step else {
        panic!("{:?}", decide(&ended.observed()))
    };
    assert!(!new.ending, "{new:?}");
    let allowed = invariants::check(&ended.observed(), &Step::Latch(new.clone()));
    assert_eq!(allowed, Ok(()));
    let left = Scene {
        ending: true,
        ..scene(Claimed::Ours)
    };
    let too_early = invariants::check(&left.observed(), &Step::Latch(new));
    assert_eq!(too_early, Err(Violation::Forgets));
    let ours = decide(&scene(Claimed::Ours).observed()).step;
    assert!(matches!(ours, Step::Latch(new) if new.ending));
}

#[test]
fn a_learner_that_is_about_to_go_is_not_counted_on() {
    let learner = |terminating| Slot {
        terminating,
        ..Slot::new(Does::Serves, Listed::Learner)
    };
    let scene = |terminating| Scene::formed(3, vec![Slot::voter(), learner(terminating)]);
    let stays = scene(false).observed();
    let promote = decide(&stays).step;
    assert!(
        matches!(promote, Step::Promote { ordinal: 1, .. }),
        "{promote:?}"
    );
    let goes = scene(true).observed();
    assert_ne!(decide(&goes).step, promote);
    assert_eq!(invariants::check(&goes, &promote), Err(Violation::Quorum));
}

#[test]
fn an_alarm_is_no_darkness() {
    for alarm in [Alarmed::NoSpace, Alarmed::Corrupt] {
        let scene = Scene {
            alarm,
            ..Scene::formed(3, vec![Slot::voter(); 3])
        };
        let observed = scene.observed();
        let decision = decide(&observed);
        let old = EtcdClusterStatus::default();
        let status = decide_status(&observed, &decision, &Outcome::Done, &old).unwrap();
        let told = status.conditions.iter().find(|c| c.type_ == "Available");
        assert_eq!(told.map(|c| c.status.as_str()), Some("False"));
        assert_eq!(status.unavailable_since, None);
    }
}

/// It met a member that was restarted, and the space was won otherwise since.
#[test]
fn a_compaction_that_failed_is_told_only_while_space_is_short() {
    for (alarm, told) in [(Alarmed::NoSpace, true), (Alarmed::No, false)] {
        let scene = Scene {
            alarm,
            ..Scene::formed(3, vec![Slot::voter(); 3])
        };
        let mut observed = scene.observed();
        observed.failed.push(FailedStep {
            step: Step::Compact { revision: 7 },
            vain: Vain::Rejected,
            why: Space::Failed(None).into(),
            words: "no connection could be opened".to_owned(),
            generation: observed.cluster.generation,
            since: observed.now,
            tries: 1,
            retry_at: observed.now + SignedDuration::from_mins(1),
        });
        let decision = decide(&observed);
        let old = EtcdClusterStatus::default();
        let status = decide_status(&observed, &decision, &Outcome::Done, &old).unwrap();
        let all = format!("{:?}", status.conditions);
        assert_eq!(all.contains("cannot be compacted"), told, "{all}");
    }
}

#[test]
fn no_grant_lets_old_data_run_beside_a_recovery() {
    let slot = Slot {
        fenced: true,
        ..Slot::new(Does::Waits(State::OtherObject), Listed::Voter)
    };
    let scene = |begun| Scene {
        list: false,
        resumed: true,
        dark: Dark::approved(begun),
        ..Scene::formed(3, vec![slot; 3])
    };
    let before = scene(Begun::No).observed();
    let Step::Grant {
        ordinal,
        pod_uid,
        grant,
    } = decide(&before).step
    else {
        panic!("{:?}", decide(&before))
    };
    assert!(matches!(grant.action, Action::Resume { .. }));
    let during = scene(Begun::Yes).observed();
    let late = Step::Grant {
        ordinal,
        pod_uid,
        grant: Grant {
            cluster_uid: UID.to_owned(),
            incarnation: during.cluster.latched.incarnation,
            ..grant
        },
    };
    assert_eq!(
        invariants::check(&during, &late),
        Err(Violation::SecondBootstrap)
    );
}

#[test]
fn no_pod_that_reports_is_excused_when_another_has_to_be_chosen() {
    let slot = Slot {
        fenced: true,
        ..Slot::new(Does::Waits(State::Fenced), Listed::Voter)
    };
    let scene = Scene {
        list: false,
        dark: Dark::approved(Begun::Chosen(0, false)),
        ..Scene::formed(3, vec![slot; 3])
    };
    let observed = scene.observed();
    let Step::Latch(mut next) = decide(&observed).step else {
        panic!("{:?}", decide(&observed))
    };
    assert_eq!(
        invariants::check(&observed, &Step::Latch(next.clone())),
        Ok(())
    );
    let recovery = next.recovery.as_mut().unwrap();
    assert!(recovery.survivor.is_none() && recovery.excused.is_empty());
    recovery.excused.push("db-1".to_owned());
    assert_eq!(
        invariants::check(&observed, &Step::Latch(next)),
        Err(Violation::Unknown)
    );
}

#[test]
fn what_is_forbidden_is_told_and_holds_up_nothing() {
    let observed = Scene::formed(3, vec![Slot::voter(); 3]).observed();
    let act = |step| Decision::act(step, Join::Adding("db-1".to_owned()));
    // No pod waits there.
    let wrong = || {
        act(Step::AddLearner {
            ordinal: 1,
            peer_url: observed.peer_url(1),
        })
    };
    let next = || Decision::wait(Bootstrap::NoPod, plan::decision::SOON);
    let decision = first_allowed(&observed, [wrong(), next()]).unwrap();
    assert_eq!(
        (&decision.step, &decision.why),
        (&Step::Wait, &Bootstrap::NoPod.into())
    );
    let forbidden = decision.forbidden.clone().unwrap();
    assert_eq!(
        (forbidden.step, forbidden.violation),
        (wrong().step, Violation::Unknown)
    );
    let old = EtcdClusterStatus::default();
    let status = decide_status(&observed, &decision, &Outcome::Done, &old).unwrap();
    let told = status
        .conditions
        .iter()
        .find(|c| c.type_ == "Degraded")
        .unwrap();
    assert_eq!(
        (told.status.as_str(), told.reason.as_str()),
        ("True", "StepFailed")
    );
    assert!(told.message.contains("invariant 7"), "{}", told.message);
    // With nothing else to do it is no settled cluster.
    let decision = first_allowed(&observed, [wrong()]).unwrap();
    assert_eq!(
        (&decision.step, decision.reason()),
        (&Step::Wait, Reason::StepFailed)
    );
    assert!(first_allowed(&observed, []).is_none());
}

/// A write that was refused holds up that very write, and not another one of the same object: otherwise the rule for objects
/// would answer and nothing would be written, look after look.
#[test]
fn a_refusal_holds_up_the_very_write_that_was_refused() {
    let mut observed = Scene::edited(3, vec![Slot::outdated(); 3]).observed();
    let wish = |body| Wish {
        kind: Kind::StatefulSet,
        name: "db".to_owned(),
        field: None,
        body,
        template: observed
            .cluster
            .target
            .as_ref()
            .map(|target| target.template.clone()),
    };
    let (tried, other) = (wish(1), wish(2));
    let mut refusals = Refusals::default();
    let attempt = Attempt {
        wish: tried.clone(),
        answer: Answer::Refused("denied".to_owned()),
        manager: None,
    };
    refusals.note(observed.now, &[attempt]);
    refusals.sort(&mut observed, vec![tried]);
    assert!(observed.is_held_back(Kind::StatefulSet, "db"));
    assert!(observed.objects.drifted.is_empty());
    refusals.sort(&mut observed, vec![other]);
    assert!(!observed.is_held_back(Kind::StatefulSet, "db"));
    assert_eq!(observed.objects.drifted.len(), 1);
}

/// A StatefulSet that was scaled by hand, or is gone, does not hide a voter from a recovery.
#[test]
fn a_recovery_hears_every_voter_whatever_the_statefulset_says() {
    let slot = Slot {
        fenced: true,
        ..Slot::new(Does::Waits(State::Fenced), Listed::Voter)
    };
    let scene = Scene {
        list: false,
        dark: Dark::approved(Begun::Yes),
        ..Scene::formed(3, vec![slot; 3])
    };
    let mut observed = scene.observed();
    // Where all are heard, one is chosen.
    let all = decide(&observed).step;
    assert!(matches!(all, Step::Latch(_)), "{all:?}");
    let voter = |ordinal: u32| KnownVoter {
        member: observed.member_name(ordinal),
        member_id: format_id(u64::from(ordinal) + 1),
        index: None,
    };
    observed.cluster.latched.voters = (0..3).map(voter).collect();
    // The pods of the first two are all that there is.
    observed.pods.remove(&2);
    observed.objects.replicas = Some(2);
    let step = decide(&observed).step;
    assert!(
        !matches!(step, Step::Latch(_) | Step::Grant { .. }),
        "{step:?}"
    );
    observed.objects.set_uid = None;
    observed.objects.replicas = None;
    observed.pods.clear();
    let decision = decide(&observed);
    assert_eq!(decision.step, Step::Wait);
    assert!(
        !decision.why.to_string().contains("delete"),
        "{}",
        decision.why
    );
}

/// Data that etcd 3.6 wrote is taken over by 3.6 or 3.7 only, whichever rule proposes it.
#[test]
fn retained_data_is_taken_over_only_by_a_release_that_reads_it() {
    for (asked, allowed) in [(5, false), (6, true), (7, true)] {
        let kept = Slot {
            claim: Claimed::Kept,
            ..Slot::new(Does::Waits(State::OtherObject), Listed::No)
        };
        let scene = Scene {
            minor: asked,
            ..Scene::unformed(3, vec![kept; 3])
        };
        let mut observed = scene.observed();
        let Step::Latch(new) = decide(&observed).step else {
            panic!("{:?}", decide(&observed))
        };
        assert!(new.resumed);
        for claim in observed.claims.values_mut() {
            claim.lineage = Some(api::Lineage {
                incarnation: 1,
                version: Some("3.6.16".to_owned()),
                ..api::Lineage::default()
            });
        }
        let checked = invariants::check(&observed, &Step::Latch(new));
        assert_eq!(
            checked,
            if allowed {
                Ok(())
            } else {
                Err(Violation::Line)
            }
        );
        let decision = decide(&observed);
        assert_eq!(matches!(decision.step, Step::Latch(_)), allowed, "{asked}");
        assert!(
            allowed
                || decision
                    .why
                    .to_string()
                    .contains("set spec.version to v3.6.16")
        );
    }
}

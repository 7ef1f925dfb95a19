//! A grant that the kubelet left behind: the pod is told again, and nothing else changes for it.

use gate::{Action, Grant, State};
use jiff::SignedDuration;
use plan::invariants::{self, Violation};
use plan::observed::{Observed, Told, format_id};
use plan::{Decision, Step, decide};
use testkit::run::killed_at_every_write;
use testkit::scene::{Does, Listed, Scene, Slot, UID};
use testkit::story::{BOUND, seeds, settle, settled};
use testkit::{Run, World};

/// A voter, and a learner that was let through and still waits, told so many seconds ago.
fn unheard(seconds: i64, again: u32) -> Observed {
    let joiner = Slot::new(Does::Waits(State::Empty), Listed::New);
    let mut observed = Scene::formed(3, vec![Slot::voter(), joiner]).observed();
    let now = observed.now;
    let member = observed.member_of(1).map(|member| member.id);
    for pod in observed.pods.values_mut() {
        let grant = |nonce| Grant {
            nonce,
            cluster_uid: UID.to_owned(),
            incarnation: 1,
            action: Action::Join {
                token: format!("{UID}-1"),
                initial_cluster: String::new(),
                member_id: member.map(format_id).unwrap_or_default(),
                cluster_id: "1".to_owned(),
                discard: false,
            },
        };
        pod.grant = pod.held().map(|report| grant(report.nonce.clone()));
        pod.told = Some(Told {
            at: now - SignedDuration::from_secs(seconds),
            again,
        });
    }
    observed
}

#[test]
fn a_pod_that_has_not_seen_its_grant_is_annotated_again_with_the_same_words() {
    let early = decide(&unheard(2, 0));
    assert_eq!(early.step, Step::Wait);
    let observed = unheard(3, 0);
    let Decision { step, why, .. } = decide(&observed);
    let told = Told {
        at: observed.now,
        again: 1,
    };
    let uid = observed.pods[&1].uid.clone();
    assert_eq!(
        step,
        Step::RepeatGrant {
            ordinal: 1,
            uid,
            told
        }
    );
    assert_eq!(why, early.why);
}

#[test]
fn telling_again_has_an_end() {
    assert!(matches!(
        decide(&unheard(3, 9)).step,
        Step::RepeatGrant { told, .. } if told.again == 10
    ));
    assert_eq!(decide(&unheard(3, 10)).step, Step::Wait);
}

#[test]
fn no_pod_is_annotated_again_with_a_grant_that_is_not_for_its_wait() {
    let mut observed = unheard(3, 0);
    let step = decide(&observed).step;
    assert_eq!(invariants::check(&observed, &step), Ok(()));
    for pod in observed.pods.values_mut() {
        if let Some(grant) = &mut pod.grant {
            "another".clone_into(&mut grant.nonce);
        }
    }
    let refused = invariants::check(&observed, &step);
    assert_eq!(refused, Err(Violation::NotThisWait));
    let next = decide(&observed).step;
    assert!(!matches!(next, Step::RepeatGrant { .. }), "{next:?}");
}

#[test]
fn a_pod_that_is_on_its_way_out_is_told_nothing() {
    let mut observed = unheard(3, 0);
    observed.pods.get_mut(&1).unwrap().terminating = true;
    let step = decide(&observed).step;
    assert!(!matches!(step, Step::RepeatGrant { .. }), "{step:?}");
}

#[test]
fn clusters_form_grow_and_heal_where_every_grant_is_left_behind_at_first() {
    for minor in [5, 6, 7] {
        for seed in seeds(10) {
            let mut run = Run::new(World::new(3, minor, seed));
            run.world.deaf = true;
            settle(&mut run, &format!("3.{minor}, seed {seed}"));
            run.world.lose_claim(1);
            settle(&mut run, &format!("lost, 3.{minor}, seed {seed}"));
            run.world.resize(5);
            settle(&mut run, &format!("grown, 3.{minor}, seed {seed}"));
            assert_eq!(run.world.healthy_voters(), 5);
            assert_eq!(run.world.clusters.len(), 1);
        }
    }
}

#[test]
fn an_operator_that_dies_before_it_tells_again_is_followed_by_one_that_does() {
    let mut run = settled(1, 6, 3);
    run.world.deaf = true;
    run.world.resize(3);
    run.world.writes = 0;
    killed_at_every_write(&run.world, &|run| run.settle(BOUND)).unwrap();
}

//! What the rules ask about the facts, compared with how the scene was painted. The rules and the check have a definition
//! each; this is a third one, so that a definition that is wrong in both is found as well.

use plan::invariants::{Violation, check};
use plan::observed::{Member, Upkeep, UpkeepTask};
use plan::{Observed, Step, decide};
use proptest::prelude::*;
use testkit::Scene;
use testkit::scene::{Claimed, Does, Listed, Slot, member_id};
use testkit::strategies::{cases, scene};

/// A long call to a member: its ordinal, and whether it has ended.
fn call() -> impl Strategy<Value = Option<(u32, bool)>> {
    prop::option::weighted(0.7, (0..5_u32, prop::bool::weighted(0.2)))
}

/// etcd runs in its pod, so that a restart takes something away.
fn runs(does: Does) -> bool {
    matches!(
        does,
        Does::Starts | Does::Serves | Does::Lags | Does::Leaderless
    )
}

proptest! {
    #![proptest_config(cases(2000))]

    #[test]
    fn a_member_is_away_without_a_pod_that_stays_and_while_it_is_defragmented(
        scene in scene(), call in call(),
    ) {
        let mut observed = scene.observed();
        observed.etcd.upkeep = call.map(|(ordinal, done)| Upkeep {
            task: UpkeepTask::Defragment { ordinal },
            since: observed.now,
            done,
        });
        for member in scene.member_list().members {
            let ordinal = (0..9).find(|n| member_id(*n) == member.id).unwrap();
            let defragmented = call == Some((ordinal, false));
            let away = scene.slot(ordinal).is_away() || defragmented;
            prop_assert_eq!(observed.is_away(&member), away, "{:?}", member);
        }
        // Of members that are not ours nothing is known.
        let stranger = Member {
            id: 1,
            name: "other".to_owned(),
            peer_urls: vec!["http://other:2380".to_owned()],
            learner: false,
        };
        prop_assert!(!observed.is_away(&stranger));
    }

    #[test]
    fn a_claim_is_used_that_was_made_for_this_object_or_lies_under_its_cluster(scene in scene()) {
        let observed = scene.observed();
        for (ordinal, claim) in &observed.claims {
            let ours = scene.slot(*ordinal).claim == Claimed::Ours;
            prop_assert_eq!(observed.has_used(claim), ours || scene.formed);
        }
    }

    #[test]
    fn no_voter_is_disturbed_while_another_is_defragmented(scene in scene(), at in 0..5_u32) {
        prop_assume!(scene.slot(at).listed == Listed::Voter);
        let mut observed = scene.observed();
        observed.etcd.upkeep = Some(Upkeep {
            task: UpkeepTask::Defragment { ordinal: at },
            since: observed.now,
            done: false,
        });
        let decision = decide(&observed);
        prop_assert_eq!(&decision.forbidden, &None, "{:?}", decision);
        let other = match decision.step {
            Step::RestartPod { ordinal, .. } if runs(scene.slot(ordinal).does) => ordinal,
            Step::Defragment { ordinal, .. } => ordinal,
            Step::MoveLeader { to, .. } => {
                prop_assert_ne!(to, member_id(at));
                return Ok(());
            }
            Step::Downgrade { to } => {
                prop_assert_eq!(to, None);
                return Ok(());
            }
            _other => return Ok(()),
        };
        let voter = scene.slot(other).listed == Listed::Voter;
        prop_assert!(other == at || !voter, "{}", decision.why);
    }
}

#[test]
fn the_check_lets_no_member_lead_that_is_away() {
    let lead = |observed: &Observed, ordinal| {
        let to = member_id(ordinal);
        check(observed, &Step::MoveLeader { to, ordinal: 0 })
    };
    let mut observed = Scene::formed(3, vec![Slot::voter(); 3]).observed();
    assert_eq!(lead(&observed, 1), Ok(()));
    observed.etcd.upkeep = Some(Upkeep {
        task: UpkeepTask::Defragment { ordinal: 1 },
        since: observed.now,
        done: false,
    });
    assert_eq!(lead(&observed, 1), Err(Violation::Quorum));
    assert_eq!(lead(&observed, 2), Ok(()));
    let ends = Slot {
        terminating: true,
        ..Slot::voter()
    };
    let observed = Scene::formed(3, vec![Slot::voter(), ends, Slot::voter()]).observed();
    assert_eq!(lead(&observed, 1), Err(Violation::Quorum));
}

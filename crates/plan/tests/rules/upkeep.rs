//! Long calls of this operator to members: what is decided, told and remembered while one goes on and once it has ended.
#![expect(clippy::expect_used, reason = "test code: a failure is the point")]

use api::Reason;
use api::v1alpha1::status::{EtcdClusterStatus, KnownVoter, Phase};
use plan::events::decide_events;
use plan::observed::{Process, Upkeep, UpkeepTask};
use plan::status::{Outcome, decide_status, latched};
use plan::{Observed, Step, decide};
use testkit::Scene;
use testkit::scene::{Alarmed, Fill, HEAD, Slot};

const DEFRAGMENT: UpkeepTask = UpkeepTask::Defragment { ordinal: 1 };

/// Three members whose databases are full and loose; db-1 was recorded to be defragmented.
fn full() -> Observed {
    let slot = Slot {
        fill: Fill::Loose,
        ..Slot::voter()
    };
    let scene = Scene {
        alarm: Alarmed::NoSpace,
        compacted: Some(HEAD - 1000),
        defragmenting: Some(1),
        ..Scene::formed(3, vec![slot; 3])
    };
    scene.observed()
}

fn with(mut observed: Observed, task: UpkeepTask, done: bool) -> Observed {
    let since = observed.now;
    observed.etcd.upkeep = Some(Upkeep { task, since, done });
    observed
}

fn silent(mut observed: Observed, ordinal: u32) -> Observed {
    let pod = observed.pods.get_mut(&ordinal).expect("a pod");
    pod.process = Process::Unknown;
    observed
}

#[test]
fn a_member_is_not_defragmented_twice_at_once() {
    let step = decide(&full()).step;
    assert!(
        matches!(step, Step::Defragment { ordinal: 1, .. }),
        "{step:?}"
    );
    let running = with(full(), DEFRAGMENT, false);
    for observed in [running.clone(), silent(running, 1)] {
        let decision = decide(&observed);
        assert_eq!(decision.step, Step::Wait, "{decision:?}");
        assert_eq!(decision.reason(), Reason::Defragmenting);
        assert!(
            decision.why.to_string().contains("db-1"),
            "{}",
            decision.why
        );
    }
}

/// While one is defragmented no other is restarted, removed or defragmented.
#[test]
fn a_member_that_is_being_defragmented_counts_as_away() {
    let running = with(full(), DEFRAGMENT, false);
    let away = |observed: &Observed, ordinal| {
        let member = observed.member_of(ordinal).expect("listed");
        observed.is_away(member)
    };
    assert!(away(&running, 1) && !away(&running, 0));
    assert!(!away(&with(full(), DEFRAGMENT, true), 1));
}

#[test]
fn the_only_voter_is_not_unreachable_while_it_is_defragmented() {
    let scene = Scene::formed(1, vec![Slot::voter()]);
    let mut observed = silent(scene.observed(), 0);
    observed.etcd.members = None;
    observed.cluster.latched.voters = vec![KnownVoter {
        member: "db-0".into(),
        member_id: "1".into(),
        index: None,
    }];
    assert_eq!(decide(&observed).reason(), Reason::EtcdUnreachable);
    let task = UpkeepTask::Defragment { ordinal: 0 };
    assert_eq!(
        decide(&with(observed.clone(), task, false)).reason(),
        Reason::Defragmenting
    );
    assert_eq!(
        decide(&with(observed, task, true)).reason(),
        Reason::EtcdUnreachable
    );
}

#[test]
fn what_has_ended_well_is_told_and_remembered_once() {
    let old = EtcdClusterStatus {
        phase: Some(Phase::Running),
        ..EtcdClusterStatus::default()
    };
    let seen = |observed: &Observed| {
        let decision = decide(observed);
        let phases = (old.phase, old.phase);
        let events = decide_events(observed, &decision, &Outcome::NotNow("x".into()), phases);
        let status = decide_status(observed, &decision, &Outcome::NotNow("x".into()), &old);
        let told: Vec<Reason> = events.iter().map(|event| event.reason).collect();
        (told, latched(&status.expect("something new")))
    };
    let (told, memory) = seen(&with(full(), DEFRAGMENT, true));
    assert_eq!(told, [Reason::MemberDefragmented]);
    assert_eq!(memory.disturbance, None);
    let compact = UpkeepTask::Compact { revision: 77 };
    let (told, memory) = seen(&with(full(), compact, true));
    assert_eq!(told, [Reason::HistoryCompacted]);
    assert_eq!(memory.compacted, Some(77));
    let (told, memory) = seen(&with(full(), DEFRAGMENT, false));
    assert_eq!(told, []);
    assert_eq!(memory.defragmenting().map(String::as_str), Some("db-1"));
}

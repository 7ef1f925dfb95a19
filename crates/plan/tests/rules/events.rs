//! Events say what is true: made or started, another size or the old one again, another version or the same.
#![expect(clippy::expect_used, reason = "test code: a failure is the point")]

use api::Reason;
use api::v1alpha1::status::{EtcdClusterStatus, Phase};
use gate::{Action, Grant, State};
use plan::events::decide_events;
use plan::observed::{Latched, Proven};
use plan::status::{Outcome, decide_status};
use plan::why::{Repair, Rollout};
use plan::{Decision, Observed, Step, decide};
use testkit::Scene;
use testkit::scene::Slot;

fn three() -> Observed {
    Scene::formed(3, vec![Slot::voter(); 3]).observed()
}

fn told(observed: &Observed, decision: &Decision, old: Phase, new: Phase) -> Vec<Reason> {
    let events = decide_events(observed, decision, &Outcome::Done, (Some(old), Some(new)));
    events.into_iter().map(|event| event.reason).collect()
}

fn granted(action: Action) -> Observed {
    let mut observed = three();
    let pod = observed.pods.get_mut(&0).expect("a pod");
    pod.grant = Some(Grant {
        nonce: "n".into(),
        cluster_uid: "u".into(),
        incarnation: 1,
        action,
    });
    observed
}

#[test]
fn a_cluster_is_created_once_and_started_ever_after() {
    let bootstrap = Action::Bootstrap {
        token: "u-1".into(),
        initial_cluster: "db-0=http://db-0".into(),
        discard: false,
    };
    let table = [
        (true, Phase::Creating, vec![Reason::ClusterCreated]),
        (false, Phase::Creating, vec![Reason::ClusterStarted]),
        (false, Phase::Stopped, vec![Reason::ClusterStarted]),
        (false, Phase::Scaling, vec![Reason::ClusterScaled]),
        (false, Phase::Recovering, vec![Reason::ClusterRecovered]),
        (false, Phase::Upgrading, vec![]),
        (false, Phase::Running, vec![]),
    ];
    for (new, old, expected) in table {
        let observed = if new {
            granted(bootstrap.clone())
        } else {
            three()
        };
        let decision = decide(&observed);
        assert_eq!(
            told(&observed, &decision, old, Phase::Running),
            expected,
            "{old:?}"
        );
    }
}

#[test]
fn a_rollout_is_an_upgrade_only_if_the_version_is_another() {
    let version = |text| api::EtcdVersion::parse(text).expect("a version");
    let table = [
        (Some("3.5.35"), "3.6.14", vec![Reason::ClusterUpgraded]),
        (Some("3.6.14"), "3.6.14", vec![Reason::ClusterUpdated]),
        (None, "3.6.14", vec![]),
    ];
    for (before, now, expected) in table {
        let mut observed = three();
        let old = Proven {
            template: "t".into(),
            version: version(now),
            everywhere: false,
            before: before.map(version),
        };
        observed.cluster.latched.proven = Some(old.clone());
        let latched = Latched {
            proven: Some(Proven {
                everywhere: true,
                before: None,
                ..old
            }),
            ..observed.cluster.latched.clone()
        };
        let decision = Decision::act(Step::Latch(latched), Rollout::Complete(version(now)));
        let events = told(&observed, &decision, Phase::Upgrading, Phase::Upgrading);
        assert_eq!(events, expected, "{before:?} {now}");
    }
}

/// The member that lost its volume is removed first; the cluster is not scaled.
#[test]
fn a_lost_volume_is_a_recovery() {
    let observed = three();
    let step = Step::RemoveMember {
        id: 1,
        ordinal: 1,
        nonce: "n".into(),
    };
    let why = Repair::Lost {
        member: "db-1".to_owned(),
        state: State::Empty,
        id: 1,
    };
    let decision = Decision::act(step, why);
    let old = EtcdClusterStatus {
        phase: Some(Phase::Running),
        ..EtcdClusterStatus::default()
    };
    let new = decide_status(&observed, &decision, &Outcome::Done, &old);
    assert_eq!(new.and_then(|new| new.phase), Some(Phase::Recovering));
}

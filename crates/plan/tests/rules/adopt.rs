//! What an earlier operator left, seen from its first look to the member that tries the gate.

use api::Reason;
use plan::events::decide_events;
use plan::invariants::check;
use plan::shape::decide_shape;
use plan::status::{Outcome, decide_status};
use plan::{Observed, Step, decide};
use testkit::Scene;
use testkit::scene::{CLUSTER, Slot};

/// So many members of an earlier operator, and a size that is asked for.
fn left(members: usize, size: u32) -> Observed {
    let scene = Scene {
        predecessor: true,
        clients: true,
        ..Scene::edited(size, vec![Slot::voter(); members])
    };
    let mut observed = scene.observed();
    for pod in observed.pods.values_mut() {
        pod.template = String::new();
    }
    observed
}

/// The same before it was taken over: the status is the earlier operator's.
fn found(members: usize, size: u32) -> Observed {
    let mut observed = left(members, size);
    observed.cluster.latched.proven = None;
    observed.cluster.latched.resumed = false;
    observed
}

#[test]
fn a_cluster_id_in_the_status_of_the_earlier_operator_does_not_pass_for_ours() {
    let observed = found(3, 3);
    assert_eq!(observed.cluster.latched.cluster_id, Some(CLUSTER));
    let decision = decide(&observed);
    assert_eq!(decision.reason(), Reason::Adopting);
    let Step::Latch(latched) = &decision.step else {
        panic!("{decision:?}");
    };
    assert!(latched.resumed && latched.proven.is_some());
    check(&observed, &decision.step).unwrap();
    let events = decide_events(&observed, &decision, &Outcome::Done, (None, None));
    assert!(
        events.iter().any(|event| event.reason == Reason::Adopting),
        "{events:?}"
    );
}

#[test]
fn without_a_quorum_nothing_of_it_is_touched_and_that_is_a_complaint() {
    let mut observed = found(3, 3);
    observed.etcd.members = None;
    observed.objects.drifted = vec![testkit::scene::wish(manifests::Kind::StatefulSet, "c")];
    let decision = decide(&observed);
    assert_eq!(
        (&decision.step, decision.reason()),
        (&Step::Wait, Reason::Adopting)
    );
    let old = api::EtcdClusterStatus::default();
    let status = decide_status(&observed, &decision, &Outcome::Done, &old).unwrap();
    let mut conditions = status.conditions.iter();
    let degraded = conditions.find(|condition| condition.type_ == "Degraded");
    assert!(degraded.unwrap().message.contains("quorum"));
}

#[test]
fn another_cluster_than_the_status_names_is_left_alone() {
    let mut observed = found(3, 3);
    observed.cluster.latched.cluster_id = Some(CLUSTER + 1);
    assert_eq!(decide(&observed).step, Step::Refuse);
}

#[test]
fn no_pod_is_made_from_a_template_without_a_gate() {
    let observed = left(1, 3);
    assert_eq!(decide_shape(&observed).unwrap().replicas, 1);
}

#[test]
fn where_more_are_asked_for_a_newcomer_tries_the_gate_and_no_member_is_restarted() {
    for members in [1, 2] {
        let mut observed = left(members, 3);
        let decision = decide(&observed);
        let Step::Latch(latched) = decision.step else {
            panic!("{decision:?}");
        };
        check(&observed, &Step::Latch(latched.clone())).unwrap();
        let trial = latched.trial().cloned().unwrap();
        let ordinal = u32::try_from(members).unwrap();
        assert_eq!(trial.member, observed.member_name(ordinal));
        observed.cluster.latched = latched;
        let shape = decide_shape(&observed).unwrap();
        assert_eq!(shape.replicas, ordinal + 1);
        assert_eq!(shape.template, manifests::Template::Try);
        // Until its pod is there, it is waited for; then it joins like any other member.
        assert_eq!(decide(&observed).step, Step::Wait);
    }
}

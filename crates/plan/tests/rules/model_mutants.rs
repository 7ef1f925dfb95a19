//! Tests of the model: operators that are wrong in one way each, and what the search finds of them. Where the invariants
//! are asked each is refused, where they are not the world sees the harm; and one that merely does nothing is found to
//! keep a cluster down.

use api::{Plane, Transport};
use gate::{Action, Grant, State};
use plan::decision::SOON;
use plan::observed::NodeState;
use plan::why::Incomplete;
use plan::{Decision, Observed, Step, decide};
use testkit::World;
use testkit::model::{Edit, Kind, Story, explore};
use testkit::mutant::{Mutant, decide_as};
use testkit::story::settled;

fn story(start: World) -> Story {
    Story {
        name: "mutant",
        start,
        faults: 0,
        kinds: Kind::LOSSES,
        late: 0,
        writes: 1,
        edits: &[],
        word: false,
        coarse: true,
        out_of_turn: None,
        unchecked: false,
        most: 100_000,
    }
}

fn found(story: &Story, decide: &(dyn Fn(&Observed) -> Decision + Sync)) -> String {
    let found = explore(story, decide);
    found.broken.map_or_else(String::new, |broken| broken.why)
}

/// Refused for this where the invariants are asked, and harm of this kind where they are not.
fn is_caught(mut story: Story, mutant: Mutant, violation: &str, harm: &str) {
    let wrong = |observed: &Observed| decide_as(mutant, observed);
    let why = found(&story, &wrong);
    assert!(why.starts_with(&format!("refused: {violation}")), "{why}");
    story.unchecked = true;
    let why = found(&story, &wrong);
    assert!(why.starts_with("harm") && why.contains(harm), "{why}");
}

/// Invariant 2: every pod that waits bootstraps.
fn lets_all_bootstrap(observed: &Observed) -> Option<Step> {
    observed.pods.iter().find_map(|(ordinal, pod)| {
        let report = pod.held().filter(|report| report.state == State::Empty)?;
        if pod.is_granted() {
            return None;
        }
        let action = Action::Bootstrap {
            token: format!("{}-1", observed.cluster.uid),
            initial_cluster: String::new(),
            discard: false,
        };
        Some(Step::Grant {
            ordinal: *ordinal,
            pod_uid: pod.uid.clone(),
            grant: Grant {
                nonce: report.nonce.clone(),
                cluster_uid: observed.cluster.uid.clone(),
                incarnation: 1,
                action,
            },
        })
    })
}

/// Invariant 5: the data of a member that is not asked for goes first.
fn deletes_data_first(observed: &Observed) -> Option<Step> {
    let size = observed.cluster.intent.as_ref().ok()?.size;
    observed.claims.range(size..).find_map(|(ordinal, claim)| {
        observed
            .member_of(*ordinal)
            .filter(|_| !claim.terminating)?;
        Some(Step::DeleteClaim {
            ordinal: *ordinal,
            uid: claim.uid.clone(),
        })
    })
}

/// The fence: a survivor bootstraps beside what may still run.
fn skips_the_fence(observed: &Observed) -> Option<Step> {
    match decide(observed).step {
        Step::StopPod { .. } if observed.cluster.latched.recovery.is_some() => Some(Step::Wait),
        _right => None,
    }
}

/// Invariant 12: each member is listed as it will listen, and only so.
fn lists_the_goal_only(observed: &Observed) -> Option<Step> {
    let to = observed.transport().peer.scheme();
    let list = observed.etcd.members.as_ref()?;
    list.members.iter().find_map(|member| {
        let ordinal = observed.ordinal_of(member)?;
        let goal = vec![api::names::peer_url(to, "db", "ns", ordinal)];
        (member.peer_urls != goal).then_some(Step::UpdatePeer {
            id: member.id,
            ordinal,
            peer_urls: goal,
        })
    })
}

const ON: &[Edit] = &[Edit::Switch(Transport {
    client: Plane::Tls,
    peer: Plane::Tls,
})];

fn switched() -> Story {
    Story {
        edits: ON,
        ..story(settled(3, 6, 1).world)
    }
}

#[test]
fn a_list_under_which_no_peer_is_reached_is_found() {
    is_caught(
        switched(),
        lists_the_goal_only,
        "Transport",
        "no peer reaches",
    );
}

#[test]
fn an_operator_that_lists_no_scheme_or_issues_nothing_is_found_to_stop_half_way() {
    let why = without(|step| matches!(step, Step::UpdatePeer { .. }), &switched());
    assert!(why.starts_with("stuck"), "{why}");
    let why = without(
        |step| matches!(step, Step::IssueCertificates(_)),
        &switched(),
    );
    assert!(why.starts_with("stuck"), "{why}");
}

#[test]
fn two_bootstraps_are_found() {
    let story = story(World::new(3, 6, 1));
    is_caught(story, lets_all_bootstrap, "SecondBootstrap", "bootstrap");
}

#[test]
fn data_that_goes_before_its_member_is_found() {
    let mut story = story(settled(3, 6, 1).world);
    story.edits = &[Edit::Size(1)];
    is_caught(
        story,
        deletes_data_first,
        "DataBeforeMember",
        "went before its member",
    );
}

/// An operator that does not take steps of a kind, and what the search says of it.
fn without(kind: fn(&Step) -> bool, story: &Story) -> String {
    let idle = move |observed: &Observed| {
        let decision = decide(observed);
        if kind(&decision.step) {
            Decision::wait(Incomplete::PodDeleted("db-0".to_owned()), SOON)
        } else {
            decision
        }
    };
    found(story, &idle)
}

#[test]
fn an_operator_that_leaves_a_step_out_is_found_to_keep_a_cluster_down() {
    let mut silent = story(settled(3, 6, 1).world);
    silent.faults = 1;
    let why = without(|step| matches!(step, Step::StopPod { .. }), &silent);
    assert!(why.starts_with("stuck"), "{why}");
    let why = without(|step| matches!(step, Step::RetireMember { .. }), &silent);
    assert!(why.starts_with("stuck"), "{why}");
    let why = without(|step| matches!(step, Step::RemoveMember { .. }), &silent);
    assert!(why.starts_with("stuck"), "{why}");
    let begun = story(World::new(3, 6, 1));
    let why = without(|step| matches!(step, Step::Promote { .. }), &begun);
    assert!(why.starts_with("stuck"), "{why}");
    assert_eq!(without(|_| false, &silent), "");
}

#[test]
fn a_recovery_that_stops_no_pod_is_found_to_keep_a_cluster_down() {
    let mut world = settled(3, 6, 1).world;
    for ordinal in [0, 1] {
        world.set_node(ordinal, NodeState::Deleted);
    }
    let story = Story {
        word: true,
        ..story(world)
    };
    let wrong = |observed: &Observed| decide_as(skips_the_fence, observed);
    let why = found(&story, &wrong);
    assert!(why.starts_with("stuck"), "{why}");
}

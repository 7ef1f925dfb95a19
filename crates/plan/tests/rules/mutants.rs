//! Tests of the tests: operators that are wrong in one way each. Every one of them is caught, by the
//! check before the act, and where its mistake can do harm also by what the world records when that
//! check is off.

use std::sync::OnceLock;

use gate::{Action, Grant};
use manifests::Shape;
use plan::invariants::Violation;
use plan::observed::{Latched, MemberList, Pod, format_id};
use plan::why::Object;
use plan::{Decision, Observed, Step, decide};
use testkit::mutant::{Caught, Mutant, decide_as};
use testkit::run::Faults;
use testkit::{Run, World};

/// Clusters that have settled, with 5000 entries more on a quorum than elsewhere.
fn settled() -> &'static [World] {
    static SETTLED: OnceLock<Vec<World>> = OnceLock::new();
    SETTLED.get_or_init(|| {
        let worlds = (0..8).map(|seed| {
            let mut run = Run::new(World::new(3, if seed % 2 == 0 { 6 } else { 5 }, seed));
            run.settle(900).unwrap();
            let id = *run.world.clusters.first_key_value().unwrap().0;
            run.world.write(id, 5000);
            run.world
        });
        worlds.collect()
    })
}

/// Stories in which a mutant may show itself.
fn stories(mutant: Mutant, unchecked: bool) -> Caught {
    let mut caught = Caught::default();
    let wrong = |observed: &Observed| decide_as(mutant, observed);
    for (seed, created) in (0..).zip(settled()) {
        for lose in 0..5 {
            let world = match lose {
                3 => World::new(5, 6, seed),
                4 => World::new(3, 5, seed),
                _settled => created.clone(),
            };
            let mut run = Run::with(world, &wrong);
            run.unchecked = unchecked;
            if lose == 0 {
                run.world.empty_volume(1);
            } else if lose == 1 {
                run.world.lose_claim(0);
            } else if lose == 2 {
                run.world.freeze(2, true);
                run.world.empty_volume(1);
            }
            run.faults = Faults {
                crash: 3,
                blind_pod: 10,
                ..Faults::default()
            };
            run.turns(60);
            run.world.freeze(2, false);
            run.faults = Faults {
                crash: 3,
                ..Faults::default()
            };
            run.turns(60);
            caught.note(&run);
        }
    }
    caught
}

fn refused_as(mutant: Mutant, violation: &Violation) {
    stories(mutant, false).assert_refused(violation);
}

fn does_harm(mutant: Mutant, what: &str) {
    stories(mutant, true).assert_harm(what);
}

fn list(observed: &Observed) -> Option<&MemberList> {
    observed.etcd.members.as_ref()
}

fn without_member(observed: &Observed) -> impl Iterator<Item = (u32, &Pod, String)> {
    let waiting = observed.pods.iter();
    waiting.filter_map(|(ordinal, pod)| {
        let report = observed.needs_new_member(*ordinal)?;
        Some((*ordinal, pod, report.nonce.clone()))
    })
}

fn grant(observed: &Observed, (ordinal, pod, nonce): (u32, &Pod, String), action: Action) -> Step {
    let cluster_uid = observed.cluster.uid.clone();
    let incarnation = observed.cluster.latched.incarnation;
    let grant = Grant {
        nonce,
        cluster_uid,
        incarnation,
        action,
    };
    Step::Grant {
        ordinal,
        pod_uid: pod.uid.clone(),
        grant,
    }
}

fn token(observed: &Observed) -> String {
    format!(
        "{}-{}",
        observed.cluster.uid, observed.cluster.latched.incarnation
    )
}

/// Invariant 1: removes a member that lost its data without asking whether a quorum remains.
fn removes_without_quorum(observed: &Observed) -> Option<Step> {
    list(observed)?;
    without_member(observed).find_map(|(ordinal, _, nonce)| {
        let member = observed
            .member_of(ordinal)
            .filter(|member| !member.is_unstarted())?;
        Some(Step::RemoveMember {
            id: member.id,
            ordinal,
            nonce,
        })
    })
}

/// Invariant 1: adds the next member while one that was let through has not been heard of.
fn adds_while_a_grant_is_open(observed: &Observed) -> Option<Step> {
    list(observed).filter(|_| observed.open_grant().is_some())?;
    without_member(observed).find_map(|(ordinal, pod, _)| {
        let peer_url = observed.peer_url(ordinal);
        let may = observed.may_join(ordinal, pod, observed.needs_new_member(ordinal)?);
        (may && observed.member_of(ordinal).is_none())
            .then_some(Step::AddLearner { ordinal, peer_url })
    })
}

/// Invariant 2: lets any pod that waits bootstrap a cluster.
fn bootstraps_without_a_latch(observed: &Observed) -> Option<Step> {
    let waiting = without_member(observed).find(|(_, pod, _)| !pod.is_granted())?;
    let entry = format!(
        "{}={}",
        observed.member_name(waiting.0),
        observed.peer_url(waiting.0)
    );
    let (token, initial_cluster) = (token(observed), entry);
    Some(grant(
        observed,
        waiting,
        Action::Bootstrap {
            token,
            initial_cluster,
            discard: false,
        },
    ))
}

/// Invariant 2: records another bootstrap without another incarnation.
fn changes_the_bootstrap(observed: &Observed) -> Option<Step> {
    let mut latched: Latched = observed.cluster.latched.clone();
    let bootstrap = latched
        .bootstrap
        .as_mut()
        .filter(|_| latched.cluster_id.is_none())?;
    let (_, pod, nonce) =
        without_member(observed).find(|(_, pod, _)| pod.uid != bootstrap.pod_uid)?;
    bootstrap.pod_uid.clone_from(&pod.uid);
    bootstrap.nonce = nonce;
    Some(Step::Latch(latched))
}

/// Invariant 2: lets clients in at once.
fn publishes_clients_early(observed: &Observed) -> Option<Step> {
    let shape = Shape {
        lineage: std::collections::BTreeMap::new(),
        closing: false,
        template: manifests::Template::Live,
        replicas: 3,
        client_service: true,
        claims: vec![0, 1, 2],
        min_available: 2,
        fence: None,
        floors: std::collections::BTreeMap::new(),
    };
    observed
        .cluster
        .latched
        .cluster_id
        .is_none()
        .then_some(Step::ApplyObjects(shape))
}

/// Invariant 2: forgets the cluster.
fn forgets_the_cluster(observed: &Observed) -> Option<Step> {
    let latched = Latched {
        cluster_id: None,
        ..observed.cluster.latched.clone()
    };
    observed
        .cluster
        .latched
        .cluster_id
        .map(|_| Step::Latch(latched))
}

/// Invariant 3: lets a wiped member start again under the ID it had.
fn grants_an_id_twice(observed: &Observed) -> Option<Step> {
    let list = list(observed)?;
    let (waiting, id) = without_member(observed).find_map(|waiting| {
        let member = observed.member_of(waiting.0)?;
        (!waiting.1.is_granted()).then_some((waiting, member.id))
    })?;
    let entries = list
        .members
        .iter()
        .flat_map(|m| &m.peer_urls)
        .map(|url| format!("{url}={url}"));
    let action = Action::Join {
        token: token(observed),
        initial_cluster: entries.collect::<Vec<_>>().join(","),
        member_id: format_id(id),
        cluster_id: format_id(list.cluster_id),
        discard: false,
    };
    Some(grant(observed, waiting, action))
}

/// Invariant 3: answers a wait that is over.
fn answers_a_former_wait(observed: &Observed) -> Option<Step> {
    let Step::Grant {
        ordinal,
        pod_uid,
        mut grant,
    } = decide(observed).step
    else {
        return None;
    };
    grant.nonce = String::from("a wait that is over");
    Some(Step::Grant {
        ordinal,
        pod_uid,
        grant,
    })
}

/// Invariant 3: records a wait though a member is listed for it.
fn latches_a_join_for_a_listed_member(observed: &Observed) -> Option<Step> {
    list(observed)?;
    let (ordinal, pod, nonce) = without_member(observed).find(|(ordinal, pod, _)| {
        let listed = observed.member_of(*ordinal).is_some();
        listed
            && !observed
                .needs_new_member(*ordinal)
                .is_some_and(|report| observed.may_join(*ordinal, pod, report))
    })?;
    let (member, pod_uid) = (observed.member_name(ordinal), pod.uid.clone());
    let join = api::v1alpha1::status::JoinIntent {
        member,
        pod_uid,
        nonce,
    };
    let mut latched = observed.cluster.latched.clone();
    latched.joins = vec![join];
    Some(Step::Latch(latched))
}

/// Invariant 3: tells a joiner only about itself.
fn grants_another_member_list(observed: &Observed) -> Option<Step> {
    let Step::Grant {
        ordinal,
        pod_uid,
        mut grant,
    } = decide(observed).step
    else {
        return None;
    };
    let Action::Join {
        initial_cluster, ..
    } = &mut grant.action
    else {
        return None;
    };
    *initial_cluster = format!("x={}", observed.peer_url(ordinal));
    Some(Step::Grant {
        ordinal,
        pod_uid,
        grant,
    })
}

/// Invariant 4: promotes any member that is listed as a learner.
fn promotes_a_lagging_learner(observed: &Observed) -> Option<Step> {
    let learner = list(observed)?.learners().find(|learner| {
        observed
            .serving_as(learner.id)
            .is_some_and(|serving| serving.applied_index < 1000)
    })?;
    Some(Step::Promote {
        id: learner.id,
        ordinal: observed.ordinal_of(learner)?,
    })
}

/// Invariant 4: adds a second learner wherever it can.
fn adds_a_learner_too_many(observed: &Observed) -> Option<Step> {
    list(observed).filter(|list| list.learners().next().is_some())?;
    without_member(observed).find_map(|(ordinal, pod, _)| {
        let peer_url = observed.peer_url(ordinal);
        let may = observed.may_join(ordinal, pod, observed.needs_new_member(ordinal)?);
        (may && observed.member_of(ordinal).is_none())
            .then_some(Step::AddLearner { ordinal, peer_url })
    })
}

/// Invariant 6: moves aside what is not damaged.
fn discards_without_need(observed: &Observed) -> Option<Step> {
    let Step::Grant {
        ordinal,
        pod_uid,
        mut grant,
    } = decide(observed).step
    else {
        return None;
    };
    match &mut grant.action {
        Action::Bootstrap { discard, .. } => *discard = !*discard,
        Action::Join { .. }
        | Action::Resume { .. }
        | Action::Recover { .. }
        | Action::Restore { .. } => return None,
    }
    Some(Step::Grant {
        ordinal,
        pod_uid,
        grant,
    })
}

/// Invariant 7: removes a member because it does not answer.
fn removes_on_unknown(observed: &Observed) -> Option<Step> {
    list(observed)?;
    observed.pods.iter().find_map(|(ordinal, pod)| {
        let silent = pod.process == plan::observed::Process::Unknown;
        let member = observed.member_of(*ordinal).filter(|_| silent)?;
        let nonce = String::new();
        Some(Step::RemoveMember {
            id: member.id,
            ordinal: *ordinal,
            nonce,
        })
    })
}

#[test]
fn removing_without_a_quorum_is_refused() {
    refused_as(removes_without_quorum, &Violation::Quorum);
}

#[test]
fn adding_while_a_grant_is_open_is_refused() {
    refused_as(adds_while_a_grant_is_open, &Violation::OpenGrant);
}

#[test]
fn bootstrapping_without_a_latch_is_refused_and_would_fork() {
    refused_as(bootstraps_without_a_latch, &Violation::SecondBootstrap);
    does_harm(bootstraps_without_a_latch, "fork");
    does_harm(bootstraps_without_a_latch, "second bootstrap");
}

#[test]
fn changing_the_bootstrap_is_refused() {
    refused_as(changes_the_bootstrap, &Violation::SecondBootstrap);
}

#[test]
fn publishing_clients_early_is_refused_and_would_be_seen() {
    refused_as(publishes_clients_early, &Violation::ClientsTooEarly);
    does_harm(publishes_clients_early, "clients are let in");
}

#[test]
fn forgetting_the_cluster_is_refused() {
    refused_as(forgets_the_cluster, &Violation::Forgets);
}

#[test]
fn granting_an_id_twice_is_refused_and_would_be_amnesia() {
    refused_as(grants_an_id_twice, &Violation::GrantedBefore);
    does_harm(grants_an_id_twice, "amnesia");
}

/// What the world says of fact 0.1 of the etcd notes: a wiped voter that returns under its ID, then the
/// loss of the one other that had the write.
#[test]
fn granting_an_id_twice_would_lose_an_acknowledged_write() {
    let wrong = |observed: &Observed| {
        let step = grants_an_id_twice(observed).unwrap_or(Step::Wait);
        Decision::act(step, Object::Settled(0, ""))
    };
    let mut run = Run::with(settled()[0].clone(), &wrong);
    run.unchecked = true;
    let (id, cluster) = run.world.clusters.first_key_value().unwrap();
    let (id, leader) = (*id, cluster.leader.unwrap());
    run.world.quiet = true;
    run.world.write(id, 100_000);
    let acknowledged = run.world.clusters[&id].acknowledged;
    let data = |ordinal: u32| run.world.claims[&ordinal].volume.data.unwrap();
    let holds = |ordinal: &u32| data(*ordinal).log == acknowledged;
    let leading = (0..3)
        .find(|ordinal| data(*ordinal).member == leader)
        .unwrap();
    let wiped = (0..3)
        .filter(holds)
        .find(|ordinal| *ordinal != leading)
        .unwrap();
    run.world.empty_volume(wiped);
    run.turns(25);
    run.world.freeze(leading, true);
    run.turns(10);
    assert!(
        run.world
            .violations
            .iter()
            .any(|what| what.contains("lost write"))
    );
}

#[test]
fn answering_a_former_wait_is_refused() {
    refused_as(answers_a_former_wait, &Violation::NotThisWait);
}

#[test]
fn latching_a_join_for_a_listed_member_is_refused() {
    refused_as(
        latches_a_join_for_a_listed_member,
        &Violation::GrantedBefore,
    );
}

#[test]
fn granting_another_member_list_is_refused() {
    refused_as(grants_another_member_list, &Violation::WrongMemberList);
}

#[test]
fn promoting_a_lagging_learner_is_refused() {
    refused_as(promotes_a_lagging_learner, &Violation::Learner);
}

#[test]
fn adding_a_learner_too_many_is_refused() {
    refused_as(adds_a_learner_too_many, &Violation::Learner);
}

#[test]
fn discarding_without_need_is_refused() {
    refused_as(discards_without_need, &Violation::LastCopy);
}

#[test]
fn removing_on_unknown_is_refused() {
    refused_as(removes_on_unknown, &Violation::Unknown);
}

/// Invariant 1: removes a member that was not asked to leave.
fn retires_without_being_asked(observed: &Observed) -> Option<Step> {
    let member = list(observed)?.members.iter().max()?;
    Some(Step::RetireMember {
        id: member.id,
        ordinal: observed.ordinal_of(member)?,
    })
}

/// Invariant 5: deletes a claim whose member is listed.
fn deletes_data_before_its_member(observed: &Observed) -> Option<Step> {
    let member = list(observed)?.members.first()?;
    let ordinal = observed.ordinal_of(member)?;
    let uid = observed.claims.get(&ordinal)?.uid.clone();
    Some(Step::DeleteClaim { ordinal, uid })
}

#[test]
fn who_retires_without_being_asked_is_caught() {
    refused_as(retires_without_being_asked, &Violation::NotAskedFor);
}

#[test]
fn who_deletes_data_before_its_member_is_caught() {
    refused_as(deletes_data_before_its_member, &Violation::DataBeforeMember);
    does_harm(deletes_data_before_its_member, "went before its member");
}

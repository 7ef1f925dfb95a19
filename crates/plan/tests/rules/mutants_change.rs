//! Tests of the tests, for changes: operators that are wrong in one way each about what members run on, or about the
//! end of their data. Each is refused before the act, and where it can do harm the world records that harm.

use std::sync::OnceLock;

use api::v1alpha1::cluster::Retention;
use api::v1alpha1::status::TrialIntent;
use manifests::Template;
use plan::invariants::Violation;
use plan::observed::{Disturbance, Latched, MemberList, Proven};
use plan::shape::decide_shape;
use plan::{Observed, Step};
use testkit::mutant::{Caught, Mutant, decide_as};
use testkit::run::Faults;
use testkit::story::settled;
use testkit::{Run, World};

/// Stories in which a mutant may show itself.
const STORIES: [fn(&mut World); 8] = [
    |world| world.edit(1),
    |world| {
        world.bad_edits.insert(1);
        world.edit(1);
    },
    |world| world.upgrade(5),
    |world| {
        world.object.walk = true;
        world.conversion = 4;
        world.upgrade(7);
    },
    |world| {
        world.object.when_stopped = Retention::Delete;
        world.resize(0);
    },
    |world| world.resize(0),
    |world| world.enlarge(12),
    |world| world.resize(1),
];

/// Clusters that have settled on a minor version.
fn created(minor: u8) -> &'static [World] {
    static CREATED: [OnceLock<Vec<World>>; 2] = [const { OnceLock::new() }; 2];
    let seeds = || (0..4).map(|seed| settled(3, minor, seed).world).collect();
    CREATED[usize::from(minor == 5)].get_or_init(seeds)
}

fn stories(mutant: Mutant, unchecked: bool) -> Caught {
    let mut caught = Caught::default();
    let wrong = |observed: &Observed| decide_as(mutant, observed);
    for (number, story) in STORIES.iter().enumerate() {
        // The walk begins a minor version lower, so that it passes through one.
        for created in created(if number == 3 { 5 } else { 6 }) {
            let mut run = Run::with(created.clone(), &wrong);
            run.unchecked = unchecked;
            story(&mut run.world);
            run.faults = Faults {
                crash: 2,
                delete_pod: 2,
                stale: 20,
                torn: 20,
                ..Faults::default()
            };
            run.turns(150);
            if run.world.object.size == 0 {
                run.world.resize(3);
            }
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

/// What is proven, and what is asked for.
fn goal(observed: &Observed) -> Option<(&Proven, &str, u8)> {
    let target = observed.cluster.target.as_ref()?;
    let proven = observed.cluster.latched.proven.as_ref()?;
    Some((proven, &target.template, target.intent.version.minor))
}

fn with(observed: &Observed, change: impl FnOnce(&mut Latched)) -> Step {
    let mut latched = observed.cluster.latched.clone();
    change(&mut latched);
    Step::Latch(latched)
}

/// A voter that serves on something else than is asked for.
fn outdated(observed: &Observed, leads: bool) -> Option<(u32, String)> {
    let (_, target, _) = goal(observed)?;
    list(observed)?.voters().find_map(|voter| {
        let ordinal = observed.ordinal_of(voter)?;
        let pod = observed.pods.get(&ordinal)?;
        let due = pod.template != target && !pod.terminating && observed.is_healthy(voter);
        let fits = due && (observed.leader() == Some(voter.id)) == leads;
        fits.then(|| (ordinal, pod.uid.clone()))
    })
}

/// Records the first member, writes the template, and restarts it.
fn tries_at_once(observed: &Observed) -> Option<Step> {
    let (_, target, _) = goal(observed)?;
    if let Some(trial) = observed.cluster.latched.trial() {
        let ordinal = api::names::ordinal(&observed.cluster.name, &trial.member)?;
        let pod = observed.pods.get(&ordinal)?;
        let due = pod.uid == trial.pod_uid && pod.template != trial.template;
        if !due || pod.terminating {
            return None;
        }
        if observed.objects.template.as_ref() != Some(&trial.template) {
            let mut shape = decide_shape(observed)?;
            shape.template = Template::Try;
            return Some(Step::ApplyObjects(shape));
        }
        let uid = pod.uid.clone();
        return Some(Step::RestartPod { ordinal, uid });
    }
    let (ordinal, uid) = outdated(observed, false)?;
    let trial = TrialIntent {
        member: observed.member_name(ordinal),
        template: target.to_owned(),
        pod_uid: uid,
    };
    Some(with(observed, |latched| {
        latched.disturbance = Some(Disturbance::Trial(trial));
    }))
}

/// Invariant 1: restarts a second member while the first is on its way out, though it still answers.
fn restarts_the_second_while_the_first_is_away(observed: &Observed) -> Option<Step> {
    let list = list(observed)?;
    let away = list.voters().any(|voter| observed.is_away(voter))
        && list.voters().all(|voter| observed.is_healthy(voter));
    let (ordinal, uid) = outdated(observed, false).filter(|_| away)?;
    Some(Step::RestartPod { ordinal, uid })
}

/// Invariant 1: restarts the leader without moving leadership.
fn restarts_a_leader_without_moving(observed: &Observed) -> Option<Step> {
    let mut voters = list(observed)?.voters();
    let whole = voters.all(|voter| observed.is_healthy(voter) && !observed.is_away(voter));
    let (ordinal, uid) = outdated(observed, true).filter(|_| whole)?;
    Some(Step::RestartPod { ordinal, uid })
}

/// Invariant 1: restarts the next member without recording it. Which one that is depends on which one leads and which
/// are well, which changes all the time; here it depends on the clock.
fn restarts_without_writing_it_down(observed: &Observed) -> Option<Step> {
    let (proven, target, _) = goal(observed)?;
    let list = list(observed).filter(|_| proven.template == target)?;
    let whole = |observed: &Observed| {
        let mut voters = list.voters();
        voters.all(|voter| observed.is_healthy(voter) && !observed.is_away(voter))
    };
    let mut due: Vec<(u32, String)> = observed
        .pods
        .iter()
        .filter(|(_, pod)| pod.template != target)
        .map(|(ordinal, pod)| (*ordinal, pod.uid.clone()))
        .collect();
    if observed.now.as_second() % 2 == 0 {
        due.reverse();
    }
    let (ordinal, uid) = due.into_iter().next().filter(|_| whole(observed))?;
    Some(Step::RestartPod { ordinal, uid })
}

/// Invariant 9: renders the unproven template into the StatefulSet.
fn renders_the_unproven_template(observed: &Observed) -> Option<Step> {
    let (proven, target, _) = goal(observed)?;
    let differs = proven.template != target && observed.objects.template.as_deref() != Some(target);
    let mut shape = decide_shape(observed).filter(|_| differs)?;
    shape.template = Template::Render;
    Some(Step::ApplyObjects(shape))
}

/// Invariant 9: calls a template proven that no member runs.
fn calls_a_template_proven_that_no_member_runs(observed: &Observed) -> Option<Step> {
    let (proven, target, _) = goal(observed)?;
    let runs = observed.pods.values().any(|pod| pod.template == target);
    let new = Proven {
        template: target.to_owned(),
        everywhere: false,
        ..proven.clone()
    };
    (!runs && proven.template != target)
        .then(|| with(observed, |latched| latched.proven = Some(new)))
}

/// Invariant 9: calls a change complete that has not reached every member.
fn calls_it_complete_too_early(observed: &Observed) -> Option<Step> {
    let (proven, _, _) = goal(observed)?;
    let late = observed
        .pods
        .values()
        .any(|pod| pod.template != proven.template);
    let new = Proven {
        everywhere: true,
        ..proven.clone()
    };
    (late && !proven.everywhere).then(|| with(observed, |latched| latched.proven = Some(new)))
}

/// Invariant 9: makes the StatefulSet again in the middle of a rollout.
fn orphans_in_the_middle_of_a_rollout(observed: &Observed) -> Option<Step> {
    let (proven, target, _) = goal(observed)?;
    let uid = observed.objects.set_uid.clone()?;
    (proven.template != target).then_some(Step::OrphanPods { uid })
}

/// Invariant 10: goes down a minor version without etcd's protocol.
fn goes_down_without_the_protocol(observed: &Observed) -> Option<Step> {
    let (proven, _, to) = goal(observed)?;
    (to < proven.version.minor)
        .then(|| tries_at_once(observed))
        .flatten()
}

/// Invariant 10: begins the next minor version before the data has followed to this one.
fn begins_the_next_minor_too_early(observed: &Observed) -> Option<Step> {
    let (proven, _, to) = goal(observed)?;
    let late = observed
        .pods
        .values()
        .filter_map(|pod| pod.serving())
        .any(|serving| {
            serving
                .storage
                .is_some_and(|storage| storage < proven.version.minor)
        });
    let trying = observed.cluster.latched.trial().is_some();
    (to > proven.version.minor && to > 6 && (late || trying))
        .then(|| tries_at_once(observed))
        .flatten()
}

/// Invariant 6: deletes claims at size 0 without writing it down.
fn deletes_claims_of_a_stopped_cluster(observed: &Observed) -> Option<Step> {
    let stopped = observed
        .cluster
        .intent
        .as_ref()
        .is_ok_and(|intent| intent.size == 0);
    let (ordinal, claim) = observed.claims.first_key_value()?;
    let due = stopped && !observed.cluster.latched.ending && observed.pods.is_empty();
    due.then(|| Step::DeleteClaim {
        ordinal: *ordinal,
        uid: claim.uid.clone(),
    })
}

/// Invariant 6: ends the data of a stopped cluster whose owner keeps it.
fn ends_data_that_is_to_be_kept(observed: &Observed) -> Option<Step> {
    let intent = observed.cluster.intent.as_ref().ok()?;
    let kept = intent.size == 0 && intent.storage.when_stopped == Retention::Retain;
    let due = kept && !observed.cluster.latched.ending && observed.pods.is_empty();
    due.then(|| with(observed, |latched| latched.ending = true))
}

/// Invariant 5: tells an agent that a listed member was removed.
fn tells_that_a_listed_member_was_removed(observed: &Observed) -> Option<Step> {
    let member = list(observed)?.voters().next()?;
    let ordinal = observed.ordinal_of(member)?;
    let pod = observed.pods.get(&ordinal)?;
    (!pod.told_removed.contains(&member.id)).then(|| Step::MarkRemoved {
        ordinal,
        uid: pod.uid.clone(),
        members: vec![member.id],
    })
}

/// Invariant 2: begins a new incarnation while claims of the old one are left.
fn begins_a_new_incarnation_beside_the_old_one(observed: &Observed) -> Option<Step> {
    let old = &observed.cluster.latched;
    let left = old.ending && observed.claims.len() == 1;
    left.then(|| {
        Step::Latch(Latched {
            incarnation: old.incarnation + 1,
            ..Latched::default()
        })
    })
}

/// Asks for a smaller volume.
fn shrinks_a_claim(observed: &Observed) -> Option<Step> {
    let (ordinal, claim) = observed.claims.first_key_value()?;
    Some(Step::ExpandClaim {
        ordinal: *ordinal,
        uid: claim.uid.clone(),
        size: "5Gi".to_owned(),
    })
}

#[test]
fn restarting_the_second_while_the_first_is_away_is_refused_and_would_cost_the_quorum() {
    refused_as(
        restarts_the_second_while_the_first_is_away,
        &Violation::Quorum,
    );
    does_harm(
        restarts_the_second_while_the_first_is_away,
        "quorum was lost by a restart",
    );
}

#[test]
fn restarting_a_leader_without_moving_is_refused() {
    refused_as(restarts_a_leader_without_moving, &Violation::Quorum);
}

#[test]
fn restarting_without_writing_it_down_is_refused_and_would_take_two_at_once() {
    refused_as(restarts_without_writing_it_down, &Violation::NotAskedFor);
    let wrong = |observed: &Observed| decide_as(restarts_without_writing_it_down, observed);
    let at_once = (0..40).filter(|seed| {
        let mut run = Run::with(settled(3, 6, *seed).world, &wrong);
        run.unchecked = true;
        run.world.edit(1);
        run.faults = Faults {
            late: 60,
            ..Faults::default()
        };
        run.turns(120);
        let mut seen = run.world.violations.iter();
        seen.any(|what| what.contains("two members were restarted at once"))
    });
    assert!(at_once.count() > 0);
}

#[test]
fn rendering_the_unproven_template_is_refused_and_would_reach_others() {
    refused_as(renders_the_unproven_template, &Violation::Unproven);
    does_harm(renders_the_unproven_template, "untried template");
}

#[test]
fn calling_a_template_proven_that_no_member_runs_is_refused_and_would_reach_others() {
    refused_as(
        calls_a_template_proven_that_no_member_runs,
        &Violation::Unproven,
    );
    does_harm(
        calls_a_template_proven_that_no_member_runs,
        "untried template",
    );
}

#[test]
fn calling_a_change_complete_too_early_is_refused() {
    refused_as(calls_it_complete_too_early, &Violation::Unproven);
}

#[test]
fn making_the_set_anew_in_the_middle_of_a_rollout_is_refused_and_would_reach_others() {
    refused_as(orphans_in_the_middle_of_a_rollout, &Violation::Unproven);
    does_harm(orphans_in_the_middle_of_a_rollout, "untried template");
}

#[test]
fn going_down_without_the_protocol_is_refused() {
    // Unchecked it would do no harm either: the template is not written while there is a member whose data cannot be
    // read there.
    refused_as(goes_down_without_the_protocol, &Violation::Line);
}

#[test]
fn beginning_the_next_minor_too_early_is_refused_and_would_meet_older_data() {
    refused_as(begins_the_next_minor_too_early, &Violation::Line);
    does_harm(begins_the_next_minor_too_early, "3.7 was started on");
}

#[test]
fn deleting_claims_of_a_stopped_cluster_is_refused_and_would_lose_them() {
    refused_as(deletes_claims_of_a_stopped_cluster, &Violation::Unknown);
    does_harm(
        deletes_claims_of_a_stopped_cluster,
        "went before its member",
    );
}

#[test]
fn ending_data_that_is_to_be_kept_is_refused() {
    // Where it is not, the memory that says so is not believed under that policy.
    refused_as(ends_data_that_is_to_be_kept, &Violation::LastCopy);
}

#[test]
fn telling_that_a_listed_member_was_removed_is_refused_and_would_set_its_data_aside() {
    refused_as(tells_that_a_listed_member_was_removed, &Violation::LastCopy);
    does_harm(
        tells_that_a_listed_member_was_removed,
        "was set aside before its member went",
    );
}

#[test]
fn beginning_a_new_incarnation_beside_the_old_one_is_refused_and_would_fork() {
    refused_as(
        begins_a_new_incarnation_beside_the_old_one,
        &Violation::Forgets,
    );
    does_harm(begins_a_new_incarnation_beside_the_old_one, "fork");
}

#[test]
fn shrinking_a_claim_is_refused() {
    refused_as(shrinks_a_claim, &Violation::LastCopy);
    does_harm(shrinks_a_claim, "would shrink");
}

#[test]
fn nothing_of_this_happens_to_the_operator_as_it_is() {
    stories(|_| None, false).assert_nothing();
}

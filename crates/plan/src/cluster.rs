//! The ordered table of rules. The first that answers wins, and the order is the argument: whose
//! object it is, then whether it makes sense, then that its parts exist, then that there is one
//! cluster, then its members.

mod adopt;
mod allowed;
mod bootstrap;
pub(crate) mod claims;
pub(crate) mod corrupt;
pub(crate) mod hang;
pub(crate) mod maintain;
pub(crate) mod membership;
pub(crate) mod recover;
mod remind;
pub(crate) mod replace;
mod resume;
pub(crate) mod rollout;
pub(crate) mod shrink;
mod stop;
mod storage;
pub(crate) mod versions;

use api::Reason;

pub use allowed::first_allowed;
pub use claims::{Fate, fate};
pub use corrupt::{Due, common_revision, compares, is_alike};
pub(crate) use membership::describe;
pub use recover::has_answers;
pub use replace::is_awaited;
pub use rollout::is_changing;

use crate::decision::{Decision, LATER, SETTLED, SOON, Step};
use crate::observed::{Answer, Observed, Process};
use crate::shape::{decide_shape, restoring};

/// A rule answers, or leaves the question to the next.
type Rule = fn(&Observed) -> Option<Decision>;

const RULES: &[Rule] = &[
    // An object that goes needs nothing from us: Kubernetes deletes what it owns.
    deletion,
    // Its owner asked for a pause.
    paused,
    // Nothing is formed from a spec that makes no sense. Once there is a cluster, what is in force takes its place.
    nonsense,
    // What an earlier object of this name left must be gone before ours can be told from it.
    former_objects,
    // No cluster is formed around objects of another owner. One that has formed goes on without them.
    foreign_objects,
    // What a lost status said of the data is written into it again before anything rests on it.
    recall,
    // What an earlier operator runs is known by what its members say.
    adopt::decide,
    // Nothing is written to a StatefulSet that is on its way out.
    orphaned,
    // Pods first: a member is added only for a pod that waits. What may not be written now holds up nothing below.
    objects,
    stop::decide,
    // A spec that was mended before anything began reaches the pods that wait in vain.
    restart_unstarted,
    // What was left of a cluster that lost its quorum lives on under another ID, which is the only way to get one.
    recover::complete,
    // One cluster: two cluster IDs under one name are never sorted out silently.
    one_cluster,
    resume::decide,
    bootstrap::decide,
    // A single voter that is being defragmented is not missing.
    maintain::alone,
    membership::decide,
    // All is done but what cannot be written.
    unwritten,
];

/// The next step: the first that a rule proposes and the invariants allow.
pub fn decide(observed: &Observed) -> Decision {
    let answers = RULES.iter().filter_map(|rule| rule(observed));
    let decision = first_allowed(observed, answers);
    let decision = decision.unwrap_or_else(|| settled(observed));
    remind::remind(observed, decision)
}

fn deletion(observed: &Observed) -> Option<Decision> {
    let cluster = &observed.cluster;
    cluster.deleting.then(|| {
        if cluster.held_by_predecessor {
            let why = "taking off the finalizer that an earlier operator set";
            Decision::act(Step::Release, Reason::Deleting, why)
        } else {
            let mut decision = Decision::wait(
                Reason::Deleting,
                "Kubernetes deletes what the object owns",
                LATER,
            );
            decision.step = Step::Nothing;
            decision
        }
    })
}

/// The only write is to bring the proven template back where another one is tried: a pause may last for days, and every pod
/// that is recreated meanwhile would meet it. The trial goes on after the pause.
fn paused(observed: &Observed) -> Option<Decision> {
    let why = format!(
        "the annotation {} is set: nothing is changed until it is taken off",
        api::labels::PAUSED_ANNOTATION
    );
    let decision = match restoring(observed) {
        Some(shape) => {
            let why =
                format!("{why}; the StatefulSet gets back the template that the members run on");
            Decision::act(Step::RestoreTemplate(shape), Reason::Paused, why)
        }
        None => Decision {
            step: Step::Nothing,
            reason: Reason::Paused,
            why,
            requeue: SETTLED,
            forbidden: None,
        },
    };
    observed.cluster.paused.then_some(decision)
}

fn recall(observed: &Observed) -> Option<Decision> {
    let cluster = &observed.cluster;
    cluster.recalled.then(|| {
        let why = "the status was wiped, or is older than the claims: what they say of the data is written into it again";
        Decision::act(Step::Latch(cluster.latched.clone()), Reason::Resuming, why)
    })
}

fn orphaned(observed: &Observed) -> Option<Decision> {
    observed.objects.set_terminating.then(|| {
        let why = "the StatefulSet is being deleted and is made anew around its pods";
        Decision::wait(Reason::ApplyingObjects, why, SOON)
    })
}

fn nonsense(observed: &Observed) -> Option<Decision> {
    let invalid = observed.cluster.intent.as_ref().err()?;
    Some(Decision::refuse(Reason::InvalidSpec, invalid.to_string()))
}

fn former_objects(observed: &Observed) -> Option<Decision> {
    let first = observed.objects.former.first()?;
    let why =
        format!("{first} belongs to an earlier object of this name and is still being deleted");
    Some(Decision::wait(Reason::FormerObject, why, SOON))
}

fn foreign_objects(observed: &Observed) -> Option<Decision> {
    let foreign = observed.stands_in_the_way();
    (!foreign.is_empty()).then(|| {
        let names = foreign.join(", ");
        let why = format!(
            "{names} belongs to another owner and is left alone: delete or rename it, or give the cluster another name"
        );
        Decision::refuse(Reason::ForeignObject, why)
    })
}

fn objects(observed: &Observed) -> Option<Decision> {
    let drifted = observed.objects.drifted.first()?;
    let shape = decide_shape(observed)?;
    let more = observed.objects.drifted.len().saturating_sub(1);
    let why = if more == 0 {
        drifted.clone()
    } else {
        format!("{drifted} and {more} more")
    };
    Some(Decision::act(
        Step::ApplyObjects(shape),
        Reason::ApplyingObjects,
        format!("writing {why}"),
    ))
}

fn restart_unstarted(observed: &Observed) -> Option<Decision> {
    if observed.cluster.latched.cluster_id.is_some() {
        return None;
    }
    let (ordinal, pod) = observed
        .pods
        .iter()
        .find(|(_, pod)| pod.outdated && !pod.terminating && pod.is_unstarted())?;
    let step = Step::RestartPod {
        ordinal: *ordinal,
        uid: pod.uid.clone(),
    };
    let name = observed.member_name(*ordinal);
    let why = format!("{name} was made before the spec was changed and is made anew");
    Some(Decision::act(step, Reason::StartingPods, why))
}

fn one_cluster(observed: &Observed) -> Option<Decision> {
    let mut seen: Vec<(u64, String)> = Vec::new();
    if let Some(latched) = observed.cluster.latched.cluster_id {
        seen.push((latched, "the status".to_owned()));
    }
    for (ordinal, pod) in &observed.pods {
        if let Process::Serving(serving) = &pod.process {
            seen.push((serving.cluster_id, observed.member_name(*ordinal)));
        }
    }
    let (first, other) = seen.first().and_then(|first| {
        seen.iter()
            .find(|other| other.0 != first.0)
            .map(|other| (first.clone(), other.clone()))
    })?;
    let why = format!(
        "two clusters under one name: {} says {:x}, {} says {:x}; nothing is changed until one of them is gone",
        first.1, first.0, other.1, other.0
    );
    Some(Decision::refuse(Reason::VolumeHeld, why))
}

fn unwritten(observed: &Observed) -> Option<Decision> {
    let told = crate::status::refusals(observed);
    if let Some((reason, _)) = told.first() {
        let all: Vec<&str> = told.iter().map(|(_, text)| text.as_str()).collect();
        return Some(Decision::wait(*reason, all.join("; "), SETTLED));
    }
    let later = observed.objects.refused.iter().find_map(|refused| {
        let Answer::Later(words) = &refused.answer else {
            return None;
        };
        Some(format!("{} is written in a moment: {words}", refused.wish))
    })?;
    Some(Decision::wait(Reason::ApplyingObjects, later, SOON))
}

fn settled(observed: &Observed) -> Decision {
    let voters = observed.healthy_voters();
    Decision {
        step: Step::Nothing,
        reason: Reason::AsExpected,
        why: format!("{voters} healthy voters, as asked for"),
        requeue: SETTLED,
        forbidden: None,
    }
}

/// How soon to look at a pod again that says nothing yet: often while it is young, for no watch tells
/// when its agent begins to wait.
fn patience(observed: &Observed, ordinal: u32) -> std::time::Duration {
    let age = observed
        .pods
        .get(&ordinal)
        .map(|pod| observed.now.duration_since(pod.created));
    match age {
        Some(age) if age.as_secs() < 30 => SOON,
        Some(_) => LATER,
        // The watch tells when a pod appears.
        None => SETTLED,
    }
}

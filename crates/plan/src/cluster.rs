//! The ordered table of rules. The first that answers wins, and the order is the argument: whose
//! object it is, then whether it makes sense, then that its parts exist, then that there is one
//! cluster, then its members.

mod accounts;
mod adopt;
mod allowed;
mod answers;
pub(crate) mod auth;
mod bootstrap;
pub(crate) mod certificates;
mod claims;
pub(crate) mod corrupt;
mod debug;
pub(crate) mod hang;
mod in_place;
mod join;
mod lost;
pub(crate) mod maintain;
mod membership;
mod peers;
mod recall;
mod recover;
mod remind;
mod replace;
mod restore;
mod resume;
pub(crate) mod rollout;
mod root;
pub(crate) mod rotation;
mod shrink;
mod stop;
mod storage;
mod stranded;
mod versions;
mod waiting;

pub use allowed::first_allowed;
pub use claims::{Fate, fate};
pub use corrupt::{Due, common_revision, compares, is_alike};
pub use recover::has_answers;
pub use replace::is_awaited;

use crate::decision::{Decision, LATER, SETTLED, SOON, Step};
use crate::observed::{Answer, Observed, Process};
use crate::shape::{decide_shape, restoring};
use crate::why::Object;

/// A rule answers, or leaves the question to the next.
type Rule = fn(&Observed) -> Option<Decision>;

/// Every entry says why it stands where it stands.
const RULES: &[Rule] = &[
    // First: whatever else is wrong, nothing may be created for an object that is being deleted.
    deletion,
    // Before every rule that writes, `recall` and `adopt` included. After `deletion`: a pause must not keep an object whose
    // finalizer nothing else takes off.
    paused,
    // Before anything is formed, because every rule below reads the spec. (Once there is a cluster, what is in force takes
    // its place, and this rule is silent.)
    invalid_spec,
    // Before `foreign_objects`: these belong to another owner as well, but go by themselves, and no person is needed.
    former_objects,
    // Before anything is recorded or written: a cluster that begins around objects of another owner cannot be taken back.
    // (One that has formed goes on without them.)
    foreign_objects,
    // Before `adopt`, `stop`, `resume` and `bootstrap`: without the cluster ID and the fence that the claims record,
    // they would begin beside data.
    recall::recall,
    // Before `objects`, which would write a StatefulSet whose members are not known yet.
    adopt::decide,
    // Before `objects`: what is written to a StatefulSet that is being deleted is lost with it.
    orphaned,
    // Before the pods, which mount them. What is renewed in time comes later.
    certificates::needed,
    // Before everything that needs pods or volumes; and what is recorded (a fence, the lineage of the claims, a template)
    // reaches the objects before any rule below rests on it. What may not be written now holds up nothing below.
    objects,
    // Before `stop`, which waits for the claims.
    restore::stopped,
    // After `objects`, which takes the pods away for it and writes the fence. Before `stop`: a stopped cluster has data that a
    // backup can take the place of. Before everything that acts on members: while the backup is brought there are none, and
    // what each of them has from before makes way.
    in_place::decide,
    // After `objects`, which takes the pods away. Before the rest: at size 0 no quorum answers, and that is no fault.
    stop::decide,
    // Before `resume` and `bootstrap`, which wait for these very pods.
    restart_unstarted,
    // Before `resume` and `bootstrap`, which grant a start: none is granted to a pod that would listen on another scheme
    // than its member is listed under.
    certificates::recreated,
    // Before `one_cluster`: the survivor of a recovery serves another cluster than is recorded, as it should.
    recover::complete,
    // Before every rule that acts on members: each would act on one of the two clusters.
    one_cluster,
    // Before `bootstrap`: data that was kept is taken over, and no cluster begins beside it.
    resume::decide,
    // After `resume`: where volumes hold data, no backup is brought over it. Before `bootstrap`, which begins with what was
    // brought.
    restore::decide,
    // Before the members: until the cluster ID is recorded it always answers, so that all below may rest on that.
    bootstrap::decide,
    // Before the members, whose rules would take the silence of a single voter for a loss of quorum.
    maintain::alone,
    // After whatever must be known of the members. It disturbs none of them, so it waits for nothing else.
    certificates::renew,
    // After `renew`: certificates that are due are issued by the authority that members trust, however long the way to
    // another one takes. It disturbs none of them either: the restart that it needs is a rollout.
    rotation::decide,
    // After `rotation`, which shows what their successors trust. Before the members, whose rules would take those that
    // refuse every connection for members that are lost.
    stranded::restart,
    // After all that must hold before a member is touched. Its own table is in `cluster/membership.rs`.
    membership::decide,
    // Last: what cannot be written holds up nothing.
    unwritten,
];

/// The next step: the first that a rule proposes and the invariants allow. Each rule of this table is what those below
/// rest on, so that a step of it that failed is waited for; in the table of the members it is passed over.
pub fn decide(observed: &Observed) -> Decision {
    let answers = RULES.iter().filter_map(|rule| rule(observed));
    let answers = answers.map(|decision| allowed::hold(observed, decision));
    let decision = first_allowed(observed, answers);
    let decision = decision.unwrap_or_else(|| settled(observed));
    remind::remind(observed, decision)
}

fn deletion(observed: &Observed) -> Option<Decision> {
    let cluster = &observed.cluster;
    cluster.deleting.then(|| {
        if cluster.held_by_predecessor {
            Decision::act(Step::RemoveFinalizer, Object::Finalizer)
        } else {
            Decision::rest(Object::Deleting, LATER)
        }
    })
}

/// The only write is to bring the proven template back where another one is tried: a pause may last for days, and every pod
/// that is recreated meanwhile would meet it. The trial goes on after the pause.
fn paused(observed: &Observed) -> Option<Decision> {
    let decision = match restoring(observed) {
        Some(shape) => Decision::act(Step::RestoreTemplate(shape), Object::PausedOnTrial),
        None => Decision::rest(Object::Paused, SETTLED),
    };
    observed.cluster.paused.then_some(decision)
}

fn orphaned(observed: &Observed) -> Option<Decision> {
    let terminating = observed.objects.set_terminating;
    terminating.then(|| Decision::wait(Object::SetTerminating, SOON))
}

fn invalid_spec(observed: &Observed) -> Option<Decision> {
    let invalid = observed.cluster.intent.as_ref().err()?;
    Some(Decision::refuse(Object::Invalid(invalid.clone())))
}

fn former_objects(observed: &Observed) -> Option<Decision> {
    // Once there is a cluster, what is left of the former object is in no way any more.
    let formed = observed.cluster.latched.cluster_id.is_some();
    let first = observed.objects.former.first().filter(|_| !formed)?;
    Some(Decision::wait(Object::PreviousOwner(first.clone()), SOON))
}

fn foreign_objects(observed: &Observed) -> Option<Decision> {
    let foreign = observed.stands_in_the_way();
    (!foreign.is_empty()).then(|| Decision::refuse(Object::Foreign(foreign)))
}

fn objects(observed: &Observed) -> Option<Decision> {
    let drifted = observed.objects.drifted.first()?;
    let shape = decide_shape(observed)?;
    let more = observed.objects.drifted.len().saturating_sub(1);
    let why = Object::Writing(drifted.to_string(), more);
    Some(Decision::act(Step::ApplyObjects(shape), why))
}

fn restart_unstarted(observed: &Observed) -> Option<Decision> {
    if observed.cluster.latched.cluster_id.is_some() {
        return None;
    }
    let target = observed
        .cluster
        .target
        .as_ref()
        .map(|target| &target.template);
    let written = observed.objects.template.as_ref() == target;
    let pods = observed.pods.iter();
    let old = pods.filter(|(_, pod)| {
        // Whether it is outdated is known only once the StatefulSet controller has seen the new template.
        let old = pod.outdated || (written && pod.transport != observed.transport());
        old && !pod.terminating && pod.is_unstarted()
    });
    observed.first_awake(old.map(|(ordinal, pod)| {
        let step = Step::RestartPod {
            ordinal: *ordinal,
            uid: pod.uid.clone(),
        };
        let name = observed.member_name(*ordinal);
        Decision::act(step, Object::CreatedTooEarly(name))
    }))
}

fn one_cluster(observed: &Observed) -> Option<Decision> {
    let mut seen: Vec<(String, u64)> = Vec::new();
    if let Some(latched) = observed.cluster.latched.cluster_id {
        seen.push(("the status".to_owned(), latched));
    }
    for (ordinal, pod) in &observed.pods {
        if let Process::Serving(serving) = &pod.process {
            seen.push((observed.member_name(*ordinal), serving.cluster_id));
        }
    }
    let first = seen.first()?;
    let other = seen.iter().find(|other| other.1 != first.1)?;
    let both = [first.clone(), other.clone()];
    Some(Decision::refuse(Object::TwoClusters(both)))
}

fn unwritten(observed: &Observed) -> Option<Decision> {
    let told = crate::status::refusals(observed);
    if !told.is_empty() {
        return Some(Decision::wait(Object::NotWritten(told), SETTLED));
    }
    let later = observed.objects.refused.iter().find_map(|refused| {
        let Answer::Later(words) = &refused.answer else {
            return None;
        };
        let what = refused.wish.to_string();
        Some(Object::WrittenShortly(what, words.clone()))
    })?;
    Some(Decision::wait(later, SOON))
}

fn settled(observed: &Observed) -> Decision {
    let remark = certificates::remark(observed);
    Decision::rest(Object::Settled(observed.healthy_voters(), remark), SETTLED)
}

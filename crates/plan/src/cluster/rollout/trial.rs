//! What became of the member that tries a template, or is restarted on one.

use super::spare::{Turn, turn};
use super::{Rollout, pod_of};
use crate::cluster::versions;
use crate::observed::{Observed, Pod, Proven};

/// Why a trial is over although its member is there.
pub(super) enum Ended {
    /// Another template is asked for by now.
    Reverted,
    /// Its member is back on the proven template.
    Returned,
}

/// What a trial waits for, until its pod was recreated.
pub(super) enum Pending {
    /// Its member was removed.
    NoMember,
    /// Its pod does not terminate, because its node is not ready.
    NodeNotReady,
    /// Its pod is being recreated.
    Recreating,
    /// Its pod has not been created for so long that it never will be.
    NotCreated(Blame),
    /// Its pod was recreated before the StatefulSet held the template, and has this UID now.
    RecreatedTooEarly(String),
    /// The others cannot spare it, or what etcd had prepared was undone.
    NotPossible,
    /// The API server rejects the StatefulSet with the template.
    TemplateRejected,
    /// The StatefulSet does not hold the template yet.
    TemplateNotWritten,
    /// Its pod is restarted.
    Due(Turn),
}

/// Why the pod of a trial is not created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Blame {
    /// The template: everything else that the pod needs is there.
    Template,
    /// Its claim is not there. Nothing is said about the template by that.
    Claim,
}

/// The member that tries has no pod, and Kubernetes creates none: a quota or an admission policy rejects it. Not said of a
/// new member beside those of an earlier operator: none is missed, and a pod of their template could not join. Asks no member, so that it holds without a
/// quorum as well.
pub(super) fn not_created(observed: &Observed, proven: &Proven) -> Option<Blame> {
    let trial = observed.cluster.latched.trial()?;
    let ordinal = api::names::ordinal(&observed.cluster.name, &trial.member)?;
    let newcomer = proven.template.is_empty() && observed.member_of(ordinal).is_none();
    let tries = trial.template != proven.template && !newcomer;
    let held = observed.objects.template.as_ref() == Some(&trial.template);
    (tries && held && observed.cannot_be_created(ordinal)).then(|| {
        let claim = observed.claims.get(&ordinal);
        match claim.filter(|claim| !claim.terminating) {
            Some(_) => Blame::Template,
            None => Blame::Claim,
        }
    })
}

/// Asks no member, so that it holds without a quorum as well.
pub(super) fn ended(observed: &Observed, proven: &Proven, target: &str) -> Option<Ended> {
    let trial = observed.cluster.latched.trial()?;
    let on_it = |pod: &Pod| !pod.terminating && pod.template == trial.template;
    let arrived = pod_of(observed, trial).is_some_and(|(_, pod)| on_it(pod));
    let goes_back = trial.template == proven.template;
    match (trial.template == target, goes_back, arrived) {
        (true, _, _) | (false, true, false) => None,
        (false, true, true) => Some(Ended::Returned),
        (false, false, _) => Some(Ended::Reverted),
    }
}

/// `None` without a trial, and once its pod was recreated from the template.
pub(super) fn pending(rollout: &Rollout<'_>) -> Option<Pending> {
    let trial = rollout.trial?;
    let observed = rollout.observed;
    let ordinal = api::names::ordinal(&observed.cluster.name, &trial.member)?;
    let goes_back = trial.template == rollout.proven.template;
    if observed.member_of(ordinal).is_none() && !rollout.is_newcomer(ordinal) {
        return Some(Pending::NoMember);
    }
    match observed.pods.get(&ordinal) {
        Some(pod) if !pod.terminating => {
            if pod.template == trial.template {
                None
            } else if pod.uid == trial.pod_uid {
                Some(restart(rollout, ordinal, &trial.template))
            } else {
                Some(Pending::RecreatedTooEarly(pod.uid.clone()))
            }
        }
        _gone if goes_back => None,
        Some(_) if !observed.is_on_a_live_node(ordinal) => Some(Pending::NodeNotReady),
        _gone => Some(match not_created(observed, rollout.proven) {
            Some(blame) => Pending::NotCreated(blame),
            None => Pending::Recreating,
        }),
    }
}

/// The pod still stands as it was when the trial was recorded.
fn restart(rollout: &Rollout<'_>, ordinal: u32, template: &str) -> Pending {
    let Rollout {
        observed,
        list,
        proven,
        ..
    } = *rollout;
    // What etcd had prepared may have been undone since the trial was recorded.
    let goes_back = template == proven.template;
    let prepared = versions::stage(observed, list, proven).is_none();
    let listed = observed.why_unlisted(list).is_none();
    let prepared = goes_back || (prepared && listed);
    let Some(turn) = turn(observed, list, ordinal).filter(|_| prepared) else {
        return Pending::NotPossible;
    };
    if rollout.is_in_the_set(template) {
        Pending::Due(turn)
    } else if observed.is_refused_template(template) {
        // No rollout waits for a template that the API server does not take.
        Pending::TemplateRejected
    } else {
        // It is written by the rule for objects.
        Pending::TemplateNotWritten
    }
}

//! The order in which members get another template: which one tries it, and which one follows.

use api::v1alpha1::status::TrialIntent;

use super::spare::{is_well, restart};
use super::{latch, progress};
use crate::decision::{Decision, Step};
use crate::observed::{MemberList, Observed};

/// The member that goes next, and its restart, if the others can spare it. A member that runs something is written down
/// first: a picture in which its pod still stands then leads to the restart of no other member.
pub(super) fn next(observed: &Observed, list: &MemberList, template: &str) -> Option<Decision> {
    let candidates = candidates(observed, list, template).into_iter();
    announced(observed, list, candidates, template)
}

/// The first of these that the others can spare.
pub(super) fn announced(
    observed: &Observed,
    list: &MemberList,
    candidates: impl Iterator<Item = u32>,
    template: &str,
) -> Option<Decision> {
    if observed.is_refused_template(template) {
        return None;
    }
    // A node that is silent ends no pod.
    let mut candidates = candidates.filter(|ordinal| observed.is_on_a_live_node(*ordinal));
    let decision = candidates.find_map(|ordinal| restart(observed, list, ordinal))?;
    let Step::RestartPod { ordinal, uid } = &decision.step else {
        return Some(decision);
    };
    let pod = observed.pods.get(ordinal)?;
    if observed.member_of(*ordinal).is_none() || pod.runs_nothing() {
        return Some(decision);
    }
    let trial = TrialIntent {
        member: observed.member_name(*ordinal),
        template: template.to_owned(),
        pod_uid: uid.clone(),
    };
    let why = format!("{} is restarted next", trial.member);
    Some(latch(
        observed,
        None,
        Some(trial),
        &progress(observed, list, &why),
    ))
}

/// The member that tries a change first.
pub(super) fn choose(observed: &Observed, list: &MemberList, target: &str) -> Option<Decision> {
    let candidates = candidates(observed, list, target);
    // A node that is silent ends no pod, and the template would have to wait for it in the StatefulSet.
    let mut members = candidates.into_iter().filter(|ordinal| {
        observed.member_of(*ordinal).is_some() && observed.is_on_a_live_node(*ordinal)
    });
    let ordinal = members.next()?;
    let pod = observed.pods.get(&ordinal)?;
    let name = observed.member_name(ordinal);
    match restart(observed, list, ordinal)?.step {
        Step::RestartPod { .. } => {
            let trial = TrialIntent {
                member: name.clone(),
                template: target.to_owned(),
                pod_uid: pod.uid.clone(),
            };
            let why = progress(
                observed,
                list,
                &format!("{name} is to try the change first"),
            );
            Some(latch(observed, None, Some(trial), &why))
        }
        // Leadership first.
        _other => restart(observed, list, ordinal),
    }
}

/// Pods that were made from another template, in the order in which they are restarted: members that are unwell,
/// then followers, then the leader.
pub(super) fn candidates(observed: &Observed, list: &MemberList, template: &str) -> Vec<u32> {
    let mut all: Vec<u32> = observed
        .pods
        .iter()
        .filter(|(_, pod)| pod.template != template && !pod.terminating)
        .map(|(ordinal, _)| *ordinal)
        .collect();
    all.sort_by_key(|ordinal| {
        let member = observed.member_of(*ordinal);
        let well = member.is_some_and(|member| is_well(observed, list, *ordinal, member));
        let leads = member.is_some_and(|member| observed.leader() == Some(member.id));
        (leads, well, std::cmp::Reverse(*ordinal))
    });
    all
}

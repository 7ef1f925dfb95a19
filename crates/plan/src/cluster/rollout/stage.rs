//! Where a rollout is: computed from what is proven, what is asked for, the trial, the pods and etcd's versions. Says nothing
//! of what is done about it.

use api::EtcdVersion;

use super::Rollout;
use super::order::{self, candidates};
use super::spare::{Turn, is_well};
use super::trial::{Ended, Pending, ended, pending};
use crate::cluster::versions;
use crate::observed::{Member, Pod, Proven};
use crate::why::Unlisted;

/// Each has one answer, in `answer.rs`.
pub(super) enum Stage<'a> {
    /// Every member and its data are on a newer minor version than is proven: from here on there is no plain way back, whether
    /// or not it was meant as a trial. A cluster of one comes to that with its first restart.
    DataUpgraded {
        /// The oldest release that a member runs.
        version: EtcdVersion,
        /// The template of a healthy voter.
        template: &'a str,
    },
    /// Every member runs a newer minor version than is proven, and its data is about to follow.
    DataUpgrading,
    /// The trial is over.
    TrialEnded(Ended),
    /// Before another minor version or transport is begun, a member that is neither on the proven template nor on the target is
    /// restarted on the proven one.
    AstrayMember(Turn),
    /// The trial, until its pod was recreated.
    TrialPending(Pending),

    /// The target is proven, and etcd still knows of a downgrade that was reverted before any member went down.
    DowngradeReverted {
        /// The minor version of the downgrade.
        to: u8,
    },
    /// The target is proven, and this member follows.
    MemberFollows(Turn),
    /// The target is proven, and this member is not well.
    MemberNotWell(u32),
    /// The target is proven, and this member follows once the others can spare it.
    MemberNotSpared(u32),
    /// The target is proven, and every pod is on it.
    Complete,

    /// The target is not proven, and this voter is well on it.
    TargetHealthy(u32),
    /// The target is not proven, and this pod got it too early and runs nothing.
    StrayPod {
        /// Its ordinal.
        ordinal: u32,
        /// The pod.
        pod: &'a Pod,
    },
    /// The target is not proven, and the member that tries it does not come up.
    TrialFails,
    /// The target is not proven, and the member that tries it is coming up.
    TrialStarts,
    /// The target is not proven, and etcd has to do something before any member tries it.
    NotPrepared(versions::Stage<'a>),
    /// The target is not proven, and members would listen for each other otherwise than all of them are listed.
    NotListed(Unlisted),
    /// The target is not proven, and a new member tries it: what an earlier operator left can take in no member.
    JoinerTries(u32),
    /// The target is not proven, and this member tries it.
    MemberTries(Turn),
}

impl Stage<'_> {
    /// Members grow, shrink and join only after it.
    pub(super) fn is_under_way(&self) -> bool {
        match self {
            Stage::DataUpgraded { .. }
            | Stage::DataUpgrading
            | Stage::TrialEnded(_)
            | Stage::AstrayMember(_)
            | Stage::TrialPending(_)
            | Stage::DowngradeReverted { .. }
            | Stage::MemberFollows(_)
            | Stage::TargetHealthy(_)
            | Stage::StrayPod { .. } => true,
            Stage::MemberNotWell(_)
            | Stage::MemberNotSpared(_)
            | Stage::Complete
            | Stage::TrialFails
            | Stage::TrialStarts
            | Stage::NotPrepared(_)
            | Stage::NotListed(_)
            | Stage::JoinerTries(_)
            | Stage::MemberTries(_) => false,
        }
    }
}

/// Where a rollout is; `None` where nothing is to be done, or nothing can be done now.
pub(super) fn stage<'a>(rollout: &Rollout<'a>) -> Option<Stage<'a>> {
    let Rollout {
        observed,
        list,
        proven,
        ..
    } = *rollout;
    // What the data says comes before what any template says.
    if let Some(upgraded) = upgraded(rollout) {
        return Some(upgraded);
    }
    // A trial that is over must not be pursued, and must not keep a member from going back.
    if let Some(ended) = ended(observed, proven, rollout.target) {
        return Some(Stage::TrialEnded(ended));
    }
    // Before any restart: an old binary would meet data that turns new under it.
    if versions::is_unfinished(observed, list, proven) {
        return Some(Stage::DataUpgrading);
    }
    // Before another minor version or transport is prepared: at most two of them run at once.
    if let Some(turn) = astray(rollout) {
        return Some(Stage::AstrayMember(turn));
    }
    if rollout.is_target_proven() {
        follow(rollout)
    } else {
        try_out(rollout)
    }
}

/// The target is proven: the others follow, one at a time.
fn follow<'a>(rollout: &Rollout<'a>) -> Option<Stage<'a>> {
    let Rollout {
        observed,
        list,
        proven,
        ..
    } = *rollout;
    // Before any restart: a member would come back into a downgrade that is not asked for.
    if let Some(to) = versions::other_than(observed, list, proven.version.minor) {
        return Some(Stage::DowngradeReverted { to });
    }
    // One restart at a time.
    if let Some(pending) = pending(rollout) {
        return Some(Stage::TrialPending(pending));
    }
    let held = rollout.is_in_the_set(&proven.template);
    let others = candidates(observed, list, &proven.template);
    let next = others.first().copied().filter(|_| held);
    let turn = order::next(rollout, &others, &proven.template).filter(|_| held);
    let unwell = unwell(rollout).filter(|_| next.is_some() || !proven.everywhere);
    match (turn, unwell, next) {
        (Some(turn), _, _) => Some(Stage::MemberFollows(turn)),
        (None, Some(unwell), _) => Some(Stage::MemberNotWell(unwell)),
        (None, None, Some(next)) => Some(Stage::MemberNotSpared(next)),
        (None, None, None) => is_complete(rollout).then_some(Stage::Complete),
    }
}

/// The target is not proven: one member tries it.
fn try_out<'a>(rollout: &Rollout<'a>) -> Option<Stage<'a>> {
    let Rollout { observed, list, .. } = *rollout;
    let unprepared = versions::stage(observed, list, rollout.proven);
    let unlisted = observed.why_unlisted(list);
    // Before the trial: what it is to show has been seen.
    if unprepared.is_none()
        && unlisted.is_none()
        && let Some(ordinal) = healthy_on_target(rollout)
    {
        return Some(Stage::TargetHealthy(ordinal));
    }
    if let Some(pending) = pending(rollout) {
        return Some(Stage::TrialPending(pending));
    }
    if let Some((ordinal, pod)) = order::stray(observed, rollout.proven, rollout.target) {
        return Some(Stage::StrayPod { ordinal, pod });
    }
    if let Some(trial) = rollout.trial {
        let fails = rollout
            .pod_of(trial)
            .is_some_and(|(_, pod)| pod.problem.is_some());
        return Some(if fails {
            Stage::TrialFails
        } else {
            Stage::TrialStarts
        });
    }
    if observed.is_refused_template(rollout.target) || observed.is_called_off(rollout.target) {
        return None;
    }
    if let Some(unprepared) = unprepared {
        return Some(Stage::NotPrepared(unprepared));
    }
    if let Some(why) = unlisted {
        return Some(Stage::NotListed(why));
    }
    match newcomer(rollout) {
        Some(ordinal) => Some(Stage::JoinerTries(ordinal)),
        None => order::first(rollout).map(Stage::MemberTries),
    }
}

fn upgraded<'a>(rollout: &Rollout<'a>) -> Option<Stage<'a>> {
    let Rollout {
        observed,
        list,
        proven,
        ..
    } = *rollout;
    let from = proven.version.minor;
    let newer = |member: &Member| {
        let serving = observed.serving_as(member.id)?;
        let version = serving.version.filter(|version| version.minor > from)?;
        (serving.storage? > from).then_some(version)
    };
    let versions: Option<Vec<EtcdVersion>> = list.members.iter().map(newer).collect();
    let version = versions?.into_iter().min()?;
    let healthy = list.voters().find(|voter| observed.is_healthy(voter))?;
    let pod = observed.pods.get(&observed.ordinal_of(healthy)?)?;
    Some(Stage::DataUpgraded {
        version,
        template: &pod.template,
    })
}

/// Only while the StatefulSet holds the proven template, and no member is on the way already.
fn astray(rollout: &Rollout<'_>) -> Option<Turn> {
    let proven = rollout.proven;
    let other = rollout.version.minor != proven.version.minor || rollout.observed.is_switching();
    let next = proven.everywhere && other;
    let held = rollout.is_in_the_set(&proven.template) && rollout.trial.is_none();
    if !next || !held {
        return None;
    }
    let mut astray = candidates(rollout.observed, rollout.list, &proven.template);
    astray.retain(|ordinal| {
        let pod = rollout.observed.pods.get(ordinal);
        pod.is_some_and(|pod| pod.template != rollout.target)
    });
    order::next(rollout, &astray, &proven.template)
}

/// A member that runs well on what is asked for has tried it, however it came to that.
fn healthy_on_target(rollout: &Rollout<'_>) -> Option<u32> {
    let observed = rollout.observed;
    let runs = |(ordinal, pod): (&u32, &Pod)| {
        (pod.template == rollout.target && !pod.terminating).then_some(())?;
        let member = observed.member_of(*ordinal).filter(|m| !m.learner)?;
        is_well(observed, rollout.list, *ordinal, member).then_some(*ordinal)
    };
    observed.pods.iter().find_map(runs)
}

fn unwell(rollout: &Rollout<'_>) -> Option<u32> {
    rollout.list.voters().find_map(|voter| {
        let ordinal = rollout.observed.ordinal_of(voter)?;
        (!is_well(rollout.observed, rollout.list, ordinal, voter)).then_some(ordinal)
    })
}

/// Every pod is on the proven template, and that is not recorded yet.
fn is_complete(rollout: &Rollout<'_>) -> bool {
    let proven: &Proven = rollout.proven;
    let reached = |pod: &Pod| pod.template == proven.template || pod.terminating;
    rollout.observed.pods.values().all(reached) && (!proven.everywhere || rollout.trial.is_some())
}

/// Where more members are asked for, the first of them tries the gate, and no member is restarted for it.
fn newcomer(rollout: &Rollout<'_>) -> Option<u32> {
    let target = rollout.observed.cluster.target.as_ref()?;
    let same = rollout.version.minor == rollout.proven.version.minor;
    let mut ordinals = 0..target.intent.size;
    ordinals.find(|ordinal| same && rollout.is_newcomer(*ordinal))
}

//! What is done at each stage of a rollout, and the sentence for it. Judges nothing: that is `stage.rs`.

use std::time::Duration;

use api::EtcdVersion;
use api::v1alpha1::status::TrialIntent;

use super::spare::Turn;
use super::stage::Stage;
use super::trial::{Blame, Ended, Pending};
use super::{Rollout, pod_of};
use crate::cluster::answers::requeue_by_pod_age;
use crate::cluster::versions;
use crate::decision::{Decision, LATER, SOON, Step};
use crate::observed::{Doing, Latched, MemberList, Observed, Pod, Proven};
use crate::why::{self, Next, Progress, Tried, Why};

/// One answer per stage.
pub(super) fn answer(rollout: &Rollout<'_>, stage: Stage<'_>) -> Decision {
    let Rollout {
        observed,
        list,
        proven,
        ..
    } = *rollout;
    match stage {
        Stage::DataUpgraded { version, template } => {
            let why = why::Rollout::DataUpgraded(version.minor);
            prove(observed, template, (version, proven.version), why)
        }
        Stage::DataUpgrading => {
            let why = why::Rollout::DataUpgrading(proven.version.minor);
            Decision::wait(why, LATER)
        }
        Stage::TrialEnded(ended) => end(observed, &ended),
        Stage::AstrayMember(turn) | Stage::MemberFollows(turn) => {
            take(rollout, turn, &proven.template, Next::Restarts)
        }
        Stage::TrialPending(pending) => pursue(rollout, pending),
        Stage::DowngradeReverted { to } => {
            versions::answer(observed, list, versions::Stage::OtherDowngrade { to })
        }
        Stage::MemberNotWell(ordinal) => await_member(rollout, ordinal),
        Stage::MemberNotSpared(ordinal) => {
            let next = Next::Restarts(observed.member_name(ordinal));
            let rejected = observed.is_refused_template(&proven.template);
            wait(rollout, next, if rejected { LATER } else { SOON })
        }
        Stage::Complete => complete(observed, proven),
        Stage::TargetHealthy(ordinal) => prove_target(rollout, ordinal),
        Stage::StrayPod { ordinal, pod } => recreate_stray(observed, ordinal, pod),
        Stage::TrialFails => halt(observed),
        Stage::TrialStarts => await_trial(observed),
        Stage::NotPrepared(stage) => versions::answer(observed, list, stage),
        Stage::NotListed(why) => wait(rollout, Next::NotListed(why), SOON),
        Stage::JoinerTries(ordinal) => await_joiner(rollout, ordinal),
        Stage::MemberTries(turn) => take(rollout, turn, rollout.target, Next::Tries),
    }
}

fn await_member(rollout: &Rollout<'_>, ordinal: u32) -> Decision {
    let observed = rollout.observed;
    let next = Next::Awaits(observed.member_name(ordinal), observed.doing(ordinal));
    let requeue = requeue_by_pod_age(observed, ordinal).min(LATER);
    wait(rollout, next, requeue)
}

fn prove_target(rollout: &Rollout<'_>, ordinal: u32) -> Decision {
    let why = why::Rollout::TargetHealthy(rollout.observed.member_name(ordinal));
    let before = before(rollout.proven, rollout.version);
    let releases = (rollout.version, before);
    prove(rollout.observed, rollout.target, releases, why)
}

fn await_joiner(rollout: &Rollout<'_>, ordinal: u32) -> Decision {
    let observed = rollout.observed;
    let name = observed.member_name(ordinal);
    let why = why::Rollout::JoinerTries(name.clone());
    let uid = observed.pods.get(&ordinal).map(|pod| pod.uid.clone());
    let trial = trial(name, rollout.target, uid.unwrap_or_default());
    latch(observed, None, Some(trial), why)
}

/// One answer for each state of a trial whose pod was not recreated yet.
fn pursue(rollout: &Rollout<'_>, pending: Pending) -> Decision {
    let observed = rollout.observed;
    let name = rollout.trial.map_or("", |trial| trial.member.as_str());
    let told = |trial| why::Rollout::Trial(name.to_owned(), trial);
    let give_up = |trial| latch(observed, None, None, told(trial));
    match pending {
        Pending::NoMember => give_up(why::Trial::NoMember),
        Pending::NodeNotReady => give_up(why::Trial::NodeNotReady),
        Pending::Recreating => wait(rollout, Next::Recreating(name.to_owned()), SOON),
        Pending::NotCreated(blame) => call_off(observed, blame),
        Pending::RecreatedTooEarly(pod_uid) => {
            // Once more.
            let again = rollout.trial.cloned();
            let again = again.map(|trial| TrialIntent { pod_uid, ..trial });
            latch(observed, None, again, told(why::Trial::TooEarly))
        }
        Pending::NotPossible => give_up(why::Trial::NotPossible),
        Pending::TemplateRejected => give_up(why::Trial::Rejected),
        Pending::TemplateNotWritten => wait(rollout, Next::WritesTemplate, SOON),
        Pending::Due(turn) => {
            let template = rollout.trial.map_or("", |trial| trial.template.as_str());
            take(rollout, turn, template, Next::Restarts)
        }
    }
}

/// A member makes way. `announced` is said where that is recorded first, together with the template it will run on.
fn take(
    rollout: &Rollout<'_>,
    turn: Turn,
    template: &str,
    announced: fn(String) -> Next,
) -> Decision {
    let Rollout { observed, list, .. } = *rollout;
    match turn {
        Turn::MoveLeader { ordinal, to, name } => {
            let next = Next::HandsOver(observed.member_name(ordinal), name);
            let why = under(observed, list, next);
            Decision::act(Step::MoveLeader { to, ordinal }, why)
        }
        Turn::Announce { ordinal, uid } => {
            let name = observed.member_name(ordinal);
            let why = under(observed, list, announced(name.clone()));
            latch(observed, None, Some(trial(name, template, uid)), why)
        }
        Turn::Restart { ordinal, uid } => {
            let next = Next::Restarting(observed.member_name(ordinal));
            let why = under(observed, list, next);
            Decision::act(Step::RestartPod { ordinal, uid }, why)
        }
    }
}

fn trial(member: String, template: &str, pod_uid: String) -> TrialIntent {
    TrialIntent {
        member,
        template: template.to_owned(),
        pod_uid,
    }
}

pub(super) fn end(observed: &Observed, ended: &Ended) -> Decision {
    let trial = observed.cluster.latched.trial();
    let name = trial.map_or("", |trial| trial.member.as_str());
    let what = match ended {
        Ended::Returned => why::Trial::Returned,
        Ended::Reverted => why::Trial::Reverted,
    };
    let why = why::Rollout::Trial(name.to_owned(), what);
    latch(observed, None, None, why)
}

/// No pod of the trial can be created: the proven template comes back, and with it the pod. What is to blame for it is not
/// tried again before it is another one.
pub(super) fn call_off(observed: &Observed, blame: Blame) -> Decision {
    let trial = observed.cluster.latched.trial();
    let name = trial.map_or("", |trial| trial.member.as_str());
    let what = match blame {
        Blame::Template => why::Trial::NotCreated,
        Blame::Claim => why::Trial::NoClaim,
    };
    let why = why::Rollout::Trial(name.to_owned(), what);
    let template = trial.map(|trial| trial.template.clone());
    let mut decision = latch(observed, None, None, why);
    if let Step::Latch(latched) = &mut decision.step {
        latched.called_off = template.filter(|_| blame == Blame::Template);
    }
    decision
}

/// What is asked for was called off.
pub(super) fn stays_called_off(observed: &Observed) -> why::Rollout {
    why::Rollout::CalledOff {
        namespace: observed.cluster.namespace.clone(),
        name: observed.cluster.name.clone(),
    }
}

/// It has reached every member.
fn complete(observed: &Observed, proven: &Proven) -> Decision {
    let done = Proven {
        everywhere: true,
        before: None,
        ..proven.clone()
    };
    let why = why::Rollout::Complete(proven.version);
    latch(observed, Some(done), None, why)
}

/// A template is proven, with the release in it and the one before it; the other members follow.
pub(super) fn prove(
    observed: &Observed,
    template: &str,
    (version, before): (EtcdVersion, EtcdVersion),
    why: impl Into<Why>,
) -> Decision {
    let new = Proven {
        template: template.to_owned(),
        version,
        everywhere: false,
        before: Some(before),
    };
    latch(observed, Some(new), None, why)
}

/// The release that some members still run on: the proven one, or the one before it if they have not even reached that.
pub(super) fn before(proven: &Proven, next: EtcdVersion) -> EtcdVersion {
    let earlier = proven.before.filter(|_| !proven.everywhere);
    earlier
        .filter(|earlier| next.minor == proven.version.minor && earlier.minor != next.minor)
        .unwrap_or(proven.version)
}

pub(super) fn recreate_stray(observed: &Observed, ordinal: u32, pod: &Pod) -> Decision {
    let uid = pod.uid.clone();
    let name = observed.member_name(ordinal);
    Decision::act(Step::RestartPod { ordinal, uid }, why::Rollout::Stray(name))
}

/// What was tried does not come up: stop there and say so.
pub(super) fn halt(observed: &Observed) -> Decision {
    let others = observed.pods.len().saturating_sub(1);
    Decision::wait(why::Rollout::Halted(tried(observed), others), LATER)
}

fn await_trial(observed: &Observed) -> Decision {
    let trial = observed.cluster.latched.trial();
    let ordinal =
        trial.and_then(|trial| api::names::ordinal(&observed.cluster.name, &trial.member));
    let requeue = ordinal.map_or(LATER, |ordinal| requeue_by_pod_age(observed, ordinal));
    Decision::wait(why::Rollout::Tries(tried(observed)), requeue.min(LATER))
}

/// Which member tries, and what its pod does.
fn tried(observed: &Observed) -> Tried {
    let trial = observed.cluster.latched.trial();
    let name = trial.map_or("", |trial| trial.member.as_str());
    let pod = trial.and_then(|trial| pod_of(observed, trial));
    Tried {
        member: name.to_owned(),
        switch: observed.describe_switch(),
        doing: Doing::of(pod.map(|(_, pod)| pod)),
    }
}

fn wait(rollout: &Rollout<'_>, next: Next, requeue: Duration) -> Decision {
    let why = under(rollout.observed, rollout.list, next);
    Decision::wait(why, requeue)
}

/// How many run on what is asked for.
fn under(observed: &Observed, list: &MemberList, next: Next) -> why::Rollout {
    let target = observed.cluster.target.as_ref();
    let template = target.map_or("", |target| target.template.as_str());
    let done = list.members.iter().filter(|member| {
        let ordinal = observed.ordinal_of(member);
        let pod = ordinal.and_then(|ordinal| observed.pods.get(&ordinal));
        pod.is_some_and(|pod| pod.template == template && !pod.terminating)
    });
    let progress = Progress {
        done: done.count(),
        all: list.members.len(),
        switch: observed.describe_switch(),
    };
    why::Rollout::Under(progress, next)
}

/// Records what is proven, where that is something else, and the trial, or that there is none.
pub(super) fn latch(
    observed: &Observed,
    proven: Option<Proven>,
    trial: Option<TrialIntent>,
    why: impl Into<Why>,
) -> Decision {
    let old = match &proven {
        Some(new) => prove_transport(observed, new),
        None => observed.cluster.latched.clone(),
    };
    let proven = proven.or_else(|| old.proven.clone());
    // A member that runs writes its own entries, and so does one that tries.
    let target = observed.cluster.target.as_ref().filter(|_| trial.is_some());
    let tries = target.map(|target| target.intent.version.minor);
    let runs = proven.as_ref().map(|proven| proven.version.minor);
    let writes = tries.into_iter().chain(runs).min();
    // Another template is asked for by now, or a member runs on that one.
    let asked = observed.cluster.target.as_ref().map(|it| &it.template);
    let called_off = old.called_off.clone().filter(|called_off| {
        let runs = proven.as_ref().map(|proven| &proven.template);
        asked == Some(called_off) && runs != Some(called_off)
    });
    let latched = Latched {
        called_off,
        log_line: old
            .log_line
            .map(|minor| writes.map_or(minor, |writes| minor.min(writes))),
        proven,
        ..old.with_trial(trial)
    };
    Decision::act(Step::Latch(latched), why)
}

/// What is proven has a transport, which is in force from now on; once every member has it, none is left on another.
fn prove_transport(observed: &Observed, new: &Proven) -> Latched {
    let old = observed.cluster.latched.clone();
    let mut latched = old.with_transport(observed.transport_of(&new.template));
    if new.everywhere {
        latched.transport_before = None;
    }
    latched
}

//! What is done at each stage of a rollout, and the sentence for it. Judges nothing: that is `stage.rs`.

use std::time::Duration;

use api::v1alpha1::status::TrialIntent;
use api::{EtcdVersion, Reason};

use super::spare::Turn;
use super::stage::Stage;
use super::trial::{Blame, Ended, Pending};
use super::{Rollout, pod_of};
use crate::cluster::answers::requeue_by_pod_age;
use crate::cluster::versions;
use crate::decision::{Decision, LATER, SOON, Step};
use crate::observed::{Latched, MemberList, Observed, Pod, Proven, describe};

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
            let why = format!("every member and its data are on 3.{}", version.minor);
            prove(observed, template, (version, proven.version), &why)
        }
        Stage::DataUpgrading => {
            let why = format!(
                "every member runs a newer minor version than 3.{}: waiting until etcd has finished the upgrade, before it can be downgraded",
                proven.version.minor
            );
            Decision::wait(Reason::RollingOut, why, LATER)
        }
        Stage::TrialEnded(ended) => end(observed, &ended),
        Stage::AstrayMember(turn) | Stage::MemberFollows(turn) => {
            take(rollout, turn, &proven.template, "is restarted next")
        }
        Stage::TrialPending(pending) => pursue(rollout, pending),
        Stage::DowngradeReverted { to } => {
            versions::answer(observed, list, versions::Stage::OtherDowngrade { to })
        }
        Stage::MemberNotWell(ordinal) => await_member(rollout, ordinal),
        Stage::MemberNotSpared(ordinal) => {
            let why = format!("{} is restarted next", observed.member_name(ordinal));
            let rejected = observed.is_refused_template(&proven.template);
            wait(rollout, &why, if rejected { LATER } else { SOON })
        }
        Stage::Complete => complete(observed, proven),
        Stage::TargetHealthy(ordinal) => prove_target(rollout, ordinal),
        Stage::StrayPod { ordinal, pod } => recreate_stray(observed, ordinal, pod),
        Stage::TrialFails => halt(observed),
        Stage::TrialStarts => await_trial(observed),
        Stage::NotPrepared(stage) => versions::answer(observed, list, stage),
        Stage::NotListed(why) => wait(rollout, &why, SOON),
        Stage::JoinerTries(ordinal) => await_joiner(rollout, ordinal),
        Stage::MemberTries(turn) => take(
            rollout,
            turn,
            rollout.target,
            "will try the new template first",
        ),
    }
}

fn await_member(rollout: &Rollout<'_>, ordinal: u32) -> Decision {
    let observed = rollout.observed;
    let pod = observed.pods.get(&ordinal);
    let what = pod.map_or_else(|| "has no pod".to_owned(), describe);
    let why = format!(
        "waiting for {}, which {what}",
        observed.member_name(ordinal)
    );
    let requeue = requeue_by_pod_age(observed, ordinal).min(LATER);
    wait(rollout, &why, requeue)
}

fn prove_target(rollout: &Rollout<'_>, ordinal: u32) -> Decision {
    let why = format!(
        "{} is healthy on the new template; the other members follow",
        rollout.observed.member_name(ordinal)
    );
    let before = before(rollout.proven, rollout.version);
    let releases = (rollout.version, before);
    prove(rollout.observed, rollout.target, releases, &why)
}

fn await_joiner(rollout: &Rollout<'_>, ordinal: u32) -> Decision {
    let observed = rollout.observed;
    let name = observed.member_name(ordinal);
    let why = format!("{name} will try the new template when it joins");
    let uid = observed.pods.get(&ordinal).map(|pod| pod.uid.clone());
    let trial = trial(name, rollout.target, uid.unwrap_or_default());
    latch(observed, None, Some(trial), &why)
}

/// One answer for each state of a trial whose pod was not recreated yet.
fn pursue(rollout: &Rollout<'_>, pending: Pending) -> Decision {
    let observed = rollout.observed;
    let name = rollout.trial.map_or("", |trial| trial.member.as_str());
    let give_up = |why: &str| latch(observed, None, None, &format!("{name} {why}"));
    match pending {
        Pending::NoMember => give_up("is not a member any more and does not try the new template"),
        Pending::NodeNotReady => latch(
            observed,
            None,
            None,
            &format!(
                "the node of {name} is not ready, so its pod does not terminate: it does not try the new template"
            ),
        ),
        Pending::Recreating => {
            let why = format!("{name} is being recreated to try the new template");
            wait(rollout, &why, SOON)
        }
        Pending::NotCreated(blame) => call_off(observed, blame),
        Pending::RecreatedTooEarly(pod_uid) => {
            // Once more.
            let again = rollout.trial.cloned();
            let again = again.map(|trial| TrialIntent { pod_uid, ..trial });
            let why = format!("{name} came back on the old template");
            latch(observed, None, again, &why)
        }
        Pending::NotPossible => give_up("does not run the new template yet"),
        Pending::TemplateRejected => {
            give_up("does not try the new template: the StatefulSet with it is rejected")
        }
        Pending::TemplateNotWritten => {
            let why = "writing the new template to the StatefulSet";
            wait(rollout, why, SOON)
        }
        Pending::Due(turn) => {
            let template = rollout.trial.map_or("", |trial| trial.template.as_str());
            take(rollout, turn, template, "is restarted next")
        }
    }
}

/// A member makes way. `announced` is said where that is recorded first, together with the template it will run on.
fn take(rollout: &Rollout<'_>, turn: Turn, template: &str, announced: &str) -> Decision {
    let Rollout { observed, list, .. } = *rollout;
    match turn {
        Turn::MoveLeader { ordinal, to, name } => {
            let why = format!(
                "{} is the leader and will be restarted: transferring leadership to {name}",
                observed.member_name(ordinal)
            );
            let why = progress(observed, list, &why);
            Decision::act(Step::MoveLeader { to, ordinal }, Reason::RollingOut, why)
        }
        Turn::Announce { ordinal, uid } => {
            let name = observed.member_name(ordinal);
            let why = progress(observed, list, &format!("{name} {announced}"));
            latch(observed, None, Some(trial(name, template, uid)), &why)
        }
        Turn::Restart { ordinal, uid } => {
            let why = format!("restarting {}", observed.member_name(ordinal));
            let why = progress(observed, list, &why);
            Decision::act(Step::RestartPod { ordinal, uid }, Reason::RollingOut, why)
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
    let why = match ended {
        Ended::Returned => format!("{name} is back on the proven template"),
        Ended::Reverted => format!("the change that {name} was going to try was reverted"),
    };
    latch(observed, None, None, &why)
}

/// No pod of the trial can be created: the proven template comes back, and with it the pod. What is to blame for it is not
/// tried again before it is another one.
pub(super) fn call_off(observed: &Observed, blame: Blame) -> Decision {
    let trial = observed.cluster.latched.trial();
    let name = trial.map_or("", |trial| trial.member.as_str());
    let why = match blame {
        Blame::Template => format!(
            "no pod of {name} can be created from the new template: it does not try it any more"
        ),
        Blame::Claim => format!(
            "no pod of {name} can be created, because it has no claim: it does not try the new template for now"
        ),
    };
    let template = trial.map(|trial| trial.template.clone());
    let mut decision = latch(observed, None, None, &why);
    if let Step::Latch(latched) = &mut decision.step {
        latched.called_off = template.filter(|_| blame == Blame::Template);
    }
    decision
}

/// What is asked for was called off.
pub(super) fn stays_called_off(observed: &Observed) -> String {
    let (name, namespace) = (&observed.cluster.name, &observed.cluster.namespace);
    let annotation = api::labels::RESTARTED_AT_ANNOTATION;
    format!(
        "no pod could be created from the new template, so the members stay on the one that they run on: kubectl describe statefulset -n {namespace} {name} shows why; correct the change, revert it, or, once a pod can be created from it, have it tried again: kubectl annotate etcdcluster -n {namespace} {name} --overwrite {annotation}=\"$(date)\""
    )
}

/// It has reached every member.
fn complete(observed: &Observed, proven: &Proven) -> Decision {
    let done = Proven {
        everywhere: true,
        before: None,
        ..proven.clone()
    };
    let why = format!("every member runs v{}, as in the spec", proven.version);
    latch(observed, Some(done), None, &why)
}

/// A template is proven, with the release in it and the one before it; the other members follow.
pub(super) fn prove(
    observed: &Observed,
    template: &str,
    (version, before): (EtcdVersion, EtcdVersion),
    why: &str,
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
    let why = format!("{name} got the new template too early; it is recreated from the proven one");
    Decision::act(Step::RestartPod { ordinal, uid }, Reason::RollingOut, why)
}

/// What was tried does not come up: stop there and say so.
pub(super) fn halt(observed: &Observed) -> Decision {
    let others = match observed.pods.len().saturating_sub(1) {
        0 => String::new(),
        1 => "; the other member is not changed".to_owned(),
        others => format!("; the other {others} members are not changed"),
    };
    let why = format!(
        "{}{others}: correct the change, or revert it",
        tried(observed)
    );
    Decision::wait(Reason::RolloutHalted, why, LATER)
}

fn await_trial(observed: &Observed) -> Decision {
    let trial = observed.cluster.latched.trial();
    let ordinal =
        trial.and_then(|trial| api::names::ordinal(&observed.cluster.name, &trial.member));
    let requeue = ordinal.map_or(LATER, |ordinal| requeue_by_pod_age(observed, ordinal));
    Decision::wait(Reason::RollingOut, tried(observed), requeue.min(LATER))
}

/// Which member tries, and what its pod does.
fn tried(observed: &Observed) -> String {
    let trial = observed.cluster.latched.trial();
    let name = trial.map_or("", |trial| trial.member.as_str());
    let pod = trial.and_then(|trial| pod_of(observed, trial));
    let what = pod.map_or_else(|| "has no pod".to_owned(), |(_, pod)| describe(pod));
    let switch = observed.describe_switch();
    format!("{name} tries the new template first{switch} and {what}")
}

fn wait(rollout: &Rollout<'_>, why: &str, requeue: Duration) -> Decision {
    let why = progress(rollout.observed, rollout.list, why);
    Decision::wait(Reason::RollingOut, why, requeue)
}

/// How many run on what is asked for.
fn progress(observed: &Observed, list: &MemberList, why: &str) -> String {
    let target = observed.cluster.target.as_ref();
    let template = target.map_or("", |target| target.template.as_str());
    let done = list.members.iter().filter(|member| {
        let ordinal = observed.ordinal_of(member);
        let pod = ordinal.and_then(|ordinal| observed.pods.get(&ordinal));
        pod.is_some_and(|pod| pod.template == template && !pod.terminating)
    });
    let (done, all) = (done.count(), list.members.len());
    let switch = observed.describe_switch();
    format!("{done} of {all} members are up to date{switch}: {why}")
}

/// Records what is proven, where that is something else, and the trial, or that there is none.
pub(super) fn latch(
    observed: &Observed,
    proven: Option<Proven>,
    trial: Option<TrialIntent>,
    why: &str,
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
    Decision::act(Step::Latch(latched), Reason::RollingOut, why)
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

//! Every change but that of the size: the template of the pods, carried to one member at a time. The first member tries
//! it while the StatefulSet already holds the proven one again, so that a pod that is made anew for any other reason
//! never meets what nobody has tried. Whoever is unwell goes first, the leader last and only after it has handed over.

mod order;
mod revive;
mod spare;

use api::v1alpha1::status::TrialIntent;
use api::{EtcdVersion, Reason};

use crate::cluster::{describe, patience, versions};
use crate::decision::{Decision, LATER, SOON, Step};
use crate::observed::{Latched, Member, MemberList, Observed, Pod, Proven};

use order::{announced, candidates, choose, next};
pub(super) use revive::revive;
pub(super) use spare::has_stopped;
use spare::{is_well, restart};

/// Members run on something else than is asked for, or somebody tries it.
pub fn is_changing(observed: &Observed) -> bool {
    let Some((proven, target)) = goal(observed) else {
        return false;
    };
    let differs = |pod: &Pod| pod.template != target;
    proven.template != target
        || !proven.everywhere
        || observed.cluster.latched.trial.is_some()
        || observed.pods.values().any(differs)
}

/// Goes on with what has begun; growing and shrinking come after it.
pub(super) fn go_on(observed: &Observed, list: &MemberList) -> Option<Decision> {
    let (proven, target) = goal(observed)?;
    overtaken(observed, list, proven)
        .or_else(|| give_up(observed, proven, target))
        .or_else(|| versions::ahead(observed, list, proven))
        .or_else(|| call_back(observed, list, proven, target))
        .or_else(|| adopt_what_runs(observed, list, proven, target))
        .or_else(|| {
            // A downgrade that was taken back before anybody went down is still known to etcd.
            let cancel = versions::cancel(observed, list, proven.version.minor);
            cancel.filter(|_| proven.template == target)
        })
        .or_else(|| {
            let trial = observed.cluster.latched.trial.as_ref()?;
            pursue(observed, list, proven, trial)
        })
        .or_else(|| heal(observed, proven, target))
        .or_else(|| {
            // A pod is recreated from what the StatefulSet holds, whatever is asked for.
            let held = observed.objects.template.as_deref() == Some(target);
            next(observed, list, target).filter(|_| proven.template == target && held)
        })
}

/// Begins another one, or says on whom it waits.
pub(super) fn begin(observed: &Observed, list: &MemberList) -> Option<Decision> {
    let (proven, target) = goal(observed)?;
    if proven.template == target {
        return outstanding(observed, list, proven).or_else(|| complete(observed, proven));
    }
    if let Some(trial) = &observed.cluster.latched.trial {
        return Some(tried(observed, trial));
    }
    if observed.is_refused_template(target) {
        return None;
    }
    versions::prepare(observed, list, proven)
        .or_else(|| newcomer(observed, proven, target))
        .or_else(|| choose(observed, list, target))
}

/// What an earlier operator left can take nobody in. Where more members are asked for, the first of them tries the gate,
/// and nobody is restarted for it.
fn newcomer(observed: &Observed, proven: &Proven, target: &str) -> Option<Decision> {
    let intent = &observed.cluster.target.as_ref()?.intent;
    let ordinal = (0..intent.size).find(|ordinal| is_newcomer(observed, proven, *ordinal))?;
    if intent.version.minor != proven.version.minor {
        return None;
    }
    let pod = observed.pods.get(&ordinal);
    let trial = TrialIntent {
        member: observed.member_name(ordinal),
        template: target.to_owned(),
        pod_uid: pod.map(|pod| pod.uid.clone()).unwrap_or_default(),
    };
    let why = format!("{} is to try the change when it joins", trial.member);
    Some(latch(observed, None, Some(trial), &why))
}

/// Asked for, but no member yet, where an earlier operator's members run.
fn is_newcomer(observed: &Observed, proven: &Proven, ordinal: u32) -> bool {
    let size = observed.cluster.intent.as_ref().map(|intent| intent.size);
    proven.template.is_empty()
        && size.is_ok_and(|size| ordinal < size)
        && observed.member_of(ordinal).is_none()
}

/// It has reached everybody.
fn complete(observed: &Observed, proven: &Proven) -> Option<Decision> {
    let left = observed.cluster.latched.trial.is_some();
    let reached = |pod: &Pod| pod.template == proven.template || pod.terminating;
    let all = observed.pods.values().all(reached);
    (all && (!proven.everywhere || left)).then(|| {
        let done = Proven {
            everywhere: true,
            before: None,
            ..proven.clone()
        };
        let why = format!("every member runs on v{} as asked for", proven.version);
        latch(observed, Some(done), None, &why)
    })
}

/// What is proven and what is asked for, once there is a cluster.
fn goal(observed: &Observed) -> Option<(&Proven, &str)> {
    let target = observed.cluster.target.as_ref()?;
    let latched = &observed.cluster.latched;
    let proven = latched
        .proven
        .as_ref()
        .filter(|_| latched.cluster_id.is_some())?;
    Some((proven, &target.template))
}

/// The edit that is tried was changed or taken back, or whoever was called back has come.
fn give_up(observed: &Observed, proven: &Proven, target: &str) -> Option<Decision> {
    let trial = observed.cluster.latched.trial.as_ref()?;
    if trial.template == target {
        return None;
    }
    let why = if trial.template == proven.template {
        let ordinal = api::names::ordinal(&observed.cluster.name, &trial.member);
        let pod = ordinal.and_then(|ordinal| observed.pods.get(&ordinal));
        pod.filter(|pod| !pod.terminating && pod.template == trial.template)?;
        format!("{} is back on what is proven", trial.member)
    } else {
        format!(
            "the change that {} was to try is no longer asked for",
            trial.member
        )
    };
    Some(latch(observed, None, None, &why))
}

/// Every member runs a newer line than is proven, and the data has followed: from here on there is no plain way back,
/// whether or not it was meant as a trial. A cluster of one comes to that with its first restart.
fn overtaken(observed: &Observed, list: &MemberList, proven: &Proven) -> Option<Decision> {
    let ahead = |member: &Member| {
        let serving = observed.serving_as(member.id)?;
        let version = serving
            .version
            .filter(|version| version.minor > proven.version.minor)?;
        (serving.storage? > proven.version.minor).then_some(version)
    };
    let versions: Option<Vec<EtcdVersion>> = list.members.iter().map(ahead).collect();
    let version = versions?.into_iter().min()?;
    let healthy = list.voters().find(|voter| observed.is_healthy(voter))?;
    let pod = observed.pods.get(&observed.ordinal_of(healthy)?)?;
    let new = Proven {
        template: pod.template.clone(),
        version,
        everywhere: false,
        before: Some(proven.version),
    };
    let why = format!(
        "every member runs on 3.{}, and so does the data",
        version.minor
    );
    Some(latch(observed, Some(new), None, &why))
}

/// Before another line is begun, whoever tried a third thing comes back to what is proven.
fn call_back(
    observed: &Observed,
    list: &MemberList,
    proven: &Proven,
    target: &str,
) -> Option<Decision> {
    let asked = observed.cluster.target.as_ref()?.intent.version;
    if !proven.everywhere || asked.minor == proven.version.minor {
        return None;
    }
    // Only while the StatefulSet holds it, and nobody is on the way already.
    let held = observed.objects.template.as_ref() == Some(&proven.template);
    if !held || observed.cluster.latched.trial.is_some() {
        return None;
    }
    let astray = candidates(observed, list, &proven.template)
        .into_iter()
        .filter(|ordinal| {
            let pod = observed.pods.get(ordinal);
            pod.is_some_and(|pod| pod.template != target)
        });
    announced(observed, list, astray, &proven.template)
}

/// A member that runs well on what is asked for has tried it, however it came to that.
fn adopt_what_runs(
    observed: &Observed,
    list: &MemberList,
    proven: &Proven,
    target: &str,
) -> Option<Decision> {
    if proven.template == target || versions::prepare(observed, list, proven).is_some() {
        return None;
    }
    let runs = |ordinal: u32| {
        let pod = observed.pods.get(&ordinal)?;
        (pod.template == target && !pod.terminating).then_some(())?;
        let member = observed.member_of(ordinal).filter(|m| !m.learner)?;
        is_well(observed, list, ordinal, member).then_some(ordinal)
    };
    let ordinal = observed.pods.keys().copied().find_map(runs)?;
    let version = observed.cluster.target.as_ref()?.intent.version;
    let why = format!(
        "{} runs well on the new template; the others follow",
        observed.member_name(ordinal)
    );
    let new = Proven {
        template: target.to_owned(),
        version,
        everywhere: false,
        before: Some(before(proven, version)),
    };
    Some(latch(observed, Some(new), None, &why))
}

/// The release that some members still run on: the proven one, or the one before it if they have not even reached that.
fn before(proven: &Proven, next: EtcdVersion) -> EtcdVersion {
    let earlier = proven.before.filter(|_| !proven.everywhere);
    earlier
        .filter(|earlier| next.minor == proven.version.minor && earlier.minor != next.minor)
        .unwrap_or(proven.version)
}

/// The trial, from the moment it is written down until its pod was made anew.
fn pursue(
    observed: &Observed,
    list: &MemberList,
    proven: &Proven,
    trial: &TrialIntent,
) -> Option<Decision> {
    let ordinal = api::names::ordinal(&observed.cluster.name, &trial.member)?;
    if observed.member_of(ordinal).is_none() && !is_newcomer(observed, proven, ordinal) {
        let why = format!("{} is no member any more and tries nothing", trial.member);
        return Some(latch(observed, None, None, &why));
    }
    let pod = observed.pods.get(&ordinal).filter(|pod| !pod.terminating);
    let Some(pod) = pod else {
        if trial.template == proven.template {
            return None;
        }
        if observed.pods.contains_key(&ordinal) && !observed.is_on_a_live_node(ordinal) {
            let why = format!(
                "the node of {} does not answer, so that its pod does not end: it does not try the change",
                trial.member
            );
            return Some(latch(observed, None, None, &why));
        }
        let why = format!("{} is being made anew to try the change", trial.member);
        return Some(rolling(observed, list, &why, SOON));
    };
    if pod.template == trial.template {
        return None;
    }
    if pod.uid != trial.pod_uid {
        // It was made anew, but from the old template: once more.
        let again = TrialIntent {
            pod_uid: pod.uid.clone(),
            ..trial.clone()
        };
        let why = format!("{} came back on the old template", trial.member);
        return Some(latch(observed, None, Some(again), &why));
    }
    // What etcd had prepared may have been undone since it was written down.
    let back = trial.template == proven.template;
    let ready = back || versions::prepare(observed, list, proven).is_none();
    match restart(observed, list, ordinal).filter(|_| ready) {
        Some(decision) if observed.objects.template.as_ref() == Some(&trial.template) => {
            Some(decision)
        }
        // No rollout waits for a template that the API server does not take.
        Some(_) if observed.is_refused_template(&trial.template) => {
            let why = format!(
                "{} does not try the change: the StatefulSet with it is refused",
                trial.member
            );
            Some(latch(observed, None, None, &why))
        }
        // The template is written first, by the rule for objects.
        Some(_) => Some(rolling(
            observed,
            list,
            "writing the template to be tried",
            SOON,
        )),
        None => {
            let why = format!("{} does not try the change yet", trial.member);
            Some(latch(observed, None, None, &why))
        }
    }
}

/// In the window before the trial's pod was made, another pod may have been made from the same template. If it runs
/// nothing it is made anew, from the proven one: a change that does not come up reaches one member.
fn heal(observed: &Observed, proven: &Proven, target: &str) -> Option<Decision> {
    let restored = observed.objects.template.as_ref() == Some(&proven.template);
    if proven.template == target || !restored {
        return None;
    }
    let trial = observed.cluster.latched.trial.as_ref();
    let (ordinal, pod) = observed.pods.iter().find(|(ordinal, pod)| {
        let tries = trial.is_some_and(|trial| trial.member == observed.member_name(**ordinal));
        let strays = pod.template != proven.template && (trial.is_some() || pod.template == target);
        strays && !tries && pod.runs_nothing() && !pod.terminating
    })?;
    let step = Step::RestartPod {
        ordinal: *ordinal,
        uid: pod.uid.clone(),
    };
    let name = observed.member_name(*ordinal);
    let why = format!("{name} was not to try the change; it is made anew as it was");
    Some(Decision::act(step, Reason::RollingOut, why))
}

/// What was tried does not come up: stop there and say so.
fn tried(observed: &Observed, trial: &TrialIntent) -> Decision {
    let ordinal = api::names::ordinal(&observed.cluster.name, &trial.member);
    let pod = ordinal.and_then(|ordinal| observed.pods.get(&ordinal));
    let what = pod.map_or_else(|| "has no pod".to_owned(), describe);
    let halted = pod.is_some_and(|pod| pod.problem.is_some());
    let wait = ordinal.map_or(LATER, |ordinal| patience(observed, ordinal));
    if halted {
        let others = observed.pods.len().saturating_sub(1);
        let others = match others {
            0 => String::new(),
            1 => "; the other one stays as it was".to_owned(),
            others => format!("; the other {others} stay as they were"),
        };
        let why = format!(
            "{} tries the change first and {what}{others}: mend the change, or take it back",
            trial.member
        );
        return Decision::wait(Reason::RolloutHalted, why, LATER);
    }
    let why = format!("{} tries the change first and {what}", trial.member);
    Decision::wait(Reason::RollingOut, why, wait.min(LATER))
}

/// Some still run on another template and none of them can be spared now, or the last one is on its way back.
fn outstanding(observed: &Observed, list: &MemberList, proven: &Proven) -> Option<Decision> {
    let held = observed.objects.template.as_ref() == Some(&proven.template);
    let next = candidates(observed, list, &proven.template)
        .first()
        .copied()
        .filter(|_| held);
    let unwell = list.voters().find_map(|voter| {
        let at = observed.ordinal_of(voter)?;
        (!is_well(observed, list, at, voter)).then_some(at)
    });
    let unwell = unwell.filter(|_| next.is_some() || !proven.everywhere);
    let (why, wait) = match (unwell, next) {
        (Some(unwell), _) => {
            let pod = observed.pods.get(&unwell);
            let what = pod.map_or_else(|| "has no pod".to_owned(), describe);
            let why = format!("waiting for {}, which {what}", observed.member_name(unwell));
            (why, patience(observed, unwell))
        }
        (None, Some(next)) => {
            let why = format!("{} is restarted next", observed.member_name(next));
            let refused = observed.is_refused_template(&proven.template);
            (why, if refused { LATER } else { SOON })
        }
        (None, None) => return None,
    };
    Some(rolling(observed, list, &why, wait.min(LATER)))
}

fn rolling(
    observed: &Observed,
    list: &MemberList,
    why: &str,
    wait: std::time::Duration,
) -> Decision {
    Decision::wait(Reason::RollingOut, progress(observed, list, why), wait)
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
    format!("{done} of {all} members are up to date: {why}")
}

fn latch(
    observed: &Observed,
    proven: Option<Proven>,
    trial: Option<TrialIntent>,
    why: &str,
) -> Decision {
    let old = &observed.cluster.latched;
    let proven = proven.or_else(|| old.proven.clone());
    // Whoever runs writes its own entries, and so does whoever tries.
    let target = observed.cluster.target.as_ref().filter(|_| trial.is_some());
    let tries = target.map(|target| target.intent.version.minor);
    let runs = proven.as_ref().map(|proven| proven.version.minor);
    let writes = tries.into_iter().chain(runs).min();
    let latched = Latched {
        log_line: old
            .log_line
            .map(|line| writes.map_or(line, |writes| line.min(writes))),
        renewing: old.renewing && trial.is_none(),
        proven,
        trial,
        ..old.clone()
    };
    Decision::act(Step::Latch(latched), Reason::RollingOut, why)
}

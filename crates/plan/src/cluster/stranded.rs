//! Members that trust nothing that is shown any more: their authority expired while no operator ran, or its key was lost for
//! that long. They refuse every new connection, of each other, of clients and of the operator. What they trust is read again
//! only by a process that starts, so they are restarted on what they run, one after the other. A quorum is away until one has
//! been; no data is touched, and none of them counts as lost.

use jiff::SignedDuration;

use crate::cluster::answers::requeue_by_pod_age;
use crate::decision::{Decision, SOON, Step};
use crate::observed::{Observed, Pod, Process};
use crate::why::Certificates;

/// So long a pod that was restarted is waited for before the rules below are asked what it lacks.
const COMES_UP: SignedDuration = SignedDuration::from_mins(2);

pub(super) fn restart(observed: &Observed) -> Option<Decision> {
    let latched = &observed.cluster.latched;
    let stranded = |pod: &Pod| observed.is_stranded(pod);
    if latched.recovery.is_some() || !observed.pods.values().any(stranded) {
        return None;
    }
    if let Some(ordinal) = awaited(observed) {
        return wait(observed, ordinal);
    }
    let mut next: Vec<(&u32, &Pod)> = observed.pods.iter().collect();
    next.retain(|(_, pod)| stranded(pod) && !pod.terminating && comes_back(observed, pod));
    // One that did not run before may not run then either, and holds up no other.
    next.sort_by_key(|(ordinal, pod)| (pod.problem.is_some(), **ordinal));
    let mut next = next.into_iter().map(|(ordinal, pod)| {
        let step = Step::RestartPod {
            ordinal: *ordinal,
            uid: pod.uid.clone(),
        };
        let why = Certificates::Stranded(observed.member_name(*ordinal));
        Decision::act(step, why)
    });
    let next = next.find(|decision| !observed.rests(&decision.step));
    next.or_else(|| call_off(observed))
}

/// The member that is on its way back.
fn awaited(observed: &Observed) -> Option<u32> {
    let mut there = observed.pods.iter();
    let due = there.find(|(ordinal, pod)| {
        let runs = observed.is_stranded(pod) || pod.process != Process::Unknown;
        observed.is_on_a_live_node(**ordinal) && (pod.terminating || !runs)
    });
    let expected = observed.objects.replicas.unwrap_or(0);
    let missing = || (0..expected).find(|ordinal| !observed.pods.contains_key(ordinal));
    due.map(|(ordinal, _)| *ordinal).or_else(missing)
}

/// `None` where that takes so long that something else may keep it, which the rules below know of.
fn wait(observed: &Observed, ordinal: u32) -> Option<Decision> {
    let pod = observed.pods.get(&ordinal);
    let age = pod.map(|pod| observed.now.duration_since(pod.created));
    let late = age.is_some_and(|age| age > COMES_UP);
    let coming = pod.is_some_and(|pod| !pod.terminating);
    let others = observed.etcd.members.is_some();
    if (coming && late) || (!coming && others) {
        return None;
    }
    let name = observed.member_name(ordinal);
    let why = Certificates::StrandedReturns(name, observed.doing(ordinal));
    let soon = requeue_by_pod_age(observed, ordinal).min(SOON);
    Some(Decision::wait(why, soon))
}

/// Its successor is made from what it runs, or from what members are known to run on and are on their way to.
fn comes_back(observed: &Observed, pod: &Pod) -> bool {
    let held = observed.objects.template.as_ref();
    let proven = observed.cluster.latched.proven.as_ref();
    let follows = proven.is_some_and(|it| !it.everywhere && Some(&it.template) == held);
    held == Some(&pod.template) || follows
}

/// The StatefulSet holds what one member is to try, which all would meet: that begins again afterwards.
fn call_off(observed: &Observed) -> Option<Decision> {
    let latched = &observed.cluster.latched;
    let list = observed.etcd.members.as_ref();
    (latched.trial().is_some() && list.is_none()).then(|| {
        let step = Step::Latch(latched.clone().undisturbed());
        Decision::act(step, Certificates::StrandedOnTrial)
    })
}

//! Members that run and do not keep up, mostly because of the disk below them. While a quorum of the others is healthy
//! such a member is restarted once, which is recorded before; if it hangs again it is replaced
//! ([`super::replace`]), and comes back on another volume. If that does not help, the condition says so.

use api::Reason;
use api::v1alpha1::status::HangIntent;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

use crate::decision::{Decision, LATER, Step};
use crate::observed::{Latched, Member, MemberList, Observed, Stall, format_id, quorum};
use crate::why::Repair;

/// A member that hangs again within so many seconds was not helped by its restart.
const PROBATION: i64 = 600;
/// A member that replaced one that hung is not replaced for the same cause within so many seconds.
const REPRIEVE: i64 = 3600;
/// A stall is worth a word when it has lasted so many seconds.
const NOTED: i64 = 10;

/// The first time it is recorded, the second time it is restarted; what comes after is a replacement.
pub(super) fn decide(observed: &Observed, list: &MemberList) -> Option<Decision> {
    // Until a member that leaves is gone, the quorum is about to change.
    if observed.is_member_leaving() {
        return None;
    }
    hanging(observed, list).find_map(|(ordinal, member, stall)| {
        if !is_undisturbed(observed, list, ordinal) {
            return None;
        }
        let mut others = list.voters().filter(|voter| voter.id != member.id);
        let away = others.any(|voter| observed.is_away(voter));
        if away || !can_spare(observed, list, member) {
            return None;
        }
        let pod = observed.pods.get(&ordinal)?;
        let name = observed.member_name(ordinal);
        let what = stall.describe(observed.now);
        match before(observed, ordinal, member) {
            Before::Nothing => {
                let intent = HangIntent {
                    member: name.clone(),
                    member_id: format_id(member.id),
                    pod_uid: pod.uid.clone(),
                    time: Time(observed.now),
                };
                Some(record(observed, &intent, Repair::StallRecorded(name, what)))
            }
            Before::Written(intent) if intent.pod_uid == pod.uid => {
                let (ordinal, uid) = (ordinal, pod.uid.clone());
                let why = Repair::StallRestart(name, what);
                let step = Step::RestartPod { ordinal, uid };
                Some(Decision::act(step, why))
            }
            Before::Written(_) | Before::Replaced(_) => None,
        }
    })
}

/// Why a member is replaced though it runs: it hangs, and a restart did not help.
pub(super) fn diagnose(observed: &Observed, ordinal: u32, member: &Member) -> Option<String> {
    let list = observed.etcd.members.as_ref()?;
    let stall = observed.hangs(member)?;
    let pod = observed.pods.get(&ordinal)?;
    let Before::Written(intent) = before(observed, ordinal, member) else {
        return None;
    };
    let again = intent.pod_uid != pod.uid;
    (again && is_undisturbed(observed, list, ordinal) && can_spare(observed, list, member)).then(
        || {
            let what = stall.describe(observed.now);
            format!("it stalls again after a restart: {what}")
        },
    )
}

/// Until something can be done about it nothing else is begun.
pub(super) fn wait(observed: &Observed, list: &MemberList) -> Option<Decision> {
    let voters = list.voters().filter_map(|voter| {
        let ordinal = observed.ordinal_of(voter)?;
        let pod = observed.pods.get(&ordinal)?;
        let stall = pod.stall.as_ref()?;
        // One that is starting needs a moment.
        if pod.serving().is_none() && !is_noted(observed, stall) {
            return None;
        }
        let what = stall.describe(observed.now);
        Some(Repair::Stalls(observed.member_name(ordinal), what))
    });
    let why = voters.into_iter().next()?;
    Some(Decision::wait(why, LATER))
}

/// What was tried is forgotten once it has helped for long enough.
pub(super) fn forget(observed: &Observed, _: &MemberList) -> Option<Decision> {
    let hung = &observed.cluster.latched.hung;
    let stale = hung.iter().find(|intent| !is_fresh(observed, intent))?;
    let mut latched = observed.cluster.latched.clone();
    latched.hung.retain(|intent| intent != stale);
    let why = Repair::KeepsUp(stale.member.clone());
    Some(Decision::act(Step::Latch(latched), why))
}

/// What is wrong, what is done about it, and what a person can do.
pub(crate) fn complaints(observed: &Observed) -> Vec<(Reason, String)> {
    let list = observed.etcd.members.as_ref();
    let voters = list.into_iter().flat_map(MemberList::voters);
    let complaints = voters.filter_map(|voter| {
        let ordinal = observed.ordinal_of(voter)?;
        let pod = observed.pods.get(&ordinal).filter(|pod| !pod.terminating)?;
        let stall = pod.stall.as_ref().filter(|s| is_noted(observed, s))?;
        let next = match before(observed, ordinal, voter) {
            _few if !can_spare(observed, list?, voter) => {
                "nothing is done while the other members have no healthy quorum; check the disk of its volume".to_owned()
            }
            Before::Nothing => "if this lasts, it is restarted once".to_owned(),
            Before::Written(intent) if intent.pod_uid == pod.uid => "it is being restarted".to_owned(),
            Before::Written(intent) => format!(
                "it was restarted at {}, and is replaced if this lasts; check the disk of its volume",
                intent.time.0
            ),
            Before::Replaced(intent) => format!(
                "it was replaced after the restart at {}, and its successor does not keep up either: check the node and the StorageClass",
                intent.time.0
            ),
        };
        let name = observed.member_name(ordinal);
        let what = stall.describe(observed.now);
        let text = format!("{name} does not keep up: {what}; {next}");
        Some((Reason::MemberStalled, text))
    });
    complaints.collect()
}

fn is_noted(observed: &Observed, stall: &Stall) -> bool {
    observed.now.duration_since(stall.since).as_secs() >= NOTED
}

/// What was done about it before.
enum Before<'a> {
    Nothing,
    Written(&'a HangIntent),
    /// Another member of this name was restarted and then replaced.
    Replaced(&'a HangIntent),
}

fn before<'a>(observed: &'a Observed, ordinal: u32, member: &Member) -> Before<'a> {
    let name = observed.member_name(ordinal);
    let mut hung = observed.cluster.latched.hung.iter();
    match hung.find(|intent| intent.member == name && is_fresh(observed, intent)) {
        None => Before::Nothing,
        Some(intent) if intent.member_id == format_id(member.id) => Before::Written(intent),
        Some(intent) => Before::Replaced(intent),
    }
}

fn is_fresh(observed: &Observed, intent: &HangIntent) -> bool {
    let age = observed.now.duration_since(intent.time.0).as_secs();
    let mut members = observed.etcd.members.iter().flat_map(|list| &list.members);
    let listed = members.any(|member| format_id(member.id) == intent.member_id);
    age < if listed { PROBATION } else { REPRIEVE }
}

fn hanging<'a>(
    observed: &'a Observed,
    list: &'a MemberList,
) -> impl Iterator<Item = (u32, &'a Member, &'a Stall)> {
    let size = observed.cluster.intent.as_ref().map_or(0, |i| i.size);
    list.voters().filter_map(move |voter| {
        let ordinal = observed.ordinal_of(voter).filter(|n| *n < size)?;
        Some((ordinal, voter, observed.hangs(voter)?))
    })
}

/// The others are a healthy quorum, and none of them is about to leave.
fn can_spare(observed: &Observed, list: &MemberList, member: &Member) -> bool {
    let others = list.voters().filter(|voter| voter.id != member.id);
    let well = others.filter(|voter| observed.is_healthy(voter) && !observed.is_away(voter));
    well.count() >= quorum(list.voters().count())
}

/// No member joins, and nothing is tried that the restart of this member could meet. A defragmentation or a renewal of the logs is no reason to wait: it waits itself
/// until every member is well, and is given up for the restart.
fn is_undisturbed(observed: &Observed, list: &MemberList, ordinal: u32) -> bool {
    !is_trying(observed, ordinal)
        // One that was added waits until every voter lists it, which one that hangs never will.
        && list.learners().all(Member::is_unstarted)
        && observed.open_grant().is_none()
}

/// A member is about to be restarted, or this one tries what is not proven. A trial whose pod already runs the proven
/// template is over, though it is still recorded; and while another pod tries a template in vain, which may last until its
/// owner corrects it, the StatefulSet holds the proven one: this member comes back on that.
fn is_trying(observed: &Observed, ordinal: u32) -> bool {
    let latched = &observed.cluster.latched;
    latched.trial().is_some_and(|trial| {
        let proven = latched.proven.as_ref().map(|proven| &proven.template);
        let restored = observed.objects.template.as_ref() == proven;
        let tries = api::names::ordinal(&observed.cluster.name, &trial.member);
        let pod = tries.and_then(|tries| observed.pods.get(&tries));
        let done = pod.is_some_and(|pod| pod.template == trial.template && !pod.terminating);
        let plain = proven == Some(&trial.template);
        let other = restored && tries != Some(ordinal);
        !(done && (plain || other))
    })
}

/// What was asked for and waits for every member is given up for the repair, and begins again after it.
fn record(observed: &Observed, intent: &HangIntent, why: Repair) -> Decision {
    let mut hung = observed.cluster.latched.hung.clone();
    hung.retain(|other| other.member != intent.member);
    hung.push(intent.clone());
    let latched = Latched {
        hung,
        ..observed.cluster.latched.clone().for_repair()
    };
    Decision::act(Step::Latch(latched), why)
}

//! Quorum that is lost for good. Nothing is done until a person says so, or until it is proved that so many voters are
//! gone that no quorum can ever return and the spec lets the operator go on by itself. Then every volume is fenced, so
//! that no process of the old cluster can start any more; of the members that are left, the one with the longest log
//! bootstraps another cluster from its data, under another token; and the others join it.

mod advice;
mod evidence;
mod excuse;
mod failed;
mod mend;
mod nothing;

use api::v1alpha1::cluster::OnQuorumLoss;
use api::v1alpha1::status::{KnownVoter, RecoveryIntent, Survivor};
use gate::{Action, Data, Grant, Report, State};
use manifests::Kind;

use crate::cluster::answers::{requeue_by_pod_age, starting};
use crate::decision::{BUMP, Decision, LATER, SOON, Step};
use crate::observed::{
    Doing, Latched, NodeState, Observed, Pod, Process, Serving, format_id, parse_id,
};
use crate::why::{GiveUp, InPlace, Quorum, Recovery, Survivor as Chosen};

pub(super) use advice::without_a_list;
pub(super) use evidence::is_gone_for_good;
use evidence::is_proved;
use excuse::{excused, is_excused, is_homeless};
pub(super) use nothing::{
    Loss, is_left_to_the_operator, is_sustained, is_without_survivor, loss, lost_claims,
};

/// Seconds for which a cluster must have been dark before the operator goes on by itself.
const SUSTAINED: i64 = 60;

/// Whether the members can be asked for more than what each of them does. While quorum is being recovered the old cluster
/// has none that could answer, and the next one is known by the survivor: no look waits in vain.
pub fn has_answers(observed: &Observed) -> bool {
    observed.cluster.latched.recovery.is_none()
}

/// What follows while no member can give a member list, or a recovery has begun.
pub(super) fn decide(observed: &Observed) -> Option<Decision> {
    let lost = observed.cluster.latched.cluster_id?;
    match &observed.cluster.latched.recovery {
        Some(recovery) => Some(go_on(observed, recovery)),
        None if observed.etcd.members.is_none() => consider(observed, lost),
        None => None,
    }
}

/// Whether to begin: by a person's word that names this very cluster, or by proof.
fn consider(observed: &Observed, lost: u64) -> Option<Decision> {
    let account = evidence::Account::of(observed);
    let asked = is_asked_for(observed);
    if account.has_no_data() {
        return account
            .all_gone()
            .then(|| nothing::left(observed, &account));
    }
    let no_election = account.is_hopeless() || observed.is_no_election();
    let told = asked && no_election && observed.cluster.unavailable_since.is_some();
    let proved =
        is_left_to_us(observed) && is_proved(observed) && observed.is_unavailable_for(SUSTAINED);
    let is_for_good = account.is_hopeless() || told || proved;
    if is_for_good && !observed.is_led() && is_half_taken_over(observed) {
        return Some(Decision::wait(Quorum::NoGate, LATER));
    }
    if !observed.is_led() && (told || proved) {
        let latched = Latched {
            joins: Vec::new(),
            retiring: Vec::new(),
            ..another_incarnation(observed, format_id(lost))
        };
        let why = Recovery::Begins(account.tell());
        return Some(Decision::act(Step::Latch(latched), why));
    }
    // Members that may return are waited for without a word about giving them up; for how long, `advise` knows.
    account
        .is_hopeless()
        .then(|| advice::where_it_is_proved(observed, &account, lost))
}

/// Pods would be made from the template of an earlier operator, whose etcd knows no gate.
fn is_half_taken_over(observed: &Observed) -> bool {
    let proven = observed.cluster.latched.proven.as_ref();
    proven.is_some_and(|proven| proven.template.is_empty())
}

/// A person gave the word for the very cluster that lost its quorum.
fn is_asked_for(observed: &Observed) -> bool {
    let (asked, lost) = (
        observed.cluster.recover,
        observed.cluster.latched.cluster_id,
    );
    asked.is_some() && asked == lost
}

fn is_left_to_us(observed: &Observed) -> bool {
    let intent = observed.cluster.intent.as_ref();
    intent.is_ok_and(|intent| intent.on_quorum_loss == OnQuorumLoss::FromSurvivor)
}

/// Every volume is fenced, then one is chosen, then it bootstraps.
fn go_on(observed: &Observed, recovery: &RecoveryIntent) -> Decision {
    // First: all below is about the survivor that was chosen, and one that is gone would be waited for without end.
    begin_again(observed, recovery)
        // Before any volume is judged: no process of the old cluster may write to it any more.
        .or_else(|| fence(observed))
        // Before `hear`: pods made from a change that is no longer asked for may never show their volumes.
        .or_else(|| mend::call_off(observed))
        // Before `bootstrap`: the longest log may be on a volume that has not been reported yet.
        .or_else(|| Some(mend::revive(observed, hear(observed)?)))
        .unwrap_or_else(|| bootstrap(observed, recovery))
}

/// The chosen survivor is gone for good, and the cluster that it bootstrapped with it. The next one is chosen in
/// another incarnation, behind another fence.
fn begin_again(observed: &Observed, recovery: &RecoveryIntent) -> Option<Decision> {
    let survivor = recovery.survivor.as_ref()?;
    if !is_lost(observed, survivor) {
        return None;
    }
    let why = Recovery::ChoosesAgain(survivor.member.clone());
    let latched = another_incarnation(observed, recovery.cluster_id.clone());
    Some(Decision::act(Step::Latch(latched), why))
}

/// All data up to now is fenced, and no survivor is chosen yet to continue with what is left of this cluster.
fn another_incarnation(observed: &Observed, cluster_id: String) -> Latched {
    let latched = &observed.cluster.latched;
    let next = latched.incarnation.saturating_add(1);
    Latched {
        incarnation: next,
        fence: Some(next),
        recovery: Some(RecoveryIntent {
            cluster_id,
            survivor: None,
            excused: excused(observed),
        }),
        // Every pod is recreated, so that whatever one of them was to try would reach all of them.
        ..latched.clone().undisturbed()
    }
}

/// It is proved that nothing of what was chosen can ever serve.
fn is_lost(observed: &Observed, survivor: &Survivor) -> bool {
    let ordinal = api::names::ordinal(&observed.cluster.name, &survivor.member);
    ordinal.is_some_and(|ordinal| {
        let claim = observed.claims.get(&ordinal);
        let same = claim.is_some_and(|claim| claim.uid == survivor.claim_uid);
        !same || is_gone_for_good(observed, ordinal)
    })
}

/// Pods that were made before the fence go. Their successors hold their data back.
pub(super) fn fence(observed: &Observed) -> Option<Decision> {
    let fence = observed.cluster.latched.fence?;
    let unreachable = |ordinal: &u32| {
        let binding = observed.node_bindings.get(ordinal);
        binding.is_some_and(|binding| binding.state != NodeState::Ready)
    };
    let stopping = |ordinal: &u32, pod: &Pod| Step::StopPod {
        ordinal: *ordinal,
        uid: pod.uid.clone(),
        force: unreachable(ordinal),
    };
    // All of them stop at once; who already does comes last, after it only one that cannot be stopped.
    let (ordinal, pod) = observed
        .pods
        .iter()
        .filter(|(_, pod)| pod.fence.is_none_or(|of| of < fence))
        .min_by_key(|(ordinal, pod)| {
            let rests = observed.rests(&stopping(ordinal, pod));
            (rests, pod.terminating && !unreachable(ordinal))
        })?;
    let name = observed.member_name(*ordinal);
    // A pod that is stopped before the StatefulSet has the fence comes back as it was.
    if observed.objects.fence < Some(fence)
        && observed.is_held_back(Kind::StatefulSet, &observed.cluster.name)
    {
        return Some(Decision::wait(Recovery::SetNotWritten(name), LATER));
    }
    if pod.terminating && !unreachable(ordinal) {
        return Some(Decision::wait(Recovery::PodStopping(name), SOON));
    }
    let step = stopping(ordinal, pod);
    Some(Decision::act(step, Recovery::StoppingPod(name)))
}

/// Every pod that can report does so before one is chosen.
fn hear(observed: &Observed) -> Option<Decision> {
    if observed.objects.set_uid.is_none() {
        return Some(Decision::wait(Recovery::NoSet, LATER));
    }
    (0..excuse::expected(observed)).find_map(|ordinal| {
        let name = observed.member_name(ordinal);
        let pod = observed.pods.get(&ordinal);
        let heard = pod.is_some_and(|pod| pod.held().is_some());
        // What was chosen before may have bootstrapped already, and must not be passed over.
        let excused = is_excused(observed, ordinal) && !is_chosen(observed, &name);
        if heard || excused {
            return None;
        }
        let why = why_unheard(observed, ordinal, pod);
        Some(Decision::wait(
            why,
            requeue_by_pod_age(observed, ordinal).min(LATER),
        ))
    })
}

/// Why it is waited for, and what a person can do about it where nothing else will.
fn why_unheard(observed: &Observed, ordinal: u32, pod: Option<&Pod>) -> Recovery {
    let name = observed.member_name(ordinal);
    let (doing, give_up) = (Doing::of(pod), give_up(observed, ordinal));
    let broken = pod.and_then(|pod| pod.broken.as_ref());
    if let Some(broken) = broken.filter(|_| is_chosen(observed, &name)) {
        // The cluster that it bootstrapped may have taken writes, so only a user may give it up.
        return Recovery::Survivor(Chosen::Broken(give_up, broken.clone()));
    }

    if pod.is_some_and(|pod| is_homeless(observed, pod, SUSTAINED)) {
        return Recovery::Homeless(give_up, doing);
    }
    Recovery::Unreported(name, doing)
}

/// What a person gives up.
fn give_up(observed: &Observed, ordinal: u32) -> GiveUp {
    GiveUp {
        namespace: observed.cluster.namespace.clone(),
        member: observed.member_name(ordinal),
        claim: api::names::claim(&observed.cluster.name, ordinal),
    }
}

fn is_chosen(observed: &Observed, name: &str) -> bool {
    let recovery = observed.cluster.latched.recovery.as_ref();
    let survivor = recovery.and_then(|recovery| recovery.survivor.as_ref());
    survivor.is_some_and(|survivor| survivor.member == name)
}

/// What a fenced volume holds of the cluster that lost its quorum.
fn remains<'a>(pod: &'a Pod, recovery: &RecoveryIntent) -> Option<&'a Data> {
    let report = pod.held().filter(|report| report.state == State::Fenced)?;
    let data = report.data.as_ref()?;
    (parse_id(&data.cluster_id) == parse_id(&recovery.cluster_id)).then_some(data)
}

/// The longest log wins; of equals one that had a vote, because etcd does not go on from what a learner has; then the
/// lowest ordinal.
fn most_advanced(observed: &Observed, recovery: &RecoveryIntent) -> Option<u32> {
    let all = observed.pods.iter().filter_map(|(ordinal, pod)| {
        let data = remains(pod, recovery)?;
        let log = (data.term, data.index);
        Some(((log, evidence::voted(observed, *ordinal)), *ordinal))
    });
    all.max_by_key(|(log, ordinal)| (*log, std::cmp::Reverse(*ordinal)))
        .map(|(_, ordinal)| ordinal)
}

/// A member that has more of the lost cluster than `chosen` does, and cannot continue it: it was never let through
/// under this object, so its agent knows no fence.
fn longer_elsewhere(
    observed: &Observed,
    recovery: &RecoveryIntent,
    chosen: Option<u32>,
) -> Option<u32> {
    let log = |data: &Data| (data.term, data.index);
    let chosen = chosen.and_then(|ordinal| observed.pods.get(&ordinal));
    let best = chosen
        .and_then(|pod| remains(pod, recovery))
        .map_or((0, 0), log);
    let lost = parse_id(&recovery.cluster_id);
    let mut held = observed.pods.iter().filter_map(|(ordinal, pod)| {
        let report = pod.held()?;
        let unrun = matches!(report.state, State::OtherObject | State::Unidentified);
        Some((*ordinal, report.data.as_ref().filter(|_| unrun)?))
    });
    held.find(|(_, data)| parse_id(&data.cluster_id) == lost && log(data) > best)
        .map(|(ordinal, _)| ordinal)
}

fn bootstrap(observed: &Observed, recovery: &RecoveryIntent) -> Decision {
    let Some(survivor) = &recovery.survivor else {
        return choose(observed, recovery);
    };
    let ordinal = api::names::ordinal(&observed.cluster.name, &survivor.member);
    let pod = ordinal.and_then(|ordinal| Some((ordinal, observed.pods.get(&ordinal)?)));
    // On another claim of that name it is not what was chosen.
    let same = |ordinal: u32| {
        let claim = observed.claims.get(&ordinal);
        claim.is_some_and(|claim| claim.uid == survivor.claim_uid)
    };
    let data = pod.filter(|(ordinal, _)| same(*ordinal));
    let data = data.and_then(|(_, pod)| remains(pod, recovery));
    let (Some((ordinal, pod)), Some(data)) = (pod, data) else {
        let doing = Doing::of(pod.map(|(_, pod)| pod));
        let why = Chosen::Absent(survivor.member.clone(), doing);
        return Decision::wait(Recovery::Survivor(why), LATER);
    };
    let repaired = mend::restart(observed, ordinal, pod);
    if let Some(next) = repaired.or_else(|| failed::wait(observed, ordinal, pod)) {
        return next;
    }
    if pod.is_granted() {
        let why = Chosen::Starts(survivor.member.clone());
        return Decision::wait(Recovery::Survivor(why), SOON);
    }
    let Some(report) = pod.held() else {
        return Decision::wait(Recovery::Survivor(Chosen::Awaited), SOON);
    };
    // No other member was granted its start since the fence; if one runs all the same, it is not passed over.
    let runs = |pod: &Pod| {
        matches!(
            pod.process,
            Process::Refusing(_) | Process::Starting | Process::Serving(_)
        )
    };
    let running = observed.pods.iter().find(|(_, pod)| runs(pod));
    if let Some(open) = running.map(|(n, _)| *n).or(observed.open_grant()) {
        let starting = starting(observed, open);
        let why = Recovery::OnTheWay(Box::new(starting.why));
        return Decision::wait(why, starting.requeue);
    }
    grant_recovery(observed, (ordinal, pod), report, data)
}

/// For this very wait, under the token of this incarnation.
fn grant_recovery(
    observed: &Observed,
    (ordinal, pod): (u32, &Pod),
    report: &Report,
    data: &Data,
) -> Decision {
    let name = observed.member_name(ordinal);
    let grant = Grant {
        nonce: report.nonce.clone(),
        cluster_uid: observed.cluster.uid.clone(),
        incarnation: observed.cluster.latched.incarnation,
        action: Action::Recover {
            token: observed.token(),
            initial_cluster: format!("{}={}", name, observed.peer_url(ordinal)),
            member_id: data.member_id.clone(),
            cluster_id: data.cluster_id.clone(),
            bump_revision: BUMP,
        },
    };
    let step = Step::Grant {
        ordinal,
        pod_uid: pod.uid.clone(),
        grant,
    };
    let why = failed::tell(observed, ordinal, report).unwrap_or(Chosen::Grants {
        member: name,
        term: data.term,
        index: data.index,
    });
    Decision::act(step, Recovery::Survivor(why))
}

/// Recorded before the grant, and never changed for another member: it may have started the new cluster since.
fn choose(observed: &Observed, recovery: &RecoveryIntent) -> Decision {
    let chosen = most_advanced(observed, recovery);
    if let Some(longer) = longer_elsewhere(observed, recovery, chosen) {
        let member = observed.member_name(longer);
        let why = Quorum::LongerElsewhere(member, recovery.cluster_id.clone());
        return Decision::wait(why, LATER);
    }
    let claim = chosen.and_then(|ordinal| observed.claims.get(&ordinal));
    let (Some(ordinal), Some(claim)) = (chosen, claim) else {
        return nothing::remains(observed, recovery);
    };
    let member = observed.member_name(ordinal);
    let why = Recovery::Chosen(member.clone());
    let latched = Latched {
        recovery: Some(RecoveryIntent {
            survivor: Some(Survivor {
                member,
                claim_uid: claim.uid.clone(),
            }),
            ..recovery.clone()
        }),
        ..observed.cluster.latched.clone()
    };
    Decision::act(Step::Latch(latched), why)
}

/// The survivor serves another cluster: from now on that is the cluster.
pub(super) fn complete(observed: &Observed) -> Option<Decision> {
    let (survivor, serving) = successor(observed)?;
    let cluster_id = serving.cluster_id;
    let latched = Latched {
        cluster_id: Some(cluster_id),
        recovery: None,
        // No member of the old one votes in it, and no other yet.
        voters: vec![KnownVoter {
            member: survivor.member.clone(),
            member_id: format_id(serving.member_id),
            index: None,
        }],
        bootstrap: None,
        ..observed.cluster.latched.clone().undisturbed().replaced()
    };
    let step = Step::Latch(latched);
    Some(if observed.cluster.latched.is_being_replaced() {
        Decision::act(step, InPlace::Serves(cluster_id))
    } else {
        Decision::act(step, Recovery::Complete(cluster_id))
    })
}

/// Another cluster serves already.
pub(super) fn has_successor(observed: &Observed) -> bool {
    successor(observed).is_some()
}

/// The chosen survivor and the cluster that it serves, if that is not the old one.
fn successor(observed: &Observed) -> Option<(&Survivor, &Serving)> {
    let latched = &observed.cluster.latched;
    let recovery = latched.recovery.as_ref()?;
    let survivor = recovery.survivor.as_ref()?;
    let ordinal = api::names::ordinal(&observed.cluster.name, &survivor.member)?;
    let pod = observed.pods.get(&ordinal)?;
    let fenced = pod.fence >= latched.fence && pod.fence.is_some();
    let serving = pod
        .serving()
        .filter(|serving| fenced && serving.leader != 0)?;
    let other = Some(serving.cluster_id) != parse_id(&recovery.cluster_id);
    other.then_some((survivor, serving))
}

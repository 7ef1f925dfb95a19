//! Quorum that is lost for good. Nothing is done until a person says so, or until it is proved that so many voters are
//! gone that no quorum can ever return and the spec lets the operator go on by itself. Then every volume is fenced, so
//! that no process of the old cluster can start any more; whoever of those that are left has the longest log founds
//! another cluster on its data, under another token; and the others join it anew.

mod advice;
mod evidence;
mod excuse;
mod failed;
mod mend;

use api::Reason;
use api::v1alpha1::cluster::OnQuorumLoss;
use api::v1alpha1::status::{KnownVoter, RecoveryIntent, Survivor};
use gate::{Action, Data, Grant, Report, State};
use manifests::Kind;

use crate::cluster::membership::starting;
use crate::cluster::{bootstrap, describe, patience};
use crate::decision::{Decision, LATER, SOON, Step};
use crate::observed::{Latched, NodeState, Observed, Pod, Process, Serving, format_id, parse_id};

pub(super) use advice::without_a_list;
pub(super) use evidence::is_gone_for_good;
use evidence::is_proved;
use excuse::{excused, is_excused, is_homeless};

/// Seconds for which a cluster must have been dark before the operator goes on by itself.
const SUSTAINED: i64 = 60;
/// Seconds after which it is no election where nobody is proved to be gone: a word that was given long ago must not turn
/// one into a recovery.
const BLINK: i64 = 15;
/// How far revisions are raised, so that whoever watches notices that history was cut.
pub(crate) const BUMP: u64 = 1_000_000_000;

/// Whether the members can be asked for more than what each of them does. While quorum is being recovered the old cluster
/// has none that could tell, and the next one is known by its founder: nobody waits in vain.
pub fn has_answers(observed: &Observed) -> bool {
    observed.cluster.latched.recovery.is_none()
}

/// What follows while nobody can give a member list, or a recovery has begun.
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
    if account.nobody_has_data() {
        return account.all_gone().then(|| nothing_left(observed, &account));
    }
    let no_election = account.is_hopeless() || is_dark_for(observed, BLINK);
    let told = asked && no_election && observed.cluster.dark_since.is_some();
    let proved = is_left_to_us(observed) && is_proved(observed) && is_dark_for(observed, SUSTAINED);
    let is_for_good = account.is_hopeless() || told || proved;
    if is_for_good && !observed.is_led() && is_half_taken_over(observed) {
        let why = "no quorum returns, and no pod that an earlier operator made can be fenced. Bring a quorum back, or delete the EtcdCluster while spec.storage.claimPolicy.whenDeleted is Retain, and create it anew: it then takes its volumes over as they are, and what is left can be recovered";
        return Some(Decision::wait(Reason::QuorumLost, why, LATER));
    }
    if !observed.is_led() && (told || proved) {
        let latched = Latched {
            joins: Vec::new(),
            retiring: Vec::new(),
            ..another_life(observed, format_id(lost))
        };
        let why = format!("recovering from lost quorum: {}", account.tell());
        return Some(Decision::act(Step::Latch(latched), Reason::Recovering, why));
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

fn nothing_left(observed: &Observed, account: &evidence::Account) -> Decision {
    let name = &observed.cluster.name;
    let earlier = evidence::earlier_lives(observed);
    let earlier = if earlier.is_empty() {
        String::new()
    } else {
        format!(
            "; to go on with what is left of an earlier life ({}), keep the claims of that and delete the others",
            earlier.join("; ")
        )
    };
    let why = format!(
        "nothing is left of the data: {}. To begin with an empty cluster, delete the EtcdCluster {name} and its claims, and create it anew{earlier}",
        account.tell(),
    );
    Decision::wait(Reason::QuorumLost, why, LATER)
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

/// No quorum has served for longer than any election takes.
pub(super) fn is_no_election(observed: &Observed) -> bool {
    is_dark_for(observed, BLINK)
}

fn is_dark_for(observed: &Observed, seconds: i64) -> bool {
    let since = observed.cluster.dark_since;
    since.is_some_and(|since| observed.now.duration_since(since).as_secs() >= seconds)
}

/// Every volume is fenced, then one is chosen, then it founds.
fn go_on(observed: &Observed, recovery: &RecoveryIntent) -> Decision {
    begin_again(observed, recovery)
        .or_else(|| fence(observed))
        .or_else(|| mend::call_off(observed))
        .or_else(|| Some(mend::revive(observed, hear(observed)?)))
        .unwrap_or_else(|| found(observed, recovery))
}

/// Whoever was chosen is gone for good, and whatever it founded with it. The next one is chosen in another life, behind
/// another fence.
fn begin_again(observed: &Observed, recovery: &RecoveryIntent) -> Option<Decision> {
    let survivor = recovery.survivor.as_ref()?;
    if !is_lost(observed, survivor) {
        return None;
    }
    let why = format!(
        "{} was chosen to go on and is gone for good: choosing again",
        survivor.member
    );
    let latched = another_life(observed, recovery.cluster_id.clone());
    Some(Decision::act(Step::Latch(latched), Reason::Recovering, why))
}

/// Everything that lived until now is fenced, and nobody is chosen yet to go on with what is left of this cluster.
fn another_life(observed: &Observed, cluster_id: String) -> Latched {
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
        trial: None,
        ..latched.clone()
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
fn fence(observed: &Observed) -> Option<Decision> {
    let fence = observed.cluster.latched.fence?;
    let unreachable = |ordinal: &u32| {
        let home = observed.homes.get(ordinal);
        home.is_some_and(|home| home.state != NodeState::Fine)
    };
    // All of them stop at once; who already does comes last.
    let (ordinal, pod) = observed
        .pods
        .iter()
        .filter(|(_, pod)| pod.fence.is_none_or(|of| of < fence))
        .min_by_key(|(ordinal, pod)| pod.terminating && !unreachable(ordinal))?;
    let name = observed.member_name(*ordinal);
    // A pod that is stopped before the StatefulSet has the fence comes back as it was.
    if observed.objects.fence < Some(fence)
        && observed.is_held_back(Kind::StatefulSet, &observed.cluster.name)
    {
        let why = format!(
            "{name} is stopped once the StatefulSet could be written, so that its successor holds its data back"
        );
        return Some(Decision::wait(Reason::Recovering, why, LATER));
    }
    let force = unreachable(ordinal);
    if pod.terminating && !force {
        let why = format!("{name} is being stopped, so that its data can be looked at");
        return Some(Decision::wait(Reason::Recovering, why, SOON));
    }
    let step = Step::FreePod {
        ordinal: *ordinal,
        uid: pod.uid.clone(),
        force,
    };
    let why = format!("{name} is stopped, so that nothing of the old cluster runs any more");
    Some(Decision::act(step, Reason::Recovering, why))
}

/// Everybody who can speak is heard before anybody is chosen.
fn hear(observed: &Observed) -> Option<Decision> {
    if observed.objects.set_uid.is_none() {
        let why =
            "waiting for the StatefulSet, without which no pod can show what its volume holds";
        return Some(Decision::wait(Reason::Recovering, why, LATER));
    }
    (0..excuse::expected(observed)).find_map(|ordinal| {
        let name = observed.member_name(ordinal);
        let pod = observed.pods.get(&ordinal);
        let heard = pod.is_some_and(|pod| pod.held().is_some());
        // What was chosen before may have founded already, and must not be passed over.
        let excused = is_excused(observed, ordinal) && !is_chosen(observed, &name);
        if heard || excused {
            return None;
        }
        let why = why_unheard(observed, ordinal, pod);
        Some(Decision::wait(
            Reason::Recovering,
            why,
            patience(observed, ordinal).min(LATER),
        ))
    })
}

/// Why it is waited for, and what a person can do about it where nothing else will.
fn why_unheard(observed: &Observed, ordinal: u32, pod: Option<&Pod>) -> String {
    let name = observed.member_name(ordinal);
    let what = pod.map_or_else(|| "has no pod".to_owned(), describe);
    let commands = give_up(observed, ordinal);
    let broken = pod.and_then(|pod| pod.broken.as_ref());
    if let Some(broken) = broken.filter(|_| is_chosen(observed, &name)) {
        // What it founded may have taken writes, so that nobody but a person gives it up.
        return format!(
            "{name} was chosen to go on, and its data cannot be used: {broken}. Mend it, or give it up, with all that was written to it since: {commands}"
        );
    }
    let waiting = format!("waiting for {name} to show what its volume holds: it {what}");
    if pod.is_some_and(|pod| is_homeless(observed, pod, SUSTAINED)) {
        return format!(
            "{waiting}. Bring back a node for it, or go on without it, and lose what only it has: {commands}"
        );
    }
    waiting
}

/// The commands by which a person gives a volume up.
fn give_up(observed: &Observed, ordinal: u32) -> String {
    let namespace = &observed.cluster.namespace;
    let claim = api::names::claim(&observed.cluster.name, ordinal);
    let name = observed.member_name(ordinal);
    format!(
        "kubectl delete pvc -n {namespace} {claim} --wait=false; kubectl delete pod -n {namespace} {name}"
    )
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

/// Whoever holds more of the lost cluster than `chosen` does, and cannot go on with it: it was never let through under
/// this object, so its agent knows no fence.
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

fn found(observed: &Observed, recovery: &RecoveryIntent) -> Decision {
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
        let what = pod.map_or_else(|| "has no pod".to_owned(), |(_, pod)| describe(pod));
        let why = format!(
            "{} was chosen to go on and cannot: it {what}",
            survivor.member
        );
        return Decision::wait(Reason::Recovering, why, LATER);
    };
    let mended = mend::restart(observed, ordinal, pod);
    if let Some(next) = mended.or_else(|| failed::wait(observed, ordinal, pod)) {
        return next;
    }
    if pod.is_granted() {
        let why = format!("{} founds another cluster on its data", survivor.member);
        return Decision::wait(Reason::Recovering, why, SOON);
    }
    let Some(report) = pod.held() else {
        return Decision::wait(Reason::Recovering, "waiting for the survivor", SOON);
    };
    // Nobody else was let through since the fence; if somebody says otherwise, it is not passed over.
    let runs = |pod: &Pod| matches!(pod.process, Process::Starting | Process::Serving(_));
    let running = observed.pods.iter().find(|(_, pod)| runs(pod));
    if let Some(open) = running.map(|(n, _)| *n).or(observed.open_grant()) {
        return Decision {
            reason: Reason::Recovering,
            ..starting(observed, open)
        };
    }
    let_through(observed, (ordinal, pod), report, data)
}

/// For this very wait, under the token of this life.
fn let_through(
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
            token: bootstrap::token(observed),
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
    let why = failed::tell(observed, ordinal, report).unwrap_or_else(|| {
        let (term, index) = (data.term, data.index);
        format!("{name} goes on with what it has: term {term}, index {index}")
    });
    Decision::act(step, Reason::Recovering, why)
}

/// Written down before it is let through, and never changed for another: it may have founded since.
fn choose(observed: &Observed, recovery: &RecoveryIntent) -> Decision {
    let chosen = most_advanced(observed, recovery);
    if let Some(longer) = longer_elsewhere(observed, recovery, chosen) {
        let why = format!(
            "{} holds more of cluster {} than any other volume, and has never run under this object. Delete the EtcdCluster while spec.storage.claimPolicy.whenDeleted is Retain, and create it anew: it then takes its volumes over as they are",
            observed.member_name(longer),
            recovery.cluster_id
        );
        return Decision::wait(Reason::QuorumLost, why, LATER);
    }
    let claim = chosen.and_then(|ordinal| observed.claims.get(&ordinal));
    let (Some(ordinal), Some(claim)) = (chosen, claim) else {
        let why = format!(
            "no volume holds data of cluster {} any more: bring one back, or delete the EtcdCluster and its claims to begin anew",
            recovery.cluster_id
        );
        return Decision::wait(Reason::QuorumLost, why, LATER);
    };
    let member = observed.member_name(ordinal);
    let why = format!("{member} has the longest log of those that are left");
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
    Decision::act(Step::Latch(latched), Reason::Recovering, why)
}

/// The survivor serves another cluster: from now on that is the cluster.
pub(super) fn complete(observed: &Observed) -> Option<Decision> {
    let (founder, serving) = founder(observed)?;
    let cluster_id = serving.cluster_id;
    let latched = Latched {
        cluster_id: Some(cluster_id),
        recovery: None,
        // Nobody of the old one votes in it, and nobody else yet.
        voters: vec![KnownVoter {
            member: founder.member.clone(),
            member_id: format_id(serving.member_id),
            index: None,
        }],
        bootstrap: None,
        trial: None,
        ..observed.cluster.latched.clone()
    };
    let why = format!("what was left lives on as cluster {cluster_id:x}");
    Some(Decision::act(Step::Latch(latched), Reason::Recovering, why))
}

/// The chosen survivor and the cluster that it serves, if that is not the old one.
fn founder(observed: &Observed) -> Option<(&Survivor, &Serving)> {
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

//! What the invariants mean by their terms, said once more and over data only. The rules have definitions of their own: a
//! mistake in one of the two is found by the other. Shared are data types, names and the arithmetic of quorums; `cargo
//! xtask tidy` refuses a call to anything else.

use api::v1alpha1::memory::ReplaceStage;
use gate::{Action, Report, State};

use crate::observed::{
    Alarm, Claim, Latched, Member, MemberList, NodeState, Observed, Pod, Process, Serving, Stall,
    UpkeepTask, Writes, parse_id, quorum,
};

/// Seconds that a stall must last before a member is said to hang.
const HANG_SECONDS: i64 = 30;
/// Milliseconds per write from which on a disk is of no use to etcd.
const USELESS_DISK_MILLIS: u64 = 1000;
/// First minor version of etcd that can have more than one learner.
const MANY_LEARNERS: u8 = 6;

/// The member whose peer URL has the name of this ordinal.
pub(super) fn member_of(observed: &Observed, ordinal: u32) -> Option<&Member> {
    let mut members = observed.etcd.members.iter().flat_map(|list| &list.members);
    members.find(|member| observed.ordinal_of(member) == Some(ordinal))
}

/// What the pod says that serves under this member ID.
pub(super) fn serving_as(observed: &Observed, id: u64) -> Option<&Serving> {
    observed.pods.values().find_map(|pod| match &pod.process {
        Process::Serving(serving) if serving.member_id == id => Some(serving),
        _other => None,
    })
}

/// The others list it, and it has never published its name.
pub(super) fn never_started(member: &Member) -> bool {
    member.name.is_empty()
}

/// It serves under its ID, in the cluster of the member list, follows a leader, and does not hang.
pub(super) fn is_healthy(observed: &Observed, list: &MemberList, member: &Member) -> bool {
    let serves = serving_as(observed, member.id)
        .is_some_and(|serving| serving.cluster_id == list.cluster_id && serving.leader > 0);
    serves && !hangs(observed, member)
}

/// Voters that are healthy.
pub(super) fn healthy_voters(observed: &Observed, list: &MemberList) -> usize {
    let healthy = |voter: &&Member| is_healthy(observed, list, voter);
    list.voters().filter(healthy).count()
}

/// The healthy voters are a quorum.
pub(super) fn has_quorum(observed: &Observed, list: &MemberList) -> bool {
    healthy_voters(observed, list) >= quorum(list.voters().count())
}

/// Its pod does not exist or is being deleted, or this operator defragments it. A member that is not ours has no pod to
/// go by.
pub(super) fn is_away(observed: &Observed, member: &Member) -> bool {
    let Some(ordinal) = observed.ordinal_of(member) else {
        return false;
    };
    let defragmented = observed.etcd.upkeep.is_some_and(|upkeep| {
        let of_it = matches!(upkeep.task, UpkeepTask::Defragment { ordinal: n } if n == ordinal);
        of_it && !upkeep.done
    });
    match observed.pods.get(&ordinal) {
        Some(pod) => pod.terminating || defragmented,
        None => true,
    }
}

/// A voter that runs, and for half a minute has applied nothing or waited for its disk.
pub(super) fn hangs(observed: &Observed, member: &Member) -> bool {
    let ordinal = observed.ordinal_of(member);
    let Some(pod) = ordinal.and_then(|ordinal| observed.pods.get(&ordinal)) else {
        return false;
    };
    let another = match &pod.process {
        Process::Serving(serving) => serving.member_id != member.id,
        Process::Unknown | Process::Refusing(_) | Process::Held(_) | Process::Starting => false,
    };
    let Some(stall) = &pod.stall else {
        return false;
    };
    let seconds = observed.now.duration_since(stall.since).as_secs();
    let lasts = seconds >= HANG_SECONDS && (stall.stuck || has_useless_disk(observed, stall));
    lasts && !member.learner && !pod.terminating && !another
}

/// A write took a second or more: of the log or the database as etcd measured it, or of the log by what has ended since.
fn has_useless_disk(observed: &Observed, stall: &Stall) -> bool {
    let slow = |writes: Writes| {
        let least = writes.count.saturating_mul(USELESS_DISK_MILLIS);
        writes.count > 0 && writes.millis >= least
    };
    let since = observed.now.duration_since(stall.since).as_millis();
    let seldom = stall.log.is_some_and(|log| {
        let least = log.count.max(1).saturating_mul(USELESS_DISK_MILLIS);
        since >= i128::from(least)
    });
    seldom || stall.log.is_some_and(slow) || stall.database.is_some_and(slow)
}

/// The member that most of those who answer follow; of as many, the one with the highest ID.
pub(super) fn leader(observed: &Observed) -> Option<u64> {
    let followed = || {
        let serving = observed.pods.values().filter_map(Pod::serving);
        serving.map(|serving| serving.leader).filter(|id| *id > 0)
    };
    let votes = |id: u64| followed().filter(|other| *other == id).count();
    followed().max_by_key(|id| (votes(*id), *id))
}

/// A process that answers follows a leader, and has applied something or written to its disk in the last half minute.
pub(super) fn is_led(observed: &Observed) -> bool {
    let stalls = |pod: &Pod| {
        pod.stall.as_ref().is_some_and(|stall| {
            let seconds = observed.now.duration_since(stall.since).as_secs();
            seconds >= HANG_SECONDS && (stall.stuck || has_useless_disk(observed, stall))
        })
    };
    let mut pods = observed.pods.values().filter(|pod| !stalls(pod));
    pods.any(|pod| pod.serving().is_some_and(|serving| serving.leader > 0))
}

/// Its node is known not to end or start pods at present.
pub(super) fn is_on_a_dead_node(observed: &Observed, name: &str) -> bool {
    let ordinal = api::names::ordinal(&observed.cluster.name, name);
    let binding = ordinal.and_then(|ordinal| observed.node_bindings.get(&ordinal));
    binding.is_some_and(|binding| match binding.state {
        NodeState::Ready => false,
        NodeState::NotReady(_) | NodeState::OutOfService | NodeState::Deleted => true,
    })
}

/// Ordinals whose member was added and let through, and has not been heard of since: no process, no other wait.
pub(super) fn open_grants(observed: &Observed) -> impl Iterator<Item = u32> {
    observed.pods.iter().filter_map(|(ordinal, pod)| {
        let member = member_of(observed, *ordinal).filter(|member| never_started(member))?;
        let unheard = match &pod.process {
            Process::Unknown | Process::Refusing(_) => true,
            Process::Held(report) => pod.grant.as_ref()?.nonce == report.nonce,
            Process::Starting | Process::Serving(_) => false,
        };
        (joined_as(pod) == Some(member.id) && unheard).then_some(*ordinal)
    })
}

/// No member that was let through is still to be heard of.
pub(super) fn no_grant_is_open(observed: &Observed) -> bool {
    open_grants(observed).next().is_none()
}

/// The member ID that the pod was let through with.
fn joined_as(pod: &Pod) -> Option<u64> {
    match &pod.grant.as_ref()?.action {
        Action::Join { member_id, .. } => parse_id(member_id),
        Action::Bootstrap { .. }
        | Action::Resume { .. }
        | Action::Recover { .. }
        | Action::Restore { .. } => None,
    }
}

/// It carries the permission for the wait that it reports.
pub(super) fn is_granted(pod: &Pod) -> bool {
    let nonce = pod.grant.as_ref().map(|grant| &grant.nonce);
    nonce.is_some() && nonce == pod.held().map(|report| &report.nonce)
}

/// This wait of this pod is recorded, and the ID that is listed was not given to an earlier wait of it.
pub(super) fn is_admitted(observed: &Observed, ordinal: u32, pod: &Pod, report: &Report) -> bool {
    let name = observed.member_name(ordinal);
    let mut joins = observed.cluster.latched.joins.iter();
    let written = joins
        .any(|join| (&join.member, &join.pod_uid, &join.nonce) == (&name, &pod.uid, &report.nonce));
    let listed = member_of(observed, ordinal).map(|member| member.id);
    let spent = !is_granted(pod) && listed.is_some() && joined_as(pod) == listed;
    written && !spent
}

/// The report of an agent that cannot go on as the member it was: nothing of it lies on the volume, or less than it had.
pub(super) fn without_data(observed: &Observed, ordinal: u32) -> Option<&Report> {
    let report = observed.pods.get(&ordinal)?.held()?;
    let none = match report.state {
        State::Empty | State::Damaged | State::RolledBack | State::Fenced => true,
        State::OtherObject | State::Unidentified | State::Mismatch => {
            is_not_its_own(observed, ordinal, report)
        }
    };
    none.then_some(report)
}

/// On a claim that was made for this member lies data of another cluster or another member; or data of an ID that this
/// cluster does not list, so that nothing was ever written under it.
pub(super) fn is_not_its_own(observed: &Observed, ordinal: u32, report: &Report) -> bool {
    let Some(data) = &report.data else {
        return false;
    };
    let made_for_it = observed
        .claims
        .get(&ordinal)
        .is_some_and(|claim| claim.ours);
    let known = observed.cluster.latched.cluster_id;
    let found = parse_id(&data.cluster_id);
    let of_another_cluster = made_for_it && known.is_some() && found != known;
    let pod = data.identity.as_ref().and_then(|it| it.pod.as_ref());
    let of_another_member =
        made_for_it && pod.is_some_and(|pod| *pod != observed.member_name(ordinal));
    let of_a_removed_member = observed.etcd.members.as_ref().is_some_and(|list| {
        let id = parse_id(&data.member_id);
        let mut members = list.members.iter();
        found == Some(list.cluster_id) && !members.any(|member| Some(member.id) == id)
    });
    let mismatch = report.state == State::Mismatch;
    of_another_cluster || (mismatch && (of_another_member || of_a_removed_member))
}

/// Every member is seen on a minor version that can have more than one learner; one that never started will run what is
/// proven.
pub(super) fn can_have_many_learners(observed: &Observed, list: &MemberList) -> bool {
    let proven = observed.cluster.latched.proven.as_ref();
    let version = |member: &Member| {
        if never_started(member) {
            proven.map(|proven| proven.version)
        } else {
            serving_as(observed, member.id)?.version
        }
    };
    let mut minors = list.members.iter().map(|m| version(m).map(|v| v.minor));
    minors.all(|minor| minor >= Some(MANY_LEARNERS))
}

/// Each voter was asked for its view, and lists these members and no others.
pub(super) fn all_voters_agree_on(observed: &Observed, list: &MemberList) -> bool {
    list.voters().all(|voter| {
        let view = serving_as(observed, voter.id).and_then(|serving| serving.view.as_ref());
        view.is_some_and(|view| {
            let known = list.members.iter().filter(|m| view.contains(&m.id)).count();
            known == view.len() && known == list.members.len()
        })
    })
}

/// The text lists each member once for each of its URLs, in the order of the list; the joiner under its own name, and
/// no two under one name.
pub(super) fn is_initial_cluster(
    observed: &Observed,
    list: &MemberList,
    (joiner, text): (u32, &str),
) -> bool {
    let own = observed.member_name(joiner);
    let mut entries = text.split(',').map(|entry| entry.split_once('='));
    for member in &list.members {
        let joins = observed.ordinal_of(member) == Some(joiner);
        for url in &member.peer_urls {
            let Some(Some((name, given))) = entries.next() else {
                return false;
            };
            let named = !name.is_empty() && (name == own) == joins;
            let same = never_started(member) || joins || name == member.name;
            if given != url || !named || !same {
                return false;
            }
        }
    }
    entries.next().is_none()
}

/// Kubernetes says that its container cannot start, and nothing answers.
pub(super) fn cannot_start(pod: &Pod) -> bool {
    pod.problem.is_some() && matches!(pod.process, Process::Unknown)
}

/// It was never let through, and it is known that etcd does not run in it: its agent waits, or its container cannot
/// start. Silence is not enough.
pub(super) fn has_never_run(pod: &Pod) -> bool {
    pod.grant.is_none() && (pod.held().is_some() || cannot_start(pod))
}

/// This object made the claim, or has formed a cluster on what lay on it.
pub(super) fn is_of_this_object(observed: &Observed, claim: &Claim) -> bool {
    observed.cluster.latched.cluster_id.is_some() || claim.ours
}

/// A member of this cluster reports the alarm.
pub(super) fn stands(observed: &Observed, list: &MemberList, alarm: Alarm) -> bool {
    let mut serving = observed.pods.values().filter_map(Pod::serving);
    serving.any(|serving| {
        let mut told = serving.errors.iter();
        serving.cluster_id == list.cluster_id && told.any(|text| Alarm::parse(text) == Some(alarm))
    })
}

/// The bytes that a database may have: as the member says, or, on 3.5, as its template does.
pub(super) fn quota_of(observed: &Observed, serving: &Serving) -> Option<u64> {
    let said = serving.space.quota.or_else(|| {
        let mut pods = observed.pods.values();
        let pod = pods.find(|pod| {
            pod.serving()
                .is_some_and(|s| s.member_id == serving.member_id)
        })?;
        let target = observed.cluster.target.as_ref()?;
        (pod.template == target.template).then(|| target.intent.quota())
    });
    said.filter(|quota| *quota != 0)
}

/// How far it was recorded that a backup takes the place of the data.
pub(super) fn stage_of_replace(latched: &Latched) -> Option<ReplaceStage> {
    latched.replace.as_ref().map(|replace| replace.stage)
}

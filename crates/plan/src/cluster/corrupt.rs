//! Members whose data differs. With a majority of all voters that agree on one hash, the members that are outvoted are
//! replaced ([`super::replace`]) and the alarm is disarmed; without one it is not known which members are right, and
//! nothing is touched.

use std::collections::BTreeMap;

use api::Reason;

use crate::decision::{Decision, LATER, Step};
use crate::observed::{Alarm, AlarmKind, Hash, Member, MemberList, Observed, quorum};
use crate::why::{Away, Repair};

/// What the voters say of their data.
struct Poll<'a> {
    /// The hash that a majority of all voters has.
    agreed: Option<Hash>,
    /// Voters that have another one at the same revisions.
    outvoted: Vec<&'a Member>,
    /// Voters that have said nothing.
    silent: Vec<&'a Member>,
    /// Two voters differ at the same revisions.
    conflict: bool,
}

fn poll<'a>(observed: &Observed, list: &'a MemberList) -> Poll<'a> {
    let hash = |voter: &Member| {
        let serving = observed.serving_as(voter.id);
        serving.filter(|s| s.cluster_id == list.cluster_id)?.hash
    };
    let told: Vec<(&Member, Hash)> = list
        .voters()
        .filter_map(|voter| Some((voter, hash(voter)?)))
        .collect();
    let mut counts: BTreeMap<Hash, usize> = BTreeMap::new();
    for (_, hash) in &told {
        let count = counts.entry(*hash).or_default();
        *count = count.saturating_add(1);
    }
    let needed = quorum(list.voters().count());
    let agreed = counts.iter().find(|(_, count)| **count >= needed);
    let agreed = agreed.map(|(hash, _)| *hash);
    let differ = |one: &Hash, other: &Hash| {
        let comparable = (one.revision, one.compacted) == (other.revision, other.compacted);
        comparable && one.hash != other.hash
    };
    let outvoted = told
        .iter()
        .filter(|(_, hash)| agreed.is_some_and(|agreed| differ(&agreed, hash)))
        .map(|(voter, _)| *voter);
    let silent = list.voters().filter(|voter| hash(voter).is_none());
    Poll {
        agreed,
        outvoted: outvoted.collect(),
        silent: silent.collect(),
        conflict: counts
            .keys()
            .any(|one| counts.keys().any(|other| differ(one, other))),
    }
}

fn alarm(observed: &Observed) -> Option<Alarm> {
    let mut alarms = observed.alarms().into_iter();
    alarms.find(|alarm| alarm.kind == AlarmKind::Corrupt)
}

/// Why hashes may be asked for without an alarm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Due {
    /// There is no reason.
    No,
    /// They have not been for a while.
    ByTheClock,
    /// The status says that data differs: this holds until the hashes have been compared again.
    Told,
}

/// Whether the hashes of the members should be asked for: on an alarm, while a member that serves is being replaced,
/// where data was seen to differ, and by the clock in a cluster that has nothing else to do.
pub fn compares(observed: &Observed, due: Due) -> bool {
    let Some(list) = &observed.etcd.members else {
        return false;
    };
    let replaced = observed.leaving().any(|leaving| {
        let pod = observed.pods.get(&leaving.ordinal);
        let serves = pod.is_some_and(|pod| pod.serving().is_some());
        leaving.intent.replaced.is_some() && leaving.listed == Some(true) && serves
    });
    let settled = !observed.is_changing()
        && list.members.iter().all(|member| {
            !member.learner && observed.is_healthy(member) && !observed.is_away(member)
        });
    let due = match due {
        Due::No => false,
        Due::ByTheClock => settled,
        Due::Told => true,
    };
    alarm(observed).is_some() || replaced || (due && list.voters().count() > 1)
}

/// The revision at which hashes are compared: one that every voter that serves has reached.
pub fn common_revision(observed: &Observed) -> Option<u64> {
    let list = observed.etcd.members.as_ref()?;
    let serving = list
        .voters()
        .filter_map(|voter| observed.serving_as(voter.id));
    serving.map(|serving| serving.space.revision).min()
}

/// The hash of every voter is known, and all are equal.
pub fn is_alike(observed: &Observed) -> bool {
    let list = observed.etcd.members.as_ref();
    list.is_some_and(|list| is_unanimous(&poll(observed, list)))
}

fn is_unanimous(poll: &Poll<'_>) -> bool {
    poll.agreed.is_some() && poll.silent.is_empty() && !poll.conflict && poll.outvoted.is_empty()
}

/// Why a member's data is not that of the cluster; `None` while that is not known.
pub(super) fn diagnose(observed: &Observed, member: &Member) -> Option<String> {
    let list = observed.etcd.members.as_ref()?;
    let poll = poll(observed, list);
    let outvoted = poll.outvoted.iter().any(|voter| voter.id == member.id);
    let revision = poll.agreed?.revision;
    outvoted.then(|| format!("its data differs from the majority at revision {revision}"))
}

/// Whose data is known to differ from that of the majority.
pub(crate) fn complaints(observed: &Observed) -> Vec<(Reason, String)> {
    let list = observed.etcd.members.iter();
    let differing = list.flat_map(MemberList::voters).filter_map(|voter| {
        let why = diagnose(observed, voter)?;
        Some((
            Reason::DataInconsistent,
            format!("{}: {why}", name(observed, voter)),
        ))
    });
    differing.collect()
}

/// A leader that is to be removed transfers leadership first.
pub(super) fn hand_over(
    observed: &Observed,
    list: &MemberList,
    (ordinal, member): (u32, &Member),
) -> Option<Decision> {
    let serves = observed.serving_as(member.id).is_some();
    if !serves || observed.leader() != Some(member.id) {
        return None;
    }
    let outvoted = poll(observed, list).outvoted;
    let transferee = observed
        .transferee(list, member.id)
        .filter(|transferee| !outvoted.iter().any(|voter| voter.id == transferee.id))?;
    let step = Step::MoveLeader {
        to: transferee.id,
        ordinal,
    };
    let why = Repair::HandsOver(observed.member_name(ordinal), transferee.name.clone());
    Some(Decision::act(step, why))
}

/// Before anything else is touched: nothing is done where it is not known which members are right.
pub(super) fn decide(observed: &Observed, list: &MemberList) -> Option<Decision> {
    let alarm = alarm(observed);
    let poll = poll(observed, list);
    // A member whose volume a person wiped joins again with the data of the leader; then there is a majority.
    let wiped = observed
        .pods
        .keys()
        .any(|ordinal| observed.needs_new_member(*ordinal).is_some());
    let regrows = wiped || list.learners().next().is_some();
    if poll.agreed.is_none() && regrows {
        return None;
    }
    if poll.agreed.is_none() && poll.conflict && poll.silent.is_empty() {
        return Some(Decision::refuse(refusal(observed, list)));
    }
    if poll.agreed.is_none() && (poll.conflict || alarm.is_some()) {
        let silent: Vec<String> = poll.silent.iter().map(|m| name(observed, m)).collect();
        let away = away(observed, list, &poll);
        let why = Repair::MayDiffer { silent, away };
        return Some(Decision::wait(why, LATER));
    }
    let alarm = alarm.filter(|_| is_unanimous(&poll))?;
    Some(Decision::act(Step::Disarm { alarm }, Repair::Consistent))
}

/// A voter that does not run may be the one whose data decides, so it is not given up without a person. Those that run are a
/// quorum without it, or there would be no list; wiped, it comes back with the data of the leader.
fn away(observed: &Observed, list: &MemberList, poll: &Poll<'_>) -> Option<Away> {
    let mut away = poll.silent.iter().filter_map(|voter| {
        let ordinal = observed.ordinal_of(voter)?;
        let runs = observed.serving_as(voter.id).is_some();
        (!runs && observed.can_lose(list, voter)).then_some(ordinal)
    });
    let ordinal = away.next()?;
    Some(Away {
        namespace: observed.cluster.namespace.clone(),
        member: observed.member_name(ordinal),
        claim: api::names::claim(&observed.cluster.name, ordinal),
    })
}

fn name(observed: &Observed, member: &Member) -> String {
    let ordinal = observed.ordinal_of(member);
    ordinal.map_or_else(|| member.name.clone(), |n| observed.member_name(n))
}

fn refusal(observed: &Observed, list: &MemberList) -> Repair {
    let hashes = list
        .voters()
        .filter_map(|voter| {
            let hash = observed.serving_as(voter.id)?.hash?;
            Some((name(observed, voter), hash.hash))
        })
        .collect();
    let revision = common_revision(observed).unwrap_or_default();
    Repair::Inconsistent { revision, hashes }
}

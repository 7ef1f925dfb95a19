//! What etcd itself must have done before members may run on another line: its data follows the oldest member up only
//! after the last one, and goes down only by etcd's own protocol.

use std::cmp::Ordering;

use api::Reason;

use crate::decision::{Decision, LATER, Step};
use crate::observed::{Member, MemberList, Observed, Proven, Serving};

/// The step that comes before any member may run on the target's line; `None` when nothing stands in the way.
pub(super) fn prepare(observed: &Observed, list: &MemberList, proven: &Proven) -> Option<Decision> {
    let target = observed.cluster.target.as_ref()?.intent.version;
    cancel(observed, list, target.minor).or_else(|| match target.minor.cmp(&proven.version.minor) {
        Ordering::Less => descend(observed, list, target.minor),
        Ordering::Greater => ascend(observed, list, proven.version.minor),
        Ordering::Equal => None,
    })
}

fn members<'a>(
    observed: &'a Observed,
    list: &'a MemberList,
) -> impl Iterator<Item = Option<&'a Serving>> {
    let members = list.members.iter();
    members
        .filter(|member| !has_tried_in_vain(observed, member))
        .map(|member| observed.serving_as(member.id))
}

/// It runs nothing, on a template that is not the proven one: its data was ready before it was restarted on that, and
/// nothing has touched it since.
pub(crate) fn has_tried_in_vain(observed: &Observed, member: &Member) -> bool {
    let proven = observed.cluster.latched.proven.as_ref();
    let ordinal = observed.ordinal_of(member);
    let pod = ordinal.and_then(|ordinal| observed.pods.get(&ordinal));
    pod.zip(proven)
        .is_some_and(|(pod, proven)| pod.runs_nothing() && pod.template != proven.template)
}

/// A downgrade that is under way to another line is stopped.
pub(super) fn cancel(observed: &Observed, list: &MemberList, minor: u8) -> Option<Decision> {
    let under_way = members(observed, list)
        .flatten()
        .find_map(|serving| serving.downgrade)?;
    (under_way != minor).then(|| {
        let why = format!("the downgrade to 3.{under_way} is no longer asked for");
        Decision::act(Step::Downgrade { to: None }, Reason::Downgrading, why)
    })
}

/// Every member's data must have the format of the line they came to, before the next one is begun.
fn ascend(observed: &Observed, list: &MemberList, from: u8) -> Option<Decision> {
    let late = |serving: Option<&Serving>| {
        serving.is_none_or(|serving| {
            let runs = serving.version.is_some_and(|version| version.minor >= from);
            // 3.5 does not tell.
            let converted = from == 5 || serving.storage.is_some_and(|storage| storage >= from);
            !(runs && converted)
        })
    };
    let waits = members(observed, list).any(late);
    waits.then(|| {
        let why = format!("waiting until the data of every member has the format of 3.{from}");
        Decision::wait(Reason::RollingOut, why, LATER)
    })
}

/// No member of an older line before every member's data says that it can be read there, and nothing can change that
/// under way: a member of that line that runs, or a downgrade that etcd was asked for.
fn descend(observed: &Observed, list: &MemberList, to: u8) -> Option<Decision> {
    let runs_older = |serving: &Serving| serving.version.is_some_and(|version| version.minor <= to);
    let readable = |serving: &Serving| {
        runs_older(serving) || serving.storage.is_some_and(|storage| storage <= to)
    };
    let all_readable = members(observed, list).all(|serving| serving.is_some_and(readable));
    let under_way = members(observed, list)
        .flatten()
        .any(|serving| serving.downgrade == Some(to));
    let held = under_way || members(observed, list).flatten().any(runs_older);
    if all_readable && held {
        return None;
    }
    // Here nobody is left out: the data of one that cannot run would not be prepared.
    let mut all = list.members.iter();
    let all_healthy = all.all(|member| observed.is_healthy(member));
    // Until etcd has finished the way up, it knows of no way down.
    Some(if under_way || all_readable || !all_healthy {
        let why = format!("waiting until the data of every member has the format of 3.{to}");
        Decision::wait(Reason::Downgrading, why, LATER)
    } else {
        let why = format!("etcd is to prepare its data for 3.{to}");
        Decision::act(Step::Downgrade { to: Some(to) }, Reason::Downgrading, why)
    })
}

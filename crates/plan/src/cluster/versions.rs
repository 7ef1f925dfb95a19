//! What etcd itself must have done before members may run on another line: its data follows the oldest member up only
//! after the last one, and goes down only by etcd's own protocol.

use std::cmp::Ordering;

use api::Reason;

use crate::decision::{Decision, LATER, Step};
use crate::observed::{Latched, Member, MemberList, Observed, Proven, Serving};

/// The step that comes before any member may run on the target's line; `None` when nothing stands in the way.
pub(super) fn prepare(observed: &Observed, list: &MemberList, proven: &Proven) -> Option<Decision> {
    let target = observed.cluster.target.as_ref()?.intent.version;
    renew_logs(observed, list, proven)
        .or_else(|| cancel(observed, list, target.minor))
        .or_else(|| match target.minor.cmp(&proven.version.minor) {
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

/// Every member runs a newer line than is proven, and the data is about to follow: nobody goes back until it has, or an
/// old binary would meet data that turns new under it.
pub(super) fn ahead(observed: &Observed, list: &MemberList, proven: &Proven) -> Option<Decision> {
    let minor = proven.version.minor;
    let newer = |serving: &Serving| serving.version.is_some_and(|version| version.minor > minor);
    let all = members(observed, list).all(|serving| serving.is_some_and(newer));
    let held = members(observed, list)
        .flatten()
        .any(|serving| serving.downgrade == Some(minor));
    let target = observed.cluster.target.as_ref()?.intent.version;
    (all && !held && target.minor <= minor).then(|| {
        let why = format!("every member runs a newer line than 3.{minor}: waiting until the data has followed, before it can go back");
        Decision::wait(Reason::RollingOut, why, LATER)
    })
}

/// 3.7 reads the log from the last snapshot on and cannot read what 3.5 wrote there; a quiet cluster makes none for
/// months. It makes one when the format of its data falls: so it falls to that of 3.5 and rises again, which takes
/// seconds and restarts nobody.
fn renew_logs(observed: &Observed, list: &MemberList, proven: &Proven) -> Option<Decision> {
    let target = observed.cluster.target.as_ref()?.intent.version;
    let latched = &observed.cluster.latched;
    let renewed = latched.log_line.is_some_and(|line| line > 5);
    if target.minor < 7 || proven.version.minor != 6 || renewed {
        return None;
    }
    let all = |holds: &dyn Fn(&Serving) -> bool| {
        members(observed, list).all(|serving| serving.is_some_and(holds))
    };
    let falls = members(observed, list)
        .flatten()
        .any(|serving| serving.downgrade == Some(5));
    if falls && !latched.renewing {
        // One that was asked for earlier: members of 3.5 may have run since.
        return cancel(observed, list, target.minor);
    }
    let remember = |line: Option<u8>, renewing: bool, why: &str| {
        let latched = Latched {
            log_line: line,
            renewing,
            ..latched.clone()
        };
        Decision::act(Step::Latch(latched), Reason::RollingOut, why)
    };
    if falls && all(&|serving| serving.storage == Some(5)) {
        let why = "every member has made a snapshot that 3.7 can begin with";
        return Some(remember(Some(6), false, why));
    }
    let ready = list
        .members
        .iter()
        .all(|member| observed.is_healthy(member))
        && all(&|serving| serving.storage == Some(6));
    if !falls && ready {
        let why =
            "having every member make a snapshot: 3.7 cannot read what 3.5 wrote into the logs";
        if !latched.renewing {
            return Some(remember(latched.log_line, true, why));
        }
        let step = Step::Downgrade { to: Some(5) };
        return Some(Decision::act(step, Reason::RollingOut, why));
    }
    let why = "waiting until every member has made a snapshot that 3.7 can begin with";
    Some(Decision::wait(Reason::RollingOut, why, LATER))
}

/// The members whose data is asked about.
fn asked<'a>(
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
    let waits = asked(observed, list).any(late);
    waits.then(|| {
        let why = format!("waiting until the data of every member has the format of 3.{from}");
        Decision::wait(Reason::RollingOut, why, LATER)
    })
}

/// No member of an older line before every member's data says that it can be read there, and nothing can change that
/// under way: a member of that line that runs, or a downgrade that etcd was asked for.
fn descend(observed: &Observed, list: &MemberList, to: u8) -> Option<Decision> {
    let runs_older = |serving: &Serving| serving.version.is_some_and(|version| version.minor <= to);
    let runs_next = |serving: &Serving| {
        let above = to.saturating_add(1);
        serving
            .version
            .is_some_and(|version| version.minor == above)
    };
    let readable = |serving: &Serving| {
        runs_older(serving) || serving.storage.is_some_and(|storage| storage <= to)
    };
    let all_readable = asked(observed, list).all(|serving| serving.is_some_and(readable));
    let under_way = members(observed, list)
        .flatten()
        .any(|serving| serving.downgrade == Some(to));
    let held = under_way || members(observed, list).flatten().any(runs_older);
    if all_readable && held {
        return None;
    }
    // Here nobody is left out: the data of one that cannot run would not be prepared, and one that runs a line above
    // would be thrown out.
    let mut all = list.members.iter();
    let all_healthy = all.all(|member| observed.is_healthy(member))
        && members(observed, list).flatten().all(runs_next);
    // Until etcd has finished the way up, it knows of no way down.
    Some(if under_way || all_readable || !all_healthy {
        let why = format!("waiting until the data of every member has the format of 3.{to}");
        Decision::wait(Reason::Downgrading, why, LATER)
    } else {
        let why = format!("etcd is to prepare its data for 3.{to}");
        Decision::act(Step::Downgrade { to: Some(to) }, Reason::Downgrading, why)
    })
}

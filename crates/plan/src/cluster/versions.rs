//! What etcd itself must have done before members may run on another line: its data follows the oldest member up only
//! after the last one, and goes down only by etcd's own protocol.

use std::cmp::Ordering;

use api::Reason;

use crate::cluster::describe;
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

/// The release that the spec asks for cannot be reached from the one that runs, or the spec makes no sense.
pub(super) fn refused(observed: &Observed, _: &MemberList) -> Option<Decision> {
    let target = observed.cluster.target.as_ref()?;
    let reason = match target.invalid {
        Some(_) => Reason::InvalidSpec,
        None => Reason::Refused,
    };
    Some(Decision::refuse(reason, target.refused.clone()?))
}

/// Nobody joins while the logs are renewed: etcd lets nobody in who is newer than the line that it goes down to.
pub(super) fn renewal(observed: &Observed, list: &MemberList) -> Option<Decision> {
    let latched = &observed.cluster.latched;
    let proven = latched.proven.as_ref()?;
    let target = observed.cluster.target.as_ref()?.intent.version;
    if latched.renewing && (target.minor < 7 || proven.version.minor != 6) {
        let latched = Latched {
            renewing: false,
            ..latched.clone()
        };
        let why = "the logs need not be renewed any more: 3.7 is no longer asked for";
        return Some(Decision::act(Step::Latch(latched), Reason::RollingOut, why));
    }
    let renews = latched.renewing && latched.trial.is_none();
    let going_on = renews.then(|| renew_logs(observed, list, proven));
    let ended = || {
        let up = target.minor > proven.version.minor;
        cancel(observed, list, target.minor).filter(|_| up && latched.trial.is_none())
    };
    going_on.flatten().or_else(ended)
}

fn everybody<'a>(
    observed: &'a Observed,
    list: &'a MemberList,
) -> impl Iterator<Item = Option<&'a Serving>> {
    let members = list.members.iter();
    members.map(|member| observed.serving_as(member.id))
}

/// Every member runs a newer line than is proven, and the data is about to follow: nobody goes back until it has, or an
/// old binary would meet data that turns new under it.
pub(super) fn ahead(observed: &Observed, list: &MemberList, proven: &Proven) -> Option<Decision> {
    let minor = proven.version.minor;
    let newer = |serving: &Serving| serving.version.is_some_and(|version| version.minor > minor);
    let all = everybody(observed, list).all(|serving| serving.is_some_and(newer));
    let held = everybody(observed, list)
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
    // Nobody runs 3.7 before all logs were renewed, whatever the status still knows of it.
    let begun = |serving: &Serving| serving.version.is_some_and(|version| version.minor > 6);
    let renewed = latched.log_line.is_some_and(|line| line > 5)
        || everybody(observed, list).flatten().any(begun);
    if target.minor < 7 || proven.version.minor != 6 || renewed {
        return None;
    }
    let all = |holds: &dyn Fn(&Serving) -> bool| {
        everybody(observed, list).all(|serving| serving.is_some_and(holds))
    };
    let falls = everybody(observed, list)
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
    // Whose pod is going may come back on another line.
    let here = |member: &Member| observed.is_healthy(member) && !observed.is_away(member);
    let ready = list.members.iter().all(here) && all(&|serving| serving.storage == Some(6));
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

/// Nobody is seen to have data that the target's line cannot read: what etcd had prepared may have been undone.
pub(crate) fn may_be_read(observed: &Observed, proven: &Proven) -> bool {
    let Some(target) = &observed.cluster.target else {
        return true;
    };
    let (from, to) = (proven.version.minor, target.intent.version.minor);
    let mut formats = observed.pods.values().filter_map(|pod| {
        let serving = pod.serving()?;
        let newer = serving.version.is_some_and(|version| version.minor > to);
        serving.storage.filter(|_| newer || from < to)
    });
    from == to || formats.all(|format| format <= to && to <= format.saturating_add(1))
}

/// Everybody whose data counts, and what it says.
fn members<'a>(
    observed: &'a Observed,
    list: &'a MemberList,
) -> impl Iterator<Item = (&'a Member, Option<&'a Serving>)> {
    let members = list.members.iter();
    members
        .filter(|member| !has_tried_in_vain(observed, member))
        .map(|member| (member, observed.serving_as(member.id)))
}

fn serving<'a>(observed: &'a Observed, list: &'a MemberList) -> impl Iterator<Item = &'a Serving> {
    members(observed, list).filter_map(|(_, serving)| serving)
}

/// Who it is, and what keeps it.
fn say(observed: &Observed, member: &Member) -> String {
    let ordinal = observed.ordinal_of(member);
    let pod = ordinal.and_then(|ordinal| observed.pods.get(&ordinal));
    let name = ordinal.map_or_else(|| member.name.clone(), |n| observed.member_name(n));
    match pod {
        Some(pod) if observed.is_healthy(member) && pod.serving().is_some() => name,
        Some(pod) => format!("{name}, which {}", describe(pod)),
        None => format!("{name}, which has no pod"),
    }
}

/// Waits for the data of some, and says whose.
fn wait(
    observed: &Observed,
    list: &MemberList,
    late: &[&Member],
    (line, reason): (u8, Reason),
) -> Decision {
    let all = list.members.len();
    let names: Vec<String> = late.iter().map(|member| say(observed, member)).collect();
    let done = all.saturating_sub(names.len());
    let why = if names.is_empty() {
        format!(
            "waiting until etcd has finished the way up; then it prepares its data for 3.{line}"
        )
    } else {
        format!(
            "the data of {done} of {all} members has the format of 3.{line}: waiting for {}",
            names.join("; ")
        )
    };
    Decision::wait(reason, why, LATER)
}

/// It runs nothing, on a template that is not the proven one: its data was ready before it was restarted on that, and
/// nothing has touched it since.
fn has_tried_in_vain(observed: &Observed, member: &Member) -> bool {
    let proven = observed.cluster.latched.proven.as_ref();
    let ordinal = observed.ordinal_of(member);
    let pod = ordinal.and_then(|ordinal| observed.pods.get(&ordinal));
    pod.zip(proven)
        .is_some_and(|(pod, proven)| pod.runs_nothing() && pod.template != proven.template)
}

/// A downgrade that is under way to another line is stopped.
pub(super) fn cancel(observed: &Observed, list: &MemberList, minor: u8) -> Option<Decision> {
    let under_way = serving(observed, list).find_map(|serving| serving.downgrade)?;
    (under_way != minor).then(|| {
        let why = format!("the downgrade to 3.{under_way} is no longer asked for");
        Decision::act(Step::Downgrade { to: None }, Reason::Downgrading, why)
    })
}

/// Every member's data must have the format of the line they came to, before the next one is begun.
fn ascend(observed: &Observed, list: &MemberList, from: u8) -> Option<Decision> {
    let followed = |serving: &Serving| {
        let runs = serving.version.is_some_and(|version| version.minor >= from);
        // 3.5 does not tell.
        let converted = from == 5 || serving.storage.is_some_and(|storage| storage >= from);
        runs && converted
    };
    let late: Vec<&Member> = members(observed, list)
        .filter(|(_, serving)| !serving.is_some_and(followed))
        .map(|(member, _)| member)
        .collect();
    (!late.is_empty()).then(|| wait(observed, list, &late, (from, Reason::RollingOut)))
}

/// No member of an older line before every member's data says that it can be read there, and nothing can change that
/// under way: a member of that line that runs, or a downgrade that etcd was asked for.
fn descend(observed: &Observed, list: &MemberList, to: u8) -> Option<Decision> {
    let runs_older = |serving: &Serving| serving.version.is_some_and(|version| version.minor <= to);
    let readable = |serving: &Serving| {
        runs_older(serving) || serving.storage.is_some_and(|storage| storage <= to)
    };
    let late: Vec<&Member> = members(observed, list)
        .filter(|(_, serving)| !serving.is_some_and(readable))
        .map(|(member, _)| member)
        .collect();
    let under_way = serving(observed, list).any(|serving| serving.downgrade == Some(to));
    let held = under_way || serving(observed, list).any(runs_older);
    if late.is_empty() && held {
        return None;
    }
    // Here nobody is left out: the data of one that cannot run would not be prepared, and one that runs two lines above
    // it would be thrown out.
    let mut all = list.members.iter();
    let fit = |member: &Member| {
        let serving = observed.serving_as(member.id);
        let version = serving.and_then(|serving| serving.version);
        let near = version.is_some_and(|version| version.minor == to.saturating_add(1));
        near && observed.is_healthy(member) && !observed.is_away(member)
    };
    if let Some(dark) = all
        .find(|member| !fit(member))
        .filter(|_| !under_way && !late.is_empty())
    {
        let dark = say(observed, dark);
        let why = format!(
            "etcd prepares its data for 3.{to} once every member is healthy: waiting for {dark}"
        );
        return Some(Decision::wait(Reason::Downgrading, why, LATER));
    }
    // Until etcd has finished the way up, it knows of no way down.
    Some(if under_way || late.is_empty() {
        wait(observed, list, &late, (to, Reason::Downgrading))
    } else {
        let why = format!("etcd is to prepare its data for 3.{to}");
        Decision::act(Step::Downgrade { to: Some(to) }, Reason::Downgrading, why)
    })
}

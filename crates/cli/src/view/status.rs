//! One cluster on one screen: how it stands, what is being done, its members, and the next command.

use super::{labelled, members, tone, unseen};
use crate::report::{ClusterReport, ConditionReport, Standing};
use crate::screen::{Screen, put};

/// The whole of it.
pub fn status(report: &ClusterReport, screen: &Screen) -> String {
    let place = format!("{}/{}", report.namespace, report.name);
    let mut text = format!(
        "{}  {}  {}{}\n",
        screen.clean(&place),
        screen.paint(tone(report.standing), report.standing.word()),
        voters(report),
        releases(report, screen),
    );
    for (label, said) in said(report) {
        text.push_str(&labelled(screen, label, &said));
    }
    if !report.members.is_empty() {
        text.push_str(&members(std::slice::from_ref(report), false, screen));
    }
    text.push_str(&unseen(screen, &report.unseen));
    if let Some(next) = next(report) {
        put(&mut text, format_args!("hint: {next}\n"));
    }
    text
}

/// `2 of 3 voters healthy, one more loss stops it`.
pub fn voters(report: &ClusterReport) -> String {
    if report.standing == Standing::Stopped {
        return "no member runs, as asked for".to_owned();
    }
    if report.voters == 0 {
        return format!("no voter yet, {} asked for", report.size);
    }
    let margin = match report.can_lose {
        None => "no quorum".to_owned(),
        Some(0) if report.voters == 1 => "no redundancy".to_owned(),
        Some(0) => "one more loss stops it".to_owned(),
        Some(more) => format!("can lose {more}"),
    };
    let (healthy, voters) = (report.healthy_voters, report.voters);
    format!("{healthy} of {voters} voters healthy, {margin}")
}

fn releases(report: &ClusterReport, screen: &Screen) -> String {
    let text = match (&report.version, &report.wanted_version) {
        (Some(runs), Some(wanted)) if runs != wanted => {
            format!("  etcd {runs}, on the way to {wanted}")
        }
        (Some(runs), _) => format!("  etcd {runs}"),
        (None, Some(wanted)) => format!("  etcd {wanted} asked for"),
        (None, None) => String::new(),
    };
    screen.clean(&text)
}

/// What there is to say beside the numbers, with labels.
fn said(report: &ClusterReport) -> Vec<(&'static str, String)> {
    let mut all = Vec::new();
    let find = |kind: &str| report.conditions.iter().find(|it| it.kind == kind);
    if report.conditions.is_empty() {
        all.push((
            "operator",
            "has said nothing of this cluster yet; is one installed that watches this namespace?"
                .to_owned(),
        ));
    }
    if report.deleting {
        all.push(("deleting", "the object is being deleted".to_owned()));
    }
    if report.paused {
        all.push(("paused", "the operator looks and does not act".to_owned()));
    }
    if report.behind && !report.conditions.is_empty() {
        all.push((
            "behind",
            "the operator has not looked at the newest spec yet".to_owned(),
        ));
    }
    let progressing = find("Progressing").filter(|it| it.status == "True");
    let degraded = find("Degraded").filter(|it| it.status == "True");
    let said = |it: &&ConditionReport| degraded.is_none_or(|wrong| wrong.message != it.message);
    let doing = progressing.filter(said);
    all.extend(doing.map(|it| ("doing", sentence(it))));
    all.extend(degraded.map(|it| ("wrong", sentence(it))));
    let unready = find("Ready").filter(|it| it.status == "False");
    if progressing.is_none() && degraded.is_none() && report.standing != Standing::Stopped {
        all.extend(unready.map(|it| ("not ready", sentence(it))));
    }
    all
}

fn sentence(condition: &ConditionReport) -> String {
    format!("{}: {}", condition.reason, condition.message)
}

/// The command that says more, or does something about it.
fn next(report: &ClusterReport) -> Option<String> {
    let (name, namespace) = (&report.name, &report.namespace);
    match report.standing {
        Standing::Degraded | Standing::Down => {
            Some(format!("kubectl etcd why {name} -n {namespace}"))
        }
        Standing::Unknown => Some("kubectl etcd version".to_owned()),
        Standing::Ok | Standing::Working | Standing::Forming | Standing::Stopped => None,
    }
}

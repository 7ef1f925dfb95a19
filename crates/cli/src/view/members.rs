//! Members as a table.

use api::v1alpha1::status::Role;

use crate::report::{ClusterReport, MemberReport};
use crate::screen::{Screen, Tone};
use crate::table::{Heading, Table};

/// The members of these clusters; with the cluster's name beside them where there are several.
pub fn members(reports: &[ClusterReport], several: bool, screen: &Screen) -> String {
    let mut headings: Vec<Heading> = Vec::new();
    if several {
        headings.extend([("NAMESPACE", 1), ("CLUSTER", 0)]);
    }
    headings.extend([
        ("MEMBER", 0),
        ("ROLE", 0),
        ("VERSION", 4),
        ("NODE", 3),
        ("RESTARTS", 5),
        ("AGE", 6),
    ]);
    if screen.wide {
        headings.extend([("ID", 7), ("ADDRESS", 8), ("CLIENTS", 9)]);
    }
    headings.push(("STATE", 0));
    let mut table = Table::new(&headings);
    for report in reports {
        for member in &report.members {
            let mut cells = Vec::new();
            if several {
                cells.extend([plain(&report.namespace), plain(&report.name)]);
            }
            cells.extend(row(member, screen));
            table.row(cells);
        }
    }
    table.render(screen)
}

fn row(member: &MemberReport, screen: &Screen) -> Vec<(String, Option<Tone>)> {
    let pod = member.pod.as_ref();
    let text = |text: Option<&String>| plain(text.map_or("", String::as_str));
    let age = pod.and_then(|pod| pod.created).map(|then| screen.ago(then));
    let role = match member.role {
        Some(Role::Leader) => "leader",
        Some(Role::Follower) => "follower",
        Some(Role::Learner) => "learner",
        None => "",
    };
    let mut cells = vec![
        plain(&member.name),
        plain(role),
        text(member.version.as_ref()),
        text(pod.and_then(|pod| pod.node.as_ref())),
        plain(&pod.map_or_else(String::new, |pod| pod.restarts.to_string())),
        text(age.as_ref()),
    ];
    if screen.wide {
        cells.extend([
            text(member.id.as_ref()),
            text(pod.and_then(|pod| pod.address.as_ref())),
            text(member.client_url.as_ref()),
        ]);
    }
    cells.push(state(member));
    cells
}

fn state(member: &MemberReport) -> (String, Option<Tone>) {
    let terminating = member.pod.as_ref().is_some_and(|pod| pod.terminating);
    match (&member.message, member.ready) {
        (_, true) if terminating => (
            "ok, its pod is being deleted".to_owned(),
            Some(Tone::Notice),
        ),
        (_, true) => ("ok".to_owned(), Some(Tone::Good)),
        (Some(message), false) => (message.clone(), Some(Tone::Bad)),
        (None, false) if member.role == Some(Role::Learner) => {
            ("catches up".to_owned(), Some(Tone::Notice))
        }
        (None, false) => ("not healthy".to_owned(), Some(Tone::Bad)),
    }
}

fn plain(text: &str) -> (String, Option<Tone>) {
    (text.to_owned(), None)
}

//! Many clusters, one line each.

use super::{tone, unseen, voters};
use crate::report::{ClusterReport, ConditionReport};
use crate::screen::{Screen, put};
use crate::table::{Heading, Table};

/// Columns of the longest word for how a cluster stands.
const LONGEST: usize = 8;

/// A table of clusters.
pub fn fleet(reports: &[ClusterReport], all: bool, screen: &Screen) -> String {
    let mut headings: Vec<Heading> = Vec::new();
    if all {
        headings.push(("NAMESPACE", 0));
    }
    headings.extend([
        ("NAME", 0),
        ("STATE", 0),
        ("HEALTHY", 0),
        ("VERSION", 3),
        ("AGE", 4),
    ]);
    if screen.wide {
        headings.extend([("PHASE", 5), ("REASON", 6), ("CLUSTER-ID", 7)]);
    }
    headings.push(("MESSAGE", 0));
    let mut table = Table::new(&headings);
    for report in reports {
        let text = |text: Option<String>| (text.unwrap_or_default(), None);
        let mut cells = Vec::new();
        if all {
            cells.push(text(Some(report.namespace.clone())));
        }
        let standing = report.standing;
        cells.extend([
            text(Some(report.name.clone())),
            (standing.word().to_owned(), Some(tone(standing))),
            text(Some(format!("{}/{}", report.healthy_voters, report.size))),
            text(report.version.clone()),
            text(report.created.map(|then| screen.ago(then))),
        ]);
        let ready = ready(report);
        if screen.wide {
            cells.extend([
                text(report.phase.clone()),
                text(ready.map(|it| it.reason.clone())),
                text(report.cluster_id.clone()),
            ]);
        }
        cells.push(text(ready.map(|it| it.message.clone())));
        table.row(cells);
    }
    table.render(screen)
}

/// One line for each, and a sum where there are several.
pub fn health(reports: &[ClusterReport], screen: &Screen) -> String {
    let mut text = String::new();
    for report in reports {
        let word = report.standing.word();
        let padding = " ".repeat(LONGEST.saturating_sub(word.len()));
        let standing = format!("{}{padding}", screen.paint(tone(report.standing), word));
        let paused = if report.paused { ", paused" } else { "" };
        let place = screen.clean(&format!("{}/{}", report.namespace, report.name));
        put(
            &mut text,
            format_args!("{standing}  {place}  {}{paused}\n", voters(report)),
        );
        text.push_str(&unseen(screen, &report.unseen));
    }
    let wrong = reports
        .iter()
        .filter(|report| !report.standing.is_well())
        .count();
    if reports.len() > 1 {
        put(
            &mut text,
            format_args!("{wrong} of {} clusters are not well\n", reports.len()),
        );
    }
    text
}

fn ready(report: &ClusterReport) -> Option<&ConditionReport> {
    report
        .conditions
        .iter()
        .find(|condition| condition.kind == "Ready")
}

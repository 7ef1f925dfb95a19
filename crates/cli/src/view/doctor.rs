//! Findings, the worst first, each with what to do.

use crate::doctor::{Diagnosis, Level};
use crate::screen::{Screen, Tone, put};

/// Columns before a sentence.
const INDENT: usize = 21;

/// One diagnosis after the other, and a sum.
pub fn doctor(all: &[Diagnosis], screen: &Screen) -> String {
    let mut text = String::new();
    for diagnosis in all {
        put(
            &mut text,
            format_args!("{}\n", screen.clean(&diagnosis.subject)),
        );
        let mut fine = Vec::new();
        for finding in &diagnosis.findings {
            let (word, tone) = match finding.level {
                Level::Fail => ("FAIL", Tone::Bad),
                Level::Warn => ("WARN", Tone::Notice),
                Level::Unseen => ("?", Tone::Quiet),
                Level::Ok => {
                    fine.push(finding.id);
                    continue;
                }
            };
            let (painted, padding) = (
                screen.paint(tone, word),
                " ".repeat(5_usize.saturating_sub(word.len())),
            );
            let sentence = match finding.level {
                Level::Unseen => format!("not seen: {}", finding.sentence),
                Level::Fail | Level::Warn | Level::Ok => finding.sentence.clone(),
            };
            let sentence = screen.wrap(&sentence, INDENT);
            put(
                &mut text,
                format_args!("  {painted}{padding}{:<14}{sentence}\n", finding.id),
            );
            for (label, more) in [("fix", finding.fix.as_deref()), ("read", finding.page)] {
                if let Some(more) = more {
                    let more = screen.wrap(more, INDENT);
                    put(&mut text, format_args!("       {label:<14}{more}\n"));
                }
            }
        }
        if !fine.is_empty() {
            let painted = screen.paint(Tone::Good, "ok");
            put(
                &mut text,
                format_args!("  {painted}   {}\n", screen.wrap(&fine.join(" "), 7)),
            );
        }
    }
    let count = |level: Level| {
        let findings = all.iter().flat_map(|diagnosis| &diagnosis.findings);
        findings.filter(|finding| finding.level == level).count()
    };
    let (failures, warnings, unseen) =
        (count(Level::Fail), count(Level::Warn), count(Level::Unseen));
    put(
        &mut text,
        format_args!("{failures} failures, {warnings} warnings, {unseen} not seen\n"),
    );
    text
}

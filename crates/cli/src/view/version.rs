//! Which releases meet.

use super::{labelled, unseen};
use crate::report::VersionReport;
use crate::screen::{Screen, Tone};

/// A line for each, and what does not fit.
pub fn version(report: &VersionReport, screen: &Screen) -> String {
    let mut text = labelled(screen, "plugin", &report.plugin);
    for operator in &report.operators {
        let said = format!(
            "{}  {}  {}  {} available",
            operator.version.as_deref().unwrap_or("without a version"),
            operator.deployment,
            operator.image.as_deref().unwrap_or("-"),
            operator.available,
        );
        text.push_str(&labelled(screen, "operator", &said));
    }
    if let Some(crd) = &report.crd {
        text.push_str(&labelled(screen, "CRDs", crd));
    }
    if let Some(kubernetes) = &report.kubernetes {
        text.push_str(&labelled(screen, "kubernetes", kubernetes));
    }
    text.push_str(&unseen(screen, &report.unseen));
    for mismatch in &report.mismatches {
        let line = labelled(screen, "mismatch", mismatch);
        text.push_str(&line.replacen("mismatch", &screen.paint(Tone::Bad, "mismatch"), 1));
    }
    text
}

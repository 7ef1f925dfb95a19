//! Why a cluster is as it is: each condition, what its word means, and what it means here.

use super::{labelled, tone, unseen, voters};
use crate::report::{ClusterReport, ConditionReport};
use crate::screen::{Screen, Tone};

/// What the operator last decided, and where to read on.
pub fn why(report: &ClusterReport, screen: &Screen) -> String {
    let place = format!("{}/{}", report.namespace, report.name);
    let mut text = format!(
        "{}  {}  {}\n",
        screen.clean(&place),
        screen.paint(tone(report.standing), report.standing.word()),
        voters(report),
    );
    if report.behind {
        let behind = if report.conditions.is_empty() {
            "has said nothing of this cluster yet; is one installed that watches this namespace?"
        } else {
            "has not looked at the newest spec yet: what follows is about an older one"
        };
        text.push_str(&labelled(screen, "operator", behind));
    }
    for (at, condition) in report.conditions.iter().enumerate() {
        let above = report.conditions.get(..at).unwrap_or_default();
        text.push_str(&explain(condition, above, screen));
    }
    for member in report.members.iter().filter(|member| !member.ready) {
        let message = member.message.as_deref().unwrap_or("not healthy");
        let told = format!("{}: {message}", member.name);
        text.push_str(&labelled(screen, "member", &told));
    }
    text.push_str(&unseen(screen, &report.unseen));
    for (label, page) in runbooks(report) {
        text.push_str(&labelled(screen, label, page));
    }
    text
}

fn explain(condition: &ConditionReport, above: &[ConditionReport], screen: &Screen) -> String {
    let tone = match (condition.kind.as_str(), condition.status.as_str()) {
        ("Degraded", "True") | ("Available", "False" | "Unknown") => Tone::Bad,
        ("Progressing", "True") | ("Ready", "False") => Tone::Notice,
        _as_it_should_be => Tone::Good,
    };
    let head = format!("{}={}", condition.kind, condition.status);
    let mut text = format!(
        "{} {} (for {})\n",
        screen.paint(tone, &head),
        screen.clean(&condition.reason),
        screen.ago(condition.since),
    );
    if above.iter().any(|said| said.message == condition.message) {
        text.push_str(&labelled(screen, "  here", "as above"));
        return text;
    }
    text.push_str(&labelled(screen, "  here", &condition.message));
    if above.iter().any(|said| said.reason == condition.reason) {
        return text;
    }
    let meaning = condition
        .meaning
        .unwrap_or("a word of another release of the operator: kubectl etcd version");
    text.push_str(&labelled(screen, "  means", meaning));
    text
}

/// The page that says what to do about a reason.
pub fn runbook(reason: &str) -> &'static str {
    match reason {
        "QuorumLost" | "Recovering" => "docs/user/runbooks/quorum-is-lost.md",
        "NoSpace" => "docs/user/runbooks/no-space.md",
        "RolloutHalted" => "docs/user/runbooks/rollout-is-halted.md",
        "CertificateRejected" | "CertificateProblem" => "docs/user/runbooks/certificates.md",
        _other => "docs/user/runbooks/cluster-does-not-become-ready.md",
    }
}

/// The pages that say what to do, where something is wrong.
fn runbooks(report: &ClusterReport) -> Vec<(&'static str, &'static str)> {
    if report.standing.is_well() {
        return Vec::new();
    }
    let wrong = report.conditions.iter().filter(|condition| {
        matches!(
            (condition.kind.as_str(), condition.status.as_str()),
            ("Degraded", "True") | ("Available", "False" | "Unknown")
        )
    });
    let mut pages: Vec<&'static str> = wrong.map(|condition| runbook(&condition.reason)).collect();
    pages.sort_unstable();
    pages.dedup();
    pages.into_iter().map(|page| ("runbook", page)).collect()
}

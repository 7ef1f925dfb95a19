//! The rules as Prometheus reads them, and the file in which the runbook of each alert stands.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::alerts::{Alert, GROUPS, Group};

/// Stands for the place of the runbook, before `#`.
pub const RUNBOOKS: &str = "@runbooks";
/// Stands for the namespace of the operator.
pub const OPERATOR: &str = "@operator";

/// A group as it stands in a file of rules or in a PrometheusRule, with the places that the installer fills in.
pub fn group(group: &Group) -> Value {
    let rules: Vec<Value> = group.alerts.iter().map(rule).collect();
    json!({"name": group.name, "rules": rules})
}

/// A text with its places filled in: the label of clusters, where the runbook is, and the namespace of the operator.
pub fn filled(text: &str, cluster: &str, runbooks: &str, operator: &str) -> String {
    text.replace(crate::CLUSTER, cluster)
        .replace(RUNBOOKS, runbooks)
        .replace(OPERATOR, operator)
}

fn rule(alert: &Alert) -> Value {
    let section = alert.name.to_lowercase();
    json!({
        "alert": alert.name,
        "expr": alert.expr,
        "for": alert.lasts,
        "labels": {"severity": alert.level.word()},
        "annotations": {
            "summary": alert.summary,
            "command": alert.command,
            "runbook_url": format!("{RUNBOOKS}#{section}"),
        },
    })
}

const HEAD: &str = "# Alerts

Made by `cargo xtask generate` from `crates/signals`. [Monitoring](../guides/monitoring.md) says how they are installed. Each takes the largest of what two replicas tell, so that a hand-over between them raises nothing. `NAMESPACE`, `CLUSTER`, `POD` and `BACKUP` stand for the labels of the alert.

## Which to send

Two alerts of one cave-in need not wake a person twice. In Alertmanager:

```yaml
inhibit_rules:
  # A cluster that is down is also degraded, stuck, without tolerance and without leaders.
  - source_matchers: ['alertname = EtcdClusterDown']
    target_matchers: ['alertname =~ \"EtcdQuorumMissing|EtcdClusterFailed|EtcdClusterDegraded|EtcdClusterStuck|EtcdNoTolerance|EtcdMemberHangs|etcd.*\"']
    equal: [namespace, cluster]
  # What is halted, hangs or is full says more than that it is degraded or stuck.
  - source_matchers: ['alertname =~ \"EtcdClusterFailed|EtcdDataDiffers|EtcdDatabaseFull|EtcdRolloutHalted|EtcdMemberHangs|EtcdNoTolerance\"']
    target_matchers: ['alertname =~ \"EtcdClusterDegraded|EtcdClusterStuck|etcdMembersDown|etcdDatabaseQuotaLowSpace\"']
    equal: [namespace, cluster]
  # The same at two levels.
  - source_matchers: ['severity = critical']
    target_matchers: ['severity =~ \"warning|info\"']
    equal: [alertname, namespace, cluster, pod, backup, grpc_method]
  # Without an operator its numbers are missing, and with it those that would end the others.
  - source_matchers: ['alertname = EtcdOperatorDown']
    target_matchers: ['alertname =~ \"EtcdOperatorNotLooking|EtcdOperatorStepsFailing\"']
```
";

/// `docs/user/runbooks/alerts.md`.
pub fn runbook() -> String {
    let mut page = HEAD.to_owned();
    for group in GROUPS {
        // Writing to a string cannot fail.
        let _written = writeln!(page, "\n## {}\n\n{}", title(&group), group.needs);
        let mut levels: BTreeMap<&str, Vec<&Alert>> = BTreeMap::new();
        for alert in group.alerts {
            levels.entry(alert.name).or_default().push(alert);
        }
        let mut told: Vec<&str> = Vec::new();
        for alert in group.alerts {
            if !told.contains(&alert.name) {
                told.push(alert.name);
                section(&mut page, levels.get(alert.name).map_or(&[], Vec::as_slice));
            }
        }
    }
    page
}

fn title(group: &Group) -> &'static str {
    match group.name {
        "etcd-clusters" => "Clusters and backups",
        "etcd-operator" => "Operator",
        _members => "Members",
    }
}

/// All levels of one alert.
fn section(page: &mut String, levels: &[&Alert]) {
    let Some(first) = levels.first() else { return };
    let _written = writeln!(page, "\n### {}\n", first.name);
    for alert in levels {
        let expr = alert.expr.replace(crate::CLUSTER, "cluster");
        let since = match alert.lasts {
            "0m" => "at once".to_owned(),
            lasts => format!("after {lasts}"),
        };
        let summary = plain(alert.summary);
        let level = alert.level.word();
        let _written = writeln!(
            page,
            "**{level}**, {since}: {summary}\n\n```promql\n{expr}\n```\n"
        );
    }
    let runbook = levels.iter().map(|alert| alert.runbook);
    let runbook: String = runbook.collect();
    let command = plain(first.command);
    let _written = writeln!(page, "Next: `{command}`\n\n{runbook}");
}

/// For a reader, without the language of templates.
fn plain(text: &str) -> String {
    let mut plain = text
        .replace(crate::CLUSTER, "cluster")
        .replace(OPERATOR, "etcd-operator-system");
    for (label, word) in [
        ("namespace", "NAMESPACE"),
        ("cluster", "CLUSTER"),
        ("pod", "POD"),
        ("backup", "BACKUP"),
        ("reason", "REASON"),
        ("step", "STEP"),
        ("grpc_method", "METHOD"),
        ("To", "MEMBER"),
    ] {
        plain = plain.replace(&format!("{{{{ $labels.{label} }}}}"), word);
    }
    // What is left is the value, in one form or another.
    while let Some((before, rest)) = plain.split_once("{{ $value") {
        let after = rest.split_once("}}").map_or("", |(_, after)| after);
        plain = format!("{before}N{after}");
    }
    plain
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::metrics;

    fn alerts() -> impl Iterator<Item = &'static Alert> {
        GROUPS.into_iter().flat_map(|group| group.alerts)
    }

    /// Names of metrics in an expression: words with an underscore that are not labels.
    fn named(expr: &str) -> BTreeSet<&str> {
        let words = expr.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        let prefixes = ["etcd_", "grpc_server_", "process_"];
        words
            .filter(|word| prefixes.iter().any(|prefix| word.starts_with(prefix)))
            .collect()
    }

    #[test]
    fn alerts_name_only_what_is_in_the_table() {
        let series: BTreeSet<String> = metrics::all().flat_map(metrics::Metric::series).collect();
        for alert in alerts() {
            let named = named(alert.expr);
            assert!(
                !named.is_empty() || alert.expr.contains("up{"),
                "{}",
                alert.name
            );
            for name in named {
                assert!(series.contains(name), "{}: {name}", alert.name);
            }
        }
    }

    #[test]
    fn the_reasons_in_alerts_exist() {
        let reasons: BTreeSet<String> = api::Reason::ALL
            .iter()
            .map(|(reason, _)| reason.to_string())
            .collect();
        let mut found = 0;
        for alert in alerts() {
            for part in alert.expr.split("reason").skip(1) {
                let Some(value) = part.split('"').nth(1) else {
                    continue;
                };
                if !part.starts_with(['=', '!']) {
                    continue;
                }
                for reason in value.split('|') {
                    assert!(reasons.contains(reason), "{}: {reason}", alert.name);
                    found += 1;
                }
            }
        }
        assert!(found >= 6, "{found}");
    }

    #[test]
    fn each_alert_says_what_to_do() {
        let pages = runbook();
        let mut names = BTreeSet::new();
        for alert in alerts() {
            let again = !names.insert(alert.name);
            assert_eq!(
                alert.runbook.is_empty(),
                again,
                "{}: the first level has the runbook",
                alert.name
            );
            assert!(alert.command.starts_with("kubectl "), "{}", alert.name);
            let ends = alert.lasts.ends_with(['m', 'h']);
            assert!(ends && alert.summary.ends_with('.'), "{}", alert.name);
            assert!(
                pages.contains(&format!("\n### {}\n", alert.name)),
                "{}",
                alert.name
            );
        }
        assert!(
            !pages.contains("{{") && !pages.contains(crate::CLUSTER),
            "{pages}"
        );
    }

    /// Two replicas, or a pod that was replaced, are one cluster. What has no aggregation is told by pod.
    #[test]
    fn every_expression_of_the_operators_page_is_aggregated() {
        for alert in [crate::alerts::CLUSTERS, crate::alerts::OPERATOR]
            .iter()
            .flat_map(|group| group.alerts)
        {
            let bare = alert.expr.split("etcd_").next().unwrap_or_default();
            assert!(bare.ends_with('('), "{}: {}", alert.name, alert.expr);
            for (at, _) in alert.expr.match_indices("etcd_") {
                let (before, _) = alert.expr.split_at(at);
                assert!(before.ends_with('('), "{}: {}", alert.name, alert.expr);
            }
        }
    }
}

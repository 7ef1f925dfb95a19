//! The pages of the reference that are made from the table.

use std::fmt::Write as _;

use crate::metrics::{Metric, backup, cluster, member, operator};

const HEAD: &str = "# Metrics

Made by `cargo xtask generate` from `crates/signals`. The operator tells its own on port 8081 of its pods, `/metrics`, as OpenMetrics; how they are scraped is in [the guide](../user/guides/monitoring.md), what to be woken for in [the alerts](../user/runbooks/alerts.md).
";

/// `docs/reference/metrics.md`.
pub fn metrics() -> String {
    let mut page = HEAD.to_owned();
    let most = format!(
        "At most {} series of each EtcdCluster. Where a value is not known there is no series.",
        cluster::MOST
    );
    section(&mut page, "Clusters", &most, cluster::ALL);
    let most = format!(
        "At most {} series of each EtcdBackup. When a cluster was last backed up: `max by (namespace, cluster) (etcd_backup_newest_seconds)`.",
        backup::MOST
    );
    section(&mut page, "Backups", &most, backup::ALL);
    let most = "How many there are does not depend on the number of clusters.";
    section(&mut page, "Operator", most, operator::ALL);
    let kept = "Of etcd's own metrics on port 2381 of each of its pods, the PodMonitor of the chart keeps these, with the labels `namespace`, `cluster` and `pod`.";
    section(&mut page, "Members", kept, member::ALL);
    page
}

fn section(page: &mut String, title: &str, words: &str, metrics: &[Metric]) {
    // Writing to a string cannot fail.
    let _written = writeln!(
        page,
        "\n## {title}\n\n{words}\n\n| metric | type | labels | meaning |\n|---|---|---|---|"
    );
    for metric in metrics {
        let labels = metric.labels.iter().map(|label| format!("`{label}`"));
        let labels = labels.collect::<Vec<_>>().join(", ");
        let (name, kind, help) = (metric.name, metric.kind.word(), metric.help);
        let _written = writeln!(page, "| `{name}` | {kind} | {labels} | {help} |");
    }
}

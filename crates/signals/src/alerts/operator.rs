//! Alerts about the operator itself.

use super::{Alert, Level};

const LOGS: &str = "kubectl logs --all-containers --all-pods --tail 100 --selector app.kubernetes.io/name=etcd-operator --namespace @operator";

pub(super) const ALERTS: &[Alert] = &[
    Alert {
        name: "EtcdOperatorDown",
        expr: "absent(etcd_operator_leading == 1)",
        lasts: "10m",
        level: Level::Critical,
        summary: "No replica of the etcd operator works: clusters go on serving, and nothing is repaired or changed.",
        command: "kubectl get pods --selector app.kubernetes.io/name=etcd-operator --all-namespaces",
        runbook: "Members serve and restart with their data without the operator; what stops is every repair, rollout, backup and renewal, and new specs are rejected while the webhook is installed. Where pods run and are not ready, `/readyz` on port 8081 says what is missing. Where they run and are ready, this Prometheus does not scrape them: see [monitoring](../guides/monitoring.md).",
    },
    Alert {
        name: "EtcdOperatorNotLooking",
        expr: "time() - max by (namespace, @cluster) (etcd_cluster_looked_timestamp_seconds) > 120 or max by (namespace, @cluster) (etcd_cluster_size) unless max by (namespace, @cluster) (etcd_cluster_looked_timestamp_seconds)",
        lasts: "5m",
        level: Level::Warning,
        summary: "The operator has not looked at etcd cluster {{ $labels.namespace }}/{{ $labels.@cluster }} for minutes: what is known of it is old.",
        command: LOGS,
        runbook: "It looks at every cluster every ten seconds. If this is so of all clusters, the API server does not answer it, or a cache is not filled (`etcd_operator_cache_filled`, `etcd_operator_namespace_readable`); if of many, it is out of processor time (`etcd_operator_looks_in_flight`, `workers` in the chart).",
    },
    Alert {
        name: "EtcdOperatorStepsFailing",
        expr: "sum by (step) (increase(etcd_operator_steps_total{outcome=~\"failed|refused\"}[15m])) > 2",
        lasts: "15m",
        level: Level::Warning,
        summary: "The step {{ $labels.step }} of the operator failed {{ $value | humanize }} times in a quarter of an hour.",
        command: LOGS,
        runbook: "The log has the error of each attempt (`step failed, trying again`), with namespace, name and the words of the API server or etcd. `forbidden` means that the role of the operator is older than its image: apply the chart of this release.",
    },
];

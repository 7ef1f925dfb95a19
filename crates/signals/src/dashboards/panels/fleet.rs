//! All clusters.

use super::{Dashboard, Look, NAME, panel};

pub(in crate::dashboards) const FLEET: Dashboard = Dashboard {
    name: "etcd-fleet",
    title: "etcd / Fleet",
    choices: &[],
    panels: &[
        panel(
            "Clusters",
            Look::Number(None),
            (4, "short"),
            &[(
                "count(max by (namespace, @cluster) (etcd_cluster_size) > 0) or 0 * count(etcd_operator_leading)",
                "",
            )],
            "Clusters that are asked to run.",
        ),
        panel(
            "Down",
            Look::Number(Some(1)),
            (4, "short"),
            &[(
                "count(max by (namespace, @cluster) (etcd_cluster_health) == 0) or 0 * count(etcd_operator_leading)",
                "",
            )],
            "Clusters of which no quorum is known to serve.",
        ),
        panel(
            "Failed",
            Look::Number(Some(1)),
            (4, "short"),
            &[(
                "count(max by (namespace, @cluster) (etcd_cluster_phase{phase=\"Failed\"})) or 0 * count(etcd_operator_leading)",
                "",
            )],
            "Clusters in which something stands in the way.",
        ),
        panel(
            "Degraded",
            Look::Number(Some(1)),
            (4, "short"),
            &[(
                "count(max by (namespace, @cluster) (etcd_cluster_condition{condition=\"Degraded\"}) == 1) or 0 * count(etcd_operator_leading)",
                "",
            )],
            "Clusters with something wrong, whether or not clients notice it.",
        ),
        panel(
            "Without tolerance",
            Look::Number(Some(1)),
            (4, "short"),
            &[(
                "count(max by (namespace, @cluster) (etcd_cluster_healthy_voters) == floor(max by (namespace, @cluster) (etcd_cluster_voters) / 2) + 1 and max by (namespace, @cluster) (etcd_cluster_voters) > 1) or 0 * count(etcd_operator_leading)",
                "",
            )],
            "Clusters that the loss of one more member stops.",
        ),
        panel(
            "Paused",
            Look::Number(None),
            (4, "short"),
            &[(
                "count(max by (namespace, @cluster) (etcd_cluster_condition{condition=\"Progressing\",reason=\"Paused\"})) or 0 * count(etcd_operator_leading)",
                "",
            )],
            "Clusters in which nothing is changed, because their owner said so.",
        ),
        panel(
            "Needs you",
            Look::Table,
            (12, "short"),
            &[(
                "max by (namespace, @cluster, reason) (etcd_cluster_condition{condition=\"Degraded\"}) == 1",
                "",
            )],
            "Clusters with something wrong, and what.",
        ),
        panel(
            "On their way",
            Look::Table,
            (12, "short"),
            &[(
                "max by (namespace, @cluster, reason) (etcd_cluster_condition{condition=\"Progressing\"}) == 1",
                "",
            )],
            "Clusters that the operator is changing or repairing, and what it does.",
        ),
        panel(
            "Phases",
            Look::Lines,
            (12, "short"),
            &[(
                "count by (phase) (max by (namespace, @cluster, phase) (etcd_cluster_phase))",
                "{{phase}}",
            )],
            "How many clusters are in which phase.",
        ),
        panel(
            "Fullest databases",
            Look::Lines,
            (12, "percentunit"),
            &[(
                "topk(10, max by (namespace, @cluster) (etcd_cluster_db_size_bytes) / max by (namespace, @cluster) (etcd_cluster_db_quota_bytes))",
                NAME,
            )],
            "Size of the largest member's database against its quota, of the ten that are closest.",
        ),
        panel(
            "Releases",
            Look::Lines,
            (12, "short"),
            &[(
                "count by (version) (max by (namespace, @cluster, version) (etcd_cluster_info))",
                "{{version}}",
            )],
            "How many clusters run which release of etcd.",
        ),
        panel(
            "Oldest backups",
            Look::Lines,
            (12, "s"),
            &[(
                "topk(10, time() - max by (namespace, @cluster) (etcd_backup_newest_seconds))",
                NAME,
            )],
            "How old the newest backup is, of the ten clusters with the oldest.",
        ),
        panel(
            "Longest not looked at",
            Look::Lines,
            (12, "s"),
            &[(
                "topk(5, time() - max by (namespace, @cluster) (etcd_cluster_looked_timestamp_seconds))",
                NAME,
            )],
            "The operator looks at each cluster every ten seconds.",
        ),
        panel(
            "Looks",
            Look::Lines,
            (12, "s"),
            &[
                (
                    "histogram_quantile(0.5, sum by (le) (rate(etcd_operator_look_duration_seconds_bucket[$__rate_interval])))",
                    "median",
                ),
                (
                    "histogram_quantile(0.99, sum by (le) (rate(etcd_operator_look_duration_seconds_bucket[$__rate_interval])))",
                    "99th percentile",
                ),
            ],
            "How long one look at one cluster takes.",
        ),
        panel(
            "Steps",
            Look::Lines,
            (12, "ops"),
            &[(
                "sum by (step, outcome) (rate(etcd_operator_steps_total{step!~\"Nothing|Wait|Refuse\"}[$__rate_interval]))",
                "{{step}} {{outcome}}",
            )],
            "What the operator does.",
        ),
        panel(
            "Changes",
            Look::Lines,
            (12, "s"),
            &[(
                "histogram_quantile(0.9, sum by (kind, le) (rate(etcd_operator_change_duration_seconds_bucket[1h])))",
                "{{kind}}",
            )],
            "How long clusters are not Ready until they are again, by the phase that they come from; nine of ten are faster.",
        ),
        panel(
            "Kubernetes API",
            Look::Lines,
            (12, "reqps"),
            &[(
                "sum by (verb, code) (rate(etcd_operator_api_requests_total[$__rate_interval]))",
                "{{verb}} {{code}}",
            )],
            "Requests of the operator by the code of the answer; 0 is none.",
        ),
        panel(
            "Calls to etcd",
            Look::Lines,
            (12, "reqps"),
            &[(
                "sum by (call, outcome) (rate(etcd_operator_etcd_requests_total[$__rate_interval]))",
                "{{call}} {{outcome}}",
            )],
            "Calls of the operator to members.",
        ),
        panel(
            "The operator",
            Look::Lines,
            (12, "bytes"),
            &[(
                "max by (pod) (process_resident_memory_bytes * on (pod, instance) group_left () (etcd_operator_leading >= 0))",
                "{{pod}}",
            )],
            "Memory of each replica.",
        ),
        panel(
            "Replicas",
            Look::Lines,
            (12, "short"),
            &[("max by (pod) (etcd_operator_leading)", "{{pod}}")],
            "1 for the replica that works, 0 for those that stand by.",
        ),
    ],
};

//! `/metrics`: the steps that were taken, and how every cluster and every backup is, as Prometheus reads it. Steps are counted;
//! objects are read from their caches on each scrape, so that they cost nothing in between and never disagree with the status.

use std::collections::BTreeMap;
use std::fmt::{Display, Write as _};
use std::sync::{Mutex, MutexGuard, PoisonError};

use api::v1alpha1::status::CertificateStatus;
use api::{EtcdCluster, Reason};
use jiff::Timestamp;
use kube::ResourceExt;
use kube::runtime::reflector::Store;
use plan::observed::Answer;
use plan::status::Outcome;

mod backups;

use crate::backup;
use crate::caches::Guarded;
use crate::descriptors;
use crate::health::{CacheState, Health};

/// What `/metrics` reports.
#[derive(Default)]
pub struct Metrics {
    steps: Mutex<BTreeMap<Step, u64>>,
    clusters: Mutex<Vec<Store<Guarded>>>,
    backups: Mutex<Vec<Store<backup::Guarded>>>,
    admission: Mutex<Admission>,
}

/// What is known of the webhook; nothing where there is none.
#[derive(Default)]
struct Admission {
    reviews: BTreeMap<&'static str, u64>,
    configured: Option<bool>,
    expires: Option<Timestamp>,
}

/// A kind of step, why it was taken, and how it went.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Step {
    name: &'static str,
    reason: Reason,
    outcome: &'static str,
}

impl Metrics {
    /// Counts a step.
    pub(crate) fn count(&self, name: &'static str, reason: Reason, outcome: &Outcome) {
        let outcome = match outcome {
            Outcome::Done => "done",
            Outcome::NotNow(_) => "not now",
            Outcome::Failed(_) => "failed",
            Outcome::Applied(attempts) => {
                let mut answers = attempts.iter().map(|attempt| &attempt.answer);
                if answers.all(|answer| *answer == Answer::Written) {
                    "done"
                } else {
                    "refused"
                }
            }
        };
        let step = Step {
            name,
            reason,
            outcome,
        };
        let mut steps = lock(&self.steps);
        let count = steps.entry(step).or_default();
        *count = count.saturating_add(1);
    }

    /// Counts a review by its answer.
    pub(crate) fn count_review(&self, answer: &'static str) {
        let mut admission = lock(&self.admission);
        let count = admission.reviews.entry(answer).or_default();
        *count = count.saturating_add(1);
    }

    /// Whether both webhook configurations are there.
    pub(crate) fn admission_configured(&self, configured: bool) {
        lock(&self.admission).configured = Some(configured);
    }

    /// When the certificate of the webhook expires.
    pub(crate) fn admission_expires(&self, end: Option<Timestamp>) {
        lock(&self.admission).expires = end;
    }

    /// From now on these clusters are reported, too.
    pub(crate) fn watch(&self, clusters: Store<Guarded>) {
        lock(&self.clusters).push(clusters);
    }

    /// From now on these backups are reported, too.
    pub(crate) fn watch_backups(&self, backups: Store<backup::Guarded>) {
        lock(&self.backups).push(backups);
    }

    /// All of it.
    pub(crate) fn render(&self, health: &Health) -> String {
        let mut text = String::new();
        of_the_process(&mut text, health);
        head(
            &mut text,
            "etcd_operator_steps_total",
            "counter",
            "Steps taken, why, and how they went.",
        );
        for (step, count) in lock(&self.steps).iter() {
            let Step {
                name,
                reason,
                outcome,
            } = step;
            let labels = format!("step=\"{name}\",reason=\"{reason}\",outcome=\"{outcome}\"");
            line(&mut text, "etcd_operator_steps_total", &labels, *count);
        }
        of_admission(&mut text, &lock(&self.admission));
        let stores = lock(&self.clusters).clone();
        let all = stores.iter().flat_map(Store::state);
        let mut clusters: Vec<_> = all.collect();
        clusters.sort_by_key(|cluster| cluster.0.as_ref().map(place).unwrap_or_default());
        for family in FAMILIES {
            head(&mut text, family.name, "gauge", family.help);
            for cluster in clusters
                .iter()
                .filter_map(|cluster| cluster.0.as_ref().ok())
            {
                (family.tell)(&mut text, family.name, cluster);
            }
        }
        backups::tell(&mut text, &lock(&self.backups).clone());
        text
    }
}

/// How the operator itself is.
fn of_the_process(text: &mut String, health: &Health) {
    let filled = (
        "etcd_operator_cache_filled",
        "1 once the cache of a kind was filled.",
    );
    let news = (
        "etcd_operator_cache_news_seconds",
        "When the watch of a kind last brought something, in seconds since 1970.",
    );
    let failing = (
        "etcd_operator_cache_failing_since_seconds",
        "Since when the watch of a kind fails, in seconds since 1970; absent while it does not.",
    );
    let caches = health.caches();
    let second = |time: Option<Timestamp>| time.map(Timestamp::as_second);
    let tell = |text: &mut String, (name, help), value: &dyn Fn(CacheState) -> Option<i64>| {
        head(text, name, "gauge", help);
        for (kind, state) in &caches {
            if let Some(value) = value(*state) {
                line(text, name, &format!("kind=\"{kind}\""), value);
            }
        }
    };
    tell(text, filled, &|state| Some(i64::from(state.filled)));
    tell(text, news, &|state| second(state.news));
    tell(text, failing, &|state| second(state.failing));
    let readable = "etcd_operator_namespace_readable";
    let help = "1 if everything in a watched namespace is known, 0 if its clusters are not looked at; all namespaces together have an empty name.";
    head(text, readable, "gauge", help);
    for (namespace, known) in health.scopes() {
        let label = format!("namespace=\"{namespace}\"");
        line(text, readable, &label, i64::from(known));
    }
    let open = descriptors::count().and_then(|count| u64::try_from(count).ok());
    for (name, help, value) in [
        ("process_open_fds", "Descriptors that are open.", open),
        (
            "process_max_fds",
            "Descriptors that may be open.",
            descriptors::most(),
        ),
    ] {
        head(text, name, "gauge", help);
        if let Some(value) = value {
            // Writing to a string cannot fail.
            let _written = writeln!(text, "{name} {value}");
        }
    }
}

/// How the webhook is.
fn of_admission(text: &mut String, admission: &Admission) {
    let name = "etcd_operator_admission_reviews_total";
    let help = "Specs that the webhook of this replica judged, by its answer.";
    head(text, name, "counter", help);
    for (answer, count) in &admission.reviews {
        line(text, name, &format!("answer=\"{answer}\""), count);
    }
    let configured = admission.configured.map(i64::from);
    let expires = admission.expires.map(Timestamp::as_second);
    for (name, help, value) in [
        (
            "etcd_operator_admission_configured",
            "1 if both webhook configurations are there, 0 if new specs are not checked; told by the replica that holds the lease.",
            configured,
        ),
        (
            "etcd_operator_admission_certificate_expires_seconds",
            "When the certificate of the webhook expires, in seconds since 1970.",
            expires,
        ),
    ] {
        head(text, name, "gauge", help);
        if let Some(value) = value {
            // Writing to a string cannot fail.
            let _written = writeln!(text, "{name} {value}");
        }
    }
}

/// A gauge of every cluster.
struct Family {
    name: &'static str,
    help: &'static str,
    tell: fn(&mut String, &str, &EtcdCluster),
}

const FAMILIES: [Family; 7] = [
    Family {
        name: "etcd_cluster_phase",
        help: "1 for the phase that the cluster is in.",
        tell: |text, name, cluster| {
            let status = cluster.status.as_ref();
            if let Some(phase) = status.and_then(|status| status.phase) {
                let labels = format!("{},phase=\"{phase:?}\"", place(cluster));
                line(text, name, &labels, 1);
            }
        },
    },
    Family {
        name: "etcd_cluster_condition",
        help: "1 where a condition is True, 0 where it is False, -1 where it is Unknown.",
        tell: |text, name, cluster| {
            let status = cluster.status.iter();
            for condition in status.flat_map(|status| &status.conditions) {
                let value = match condition.status.as_str() {
                    "True" => 1,
                    "False" => 0,
                    _unknown => -1,
                };
                let (kind, reason) = (&condition.type_, &condition.reason);
                let labels = format!(
                    "{},condition=\"{kind}\",reason=\"{reason}\"",
                    place(cluster)
                );
                line(text, name, &labels, value);
            }
        },
    },
    Family {
        name: "etcd_cluster_size",
        help: "Members that the spec asks for.",
        tell: |text, name, cluster| number(text, name, cluster, cluster.spec.size),
    },
    Family {
        name: "etcd_cluster_healthy_voters",
        help: "Voters that are healthy.",
        tell: |text, name, cluster| {
            let status = cluster.status.as_ref();
            let healthy = status.and_then(|status| status.ready_replicas);
            number(text, name, cluster, healthy);
        },
    },
    Family {
        name: "etcd_cluster_unavailable_since_seconds",
        help: "Since when no quorum is known to serve, in seconds since 1970; absent while one does.",
        tell: |text, name, cluster| {
            let status = cluster.status.as_ref();
            let since = status.and_then(|status| status.unavailable_since.as_ref());
            number(text, name, cluster, since.map(|since| since.0.as_second()));
        },
    },
    Family {
        name: "etcd_cluster_certificate_expires_seconds",
        help: "When the first certificate of members and clients expires, in seconds since 1970; absent without TLS.",
        tell: |text, name, cluster| {
            let issued = certificates(cluster);
            let end = issued.map(|issued| issued.not_after.0.as_second());
            number(text, name, cluster, end);
        },
    },
    Family {
        name: "etcd_cluster_certificate_authority_expires_seconds",
        help: "When the certificate authority of the operator's expires, in seconds since 1970; absent without TLS.",
        tell: |text, name, cluster| {
            let issued = certificates(cluster);
            let end = issued.and_then(|issued| issued.authority_not_after.as_ref());
            number(text, name, cluster, end.map(|end| end.0.as_second()));
        },
    },
];

fn certificates(cluster: &EtcdCluster) -> Option<&CertificateStatus> {
    cluster.status.as_ref()?.certificates.as_ref()
}

/// Names of Kubernetes objects, and our own words, need no quoting.
fn place(cluster: &EtcdCluster) -> String {
    let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
    format!("namespace=\"{namespace}\",name=\"{name}\"")
}

/// One number, where it is known.
fn number(text: &mut String, name: &str, cluster: &EtcdCluster, value: Option<impl Display>) {
    if let Some(value) = value {
        line(text, name, &place(cluster), value);
    }
}

fn head(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string cannot fail.
    let _written = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(text: &mut String, name: &str, labels: &str, value: impl Display) {
    let _written = writeln!(text, "{name}{{{labels}}} {value}");
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // Nothing can be half done under these locks.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use kube::core::DeserializeGuard;
    use kube::runtime::{reflector, watcher};
    use serde_json::json;

    use super::*;

    #[test]
    fn what_was_done_and_how_clusters_are_can_be_read() {
        let metrics = Metrics::default();
        for _ in 0..2 {
            metrics.count("RetireMember", Reason::ReplacingMember, &Outcome::Done);
        }
        let cluster = json!({
            "apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdCluster",
            "metadata": {"namespace": "prod", "name": "db"},
            "spec": {"size": 3},
            "status": {"phase": "Running", "readyReplicas": 2, "unavailableSince": "1970-01-01T00:00:07Z",
                "certificates": {"notAfter": "1970-01-01T00:00:08Z", "renewalTime": "1970-01-01T00:00:06Z",
                    "authorityNotAfter": "1970-01-01T00:00:09Z", "clientSecret": "db-client-tls"},
                "conditions": [{"type": "Available", "status": "Unknown", "reason": "EtcdUnreachable",
                    "message": "", "lastTransitionTime": "1970-01-01T00:00:00Z"}]},
        });
        let mut writer = reflector::store::Writer::<Guarded>::default();
        let cluster: Guarded = DeserializeGuard(Ok(serde_json::from_value(cluster).unwrap()));
        writer.apply_watcher_event(&watcher::Event::Apply(cluster));
        metrics.watch(writer.as_reader());
        let health = Health::default();
        health.scope(Some("prod")).cache("Pod").hear(true);
        let text = metrics.render(&health);
        let place = "namespace=\"prod\",name=\"db\"";
        for expected in [
            "etcd_operator_steps_total{step=\"RetireMember\",reason=\"ReplacingMember\",outcome=\"done\"} 2".to_owned(),
            format!("etcd_cluster_phase{{{place},phase=\"Running\"}} 1"),
            format!("etcd_cluster_condition{{{place},condition=\"Available\",reason=\"EtcdUnreachable\"}} -1"),
            format!("etcd_cluster_size{{{place}}} 3"),
            format!("etcd_cluster_healthy_voters{{{place}}} 2"),
            format!("etcd_cluster_unavailable_since_seconds{{{place}}} 7"),
            format!("etcd_cluster_certificate_expires_seconds{{{place}}} 8"),
            format!("etcd_cluster_certificate_authority_expires_seconds{{{place}}} 9"),
            "etcd_operator_cache_filled{kind=\"Pod\"} 1".to_owned(),
            "etcd_operator_namespace_readable{namespace=\"prod\"} 1".to_owned(),
        ] {
            assert!(text.lines().any(|line| line == expected), "{expected}\n{text}");
        }
        // A family is listed once, with all that belongs to it behind it.
        let types: Vec<_> = text
            .lines()
            .filter(|line| line.starts_with("# TYPE"))
            .collect();
        let distinct: BTreeSet<_> = types.iter().collect();
        assert_eq!(types.len(), distinct.len(), "{types:?}");
    }
}

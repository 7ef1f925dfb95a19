//! The metrics: each with its name, its labels, and what it says.

pub mod backup;
pub mod cluster;
pub mod member;
pub mod operator;

/// A metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name, as a query writes it: that of a counter ends with `_total`, that of a histogram has no `_bucket`.
    pub name: &'static str,
    /// What kind of number it is.
    pub kind: Kind,
    /// The names of its labels.
    pub labels: &'static [&'static str],
    /// What it says, in a sentence or two.
    pub help: &'static str,
}

/// What kind of number a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// It rises and falls.
    Gauge,
    /// It only rises, while the process runs.
    Counter,
    /// How often something took how long.
    Histogram,
}

impl Kind {
    /// As Prometheus calls it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Gauge => "gauge",
            Self::Counter => "counter",
            Self::Histogram => "histogram",
        }
    }
}

impl Metric {
    /// The name of the family, which of a counter has no `_total`.
    pub fn family(&self) -> &'static str {
        match self.kind {
            Kind::Counter => self.name.strip_suffix("_total").unwrap_or(self.name),
            Kind::Gauge | Kind::Histogram => self.name,
        }
    }

    /// The names of its series.
    pub fn series(&self) -> Vec<String> {
        match self.kind {
            Kind::Gauge | Kind::Counter => vec![self.name.to_owned()],
            Kind::Histogram => ["_bucket", "_sum", "_count"]
                .map(|part| format!("{}{part}", self.name))
                .to_vec(),
        }
    }
}

/// Every metric there is, the operator's and those of etcd that are kept.
pub fn all() -> impl Iterator<Item = &'static Metric> {
    [operator::ALL, cluster::ALL, backup::ALL, member::ALL]
        .into_iter()
        .flatten()
}

/// A list of metrics, each under a name of its own.
macro_rules! metrics {
    ($($constant:ident = $kind:ident $name:literal [$($label:literal),*] $help:literal;)+) => {
        $(
            #[doc = $help]
            pub const $constant: $crate::Metric = $crate::Metric {
                name: $name,
                kind: $crate::Kind::$kind,
                labels: &[$($label),*],
                help: $help,
            };
        )+

        /// All of them, in the order of the page.
        pub const ALL: &[$crate::Metric] = &[$($constant),+];
    };
}
pub(crate) use metrics;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_metric_has_a_name_of_its_own_and_a_sentence() {
        let mut known = BTreeSet::new();
        for metric in all() {
            assert!(known.insert(metric.name), "{} twice", metric.name);
            let total = metric.name.ends_with("_total");
            assert_eq!(total, metric.kind == Kind::Counter, "{}", metric.name);
            // The page writes it as it is.
            let sentence = metric.help.ends_with('.') && !metric.help.contains(['"', '\\', '\n']);
            assert!(sentence, "{}: {}", metric.name, metric.help);
        }
    }

    #[test]
    fn of_a_cluster_everything_is_labelled_with_its_place() {
        for metric in cluster::ALL.iter().chain(backup::ALL) {
            assert!(metric.labels.starts_with(&["namespace", "cluster"]));
        }
        // A fleet of clusters makes this page no longer.
        for metric in operator::ALL {
            assert!(!metric.labels.contains(&"cluster"), "{}", metric.name);
        }
    }
}

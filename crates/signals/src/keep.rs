//! Which series of a member's page are kept, as relabelings of a PodMonitor.

use serde_json::{Value, json};

use crate::metrics::{Metric, member};

/// How calls end that clients are told of as failures of etcd, and how they end well.
const CODES: [&str; 8] = [
    "OK",
    "Unknown",
    "FailedPrecondition",
    "ResourceExhausted",
    "Internal",
    "Unavailable",
    "DataLoss",
    "DeadlineExceeded",
];

/// What is in the table. Of the counters of calls, which are half of the page, those of keys that can tell something.
pub fn keep() -> Value {
    let names: Vec<String> = member::ALL.iter().flat_map(Metric::series).collect();
    let handled = member::HANDLED.name;
    let calls = format!("{handled};etcdserverpb[.]KV;({})", CODES.join("|"));
    json!([
        {"sourceLabels": ["__name__"], "regex": names.join("|"), "action": "keep"},
        {"sourceLabels": ["__name__", "grpc_service", "grpc_code"], "regex": calls, "targetLabel": "__tmp_keep", "replacement": "kept"},
        {"sourceLabels": ["__name__", "__tmp_keep"], "regex": format!("{handled};"), "action": "drop"},
        {"regex": "__tmp_keep", "action": "labeldrop"},
    ])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Kubernetes reads YAML in which some words without quotes are no text.
    #[test]
    fn no_value_is_a_word_that_yaml_takes_for_something_else() {
        let kept = keep();
        let relabelings = kept.as_array().unwrap();
        let values = relabelings
            .iter()
            .flat_map(|it| it.as_object().unwrap().values());
        for value in values.filter_map(Value::as_str) {
            let word = value.to_lowercase();
            let taken = ["yes", "no", "on", "off", "y", "n", "true", "false"];
            assert!(!taken.contains(&word.as_str()), "{value}");
        }
        assert_eq!(relabelings.len(), 4);
    }
}

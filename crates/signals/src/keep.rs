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
        {"sourceLabels": ["__name__", "grpc_service", "grpc_code"], "regex": calls, "targetLabel": "__tmp_keep", "replacement": "yes"},
        {"sourceLabels": ["__name__", "__tmp_keep"], "regex": format!("{handled};"), "action": "drop"},
        {"regex": "__tmp_keep", "action": "labeldrop"},
    ])
}

//! Is a live object what we want it to be? Everything we state must be there as we state it; what
//! others or the API server added does not matter.

use serde_json::Value;

/// What differs, as a path; `None` when nothing does.
pub fn find(wanted: &Value, live: &Value) -> Option<String> {
    differs(wanted, live, "")
}

fn differs(wanted: &Value, live: &Value, path: &str) -> Option<String> {
    match (wanted, live) {
        (Value::Object(wanted), Value::Object(live)) => wanted.iter().find_map(|(key, wanted)| {
            let path = format!("{path}.{key}");
            match live.get(key) {
                Some(live) => differs(wanted, live, &path),
                None => (!is_nothing(key, wanted)).then_some(path),
            }
        }),
        (Value::Array(wanted), Value::Array(live)) => {
            if wanted.len() > live.len() {
                return Some(path.to_owned());
            }
            wanted
                .iter()
                .zip(live)
                .enumerate()
                .find_map(|(index, (wanted, live))| {
                    differs(wanted, live, &format!("{path}[{index}]"))
                })
        }
        (wanted, live) if wanted == live => None,
        (Value::String(wanted), Value::String(live)) if same_quantity(wanted, live) => None,
        _different => Some(path.to_owned()),
    }
}

/// What counts when it is absent, and as something else than nothing.
const NEVER_NOTHING: [&str; 6] = [
    "allowPrivilegeEscalation",
    "automountServiceAccountToken",
    "enableServiceLinks",
    "minAvailable",
    "readOnlyRootFilesystem",
    "replicas",
];

/// The API server leaves out what is empty, zero or false, wherever that means the same as its absence.
fn is_nothing(key: &str, value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.iter().all(|(key, value)| is_nothing(key, value)),
        Value::Array(list) => list.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(true) => false,
        Value::Bool(false) => !NEVER_NOTHING.contains(&key),
        Value::Number(number) => number.as_i64() == Some(0) && !NEVER_NOTHING.contains(&key),
    }
}

/// The API server rewrites quantities into its canonical form: `1024Mi` becomes `1Gi`.
fn same_quantity(wanted: &str, live: &str) -> bool {
    let quantity = |text: &str| api::Quantity(text.to_owned());
    wanted.starts_with(|c: char| c.is_ascii_digit()) && quantity(wanted).is_same(&quantity(live))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn additions_of_others_are_no_drift_and_changes_of_ours_are() {
        let wanted = json!({"spec": {"replicas": 3, "ports": [{"port": 1}], "empty": {}}});
        let same =
            json!({"spec": {"replicas": 3, "ports": [{"port": 1, "nodePort": 7}], "more": 1}});
        assert_eq!(find(&wanted, &same), None);
        let other = json!({"spec": {"replicas": 2, "ports": [{"port": 1}]}});
        assert_eq!(find(&wanted, &other).as_deref(), Some(".spec.replicas"));
        let missing = json!({"spec": {"replicas": 3, "ports": []}});
        assert_eq!(find(&wanted, &missing).as_deref(), Some(".spec.ports"));
    }

    #[test]
    fn canonical_quantities_are_no_drift() {
        assert_eq!(
            find(&json!({"memory": "1024Mi"}), &json!({"memory": "1Gi"})),
            None
        );
        assert!(find(&json!({"memory": "1Gi"}), &json!({"memory": "2Gi"})).is_some());
        assert!(find(&json!({"cpu": "100m"}), &json!({"cpu": "200m"})).is_some());
    }

    #[test]
    fn what_the_api_server_leaves_out_is_no_drift_unless_its_absence_says_something_else() {
        let nothing = json!({"env": [{"name": "A", "value": ""}], "mount": {"readOnly": false},
            "probe": {"initialDelaySeconds": 0}});
        let live = json!({"env": [{"name": "A"}], "mount": {}, "probe": {}});
        assert_eq!(find(&nothing, &live), None);
        for something in [
            json!({"automountServiceAccountToken": false}),
            json!({"minAvailable": 0}),
            json!({"hostNetwork": true}),
        ] {
            assert!(find(&something, &json!({})).is_some(), "{something}");
        }
    }
}

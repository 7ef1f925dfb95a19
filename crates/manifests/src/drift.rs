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
                None => (!is_nothing(wanted)).then_some(path),
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

/// The API server leaves out what is empty.
fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(map) => map.values().all(is_nothing),
        Value::Array(list) => list.is_empty(),
        Value::Bool(_) | Value::Number(_) | Value::String(_) => false,
    }
}

/// The API server rewrites quantities into its canonical form: `1024Mi` becomes `1Gi`.
fn same_quantity(wanted: &str, live: &str) -> bool {
    let value = |text: &str| api::Quantity(text.to_owned()).value();
    wanted.starts_with(|c: char| c.is_ascii_digit())
        && value(wanted).is_some()
        && value(wanted) == value(live)
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
    }
}

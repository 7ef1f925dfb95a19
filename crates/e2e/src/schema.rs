//! A definition without its rules, as an earlier release may have had it.

use serde_json::Value;

/// Takes every CEL rule off.
#[must_use]
pub fn without_rules(mut definition: Value) -> Value {
    match &mut definition {
        Value::Object(map) => {
            map.remove("x-kubernetes-validations");
            for inner in map.values_mut() {
                *inner = without_rules(inner.take());
            }
        }
        Value::Array(all) => {
            for inner in all {
                *inner = without_rules(inner.take());
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    definition
}

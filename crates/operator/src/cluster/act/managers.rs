//! Who owns a field of an object, as its `managedFields` say.

use api::labels;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry;
use serde_json::Value;

/// The field manager other than ours that owns a field, the one that wrote last if there are several. What a webhook
/// changes in a write of ours counts as ours, so `None` speaks for a webhook.
pub(super) fn owner(entries: &[ManagedFieldsEntry], field: &str) -> Option<String> {
    let others = entries.iter().filter(|entry| {
        let manager = entry.manager.as_deref();
        entry.subresource.is_none() && manager.is_some_and(|manager| manager != labels::OPERATOR)
    });
    let owners = others.filter(|entry| {
        let fields = entry.fields_v1.as_ref();
        fields.is_some_and(|fields| owns(&fields.0, field))
    });
    owners
        .max_by_key(|entry| entry.time.as_ref().map(|time| time.0))
        .and_then(|entry| entry.manager.clone())
}

/// Follows a path such as `.spec.ports[0].port` as far as names go: items of lists are not told apart.
fn owns(fields: &Value, path: &str) -> bool {
    let names = path.split('[').next().unwrap_or_default();
    let mut names = names.split('.').filter(|name| !name.is_empty());
    names
        .try_fold(fields, |fields, name| fields.get(format!("f:{name}")))
        .is_some()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_manager_of_a_field_is_named_unless_it_is_ours() {
        let entry = |manager: &str, second: u32, fields: Value| -> ManagedFieldsEntry {
            let time = format!("2026-01-01T00:00:0{second}Z");
            serde_json::from_value(json!({"manager": manager, "operation": "Update",
                "fieldsType": "FieldsV1", "time": time, "fieldsV1": fields}))
            .unwrap()
        };
        let replicas = json!({"f:spec": {"f:replicas": {}}});
        let ports = json!({"f:spec": {"f:ports": {"k:{\"port\":1}": {"f:port": {}}}}});
        let entries = [
            entry(labels::OPERATOR, 5, replicas.clone()),
            entry("hpa", 1, replicas.clone()),
            entry("kubectl-edit", 2, replicas),
            entry("other", 3, ports),
        ];
        for (field, expected) in [
            (".spec.replicas", Some("kubectl-edit")),
            (".spec.ports[0].port", Some("other")),
            (".spec.template", None),
        ] {
            assert_eq!(owner(&entries, field).as_deref(), expected, "{field}");
        }
    }
}

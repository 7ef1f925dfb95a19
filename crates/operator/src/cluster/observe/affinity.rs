//! On which nodes a volume can be used, as its node affinity says.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PersistentVolume,
};

/// The nodes that a volume requires; `None` where any will do.
pub(super) fn required(volume: &PersistentVolume) -> Option<&NodeSelector> {
    let affinity = volume.spec.as_ref()?.node_affinity.as_ref()?;
    affinity.required.as_ref()
}

/// A directory or a disk of a node, whether it says so by its affinity or not.
pub(super) fn is_local(volume: &PersistentVolume) -> bool {
    let spec = volume.spec.as_ref();
    spec.is_some_and(|spec| spec.host_path.is_some() || spec.local.is_some())
}

/// A node fits if it fits one of the terms.
pub(super) fn matches(
    selector: &NodeSelector,
    name: &str,
    labels: &BTreeMap<String, String>,
) -> bool {
    let mut terms = selector.node_selector_terms.iter();
    terms.any(|term| fits(term, name, labels))
}

/// All rules of a term hold; one without rules fits nothing.
fn fits(term: &NodeSelectorTerm, name: &str, labels: &BTreeMap<String, String>) -> bool {
    let by_label = term.match_expressions.iter().flatten();
    let by_label = by_label.map(|rule| holds(rule, labels.get(&rule.key).map(String::as_str)));
    let by_field = term.match_fields.iter().flatten();
    let by_field = by_field.map(|rule| holds(rule, (rule.key == "metadata.name").then_some(name)));
    let all: Vec<bool> = by_label.chain(by_field).collect();
    !all.is_empty() && all.iter().all(|holds| *holds)
}

fn holds(rule: &NodeSelectorRequirement, found: Option<&str>) -> bool {
    let named = || {
        let mut values = rule.values.iter().flatten();
        values.any(|value| Some(value.as_str()) == found)
    };
    let number = |text: Option<&str>| text.and_then(|text| text.parse::<i64>().ok());
    let given = || number(rule.values.iter().flatten().next().map(String::as_str));
    match rule.operator.as_str() {
        "In" => named(),
        "NotIn" => !named(),
        "Exists" => found.is_some(),
        "DoesNotExist" => found.is_none(),
        "Gt" => number(found)
            .zip(given())
            .is_some_and(|(is, than)| is > than),
        "Lt" => number(found)
            .zip(given())
            .is_some_and(|(is, than)| is < than),
        // An operator that is not known yet fits nothing that we know of.
        _another => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn volume(terms: &Value) -> PersistentVolume {
        let affinity = json!({"required": {"nodeSelectorTerms": terms}});
        serde_json::from_value(json!({"spec": {"nodeAffinity": affinity}})).unwrap()
    }

    #[test]
    fn a_volume_can_be_used_where_its_affinity_says() {
        let labels = [
            ("kubernetes.io/hostname", "n1"),
            ("zone", "a"),
            ("rank", "7"),
        ];
        let labels = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
        let labels = BTreeMap::from(labels);
        let rule = |key: &str, operator: &str, values: &Value| json!([{"matchExpressions": [{"key": key, "operator": operator, "values": values}]}]);
        for (terms, expected) in [
            (rule("kubernetes.io/hostname", "In", &json!(["n1"])), true),
            (rule("kubernetes.io/hostname", "In", &json!(["n2"])), false),
            (rule("zone", "In", &json!(["b", "a"])), true),
            (rule("zone", "NotIn", &json!(["a"])), false),
            (rule("zone", "Exists", &json!([])), true),
            (rule("disk", "DoesNotExist", &json!([])), true),
            (rule("rank", "Gt", &json!(["6"])), true),
            (rule("rank", "Lt", &json!(["6"])), false),
            (rule("zone", "Resembles", &json!(["a"])), false),
            (json!([{}]), false),
            (json!([]), false),
            (
                json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["i-1"]}]}]),
                true,
            ),
        ] {
            let volume = volume(&terms);
            let fits = matches(required(&volume).unwrap(), "i-1", &labels);
            assert_eq!(fits, expected, "{terms}");
        }
    }

    #[test]
    fn a_directory_of_a_node_is_nowhere_else() {
        let path = json!({"spec": {"hostPath": {"path": "/data"}}});
        assert!(is_local(&serde_json::from_value(path).unwrap()));
        assert!(!is_local(&PersistentVolume::default()));
        assert!(required(&PersistentVolume::default()).is_none());
    }
}

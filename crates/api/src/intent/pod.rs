//! The settings of pods in a spec. The schema leaves volumes and containers to Kubernetes; here they become what they are
//! meant to be, or a sentence, so that nothing in them is dropped unseen.

use k8s_openapi::api::core::v1::{Container, Volume};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::InvalidSpec;
use crate::v1alpha1::pod::PodSettings;

/// Where and how pods run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodIntent {
    /// As it was written.
    pub settings: PodSettings,
    /// Volumes to add.
    pub volumes: Vec<Volume>,
    /// Containers to add.
    pub containers: Vec<Container>,
}

pub(super) fn parse(settings: Option<&PodSettings>) -> Result<PodIntent, InvalidSpec> {
    let settings = settings.cloned().unwrap_or_default();
    Ok(PodIntent {
        volumes: typed("spec.pod.volumes", &settings.volumes)?,
        containers: typed("spec.pod.containers", &settings.containers)?,
        settings,
    })
}

fn typed<T: DeserializeOwned + Serialize>(
    field: &'static str,
    items: &[Value],
) -> Result<Vec<T>, InvalidSpec> {
    let one = |item: &Value| {
        let name = item.get("name").and_then(Value::as_str).unwrap_or_default();
        let wrong = |why: String| InvalidSpec::Item {
            field,
            name: name.to_owned(),
            why,
        };
        let readable = with_quantities_as_text(item, false);
        let typed: T = serde_json::from_value(readable).map_err(|e| wrong(e.to_string()))?;
        let understood = serde_json::to_value(&typed).map_err(|e| wrong(e.to_string()))?;
        match missing(item, &understood) {
            Some(path) => Err(wrong(format!("Kubernetes has no field {path}"))),
            None => Ok(typed),
        }
    };
    items.iter().map(one).collect()
}

/// Kubernetes takes a number for a quantity (`cpu: 1`), its Rust types do not.
fn with_quantities_as_text(value: &Value, is_quantity: bool) -> Value {
    match value {
        Value::Object(map) => {
            let inner = map.iter().map(|(key, value)| {
                let amounts = ["limits", "requests", "sizeLimit", "divisor"];
                let inside = is_quantity || amounts.contains(&key.as_str());
                (key.clone(), with_quantities_as_text(value, inside))
            });
            Value::Object(inner.collect())
        }
        Value::Array(list) => {
            let inner = list
                .iter()
                .map(|value| with_quantities_as_text(value, false));
            Value::Array(inner.collect())
        }
        Value::Number(number) if is_quantity => Value::String(number.to_string()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

/// The first key that is written and was not understood.
fn missing(written: &Value, understood: &Value) -> Option<String> {
    match (written, understood) {
        (Value::Object(written), Value::Object(understood)) => written
            .iter()
            .filter(|(_, value)| !value.is_null())
            .find_map(|(key, value)| match understood.get(key) {
                Some(inner) => missing(value, inner).map(|path| format!("{key}.{path}")),
                None => Some(key.clone()),
            }),
        (Value::Array(written), Value::Array(understood)) => written
            .iter()
            .zip(understood)
            .find_map(|(written, understood)| missing(written, understood)),
        _leaf => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn parse(settings: Value) -> Result<PodIntent, InvalidSpec> {
        super::parse(Some(&serde_json::from_value(settings).unwrap()))
    }

    #[test]
    fn volumes_and_containers_become_what_kubernetes_has() {
        let pod = parse(json!({
            "volumes": [{"name": "scratch", "emptyDir": {}}],
            "containers": [{"name": "proxy", "image": "a", "env": [{"name": "A", "value": "b"}],
                "resources": {"limits": {"cpu": 1}}}],
        }))
        .unwrap();
        let limits = pod.containers[0].resources.clone().unwrap().limits.unwrap();
        assert_eq!(limits["cpu"].0, "1");
        assert!(pod.volumes[0].empty_dir.is_some());
        assert_eq!(pod.containers[0].image.as_deref(), Some("a"));
    }

    #[test]
    fn what_kubernetes_would_drop_or_not_understand_is_named() {
        for (settings, sentence) in [
            (
                json!({"containers": [{"name": "a", "image": "b", "imagee": "c"}]}),
                r#"spec.pod.containers "a" cannot be used: Kubernetes has no field imagee"#,
            ),
            (
                json!({"containers": [{"name": "a", "image": "b", "ports": [{"containerPort": 1, "prot": "TCP"}]}]}),
                r#"spec.pod.containers "a" cannot be used: Kubernetes has no field ports.prot"#,
            ),
            (
                json!({"volumes": [{"name": "a", "emptyDirectory": {}}]}),
                r#"spec.pod.volumes "a" cannot be used: Kubernetes has no field emptyDirectory"#,
            ),
        ] {
            let error = parse(settings).unwrap_err().to_string();
            assert!(error.starts_with(sentence), "{error}");
        }
        let wrong = json!({"containers": [{"name": "a", "image": 5}]});
        let error = parse(wrong).unwrap_err().to_string();
        assert!(error.contains("invalid type: integer"), "{error}");
    }
}

//! Short names for contents: which template a pod was made from, and what an object was when we applied it.

use std::collections::BTreeMap;

use api::ClusterIntent;
use api::image::Flavour;
use api::v1alpha1::etcd::Etcd;
use serde_json::Value;

use crate::{Kind, Object};

/// Identity of a pod template: 16 hexadecimal digits over everything that a user can change and that ends in a pod.
///
/// How this release renders it does not enter, so that another release of the operator alone restarts no member. What
/// was not said does not enter either, so that a setting that is added later keeps the hashes of those who do not use it.
///
/// Invariant: a cluster keeps its hash from release to release (`the_hash_of_a_default_spec_is_pinned`).
pub fn template_hash(intent: &ClusterIntent) -> String {
    let mut said: BTreeMap<&str, Value> = [
        ("version", Value::from(intent.version.to_string())),
        ("image", Value::from(intent.image_reference())),
        ("quota", Value::from(intent.quota())),
    ]
    .into();
    if intent.image.flavour != Flavour::Official {
        said.insert("flavour", json(&intent.image.flavour));
    }
    if let Some(policy) = &intent.image.pull_policy {
        said.insert("pullPolicy", json(policy));
    }
    if let Some(at) = &intent.restarted_at {
        said.insert("restartedAt", Value::from(at.clone()));
    }
    if !intent.tls.transport.is_plain() {
        said.insert("transport", Value::from(intent.tls.transport.to_string()));
        if intent.tls.trust > 0 {
            said.insert("trust", Value::from(intent.tls.trust));
        }
        let version = intent.tls.min_version;
        said.extend(version.map(|version| ("tlsVersion", json(&version))));
        if !intent.tls.cipher_suites.is_empty() {
            said.insert("ciphers", json(&intent.tls.cipher_suites));
        }
    }
    for (name, value) in [
        ("resources", json(&intent.resources)),
        ("etcd", json(&without_quota(&intent.etcd))),
        ("pod", json(&intent.pod.settings)),
    ] {
        if value != serde_json::json!({}) {
            said.insert(name, value);
        }
    }
    digest(&json(&said))
}

/// The quota that is in effect stands for the one that was written.
fn without_quota(etcd: &Etcd) -> Etcd {
    Etcd {
        quota_backend_bytes: None,
        ..etcd.clone()
    }
}

/// Identity of what we say about an object beside the parts that are compared or replaced on their own.
pub(crate) fn applied(object: &Object) -> String {
    let mut body = object.body.clone();
    let spec = body.get_mut("spec").and_then(Value::as_object_mut);
    if let (Kind::StatefulSet, Some(spec)) = (object.kind, spec) {
        for part in ["template", "replicas", "volumeClaimTemplates"] {
            spec.remove(part);
        }
    }
    digest(&body)
}

/// Our types have names for keys and no numbers that JSON lacks, so this cannot fail.
fn json<T: serde::Serialize>(value: &T) -> Value {
    serde_json::to_value(value).unwrap_or_default()
}

/// FNV-1a with 64 bits: short, the same everywhere, and a collision gains an attacker nothing.
fn digest(value: &Value) -> String {
    let hash = canonical(value)
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    format!("{hash:016x}")
}

/// JSON with its keys in order and without what is null, whatever `serde_json` is built to do.
fn canonical(value: &Value) -> String {
    match value {
        Value::Object(map) => {
            let sorted: BTreeMap<&String, &Value> =
                map.iter().filter(|(_, value)| !value.is_null()).collect();
            let pairs = sorted
                .into_iter()
                .map(|(key, value)| format!("{}:{}", json(key), canonical(value)));
            format!("{{{}}}", pairs.collect::<Vec<_>>().join(","))
        }
        Value::Array(list) => {
            let items: Vec<String> = list.iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn intent(spec: &str) -> ClusterIntent {
        ClusterIntent::parse(&serde_json::from_str(spec).unwrap()).unwrap()
    }

    fn hash(spec: &str) -> String {
        template_hash(&intent(spec))
    }

    #[test]
    fn digests_are_those_of_fnv_and_do_not_depend_on_the_order_of_keys() {
        assert_eq!(digest(&json!({})), "08f44b07b5901a25");
        assert_eq!(
            digest(&json!({"a": 1, "b": [null]})),
            digest(&json!({"b": [null], "c": null, "a": 1}))
        );
        assert_ne!(digest(&json!({"a": {}})), digest(&json!({})));
    }

    #[test]
    fn the_hash_of_a_default_spec_is_pinned() {
        assert_eq!(hash("{}"), "383798bae8a3a68d");
    }

    #[test]
    fn what_ends_in_a_pod_changes_the_hash() {
        for spec in [
            r#"{"version":"v3.6.16"}"#,
            r#"{"repository":"gcr.io/etcd-development/etcd"}"#,
            r#"{"image":{"tag":"v3.5.35-fips"}}"#,
            r#"{"image":{"digest":"sha256:ab"}}"#,
            r#"{"image":{"flavour":"Bitnami"}}"#,
            r#"{"image":{"pullPolicy":"Always"}}"#,
            r#"{"resources":{"requests":{"cpu":"1"}}}"#,
            r#"{"resources":{"limits":{"memory":"1Gi"}}}"#,
            r#"{"storage":{"size":"20Gi"}}"#,
            r#"{"etcd":{"quotaBackendBytes":"1Gi"}}"#,
            r#"{"etcd":{"autoCompaction":{"retention":"2h"}}}"#,
            r#"{"etcd":{"heartbeatIntervalMilliseconds":100,"electionTimeoutMilliseconds":1000}}"#,
            r#"{"etcd":{"snapshotCount":10000}}"#,
            r#"{"etcd":{"logLevel":"debug"}}"#,
            r#"{"etcd":{"maxRequestBytes":"2Mi"}}"#,
            r#"{"etcd":{"flags":{"max-txn-ops":"256"}}}"#,
            r#"{"pod":{"labels":{"a":"b"}}}"#,
            r#"{"pod":{"annotations":{"a":"b"}}}"#,
            r#"{"pod":{"nodeSelector":{"a":"b"}}}"#,
            r#"{"pod":{"tolerations":[{"operator":"Exists"}]}}"#,
            r#"{"pod":{"affinity":{"podAntiAffinity":{}}}}"#,
            r#"{"pod":{"topologySpreadConstraints":[]}}"#,
            r#"{"pod":{"priorityClassName":"high"}}"#,
            r#"{"pod":{"imagePullSecrets":[{"name":"a"}]}}"#,
            r#"{"pod":{"serviceAccountName":"a"}}"#,
            r#"{"pod":{"env":[{"name":"A","value":"b"}]}}"#,
            r#"{"pod":{"volumes":[{"name":"a","emptyDir":{}}]}}"#,
            r#"{"pod":{"volumeMounts":[{"name":"a","mountPath":"/a"}]}}"#,
            r#"{"pod":{"containers":[{"name":"a","image":"b"}]}}"#,
            r#"{"pod":{"securityContext":{"runAsUser":1}}}"#,
            r#"{"pod":{"containerSecurityContext":{"runAsUser":1}}}"#,
            r#"{"pod":{"terminationGracePeriodSeconds":60}}"#,
            r#"{"pod":{"probes":{"liveness":{"periodSeconds":20}}}}"#,
        ] {
            assert_ne!(hash(spec), hash("{}"), "{spec}");
        }
        let mut restarted = intent("{}");
        restarted.restarted_at = Some("2026-01-01T00:00:00Z".into());
        assert_ne!(template_hash(&restarted), hash("{}"));
        let mut small = intent("{}");
        small.storage.size_in_force = Some(5 * 1024 * 1024 * 1024);
        assert_ne!(template_hash(&small), hash("{}"), "the quota follows");
    }

    #[test]
    fn what_does_not_end_in_a_pod_leaves_the_hash() {
        for spec in [
            r#"{"size":5}"#,
            r#"{"version":"3.5.35"}"#,
            r#"{"image":{"flavour":"Official"}}"#,
            r#"{"resources":{}}"#,
            r#"{"storage":{"size":"10Gi","storageClassName":"fast"}}"#,
            r#"{"storage":{"claimPolicy":{"whenStopped":"Delete","whenScaled":"Retain","whenDeleted":"Delete"}}}"#,
            r#"{"upgrade":{"allowIntermediate":true}}"#,
            r#"{"access":{"type":"NodePort","nodePort":30379}}"#,
            r#"{"access":{"type":"LoadBalancer"}}"#,
            r#"{"debug":{"enabled":true}}"#,
            r#"{"etcd":{}}"#,
            r#"{"etcd":{"quotaBackendBytes":"4Gi"}}"#,
            r#"{"pod":{}}"#,
        ] {
            assert_eq!(hash(spec), hash("{}"), "{spec}");
        }
        // Growth that is asked for changes nothing until the volumes have grown.
        let mut growing = intent(r#"{"storage":{"size":"20Gi"}}"#);
        growing.storage.size_in_force = Some(10 * 1024 * 1024 * 1024);
        assert_eq!(template_hash(&growing), hash("{}"));
    }
}

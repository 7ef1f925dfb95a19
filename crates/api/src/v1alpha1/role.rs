//! `EtcdRole`: what users of an etcd cluster may do with which keys.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A role of etcd.
#[derive(
    CustomResource, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema,
)]
#[kube(
    group = "etcd.etcd.io",
    version = "v1alpha1",
    kind = "EtcdRole",
    plural = "etcdroles",
    singular = "etcdrole",
    namespaced,
    derive = "Default",
    derive = "PartialEq",
    status = "EtcdRoleStatus",
    doc = "A role in an etcd cluster whose `security.auth.enabled` is true.",
    printcolumn = r#"{"name": "Cluster", "type": "string", "jsonPath": ".spec.clusterName"}"#,
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "Age",
        type_ = "date",
        json_path = ".metadata.creationTimestamp"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct EtcdRoleSpec {
    /// The EtcdCluster in the same namespace. Cannot be changed.
    pub cluster_name: String,
    /// Name of the role in etcd; the name of this object when absent. Cannot be changed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role_name: Option<String>,
    /// What users with this role may do.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub permissions: Vec<Permission>,
}

/// What may be done with one key, all keys with a prefix, or a range of keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Permission {
    /// What may be done.
    #[serde(rename = "type")]
    pub access: Access,
    /// One key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
    /// All keys that begin so; an empty prefix means all keys.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prefix: Option<String>,
    /// All keys in a range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub range: Option<KeyRange>,
}

/// What may be done with keys: `Read` (and watch), `Write` (and delete), or `ReadWrite`.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Access {
    /// Read and watch.
    Read,
    /// Write and delete.
    Write,
    /// Both.
    ReadWrite,
}

/// A range of keys.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyRange {
    /// The first key.
    pub from: String,
    /// The first key that is not in the range any more; all from `from` on when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// What became of an `EtcdRole`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct EtcdRoleStatus {
    /// `Ready`: the role is in etcd with its permissions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditions: Vec<Condition>,
    /// Generation of the spec that this status speaks of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Which keys a permission is for, as etcd has it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Keys {
    /// The key, or the first of them.
    pub key: Vec<u8>,
    /// The first key that is no longer meant; empty for one key alone, a zero byte for all from `key` on.
    pub end: Vec<u8>,
}

/// The end of a range that has none.
const OPEN: &[u8] = &[0];

impl Permission {
    /// The keys; `None` where it names none, or in more than one way.
    pub fn keys(&self) -> Option<Keys> {
        let keys = match (&self.key, &self.prefix, &self.range) {
            (Some(key), None, None) if !key.is_empty() => Keys {
                key: key.clone().into_bytes(),
                end: Vec::new(),
            },
            (None, Some(prefix), None) if prefix.is_empty() => Keys {
                key: OPEN.to_vec(),
                end: OPEN.to_vec(),
            },
            (None, Some(prefix), None) => Keys {
                key: prefix.clone().into_bytes(),
                end: after(prefix),
            },
            (None, None, Some(KeyRange { from, to })) if !from.is_empty() => Keys {
                key: from.clone().into_bytes(),
                end: match to {
                    Some(to) if to > from => to.clone().into_bytes(),
                    Some(_) => return None,
                    None => OPEN.to_vec(),
                },
            },
            _other => return None,
        };
        Some(keys)
    }
}

/// The first key that does not begin with this prefix any more. No byte of a text is 255, so its last one has a next.
fn after(prefix: &str) -> Vec<u8> {
    let mut end = prefix.as_bytes().to_vec();
    if let Some(last) = end.last_mut() {
        *last = last.saturating_add(1);
    }
    end
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(written: &str) -> Option<(Vec<u8>, Vec<u8>)> {
        let permission: Permission = serde_json::from_str(written).unwrap();
        permission.keys().map(|keys| (keys.key, keys.end))
    }

    #[test]
    fn keys_prefixes_and_ranges_become_what_etcd_has() {
        for (written, key, end) in [
            (r#"{"type":"Read","key":"a"}"#, "a", ""),
            (r#"{"type":"Read","prefix":"/app/"}"#, "/app/", "/app0"),
            (r#"{"type":"Read","prefix":""}"#, "\0", "\0"),
            (r#"{"type":"Read","range":{"from":"a","to":"c"}}"#, "a", "c"),
            (r#"{"type":"Read","range":{"from":"a"}}"#, "a", "\0"),
        ] {
            let expected = (key.as_bytes().to_vec(), end.as_bytes().to_vec());
            assert_eq!(keys(written), Some(expected), "{written}");
        }
        for written in [
            r#"{"type":"Read"}"#,
            r#"{"type":"Read","key":""}"#,
            r#"{"type":"Read","key":"a","prefix":"b"}"#,
            r#"{"type":"Read","range":{"from":"c","to":"a"}}"#,
            r#"{"type":"Read","range":{"from":"a","to":"a"}}"#,
        ] {
            assert_eq!(keys(written), None, "{written}");
        }
    }
}

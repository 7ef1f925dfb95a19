//! The operator's role against what it was seen doing: a right that no story used is one too many, and a request that was
//! forbidden is one too few. What was done stands in the audit log of the local cluster, which a whole run begins afresh.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context, Result, ensure};
use serde::Deserialize as _;
use serde_json::Value;

use crate::cluster::Layout;
use crate::deploy::root;

/// One verb on one resource of an API group.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Right {
    group: String,
    resource: String,
    verb: String,
}

/// Rights that leave no trace in the log, or are used by no story of a usual run.
const UNSEEN: &[(&str, &str, &str)] = &[
    // Asked for by the admission plugin OwnerReferencesPermissionEnforcement, where it is on.
    ("etcd.etcd.io", "etcdclusters/finalizers", "update"),
    ("etcd.etcd.io", "etcdbackups/finalizers", "update"),
    // Written on an object that cannot be read otherwise, which the schema does not let in any more.
    ("etcd.etcd.io", "etcdclusters/status", "patch"),
    // cert-manager is part of no usual run: its kinds do not exist there, and the request tests have these requests.
    ("cert-manager.io", "certificates", "create"),
    ("cert-manager.io", "certificates", "delete"),
    ("cert-manager.io", "certificates", "get"),
    ("cert-manager.io", "certificates", "patch"),
    ("cert-manager.io", "certificaterequests", "get"),
    // The policy of the log leaves the lease out: it is renewed every few seconds.
    ("coordination.k8s.io", "leases", "create"),
    ("coordination.k8s.io", "leases", "get"),
    ("coordination.k8s.io", "leases", "update"),
];

/// Compares both.
pub(crate) fn check(layout: &Layout) -> Result<()> {
    let path = root().join("config/install.yaml");
    let granted = granted(&fs::read_to_string(&path).context("config/install.yaml")?)?;
    let mut seen = Seen::default();
    for text in logs(layout)? {
        seen.read(&text);
    }
    ensure!(
        !seen.used.is_empty(),
        "the audit log has no request of the operator: run the stories first (`cargo xtask test --stage e2e`)"
    );
    let unused: Vec<String> = granted
        .iter()
        .filter(|right| !seen.used.contains(right) && !is_unseen(right))
        .map(Right::to_string)
        .collect();
    let refused: Vec<String> = seen
        .refused
        .iter()
        .map(|(right, example)| format!("{right} ({example})"))
        .collect();
    eprintln!(
        "{} rights granted, {} used",
        granted.len(),
        granted.intersection(&seen.used).count()
    );
    ensure!(
        unused.is_empty() && refused.is_empty(),
        "granted and never used: [{}]; forbidden: [{}]\nhint: charts/etcd-operator/templates, operator.rules; then `cargo xtask generate`",
        unused.join(", "),
        refused.join(", ")
    );
    Ok(())
}

fn is_unseen(right: &Right) -> bool {
    let right = (
        right.group.as_str(),
        right.resource.as_str(),
        right.verb.as_str(),
    );
    UNSEEN.contains(&right)
}

impl std::fmt::Display for Right {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let dot = if self.group.is_empty() { "" } else { "." };
        write!(f, "{} {}{dot}{}", self.verb, self.resource, self.group)
    }
}

/// The newest file of the log and those before it.
fn logs(layout: &Layout) -> Result<Vec<String>> {
    let newest = layout.audit_log();
    let directory = newest.parent().context("the log has no directory")?;
    let mut all = Vec::new();
    for entry in fs::read_dir(directory).context("no audit log: is the local cluster up?")? {
        let path = entry?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if name.is_some_and(|name| name.starts_with("audit")) {
            all.push(fs::read_to_string(&path)?);
        }
    }
    Ok(all)
}

/// What the operator's roles allow. Those for users are others'.
fn granted(manifests: &str) -> Result<BTreeSet<Right>> {
    let mut all = BTreeSet::new();
    for document in serde_yaml::Deserializer::from_str(manifests) {
        let object = Value::deserialize(document)?;
        let text = |path: &str| object.pointer(path).and_then(Value::as_str);
        let is_role = matches!(text("/kind"), Some("Role" | "ClusterRole"));
        let is_ours = text("/metadata/name").is_some_and(|name| OURS.contains(&name));
        let rules = object.get("rules").and_then(Value::as_array);
        for rule in rules.into_iter().flatten().filter(|_| is_role && is_ours) {
            let list = |key: &str| {
                let list = rule
                    .get(key)
                    .and_then(Value::as_array)
                    .into_iter()
                    .flatten();
                list.filter_map(Value::as_str)
                    .map(str::to_owned)
                    .collect::<Vec<_>>()
            };
            for group in list("apiGroups") {
                for resource in list("resources") {
                    all.extend(list("verbs").into_iter().map(|verb| Right {
                        group: group.clone(),
                        resource: resource.clone(),
                        verb,
                    }));
                }
            }
        }
    }
    ensure!(!all.is_empty(), "no role of the operator was found");
    Ok(all)
}

/// Names of the operator's roles in the manifests.
const OURS: &[&str] = &[
    "etcd-operator",
    "etcd-operator-lease",
    "etcd-operator-storage",
    "etcd-operator-webhook",
];

/// What the log tells.
#[derive(Default)]
struct Seen {
    used: BTreeSet<Right>,
    /// With an object that it happened to.
    refused: BTreeMap<Right, String>,
}

impl Seen {
    /// A line that is only half written is left out.
    fn read(&mut self, log: &str) {
        for line in log.lines() {
            if let Ok(entry) = serde_json::from_str::<Value>(line) {
                self.read_entry(&entry);
            }
        }
    }

    fn read_entry(&mut self, entry: &Value) {
        let text = |path: &str| entry.pointer(path).and_then(Value::as_str);
        let (Some(resource), Some(verb)) = (text("/objectRef/resource"), text("/verb")) else {
            return;
        };
        let part = text("/objectRef/subresource").map(|part| format!("/{part}"));
        let right = Right {
            group: text("/objectRef/apiGroup").unwrap_or_default().to_owned(),
            resource: format!("{resource}{}", part.unwrap_or_default()),
            verb: verb.to_owned(),
        };
        if text("/annotations/authorization.k8s.io~1decision") == Some("forbid") {
            let name = text("/objectRef/name").unwrap_or("a list");
            let namespace = text("/objectRef/namespace").unwrap_or("no namespace");
            let example = format!("{name} in {namespace}");
            self.refused.entry(right).or_insert(example);
        } else {
            self.used.insert(right);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROLES: &str = r#"
kind: ClusterRole
metadata: {name: etcd-operator}
rules:
- {apiGroups: [""], resources: [pods, secrets], verbs: [get, list]}
---
kind: ClusterRole
metadata: {name: etcd-operator-view}
rules:
- {apiGroups: [""], resources: [nodes], verbs: [get]}
---
kind: Deployment
metadata: {name: etcd-operator}
"#;

    fn right(resource: &str, verb: &str) -> Right {
        Right {
            group: String::new(),
            resource: resource.into(),
            verb: verb.into(),
        }
    }

    #[test]
    fn rights_are_those_of_our_roles() {
        let granted: Vec<Right> = granted(ROLES).unwrap().into_iter().collect();
        let pods = [right("pods", "get"), right("pods", "list")];
        let secrets = [right("secrets", "get"), right("secrets", "list")];
        assert_eq!(granted, [pods, secrets].concat());
    }

    #[test]
    fn what_was_forbidden_was_not_used() {
        let mut seen = Seen::default();
        let entry = |verb: &str, decision: &str| {
            format!(
                r#"{{"verb":"{verb}","objectRef":{{"resource":"pods","subresource":"status","namespace":"a","name":"b"}},"annotations":{{"authorization.k8s.io/decision":"{decision}"}}}}"#
            )
        };
        seen.read(&format!(
            "{}\n{}\n{{",
            entry("patch", "allow"),
            entry("get", "forbid")
        ));
        assert_eq!(Vec::from_iter(seen.used), [right("pods/status", "patch")]);
        let refused = (right("pods/status", "get"), "b in a".to_owned());
        assert_eq!(Vec::from_iter(seen.refused), [refused]);
    }
}

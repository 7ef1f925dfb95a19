//! Manifests.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::{Value, json};

/// A manifest of an `EtcdCluster`.
pub fn document(name: &str, spec: &Value) -> String {
    json!({
        "apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdCluster",
        "metadata": {"name": name}, "spec": spec,
    })
    .to_string()
}

/// Every manifest in a folder of `fixtures`, by file name.
pub fn documents(folder: &str) -> Result<Vec<(String, String)>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("fixtures")
        .join(folder);
    let mut all = Vec::new();
    for entry in std::fs::read_dir(&folder).with_context(|| format!("read {}", folder.display()))? {
        let path = entry?.path();
        let name = path
            .file_name()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        all.push((name, std::fs::read_to_string(&path)?));
    }
    all.sort();
    Ok(all)
}

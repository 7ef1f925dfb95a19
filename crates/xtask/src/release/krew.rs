//! What krew needs to install the plugin as `kubectl etcd`.

use std::collections::BTreeMap;

use anyhow::Result;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::image::hex;
use crate::programs::PLUGIN;
use crate::publish::VERSION;

/// One downloadable file.
pub(super) struct Archive {
    name: String,
    sha256: String,
}

impl Archive {
    pub(super) fn new(name: String, content: &[u8]) -> Self {
        let sha256 = hex(&Sha256::digest(content));
        Self { name, sha256 }
    }
}

pub(super) fn archive_name(architecture: &str) -> String {
    format!("{PLUGIN}-{VERSION}-linux-{architecture}.tar.gz")
}

/// The manifest, with one platform per archive.
pub(super) fn manifest(url: &str, archives: &BTreeMap<&str, Archive>) -> Result<String> {
    let platforms = archives.iter().map(|(architecture, archive)| {
        json!({
            "selector": {"matchLabels": {"os": "linux", "arch": architecture}},
            "uri": format!("{}/{}", url.trim_end_matches('/'), archive.name),
            "sha256": archive.sha256,
            "bin": PLUGIN,
            "files": [{"from": PLUGIN, "to": "."}, {"from": "LICENSE", "to": "."}],
        })
    });
    let manifest = json!({
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "etcd"},
        "spec": {
            "version": format!("v{VERSION}"),
            "homepage": url,
            "shortDescription": "See and steer etcd clusters of etcd-operator",
            "description": "Shows etcd clusters that etcd-operator runs, says what the operator does next and why, and asks it to scale, upgrade, restart, pause, back up and restore.",
            "platforms": platforms.collect::<Vec<_>>(),
        },
    });
    Ok(serde_yaml::to_string(&manifest)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_names_each_archive_with_its_checksum() {
        let archives = ["amd64", "arm64"].map(|architecture| {
            let name = archive_name(architecture);
            (architecture, Archive::new(name, architecture.as_bytes()))
        });
        let text = manifest("https://example.org/v1/", &archives.into()).unwrap();
        let manifest: serde_json::Value = serde_yaml::from_str(&text).unwrap();
        let platforms = manifest["spec"]["platforms"].as_array().unwrap();
        for (platform, architecture) in platforms.iter().zip(["amd64", "arm64"]) {
            assert_eq!(platform["selector"]["matchLabels"]["arch"], architecture);
            let uri = format!(
                "https://example.org/v1/kubectl-etcd-{VERSION}-linux-{architecture}.tar.gz"
            );
            assert_eq!(platform["uri"], uri);
            assert_eq!(platform["sha256"], hex(&Sha256::digest(architecture)));
        }
        assert_eq!(manifest["spec"]["version"], format!("v{VERSION}"));
    }
}

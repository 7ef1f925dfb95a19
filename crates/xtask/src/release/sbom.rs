//! The bill of materials, in `CycloneDX`: every package of Cargo.lock, and which of them end in what ships. Nothing is looked up
//! elsewhere, so it says what the lock file says, and the same lock file makes the same bill.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use crate::deploy::root;
use crate::image::hex;
use crate::programs;
use crate::publish::VERSION;
use crate::tools::output;

const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// A package of the lock file.
#[derive(Debug, Default, PartialEq, Eq)]
struct Package {
    name: String,
    version: String,
    /// SHA-256 of its archive on crates.io; ours have none.
    checksum: Option<String>,
    /// As the lock file writes them: with a version only where the name is not enough.
    dependencies: Vec<String>,
}

impl Package {
    fn purl(&self) -> String {
        format!("pkg:cargo/{}@{}", self.name, self.version)
    }
}

/// That of the programs that this workspace ships.
pub(super) fn of_this_workspace() -> Result<String> {
    let lock = std::fs::read_to_string(root().join("Cargo.lock"))?;
    let bill = bill(&lock, &shipped()?)?;
    Ok(serde_json::to_string_pretty(&bill)? + "\n")
}

/// Name and version of everything that is compiled into a program, or helps to compile it.
fn shipped() -> Result<BTreeSet<String>> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["tree", "--locked", "--edges", "normal,build"]);
    cargo.args(["--target", "all", "--prefix", "none", "--format", "{p}"]);
    for package in programs::packages()? {
        cargo.args(["--package", &package]);
    }
    let tree = output(cargo.current_dir(root()))?;
    Ok(tree.lines().filter_map(package_of).collect())
}

/// `serde v1.0.0 (proc-macro)` → `serde 1.0.0`.
fn package_of(line: &str) -> Option<String> {
    let mut words = line.split(' ');
    let (name, version) = (words.next()?, words.next()?);
    Some(format!("{name} {}", version.strip_prefix('v')?))
}

fn bill(lock: &str, shipped: &BTreeSet<String>) -> Result<Value> {
    let packages = read(lock)?;
    let component = |package: &Package| {
        let ships = shipped.contains(&format!("{} {}", package.name, package.version));
        let mut component = json!({
            "type": "library",
            "bom-ref": package.purl(),
            "name": package.name,
            "version": package.version,
            "scope": if ships { "required" } else { "excluded" },
            "purl": package.purl(),
        });
        if let (Some(checksum), Some(component)) = (&package.checksum, component.as_object_mut()) {
            let hashes = json!([{"alg": "SHA-256", "content": checksum}]);
            component.insert("hashes".into(), hashes);
        }
        component
    };
    let components: Vec<Value> = packages.iter().map(component).collect();
    let mut edges = Vec::new();
    for package in &packages {
        let needs = package
            .dependencies
            .iter()
            .map(|text| find(text, &packages));
        let needs = needs.collect::<Result<Vec<_>>>()?;
        let needs: Vec<String> = needs.into_iter().map(Package::purl).collect();
        edges.push(json!({"ref": package.purl(), "dependsOn": needs}));
    }
    Ok(json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": format!("urn:uuid:{}", uuid(lock)),
        "version": 1,
        "metadata": {"component": {
            "type": "application",
            "bom-ref": "etcd-operator",
            "name": "etcd-operator",
            "version": VERSION,
            "licenses": [{"license": {"id": "Apache-2.0"}}],
        }},
        "components": components,
        "dependencies": edges,
    }))
}

/// `name`, or `name version` where there are several of that name.
fn find<'a>(text: &str, packages: &'a [Package]) -> Result<&'a Package> {
    let (name, version) = match text.split_once(' ') {
        Some((name, version)) => (name, Some(version)),
        None => (text, None),
    };
    let fits = |package: &&Package| {
        package.name == name && version.is_none_or(|version| package.version == version)
    };
    let found = packages.iter().find(fits);
    found.with_context(|| format!("Cargo.lock has no package {text}"))
}

/// The lock file is written by cargo, always in this form: one key per line.
fn read(lock: &str) -> Result<Vec<Package>> {
    let mut packages: Vec<Package> = Vec::new();
    for line in lock.lines() {
        if line == "[[package]]" {
            packages.push(Package::default());
        }
        let Some(package) = packages.last_mut() else {
            continue;
        };
        let text = |line: &str| line.trim_matches(['"', ',', ' ']).to_owned();
        match line.split_once(" = ") {
            Some(("name", name)) => package.name = text(name),
            Some(("version", version)) => package.version = text(version),
            Some(("checksum", checksum)) => package.checksum = Some(text(checksum)),
            Some(("source", source)) if text(source) == REGISTRY => {}
            Some(("source", source)) => {
                bail!(
                    "{} comes from {source}, and not from crates.io",
                    package.name
                )
            }
            Some(("dependencies", "[")) => {}
            Some((key, _)) => bail!("Cargo.lock has a key {key} that is not known here"),
            None if line.starts_with(' ') => package.dependencies.push(text(line)),
            None => {}
        }
    }
    Ok(packages)
}

/// Of the content, in the form of a UUID (version 8): another lock file is another bill.
fn uuid(lock: &str) -> String {
    let mut bytes: Vec<u8> = Sha256::digest(lock).iter().copied().take(16).collect();
    if let Some(byte) = bytes.get_mut(6) {
        *byte = (*byte & 0x0f) | 0x80;
    }
    if let Some(byte) = bytes.get_mut(8) {
        *byte = (*byte & 0x3f) | 0x80;
    }
    let parts = [0..4, 4..6, 6..8, 8..10, 10..16];
    let parts = parts.map(|part| hex(bytes.get(part).unwrap_or_default()));
    parts.join("-")
}

#[cfg(test)]
mod tests;

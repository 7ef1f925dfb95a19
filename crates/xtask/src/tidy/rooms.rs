//! Which way the doors between the crates open, and what the pure rooms must not hold.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, Result};
use serde::Deserialize;

use super::Finding;
use crate::deploy::root;
use crate::tools::output;

/// A crate and the crates of ours that it may use. Absent on purpose: `operator` and `xtask` on the right side, and `e2e`
/// but for `chaos`, which looks at clusters with the eyes of the stories.
const DOORS: [(&str, &[&str]); 18] = [
    ("gate", &[]),
    ("pki", &[]),
    ("hostile", &[]),
    ("api", &[]),
    ("archive", &[]),
    // Its tests compare the reasons in alerts with those that there are.
    ("signals", &["api"]),
    ("manifests", &["api", "archive", "gate"]),
    ("plan", &["api", "archive", "gate", "manifests"]),
    ("etcd", &["gate"]),
    ("agent", &["gate"]),
    (
        "operator",
        &[
            "api",
            "archive",
            "gate",
            "manifests",
            "plan",
            "etcd",
            "pki",
            "signals",
        ],
    ),
    ("keeper", &["archive", "etcd", "pki"]),
    ("commands", &[]),
    ("cli", &["api", "commands"]),
    ("testkit", &["api", "archive", "gate", "manifests", "plan"]),
    ("e2e", ANY),
    ("chaos", &["api", "etcd", "e2e"]),
    ("xtask", ANY),
];
const ANY: &[&str] = &[
    "gate",
    "api",
    "archive",
    "commands",
    "manifests",
    "plan",
    "etcd",
    "agent",
    "testkit",
    "pki",
    "signals",
];

const PURE: [&str; 8] = [
    "api",
    "archive",
    "commands",
    "manifests",
    "plan",
    "gate",
    "pki",
    "signals",
];
const IMPURE: [&str; 5] = ["tokio", "hyper", "kube-client", "tonic", "etcd"];

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
}

#[derive(Deserialize)]
struct Package {
    name: String,
    dependencies: Vec<Dependency>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
    /// `dev` or `build`; absent for a normal one.
    kind: Option<String>,
    /// Only crates of ours have one.
    path: Option<String>,
}

/// Doors that open the wrong way, and pure rooms that are not.
pub(super) fn check() -> Result<Vec<Finding>> {
    let metadata = cargo(&["metadata", "--format-version", "1", "--no-deps"])?;
    let metadata: Metadata = serde_json::from_str(&metadata).context("read cargo's metadata")?;
    let mut findings = doors(&metadata);
    for room in PURE {
        let arguments = ["tree", "-e", "normal", "--prefix", "none", "--package"];
        let tree = cargo(&[&arguments[..], &[room, "--format", "{p}"]].concat())?;
        findings.extend(impurities(room, &tree));
    }
    Ok(findings)
}

fn cargo(arguments: &[&str]) -> Result<String> {
    let mut cargo = Command::new(env!("CARGO"));
    output(cargo.args(arguments).arg("--locked").current_dir(root()))
}

fn doors(metadata: &Metadata) -> Vec<Finding> {
    let mut findings = Vec::new();
    for package in &metadata.packages {
        let place = format!("crates/{}/Cargo.toml", package.name);
        let Some((_, allowed)) = DOORS.iter().find(|(name, _)| *name == package.name) else {
            let hint = "give it a row in DOORS, crates/xtask/src/tidy/rooms.rs";
            findings.push(Finding::new(place, "a room without doors", hint));
            continue;
        };
        for used in package.dependencies.iter().filter(|d| d.path.is_some()) {
            // These serve every room's tests. Who may use them in the product stands in its row.
            let kit = ["testkit", "pki", "hostile"].contains(&used.name.as_str())
                && used.kind.as_deref() == Some("dev");
            if !kit && !allowed.contains(&used.name.as_str()) {
                findings.push(Finding::new(
                    &place,
                    format!("{} must not use {}", package.name, used.name),
                    "doors open one way only: ARCHITECTURE.md, or a row in DOORS with a reason",
                ));
            }
        }
    }
    findings
}

fn impurities(room: &str, tree: &str) -> Vec<Finding> {
    let found: BTreeSet<&str> = tree
        .lines()
        .filter_map(|line| line.split(' ').next())
        .filter(|name| IMPURE.contains(name))
        .collect();
    let hint = format!("`cargo tree -e normal -p {room} -i <crate>` tells who brings it");
    found
        .into_iter()
        .map(|name| {
            Finding::new(
                format!("crates/{room}/Cargo.toml"),
                format!("{room} is pure and must not hold {name}"),
                &hint,
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, dependencies: &[(&str, Option<&str>)]) -> Metadata {
        let dependency = |(name, kind): &(&str, Option<&str>)| Dependency {
            name: (*name).to_owned(),
            kind: kind.map(str::to_owned),
            path: Some(String::new()),
        };
        let dependencies = dependencies.iter().map(dependency).collect();
        let name = name.to_owned();
        Metadata {
            packages: vec![Package { name, dependencies }],
        }
    }

    #[test]
    fn a_door_opens_one_way_only() {
        assert!(doors(&package("plan", &[("api", None)])).is_empty());
        assert_eq!(doors(&package("api", &[("plan", None)])).len(), 1);
        assert_eq!(doors(&package("e2e", &[("operator", None)])).len(), 1);
        assert_eq!(doors(&package("cellar", &[])).len(), 1);
    }

    #[test]
    fn the_kit_is_for_tests_only() {
        assert!(doors(&package("plan", &[("testkit", Some("dev"))])).is_empty());
        assert_eq!(doors(&package("plan", &[("testkit", None)])).len(), 1);
    }

    #[test]
    fn an_impure_room_is_told_what_makes_it_so() {
        let tree =
            "plan v0.1.0 (/x)\nserde v1.0.0\ntokio v1.54.0\ntokio v1.54.0 (*)\ntokio-util v0.7.0\n";
        let found = impurities("plan", tree);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].what, "plan is pure and must not hold tokio");
    }
}

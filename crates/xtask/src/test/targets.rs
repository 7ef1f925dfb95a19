//! Which test binaries there are. Cargo is asked, so that a new one cannot be forgotten.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use crate::deploy::root;
use crate::tools::output;

/// The words with which cargo runs every test of the workspace but those of one binary.
pub(super) fn tests_but(left_out: &str) -> Result<String> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["metadata", "--no-deps", "--locked", "--format-version", "1"])
        .current_dir(root());
    select(&output(&mut cargo)?, left_out)
}

fn select(metadata: &str, left_out: &str) -> Result<String> {
    let metadata: Value = serde_json::from_str(metadata).context("what cargo says of itself")?;
    let list = |value: &Value, key: &str| {
        let list = value.get(key).and_then(Value::as_array);
        list.cloned().unwrap_or_default()
    };
    let targets = list(&metadata, "packages")
        .into_iter()
        .flat_map(|package| list(&package, "targets"));
    let tests = targets.filter(|target| list(target, "kind").contains(&Value::from("test")));
    let mut names: BTreeSet<String> = tests
        .filter_map(|test| Some(test.get("name")?.as_str()?.to_owned()))
        .collect();
    ensure!(
        names.remove(left_out),
        "there is no test binary {left_out}, only {names:?}"
    );
    let words = names.iter().map(|name| format!(" --test {name}"));
    Ok(format!(
        "--workspace --lib --bins{}",
        words.collect::<String>()
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_binary_is_run_but_the_one_that_is_left_out() {
        let metadata = r#"{"packages": [
            {"targets": [{"name": "plan", "kind": ["lib"]}, {"name": "rules", "kind": ["test"]}]},
            {"targets": [{"name": "gate", "kind": ["test"]}, {"name": "hostile", "kind": ["test"]}]},
            {"targets": [{"name": "hostile", "kind": ["test"]}, {"name": "agent", "kind": ["bin"]}]}]}"#;
        let words = select(metadata, "rules").unwrap();
        assert_eq!(words, "--workspace --lib --bins --test gate --test hostile");
        assert!(select(metadata, "rulse").is_err());
    }
}

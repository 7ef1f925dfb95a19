//! `cargo xtask tidy`: the rules of the house that no compiler knows. It only reads, and every finding says where it is,
//! what is wrong and what to do about it.

mod checker;
mod cycles;
mod length;
mod links;
mod rooms;
mod words;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::deploy::root;
use crate::tools::output;

/// Something to put right.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// File, with a line where there is one, or crate.
    place: String,
    what: String,
    hint: String,
}

impl Finding {
    fn new(place: impl Into<String>, what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            what: what.into(),
            hint: hint.into(),
        }
    }
}

/// A file that git knows or would add, by its path below the root.
struct Source {
    path: String,
    text: String,
}

impl Source {
    fn has_extension(&self, extension: &str) -> bool {
        Path::new(&self.path)
            .extension()
            .is_some_and(|own| own == extension)
    }
}

/// What may lie at the root of the repository.
const AT_THE_ROOT: [&str; 26] = [
    ".cargo",
    ".ci",
    ".config",
    ".editorconfig",
    ".gitattributes",
    ".github",
    ".gitignore",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "Cargo.lock",
    "Cargo.toml",
    "LICENSE",
    "README.md",
    "SECURITY.md",
    "STYLE.md",
    "changes",
    "charts",
    "clippy.toml",
    "config",
    "crates",
    "deny.toml",
    "docs",
    "examples",
    "rust-toolchain.toml",
    "rustfmt.toml",
];

/// Checks everything; fails if there is a finding.
pub(crate) fn tidy() -> Result<()> {
    let sources = sources()?;
    let (mut findings, notes) = length::check(&sources);
    for note in notes {
        eprintln!("note: {note}");
    }
    findings.extend(strays(&sources));
    findings.extend(words::check(&sources));
    findings.extend(links::check(&sources));
    findings.extend(checker::check(&sources));
    findings.extend(cycles::check(&sources));
    findings.extend(rooms::check()?);
    findings.sort();
    for Finding { place, what, hint } in &findings {
        println!("{place}: {what}\n  hint: {hint}");
    }
    if !findings.is_empty() {
        bail!("{} findings", findings.len());
    }
    Ok(())
}

/// Every text file of the repository, committed or not; what git ignores is not looked at.
fn sources() -> Result<Vec<Source>> {
    let mut git = Command::new("git");
    git.args([
        "ls-files",
        "-z",
        "--cached",
        "--others",
        "--exclude-standard",
    ])
    .current_dir(root());
    let listed = output(&mut git).context("list the files of the repository")?;
    let mut sources = Vec::new();
    for path in listed.split('\0').filter(|path| !path.is_empty()) {
        let file: PathBuf = root().join(path);
        // Deleted but not yet staged, a link to nowhere, or not text: nothing to read.
        let Ok(text) = std::fs::read_to_string(&file) else {
            continue;
        };
        sources.push(Source {
            path: path.to_owned(),
            text,
        });
    }
    Ok(sources)
}

fn strays(sources: &[Source]) -> Vec<Finding> {
    let mut strays: Vec<&str> = sources
        .iter()
        .filter_map(|source| source.path.split('/').next())
        .filter(|name| !AT_THE_ROOT.contains(name))
        .collect();
    strays.dedup();
    let hint = "put it into a room of its own, or name it in crates/xtask/src/tidy.rs";
    strays
        .into_iter()
        .map(|name| Finding::new(name, "a stray file at the root", hint))
        .collect()
}

#[cfg(test)]
fn source(path: &str, text: &str) -> Source {
    let (path, text) = (path.to_owned(), text.to_owned());
    Source { path, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stray_file_is_named_once_and_a_known_one_is_not() {
        let sources = ["crates/a/src/lib.rs", "notes/a", "notes/b", "test.yaml"];
        let found = strays(&sources.map(|path| source(path, "")));
        let places: Vec<&str> = found.iter().map(|finding| finding.place.as_str()).collect();
        assert_eq!(places, ["notes", "test.yaml"]);
    }
}

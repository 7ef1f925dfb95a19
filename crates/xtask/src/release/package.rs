//! The chart of a release: as it is in the repository, with the image that the release made.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use super::archive::{Entry, pack};
use crate::deploy::root;

/// What `values.yaml` says where an image has to be named.
const REPOSITORY: &str = "  repository: \"\"     # needed: where your nodes pull it from; the chart of a release names one\n";
const DIGEST: &str = "  digest: \"\"         # such as sha256:…; counts before the tag\n";

/// The chart, as `helm package` would write it, but for the times.
pub(crate) fn chart(repository: &str, digest: &str) -> Result<Vec<u8>> {
    let directory = root().join("charts/etcd-operator");
    let mut files = Vec::new();
    collect(&directory, &mut files)?;
    // Helm wants to read it first.
    files.sort_by_key(|path| (!path.ends_with("Chart.yaml"), path.clone()));
    let entry = |path: &PathBuf| {
        let content = std::fs::read(path).with_context(|| format!("read {}", path.display()))?;
        let inside = path.strip_prefix(&directory)?.to_string_lossy();
        let content = match &*inside {
            "values.yaml" => values(&String::from_utf8(content)?, repository, digest)?.into(),
            _other => content,
        };
        Ok(Entry::text(&format!("etcd-operator/{inside}"), content))
    };
    pack(&files.iter().map(entry).collect::<Result<Vec<_>>>()?)
}

fn values(there: &str, repository: &str, digest: &str) -> Result<String> {
    for line in [REPOSITORY, DIGEST] {
        ensure!(
            there.matches(line).count() == 1,
            "values.yaml of the chart has no line {line:?}\nhint: crates/xtask/src/release/package.rs"
        );
    }
    let named = there.replace(REPOSITORY, &format!("  repository: {repository}\n"));
    Ok(named.replace(DIGEST, &format!("  digest: {digest}\n")))
}

fn collect(directory: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            collect(&entry.path(), files)?;
        } else {
            files.push(entry.path());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_chart_of_a_release_names_its_image() {
        let there = root().join("charts/etcd-operator/values.yaml");
        let there = std::fs::read_to_string(there).unwrap();
        let values = values(&there, "a.b/c", "sha256:ab").unwrap();
        let values: serde_json::Value = serde_yaml::from_str(&values).unwrap();
        assert_eq!(values["image"]["repository"], "a.b/c");
        assert_eq!(values["image"]["digest"], "sha256:ab");
        assert_eq!(values["image"]["tag"], "", "the rest is as it was");
    }

    #[test]
    fn the_same_source_makes_the_same_chart() {
        let make = || chart("a.b/c", "sha256:ab").unwrap();
        assert!(make() == make());
    }
}

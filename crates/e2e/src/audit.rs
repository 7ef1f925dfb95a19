//! What the operator writes, as the API server's audit log has it. Only the local cluster keeps one, beside its kubeconfig
//! (`crates/xtask/src/cluster/addons/audit.yaml`): every request of the operator's account, but for its lease.

use std::fmt::Display;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::jiff::Timestamp;
use serde_json::Value;

use crate::stage::Stage;
use crate::story::tell;
use crate::wait::stays;

/// The log.
#[derive(Clone, Debug)]
pub struct Audit(PathBuf);

/// One write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Write {
    /// When it came.
    pub at: Timestamp,
    /// Verb, kind and name.
    pub what: String,
}

impl Audit {
    /// The log of the cluster that the stories play on, if it has one.
    pub fn find() -> Option<Self> {
        let kubeconfig = std::env::var_os("KUBECONFIG")?;
        let directory = Path::new(&kubeconfig).parent()?.join("log");
        directory
            .join("audit.log")
            .is_file()
            .then_some(Self(directory))
    }

    /// Every write to a namespace since a moment, with what went into an older file of the log meanwhile.
    pub fn writes(&self, namespace: &str, since: Timestamp) -> Result<Vec<Write>> {
        let mut writes = Vec::new();
        for entry in fs::read_dir(&self.0)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            if name.is_some_and(|name| name.starts_with("audit")) {
                let text = fs::read_to_string(&path).context("the audit log cannot be read")?;
                writes.extend(text.lines().filter_map(|line| parse(line, namespace)));
            }
        }
        writes.retain(|write| write.at >= since);
        writes.sort_by_key(|write| write.at);
        Ok(writes)
    }
}

/// Writes that a condition which says something new, and its event, may take.
const FEW: usize = 3;

/// [`stays`], and the operator has settled meanwhile: what waits for a person is no reason to write.
pub async fn settled<F>(
    stage: &Stage,
    what: impl Display,
    time: Duration,
    ask: impl FnMut() -> F,
) -> Result<()>
where
    F: Future<Output = Result<bool>>,
{
    let since = Timestamp::now();
    stays(what, time, ask).await?;
    let Some(audit) = Audit::find() else {
        return Ok(());
    };
    let writes = audit.writes(&stage.namespace, since)?;
    tell(&format!("{} writes in {time:?}", writes.len()));
    ensure!(writes.len() <= FEW, "not settled: {writes:?}");
    Ok(())
}

/// A line that is only half written yet is read next time.
fn parse(line: &str, namespace: &str) -> Option<Write> {
    if !line.contains(namespace) {
        return None;
    }
    let entry: Value = serde_json::from_str(line).ok()?;
    let text = |path: &str| entry.pointer(path).and_then(Value::as_str);
    if text("/objectRef/namespace") != Some(namespace) {
        return None;
    }
    if !matches!(
        text("/verb")?,
        "create" | "update" | "patch" | "delete" | "deletecollection"
    ) {
        return None;
    }
    let name = text("/objectRef/name").unwrap_or_default();
    let part = text("/objectRef/subresource").unwrap_or_default();
    let what = format!(
        "{} {} {name} {part}",
        text("/verb")?,
        text("/objectRef/resource")?
    );
    Some(Write {
        at: text("/requestReceivedTimestamp")?.parse().ok()?,
        what: what.trim_end().to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_write_to_its_namespace() {
        let line = r#"{"kind":"Event","level":"Metadata","verb":"update","objectRef":{"resource":"etcdclusters",
            "namespace":"e2e-1","name":"c","subresource":"status"},"requestReceivedTimestamp":"2026-01-01T00:00:07.5Z"}"#;
        let write = parse(line, "e2e-1").unwrap();
        assert_eq!(write.what, "update etcdclusters c status");
        assert_eq!(write.at.as_second(), 1_767_225_607);
        assert_eq!(parse(&line.replace("update", "get"), "e2e-1"), None);
        assert_eq!(parse(line, "e2e-12"), None);
        assert_eq!(parse(line.trim_end_matches('}'), "e2e-1"), None);
    }
}

//! The commands a user types, with their words.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::wait::MINUTE;

/// Until a command is typed again.
const AGAIN: Duration = Duration::from_millis(500);

/// `kubectl` in one namespace.
#[derive(Clone, Debug)]
pub struct Commands {
    namespace: String,
}

/// What a command said.
#[derive(Clone, Debug)]
pub struct Answer {
    /// Whether it succeeded.
    pub ok: bool,
    /// Its data.
    pub stdout: String,
    /// Its talk: refusals and warnings.
    pub stderr: String,
}

impl Answer {
    /// The data of a command that had to succeed.
    pub fn accepted(self) -> Result<String> {
        ensure!(self.ok, "refused: {}", self.stderr.trim());
        Ok(self.stdout)
    }

    /// The talk of a command that had to be refused, with every one of these words in it.
    pub fn refused_with(self, words: &[&str]) -> Result<String> {
        ensure!(
            !self.ok,
            "accepted, but should have been refused with {words:?}"
        );
        for word in words {
            ensure!(
                self.stderr.contains(word),
                "the refusal lacks {word:?}: {}",
                self.stderr.trim()
            );
        }
        Ok(self.stderr)
    }
}

impl Commands {
    /// Commands in a namespace.
    pub fn new(namespace: &str) -> Self {
        Self {
            namespace: namespace.to_owned(),
        }
    }

    /// `kubectl ARGUMENTS`.
    pub async fn kubectl(&self, arguments: &[&str]) -> Result<Answer> {
        self.kubectl_with(arguments, "").await
    }

    /// `kubectl ARGUMENTS` with something to read. While the operator is away a spec is refused, and a user types it again.
    pub async fn kubectl_with(&self, arguments: &[&str], input: &str) -> Result<Answer> {
        let begin = Instant::now();
        loop {
            let answer = self.kubectl_once(arguments, input).await?;
            let away = !answer.ok && is_admission_away(&answer.stderr);
            if !away || begin.elapsed() > MINUTE {
                return Ok(answer);
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// The same, typed once.
    pub async fn kubectl_once(&self, arguments: &[&str], input: &str) -> Result<Answer> {
        let mut command = Command::new("kubectl");
        command
            .args(["--namespace", &self.namespace])
            .args(arguments);
        run(command, input)
            .await
            .with_context(|| format!("kubectl {}", arguments.join(" ")))
    }

    /// `kubectl apply --dry-run=server`: what the API server says to a manifest, without keeping it.
    pub async fn try_apply(&self, manifest: &str) -> Result<Answer> {
        let arguments = ["apply", "--dry-run=server", "-o", "json", "-f", "-"];
        self.kubectl_with(&arguments, manifest).await
    }

    /// `kubectl apply`.
    pub async fn apply(&self, manifest: &str) -> Result<Answer> {
        self.kubectl_with(&["apply", "-f", "-"], manifest).await
    }

    /// Writes into the status of a cluster, as only its operator should.
    pub async fn patch_status(&self, name: &str, status: &Value) -> Result<()> {
        let patch = json!({"status": status}).to_string();
        let arguments = [
            "patch",
            "etcdclusters.etcd.etcd.io",
            name,
            "--subresource=status",
            "--type=merge",
            "-p",
            &patch,
        ];
        self.kubectl(&arguments).await?.accepted().map(drop)
    }

    /// `kubectl patch etcdcluster NAME --type merge`.
    pub async fn patch(&self, name: &str, patch: &str) -> Result<Answer> {
        let arguments = [
            "patch",
            "etcdclusters.etcd.etcd.io",
            name,
            "--type",
            "merge",
            "-p",
            patch,
        ];
        self.kubectl(&arguments).await
    }
}

/// The webhook did not answer, for whichever reason: it refused nothing.
pub(crate) fn is_admission_away(refusal: &str) -> bool {
    refusal.contains("failed calling webhook")
}

/// Runs a command to its end.
pub(crate) async fn run(mut command: Command, input: &str) -> Result<Answer> {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        stdin.write_all(input.as_bytes()).await?;
    }
    let output = child.wait_with_output().await?;
    Ok(Answer {
        ok: output.status.success(),
        stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
        stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

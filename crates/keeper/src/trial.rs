//! An etcd of its own on loopback, started on a restored base with the tools of the image that the keeper runs in.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use archive::work::Cause;
use etcd::{Hash, Member, Security};
use tokio::process::{Child, Command};
use tokio::time::Instant;

use crate::args::Args;
use crate::fault::{Explain as _, Fault, Result};
use crate::member;

/// etcd needs two seconds for each GiB; a scratch volume may be slow.
const START: Duration = Duration::from_mins(5);
const AGAIN: Duration = Duration::from_millis(100);
const DEADLINE: Duration = Duration::from_mins(2);

/// A running etcd; dropping it kills it.
pub(crate) struct Trial {
    process: Child,
    member: Member,
}

impl Trial {
    /// Restores a snapshot below a directory, and starts etcd on it.
    pub(crate) async fn start(args: &Args, scratch: &Path, snapshot: &Path) -> Result<Self> {
        let (peer, client) = (free_port()?, free_port()?);
        let peer = format!("http://127.0.0.1:{peer}");
        let data = scratch.join("data");
        let mut restore = Command::new(tool(args, "etcdutl")?);
        restore
            .args(["snapshot", "restore"])
            .arg(snapshot)
            .arg("--data-dir")
            .arg(&data);
        restore.args(["--name", "trial", "--initial-advertise-peer-urls", &peer]);
        restore.args(["--initial-cluster", &format!("trial={peer}")]);
        let output = restore
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output()
            .await;
        let output = output.explain(Cause::Request, "run etcdutl")?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr);
            let message = format!("etcdutl cannot restore it: {}", last(&words));
            return Err(Fault::new(Cause::Damaged, message));
        }
        // The copy is what etcd runs on: the volume need not hold both any longer.
        std::fs::remove_file(snapshot).explain(Cause::Request, "free the scratch volume")?;

        let log = scratch.join("log");
        let address = format!("127.0.0.1:{client}");
        let process = etcd(args, &data, &log, &peer, &format!("http://{address}"))?;
        let member = member::handle("trial", &address, &Security::Plain).with_deadline(DEADLINE);
        let mut trial = Self { process, member };
        trial.serving(&log).await?;
        Ok(trial)
    }

    async fn serving(&mut self, log: &Path) -> Result<()> {
        let until = Instant::now() + START;
        let waiting = self.member.clone().with_deadline(Duration::from_secs(2));
        loop {
            // It answers once it leads, which a member alone does after its first election.
            if waiting
                .status()
                .await
                .is_ok_and(|status| status.leader != 0)
            {
                return Ok(());
            }
            let ended = self
                .process
                .try_wait()
                .explain(Cause::Request, "wait for etcd")?;
            if ended.is_some() || Instant::now() >= until {
                let words = std::fs::read_to_string(log).unwrap_or_default();
                let how = if ended.is_some() {
                    "ends"
                } else {
                    "does not serve"
                };
                let message = format!("etcd {how} on it: {}", last(&words));
                return Err(Fault::new(Cause::Damaged, message));
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    pub(crate) async fn revision(&self) -> Result<i64> {
        let status = self.member.status().await;
        Ok(status
            .explain(Cause::Damaged, "ask the restored etcd")?
            .revision)
    }

    pub(crate) async fn keys(&self) -> Result<u64> {
        let count = self.member.count_keys().await;
        count.explain(Cause::Damaged, "count the restored keys")
    }

    /// The hash over the span of history that a member had when it was asked. What it had compacted by then is compacted
    /// here as well.
    pub(crate) async fn hash(&self, revision: i64, compacted: i64) -> Result<Hash> {
        if compacted > 0 && compacted <= revision {
            match self.member.compact(compacted, true).await {
                Ok(()) => {}
                Err(error) if matches!(error.cause, etcd::Cause::Compacted) => {}
                Err(error) => {
                    return Err(error).explain(Cause::Damaged, "compact the restored etcd");
                }
            }
        }
        let hash = self.member.hash_kv(revision).await;
        hash.explain(Cause::Damaged, "ask the restored etcd for its hash")
    }

    pub(crate) async fn end(&mut self) {
        // Nothing of it is needed any more; a process that has ended is as good.
        drop(self.process.kill().await);
    }
}

fn etcd(args: &Args, data: &Path, log: &Path, peer: &str, client: &str) -> Result<Child> {
    let written = File::create(log).and_then(|file| Ok((file.try_clone()?, file)));
    let (out, errors) = written.explain(Cause::Request, "write the log of etcd")?;
    let mut etcd = Command::new(tool(args, "etcd")?);
    etcd.args(["--name", "trial", "--initial-cluster-state", "existing"]);
    etcd.arg("--data-dir").arg(data);
    etcd.args([
        "--listen-client-urls",
        client,
        "--advertise-client-urls",
        client,
    ]);
    etcd.args([
        "--listen-peer-urls",
        peer,
        "--initial-advertise-peer-urls",
        peer,
    ]);
    etcd.args(["--initial-cluster", &format!("trial={peer}")]);
    // Nothing here must outlive the process, and the database may be at its quota.
    etcd.args(["--unsafe-no-fsync", "--quota-backend-bytes", "107374182400"]);
    etcd.stdin(Stdio::null()).stdout(out).stderr(errors);
    etcd.kill_on_drop(true)
        .spawn()
        .explain(Cause::Request, "run etcd")
}

fn tool(args: &Args, name: &str) -> Result<PathBuf> {
    args.tool(name).ok_or_else(|| {
        let message = format!("there is no {name} in this image, with which a base is restored");
        Fault::new(Cause::Request, message)
    })
}

fn free_port() -> Result<u16> {
    let port = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    Ok(port.explain(Cause::Request, "find a free port")?.port())
}

/// The last line that says something.
fn last(words: &str) -> &str {
    let mut lines = words.lines().rev().filter(|line| !line.trim().is_empty());
    lines.next().unwrap_or("it said nothing")
}

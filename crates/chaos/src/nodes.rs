//! What lies below the Kubernetes API of the local cluster: the processes of its pods, signalled from here, and its
//! nodes, which the tool that runs them (`cargo xtask cluster`) cuts off, kills and starts.
//!
//! What must not happen here: a signal to a process that is not etcd in the named pod. Processes are found by their
//! control group, which names the pod's UID, and held by a handle before that is looked at again.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::process::Command;

/// How long the tool may take; starting an API server takes most of it.
const PATIENCE: Duration = Duration::from_mins(2);

/// How long a process may take to stop: as long as its slowest write to the disk.
const STOPPED: Duration = Duration::from_secs(2);

/// The etcd of one pod.
pub(crate) struct Process {
    handle: OwnedFd,
    pub(crate) id: i32,
}

impl Process {
    /// The etcd of the pod with this UID.
    pub(crate) fn of_pod(uid: &str) -> Result<Self> {
        let ids = fs::read_dir("/proc")?.filter_map(|entry| {
            let name = entry.ok()?.file_name();
            name.to_str()?.parse::<i32>().ok()
        });
        for id in ids {
            if !is_etcd_of(id, uid) {
                continue;
            }
            let pid = Pid::from_raw(id).context("an odd process id")?;
            let handle = pidfd_open(pid, PidfdFlags::empty())?;
            // From here on the id cannot pass to another process unnoticed.
            if is_etcd_of(id, uid) {
                return Ok(Self { handle, id });
            }
        }
        anyhow::bail!("no etcd runs in the pod {uid}")
    }

    /// SIGSTOP, and a moment until no thread of it runs.
    pub(crate) fn stop(&self) -> Result<()> {
        self.signal(Signal::STOP)?;
        let begin = Instant::now();
        while begin.elapsed() < STOPPED {
            if has_stopped(self.id)? {
                return Ok(());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        // It goes on, rather than to be left in between.
        self.signal(Signal::CONT)?;
        anyhow::bail!("process {} does not stop", self.id)
    }

    pub(crate) fn signal(&self, signal: Signal) -> Result<()> {
        match pidfd_send_signal(&self.handle, signal) {
            // Gone already, and so is what it should be told.
            Err(rustix::io::Errno::SRCH) => Ok(()),
            sent => sent.with_context(|| format!("signal process {}", self.id)),
        }
    }
}

fn has_stopped(id: i32) -> Result<bool> {
    for thread in fs::read_dir(format!("/proc/{id}/task"))? {
        let status = fs::read_to_string(thread?.path().join("status"))?;
        if !is_stopped(&status) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn is_stopped(status: &str) -> bool {
    let state = status.lines().find_map(|line| line.strip_prefix("State:"));
    state.is_some_and(|state| state.trim().starts_with('T'))
}

fn is_etcd_of(id: i32, uid: &str) -> bool {
    let directory = Path::new("/proc").join(id.to_string());
    let read = |file| fs::read_to_string(directory.join(file)).unwrap_or_default();
    read("comm").trim() == "etcd" && read("cgroup").contains(&format!("pod{uid}"))
}

/// The tool that runs the nodes.
#[derive(Clone, Debug)]
pub(crate) struct Tool(pub(crate) PathBuf);

impl Tool {
    /// Ends by itself, even if no process is left to call `join`.
    pub(crate) async fn cut(&self, node: &str, time: Duration, pods_only: bool) -> Result<()> {
        let milliseconds = time.as_millis().to_string();
        let number = number(node)?;
        let mut words = vec!["cut-node", number, "--milliseconds", &milliseconds];
        if pods_only {
            words.push("--pods-only");
        }
        self.run(&words).await
    }

    pub(crate) async fn join(&self, node: &str) -> Result<()> {
        self.run(&["join-node", number(node)?]).await
    }

    pub(crate) async fn kill(&self, node: &str) -> Result<()> {
        self.run(&["kill-node", number(node)?]).await
    }

    pub(crate) async fn start(&self, node: &str) -> Result<()> {
        self.run(&["start-node", number(node)?]).await
    }

    /// `apiserver`, or `kubelet-` and a node.
    pub(crate) async fn restart(&self, process: &str) -> Result<()> {
        self.run(&["restart", process]).await
    }

    async fn run(&self, words: &[&str]) -> Result<()> {
        let mut command = Command::new(&self.0);
        let run = command.arg("cluster").args(words).output();
        let output = tokio::time::timeout(PATIENCE, run).await??;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{words:?}: {}", said.trim());
        Ok(())
    }
}

/// The local cluster's nodes are `n1`, `n2` and so on.
fn number(node: &str) -> Result<&str> {
    node.strip_prefix('n')
        .with_context(|| format!("{node} is no node of the local cluster"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_has_stopped_when_the_kernel_says_so() {
        assert!(is_stopped("Name:\tetcd\nState:\tT (stopped)\nTgid:\t7\n"));
        assert!(!is_stopped("Name:\tetcd\nState:\tS (sleeping)\n"));
        assert!(!is_stopped("Name:\tState:\tT\n"));
    }
}

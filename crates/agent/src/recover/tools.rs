//! The image's own etcd and etcdutl, as children. Every wait is bounded, ends when the agent is asked to
//! stop, and says in the log that it goes on.

use std::{
    path::{Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use rustix::process::Signal;
use serde_json::json;

use super::{Outside, words};
use crate::{
    args::Gate,
    child::{Tool, free_port},
    permit::{Origin, Recovery},
    probe,
    telemetry::{Level, log},
};

/// How often a child is looked at.
const TICK: Duration = Duration::from_millis(20);
/// How often the log says that a wait goes on.
const STILL: Duration = Duration::from_secs(10);
/// How long one step may take. 8 GiB, the largest database that etcd recommends, at 10 MiB/s.
const PATIENCE: Duration = Duration::from_mins(15);
/// How long etcd may take to end; it has no member to transfer its leadership to.
const FAREWELL: Duration = Duration::from_mins(2);
/// Where nothing listens: a proxy that keeps etcd from reaching any other member.
const NOWHERE: &str = "http://127.0.0.1:1";

/// The tools of one recovery.
pub(super) struct Tools<'a> {
    etcd: &'a Path,
    /// Flags of the pod that decide how the log is read.
    flags: Vec<&'a String>,
    etcdutl: PathBuf,
    outside: &'a Outside<'a>,
}

/// The image's etcdutl, which lies beside its etcd; the error is one sentence for people.
pub(crate) fn find_etcdutl(etcd: &Path) -> Result<PathBuf, String> {
    let path = etcd.with_file_name("etcdutl");
    if path.is_file() {
        return Ok(path);
    }
    let path = path.display();
    Err(format!(
        "{path} is missing, and a recovery or restore needs the etcdutl of the image"
    ))
}

impl<'a> Tools<'a> {
    pub(super) fn new(args: &'a Gate, outside: &'a Outside<'a>) -> Result<Self, String> {
        // Where entries are applied etcd counts learners once more: with a lower limit than the log was written under it
        // skips a member, and ends when it meets that one's name.
        let counts = |flag: &&String| flag.contains("max-learners=");
        Ok(Self {
            etcd: &args.etcd,
            flags: args.flags.iter().filter(counts).collect(),
            etcdutl: find_etcdutl(&args.etcd)?,
            outside,
        })
    }

    /// Brings the database up to the end of its log: etcd alone, on loopback, until it answers a
    /// linearizable read, then an orderly stop, which writes everything down.
    ///
    /// It still knows the old members by name and would talk to them in their own cluster's ID until its
    /// forced configuration is applied. A proxy that is not there keeps it from doing so: etcd's peer
    /// transport takes it from the environment. No quota: one lower than the real one would leave an
    /// alarm behind.
    pub(super) fn replay(&self, data: &Path) -> Result<(), String> {
        let port = free_port().map_err(|error| format!("no free port: {error}"))?;
        let mut command = Command::new(self.etcd);
        command.args([
            "--name=recovery",
            "--force-new-cluster",
            "--listen-peer-urls=http://127.0.0.1:0",
            "--listen-client-urls=http://127.0.0.1:0",
            "--advertise-client-urls=http://127.0.0.1:0",
            "--quota-backend-bytes=-1",
        ]);
        command.args(&self.flags);
        command.arg(format!("--listen-metrics-urls=http://127.0.0.1:{port}"));
        command.arg(format!("--data-dir={}", data.display()));
        let mut etcd = spawn("etcd", command)?;
        // An alarm is no reason not to be served here.
        let path = "/health?exclude=NOSPACE&exclude=CORRUPT";
        self.await_some("etcd to replay the log", PATIENCE, || {
            if let Some(status) = etcd.ended()? {
                return Err(format!(
                    "etcd ended while it replayed the log: {status}; the container's log says why"
                ));
            }
            let deadline = Instant::now() + Duration::from_secs(2);
            let answer = probe::get(port, path, deadline);
            Ok(answer
                .is_ok_and(|answer| probe::is_healthy(&answer))
                .then_some(()))
        })?;
        etcd.terminate()?;
        let status = self.await_some("etcd to stop", FAREWELL, || etcd.ended())?;
        // Having closed its database, etcd ends by the signal it was sent.
        if status.success() || is_terminated(status) {
            return Ok(());
        }
        Err(format!("etcd did not stop in good order: {status}"))
    }

    /// Restores a database as a cluster of one, under other IDs and with its revision raised.
    pub(super) fn restore(
        &self,
        database: &Path,
        data: &Path,
        recovery: &Recovery,
    ) -> Result<(), String> {
        let Recovery {
            origin,
            identity: _,
            old: _,
            token,
            initial_cluster,
            bump_revision,
        } = recovery;
        let (mut name, mut urls) = ("", Vec::new());
        for (this, url) in initial_cluster.split(',').filter_map(|e| e.split_once('=')) {
            name = this;
            urls.push(url);
        }
        let mut command = Command::new(&self.etcdutl);
        command.args(["snapshot", "restore"]).arg(database);
        let skip_hash_check = match origin {
            // The hash is that of a snapshot in transit; this one is a database that was closed.
            Origin::Data => true,
            Origin::Snapshot(snapshot) => snapshot.skip_hash_check,
        };
        if skip_hash_check {
            command.arg("--skip-hash-check");
        }
        command.arg(format!("--data-dir={}", data.display()));
        command.arg(format!("--name={name}"));
        command.arg(format!("--initial-cluster={initial_cluster}"));
        command.arg(format!("--initial-cluster-token={token}"));
        command.arg(format!("--initial-advertise-peer-urls={}", urls.join(",")));
        if *bump_revision > 0 {
            command.arg(format!("--bump-revision={bump_revision}"));
            command.arg("--mark-compacted");
        }
        let words = words::listen(&mut command)?;
        let mut etcdutl = spawn("etcdutl", command)?;
        let status = self.await_some("etcdutl to restore", PATIENCE, || etcdutl.ended())?;
        if status.success() {
            return Ok(());
        }
        Err(match words.last() {
            Some(words) => format!("etcdutl failed: {status}: {words}"),
            None => format!("etcdutl failed: {status}; the container's log says why"),
        })
    }

    /// Asks until there is an answer.
    fn await_some<T>(
        &self,
        what: &str,
        patience: Duration,
        mut ask: impl FnMut() -> Result<Option<T>, String>,
    ) -> Result<T, String> {
        let begun = Instant::now();
        let mut said = Duration::ZERO;
        loop {
            if let Some(answer) = ask()? {
                return Ok(answer);
            }
            let waited = begun.elapsed();
            if (self.outside.stop)() {
                return Err(format!("asked to stop while waiting for {what}"));
            }
            if waited > patience {
                return Err(format!("waited {}s in vain for {what}", waited.as_secs()));
            }
            if waited > said + STILL {
                said = waited;
                let fields = json!({"for": what, "seconds": waited.as_secs()});
                log(Level::Info, "still waiting", &fields);
            }
            thread::sleep(TICK);
        }
    }
}

/// Nothing of the container's environment: etcd would take its flags from there.
fn spawn(name: &'static str, mut command: Command) -> Result<Tool, String> {
    command
        .env_clear()
        .envs(["HTTP_PROXY", "HTTPS_PROXY"].map(|name| (name, NOWHERE)))
        .stdin(Stdio::null())
        .stdout(Stdio::null());
    Tool::spawn(name, &mut command)
}

fn is_terminated(status: ExitStatus) -> bool {
    use std::os::unix::process::ExitStatusExt;
    status.signal() == Some(Signal::TERM.as_raw())
}

//! An etcd of its own on loopback, started on a restored base with the tools of the image that the keeper runs in.
//!
//! What goes wrong here is the base's fault only where nothing else can be: a process that was killed, a volume that is full
//! or an etcd that is too old say nothing of it.

mod tools;

use std::fs::File;
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

use archive::manifest::Manifest;
use archive::work::Cause;
use etcd::{Credentials, Hash, Member, Security};
use jiff::{SignedDuration, Timestamp};
use pki::{Authority, Leaf, Usage, Validity};
use tokio::process::Child;
use tokio::time::Instant;

use crate::args::Args;
use crate::fault::{Explain as _, Fault, Result};
use crate::member;
use tools::{is_new_enough, last, tool};

/// etcd needs two seconds for each GiB; a scratch volume may be slow.
const START: Duration = Duration::from_mins(15);
const AGAIN: Duration = Duration::from_millis(100);
const DEADLINE: Duration = Duration::from_mins(10);
/// The name in the certificate of the etcd.
const HOST: &str = "localhost";
/// The user that exists in every etcd with authentication, and may do everything.
const ROOT: &str = "root";
/// No trial takes longer.
const LIFETIME: SignedDuration = SignedDuration::from_hours(48);

/// A running etcd; dropping it kills it.
pub(crate) struct Trial {
    process: Child,
    member: Member,
    log: std::path::PathBuf,
}

impl Trial {
    /// Restores a snapshot below a directory, and starts etcd on it.
    pub(crate) async fn start(
        args: &Args,
        scratch: &Path,
        snapshot: &Path,
        manifest: &Manifest,
    ) -> Result<Self> {
        is_new_enough(args, manifest).await?;
        let (peer, client) = (free_port()?, free_port()?);
        let peer = format!("http://127.0.0.1:{peer}");
        let data = scratch.join("data");
        let mut restore = tool(args, "etcdutl")?;
        restore
            .args(["snapshot", "restore"])
            .arg(snapshot)
            .arg("--data-dir")
            .arg(&data);
        restore.args(["--name", "trial", "--initial-advertise-peer-urls", &peer]);
        restore.args(["--initial-cluster", &format!("trial={peer}")]);
        let output = restore.stdin(Stdio::null()).output().await;
        let output = output.explain(Cause::Request, "run etcdutl")?;
        if !output.status.success() {
            let words = String::from_utf8_lossy(&output.stderr);
            let message = format!("etcdutl cannot restore it: {}", last(&words));
            return Err(Fault::new(blame(output.status, &words), message));
        }
        // The copy is what etcd runs on: the volume need not hold both any longer.
        std::fs::remove_file(snapshot).explain(Cause::Request, "free the scratch volume")?;

        let log = scratch.join("log");
        let address = format!("127.0.0.1:{client}");
        // Where it is not known whether users are asked who they are, root's certificate does no harm.
        let plain = manifest.source.auth_enabled == Some(false);
        let security = if plain {
            Security::Plain
        } else {
            authority(scratch)?
        };
        let process = etcd(args, scratch, (&peer, &address), &security)?;
        let member = member::handle("trial", &address, &security).with_deadline(DEADLINE);
        let mut trial = Self {
            process,
            member,
            log,
        };
        trial.serving().await?;
        Ok(trial)
    }

    async fn serving(&mut self) -> Result<()> {
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
            self.is_running()?;
            if Instant::now() >= until {
                let words = self.words();
                let message = format!("etcd does not serve on it: {}", last(&words));
                return Err(Fault::new(Cause::Request, message));
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// Otherwise why it ended.
    fn is_running(&mut self) -> Result<()> {
        let ended = self.process.try_wait();
        let Some(status) = ended.explain(Cause::Request, "wait for etcd")? else {
            return Ok(());
        };
        let words = self.words();
        let message = format!("etcd ends on it: {}", last(&words));
        Err(Fault::new(blame(status, &words), message))
    }

    fn words(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// What it answered. Where it did not, because it ended, why it ended.
    fn told<T>(
        &mut self,
        answer: std::result::Result<T, etcd::Error>,
        what: &'static str,
    ) -> Result<T> {
        if answer.is_err() {
            self.is_running()?;
        }
        answer.explain(Cause::Request, what)
    }

    pub(crate) async fn revision(&mut self) -> Result<i64> {
        let status = self.member.status().await;
        Ok(self.told(status, "ask the restored etcd")?.revision)
    }

    pub(crate) async fn keys(&mut self) -> Result<u64> {
        let count = self.member.count_keys().await;
        self.told(count, "count the restored keys")
    }

    /// The hash over the span of history that a member had when it was asked. What it had compacted by then is compacted
    /// here as well.
    pub(crate) async fn hash(&mut self, revision: i64, compacted: i64) -> Result<Hash> {
        if compacted > 0 && compacted <= revision {
            match self.member.compact(compacted, true).await {
                Err(error) if matches!(error.cause, etcd::Cause::Compacted) => {}
                done => self.told(done, "compact the restored etcd")?,
            }
        }
        let hash = self.member.hash_kv(revision).await;
        self.told(hash, "ask the restored etcd for its hash")
    }

    pub(crate) async fn end(&mut self) {
        // Nothing of it is needed any more; a process that has ended is as good.
        drop(self.process.kill().await);
    }
}

/// Whose fault it is that a tool ended.
fn blame(status: ExitStatus, words: &str) -> Cause {
    const ELSEWHERE: [&str; 10] = [
        "no space left on device",
        "disk quota exceeded",
        "cannot allocate memory",
        "out of memory",
        "permission denied",
        "address already in use",
        "input/output error",
        "read-only file system",
        "resource temporarily unavailable",
        "failed to create new os thread",
    ];
    let words = words.to_lowercase();
    let elsewhere = ELSEWHERE.iter().any(|known| words.contains(known));
    // A shell, or what starts a wrapper, ends so where the tool cannot be started.
    let unstarted = matches!(status.code(), Some(126 | 127));
    if status.signal().is_some() || unstarted || elsewhere {
        Cause::Request
    } else {
        Cause::Damaged
    }
}

/// A certificate authority for this one trial: etcd takes the common name of a certificate for the user.
fn authority(scratch: &Path) -> Result<Security> {
    let what = "make a certificate for the trial";
    let validity = Validity::starting(Timestamp::now(), LIFETIME);
    let authority = Authority::new("trial", validity).explain(Cause::Request, what)?;
    let leaf = |name: &str, names: &[&str]| Leaf {
        common_name: name.to_owned(),
        names: names.iter().map(|name| (*name).to_owned()).collect(),
        usages: vec![Usage::Server, Usage::Client],
        validity,
    };
    let server = authority.issue(&leaf(HOST, &[HOST, "127.0.0.1"]));
    let server = server.explain(Cause::Request, what)?;
    let root = authority.issue(&leaf(ROOT, &[]));
    let root = root.explain(Cause::Request, what)?;
    for (name, text) in [
        ("ca.crt", authority.certificate()),
        ("tls.crt", &server.chain),
        ("tls.key", server.key.expose()),
    ] {
        std::fs::write(scratch.join(name), text).explain(Cause::Request, what)?;
    }
    let credentials = Credentials::new(authority.certificate(), &root.chain, root.key.expose());
    Ok(Security::Tls {
        credentials: Arc::new(credentials.explain(Cause::Request, what)?),
        name: HOST.to_owned(),
    })
}

fn etcd(
    args: &Args,
    scratch: &Path,
    (peer, address): (&str, &str),
    security: &Security,
) -> Result<Child> {
    let written = File::create(scratch.join("log")).and_then(|file| Ok((file.try_clone()?, file)));
    let (out, errors) = written.explain(Cause::Request, "write the log of etcd")?;
    let mut etcd = tool(args, "etcd")?;
    etcd.args(["--name", "trial", "--initial-cluster-state", "existing"]);
    etcd.arg("--data-dir").arg(scratch.join("data"));
    let scheme = match security {
        Security::Plain => "http",
        Security::Tls { .. } => {
            for (flag, name) in [
                ("--trusted-ca-file", "ca.crt"),
                ("--cert-file", "tls.crt"),
                ("--key-file", "tls.key"),
            ] {
                etcd.arg(flag).arg(scratch.join(name));
            }
            etcd.arg("--client-cert-auth");
            "https"
        }
    };
    let client = format!("{scheme}://{address}");
    for (flag, url) in [
        ("--listen-client-urls", client.as_str()),
        ("--advertise-client-urls", &client),
        ("--listen-peer-urls", peer),
        ("--initial-advertise-peer-urls", peer),
        ("--initial-cluster", &format!("trial={peer}")),
    ] {
        etcd.args([flag, url]);
    }
    // Nothing here must outlive the process, and the database may be at its quota.
    etcd.args(["--unsafe-no-fsync", "--quota-backend-bytes", "107374182400"]);
    etcd.stdin(Stdio::null()).stdout(out).stderr(errors);
    etcd.spawn().explain(Cause::Request, "run etcd")
}

fn free_port() -> Result<u16> {
    let port = TcpListener::bind(("127.0.0.1", 0)).and_then(|listener| listener.local_addr());
    Ok(port.explain(Cause::Request, "find a free port")?.port())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_have_another_cause_is_not_blamed_on_the_base() {
        let (ended, killed) = (ExitStatus::from_raw(2 << 8), ExitStatus::from_raw(9));
        assert_eq!(blame(ended, "panic: page 7 already freed"), Cause::Damaged);
        assert_eq!(blame(killed, ""), Cause::Request);
        for sick in [
            "write /x/data: No space left on device",
            "read /x/data: input/output error",
            "open /x/data: Read-only file system",
            "runtime: failed to create new OS thread (have 2 already; errno=11)",
        ] {
            assert_eq!(blame(ended, sick), Cause::Request, "{sick}");
        }
        for unstarted in [126, 127] {
            let status = ExitStatus::from_raw(unstarted << 8);
            assert_eq!(blame(status, "not found"), Cause::Request);
        }
    }
}

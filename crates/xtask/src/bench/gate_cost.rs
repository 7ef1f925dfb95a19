//! What the gate adds to every start of a member that has data. The real agent judges real data and then becomes
//! `true` instead of etcd, so that its own time is all there is; the time of a bare `true` is taken off.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use etcd::{BoxFuture, BoxStream, Connect, DirectTcp, Pool, Security};
use gate::{Action, GRANT_ANNOTATION, Grant, Report};
use tempfile::TempDir;

use super::table::{Table, Times, verdict};
use crate::cluster::{CONTROL_PLANE_ETCD, Layout};
use crate::deploy::build_image;
use crate::programs::{Profile, binary};
use crate::tools::wait_until;

const AIM: f64 = 0.3;
const STARTS: usize = 15;
const UID: &str = "11111111-2222-3333-4444-555555555555";
const PATIENCE: Duration = Duration::from_mins(1);
/// A log of about 50 MB, as a member under load has between two snapshots.
const MANY: usize = 1600;
const VALUE: usize = 32 * 1024;

/// Two rows: hardly any data, and a full log.
pub(super) fn measure(layout: &Layout) -> Result<Table> {
    build_image(layout, Profile::Release)?;
    let pod = Pod::new(layout)?;
    let mut table = Table::new(&["figure", "measured", "aim", "verdict"]);
    for (what, writes) in [("a fresh member", 1), ("a log of 50 MB", MANY)] {
        pod.fill(writes)?;
        let bare = time_starts(|| {
            let mut command = Command::new("true");
            command.stdin(Stdio::null());
            command
        })?;
        let gated = time_starts(|| pod.command(Path::new("/bin/true")))?;
        let cost = (gated - bare).max(0.0);
        table.row(vec![
            format!("the gate's time per start, {what}"),
            format!("{:.1} ms", cost * 1000.0),
            format!("< {:.0} ms", AIM * 1000.0),
            verdict(cost, AIM),
        ]);
    }
    Ok(table)
}

fn time_starts(command: impl Fn() -> Command) -> Result<f64> {
    let mut seconds = Vec::new();
    for _ in 0..STARTS {
        let started = Instant::now();
        let status = command().status()?;
        seconds.push(started.elapsed().as_secs_f64());
        ensure!(status.success(), "a start ended with {status}");
    }
    Ok(Times::new(seconds).median())
}

/// What a pod gives the agent, on this machine.
struct Pod {
    directory: TempDir,
    agent: PathBuf,
    etcd: PathBuf,
    ports: [u16; 3],
}

impl Pod {
    fn new(layout: &Layout) -> Result<Self> {
        let directory = tempfile::tempdir_in(layout.cache())?;
        for name in ["volume", "podinfo"] {
            std::fs::create_dir(directory.path().join(name))?;
        }
        std::fs::write(directory.path().join("podinfo/annotations"), "")?;
        Ok(Self {
            directory,
            agent: binary("etcd-agent")?,
            etcd: layout.bin("etcd", CONTROL_PLANE_ETCD),
            ports: free_ports()?,
        })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The agent in front of a program.
    fn command(&self, program: &Path) -> Command {
        let [client, peer, gate] = self.ports.map(|port| format!("127.0.0.1:{port}"));
        let mut command = Command::new(&self.agent);
        command
            .env("POD_UID", "pod")
            .args(["gate", "--cluster-uid", UID, "--listen", &gate, "--volume"])
            .arg(self.path("volume"))
            .arg("--annotations")
            .arg(self.path("podinfo/annotations"))
            .arg("--termination-log")
            .arg(self.path("end"))
            .arg("--")
            .arg(program)
            .args([
                "--name=m".to_owned(),
                format!("--data-dir={}", self.path("volume/data").display()),
            ])
            .args([
                format!("--listen-client-urls=http://{client}"),
                format!("--advertise-client-urls=http://{client}"),
            ])
            .args([
                format!("--listen-peer-urls=http://{peer}"),
                format!("--initial-advertise-peer-urls=http://{peer}"),
            ])
            .arg(format!("--listen-metrics-urls=http://{gate}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command
    }

    /// Runs etcd behind the gate, lets it in if it has no data yet, and writes.
    fn fill(&self, writes: usize) -> Result<()> {
        let etcd = Running(
            self.command(&self.etcd)
                .spawn()
                .context("start the agent")?,
        );
        if !self.path("volume/identity.json").exists() {
            wait_until("the agent reports", PATIENCE, || self.grant())?;
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let target = etcd::Target {
            namespace: "bench".to_owned(),
            pod: "m".to_owned(),
            address: "127.0.0.1".to_owned(),
        };
        let [client, _, _] = self.ports;
        let pool = Pool::new(Arc::new(Port(client)));
        let member = pool.member(&target, &Security::Plain);
        wait_until("etcd answers", PATIENCE, || {
            Ok(runtime.block_on(member.status()).is_ok())
        })?;
        let value = vec![b'x'; VALUE];
        for _ in 0..writes {
            runtime.block_on(member.put(b"key", &value))?;
        }
        drop(etcd);
        Ok(())
    }

    /// Answers the agent's wait as the operator would.
    fn grant(&self) -> Result<bool> {
        let [_, peer, gate] = self.ports;
        let report = ask(gate)?;
        let grant = Grant {
            nonce: report.nonce,
            cluster_uid: UID.to_owned(),
            incarnation: 1,
            action: Action::Bootstrap {
                token: format!("{UID}-1"),
                initial_cluster: format!("m=http://127.0.0.1:{peer}"),
                discard: false,
            },
        };
        let quoted = serde_json::to_string(&serde_json::to_string(&grant)?)?;
        let half = self.path("podinfo/half");
        std::fs::write(&half, format!("{GRANT_ANNOTATION}={quoted}\n"))?;
        std::fs::rename(half, self.path("podinfo/annotations"))?;
        Ok(true)
    }
}

fn ask(port: u16) -> Result<Report> {
    let mut stream = TcpStream::connect(("127.0.0.1", port))?;
    stream.set_read_timeout(Some(Duration::from_secs(2)))?;
    write!(
        stream,
        "GET {} HTTP/1.0\r\nHost: gate\r\n\r\n",
        gate::REPORT_PATH
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    let (_, body) = answer.split_once("\r\n\r\n").context("half an answer")?;
    Ok(serde_json::from_str(body)?)
}

/// All are held until all are known, so that no two are the same.
pub(super) fn free_ports() -> Result<[u16; 3]> {
    let bind = || TcpListener::bind("127.0.0.1:0");
    let held = [bind()?, bind()?, bind()?];
    let [client, peer, gate] = held
        .each_ref()
        .map(|held| held.local_addr().map(|address| address.port()));
    Ok([client?, peer?, gate?])
}

/// Leads every port to this one.
pub(super) struct Port(pub(super) u16);

impl Connect for Port {
    fn connect<'a>(
        &'a self,
        target: &'a etcd::Target,
        _port: u16,
    ) -> BoxFuture<'a, std::io::Result<BoxStream>> {
        DirectTcp.connect(target, self.0)
    }
}

/// Killed when dropped, as in a power cut.
pub(super) struct Running(pub(super) Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended by itself; what it left is judged next.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

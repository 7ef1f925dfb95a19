//! Real etcd processes on loopback. `ETCD_BINARIES` names a directory that holds `3.5.35/etcd` and
//! so on.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU16, Ordering};

use etcd::{BoxFuture, BoxStream, CLIENT_PORT, Connect, DirectTcp, Target};
use tempfile::TempDir;

/// The etcd of one version; `None` if the environment offers no binaries at all.
pub(crate) fn binary(version: &str) -> Option<PathBuf> {
    let directory = std::env::var_os("ETCD_BINARIES")?;
    let path = PathBuf::from(directory).join(version).join("etcd");
    assert!(
        path.is_file(),
        "ETCD_BINARIES is set, but there is no {}",
        path.display()
    );
    Some(path)
}

/// Says that this test tries nothing, past the test runner's capture: `cargo xtask test` counts these lines.
pub(crate) fn skipped() {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a test");
    let line = format!("SKIPPED: {name}: ETCD_BINARIES is not set\n");
    io::stderr().write_all(line.as_bytes()).unwrap();
}

/// A place for a member: name, ports and directory, before and after its process runs.
pub(crate) struct Seat {
    name: &'static str,
    client: u16,
    peer: u16,
    metrics: u16,
    secure: u16,
    directory: TempDir,
}

impl Seat {
    pub(crate) fn new(name: &'static str) -> Self {
        let directory = tempfile::tempdir().unwrap();
        Self {
            name,
            client: free_port(),
            peer: free_port(),
            metrics: free_port(),
            secure: free_port(),
            directory,
        }
    }

    pub(crate) fn target(&self) -> Target {
        let (namespace, pod) = ("real".to_owned(), self.name.to_owned());
        Target {
            namespace,
            pod,
            address: "127.0.0.1".into(),
        }
    }

    pub(crate) fn peer_url(&self) -> String {
        format!("http://127.0.0.1:{}", self.peer)
    }

    /// Where its clients reach it.
    pub(crate) fn client_url(&self, scheme: &str) -> String {
        format!("{scheme}://127.0.0.1:{}", self.client)
    }

    /// Where its metrics are had, without a certificate and with one.
    pub(crate) fn metrics_urls(&self) -> String {
        let (metrics, secure) = (self.metrics, self.secure);
        format!("http://127.0.0.1:{metrics},https://127.0.0.1:{secure}")
    }

    /// Writes a file beside its data; the path.
    pub(crate) fn write(&self, file: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(file);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Bootstraps a cluster of one, or continues with the data that is there.
    pub(crate) fn start_alone(&self, binary: &PathBuf) -> RealEtcd {
        self.start(binary, &[self], "new", &[])
    }

    /// Joins a cluster whose member list is `all`.
    pub(crate) fn start_joining(&self, binary: &PathBuf, all: &[&Seat]) -> RealEtcd {
        self.start(binary, all, "existing", &[])
    }

    /// Bootstraps a cluster together with others that do the same, or continues with the data that is
    /// there; with the flags that the operator gives.
    pub(crate) fn start_together(&self, binary: &PathBuf, all: &[&Seat]) -> RealEtcd {
        self.start(binary, all, "new", flags(binary))
    }

    /// The same, with flags of its own.
    pub(crate) fn start_with(&self, binary: &PathBuf, all: &[&Seat], flags: &[&str]) -> RealEtcd {
        self.start(binary, all, "new", flags)
    }

    /// Its database.
    pub(crate) fn database(&self) -> PathBuf {
        self.directory.path().join("data/member/snap/db")
    }

    /// What the process that was started last wrote.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.directory.path().join("log")).unwrap()
    }

    fn start(&self, binary: &PathBuf, all: &[&Seat], state: &str, flags: &[&str]) -> RealEtcd {
        let client = self.client_url("http");
        let members: Vec<_> = all
            .iter()
            .map(|seat| format!("{}={}", seat.name, seat.peer_url()))
            .collect();
        let log = File::create(self.directory.path().join("log")).unwrap();
        let child = Command::new(binary)
            // With one processor etcd's own races are lost more often.
            .env("GOMAXPROCS", "1")
            .args(["--name", self.name, "--initial-cluster-token", "test"])
            .arg("--data-dir")
            .arg(self.directory.path().join("data"))
            .args([
                "--listen-client-urls",
                &client,
                "--advertise-client-urls",
                &client,
            ])
            .args(["--listen-peer-urls", &self.peer_url()])
            .args(["--initial-advertise-peer-urls", &self.peer_url()])
            .args([
                "--listen-metrics-urls",
                &format!("http://127.0.0.1:{}", self.metrics),
            ])
            .args([
                "--initial-cluster",
                &members.join(","),
                "--initial-cluster-state",
                state,
            ])
            .args(flags)
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        RealEtcd { child }
    }
}

/// What a member of the operator is started with, as far as it differs between minors.
fn flags(binary: &Path) -> &'static [&'static str] {
    if minor(binary) == "3.5" {
        &["--experimental-compact-hash-check-enabled=true"]
    } else {
        &["--max-learners=8", "--feature-gates=CompactHashCheck=true"]
    }
}

/// The minor of a binary, such as `3.6`.
pub(crate) fn minor(binary: &Path) -> &str {
    let version = binary.parent().unwrap().file_name().unwrap();
    version.to_str().unwrap().rsplit_once('.').unwrap().0
}

/// A running etcd; dropping it kills it.
pub(crate) struct RealEtcd {
    child: Child,
}

impl RealEtcd {
    /// Asks it to stop, as the kubelet does.
    pub(crate) fn ask_to_stop(&self) {
        let id = self.child.id().to_string();
        let asked = Command::new("kill").args(["-s", "TERM", &id]).status();
        assert!(asked.unwrap().success());
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// The exit code, once it has ended by itself.
    pub(crate) fn exit(&mut self) -> Option<i32> {
        self.child.try_wait().unwrap()?.code()
    }
}

impl Drop for RealEtcd {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Leads the well-known ports of each pod to the ports of its seat.
pub(crate) struct Loopback(BTreeMap<(String, u16), u16>);

impl Loopback {
    pub(crate) fn new(seats: &[&Seat]) -> Self {
        let ports = |seat: &&Seat| {
            [
                (CLIENT_PORT, seat.client),
                (gate::PORT, seat.metrics),
                (gate::SECURE_PORT, seat.secure),
            ]
            .map(|(port, real)| ((seat.name.to_owned(), port), real))
        };
        Self(seats.iter().flat_map(ports).collect())
    }
}

impl Connect for Loopback {
    fn connect<'a>(
        &'a self,
        target: &'a Target,
        port: u16,
    ) -> BoxFuture<'a, io::Result<BoxStream>> {
        DirectTcp.connect(target, self.0[&(target.pod.clone(), port)])
    }
}

/// A port without a listener, below the range from which the kernel gives ports to clients. Test
/// processes that run side by side begin at different places.
fn free_port() -> u16 {
    static NEXT: LazyLock<AtomicU16> = LazyLock::new(|| {
        let place = std::process::id() % 1000 * 20;
        AtomicU16::new(10_000 + u16::try_from(place).unwrap())
    });
    loop {
        let port = NEXT.fetch_add(1, Ordering::Relaxed);
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

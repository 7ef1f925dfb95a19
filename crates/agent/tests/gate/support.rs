//! Starts agents on temporary volumes and talks to them as the kubelet and the operator would.

use std::{
    fs,
    io::{Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::{Duration, Instant},
};

use gate::{Action, Grant, Identity, Report, State};
use tempfile::TempDir;

use crate::tls::Tls;

pub(crate) const AGENT: &str = env!("CARGO_BIN_EXE_etcd-agent");
pub(crate) const UID: &str = "11111111-2222-3333-4444-555555555555";
const PATIENCE: Duration = Duration::from_secs(30);

/// Says that this test returns before it has tried what it is named after, past the test runner's capture:
/// `cargo xtask test` counts these lines.
pub(crate) fn skipped(why: &str) {
    let thread = thread::current();
    let line = format!("SKIPPED: {}: {why}\n", thread.name().unwrap_or("a test"));
    std::io::stderr().write_all(line.as_bytes()).unwrap();
}

/// Asks until there is an answer; the message names what was awaited in vain.
pub(crate) fn await_some<T>(what: &str, ask: impl FnMut() -> Option<T>) -> T {
    await_told(&|| what.to_owned(), ask)
}

/// The same; the message is made when it is needed, with what is in the log by then.
pub(crate) fn await_told<T>(what: &dyn Fn() -> String, mut ask: impl FnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + PATIENCE;
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(Instant::now() < deadline, "waited in vain for {}", what());
        thread::sleep(Duration::from_millis(5));
    }
}

/// A port without a listener, which no other test here is given. Below those that the kernel gives to connections, or
/// one of them would take it before etcd does.
pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    loop {
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let port = 20_000 + std::process::id().wrapping_mul(97).wrapping_add(next) % 12_000;
        let port = u16::try_from(port).unwrap();
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// Status and body of one request; `None` when no answer comes.
pub(crate) fn request(port: u16, head: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream
        .set_read_timeout(Some(Duration::from_secs(10)))
        .unwrap();
    let length = body.len();
    write!(
        stream,
        "{head} HTTP/1.0\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    Some((head.split(' ').nth(1)?.parse().ok()?, body.to_owned()))
}

pub(crate) fn get(port: u16, path: &str) -> Option<(u16, String)> {
    request(port, &format!("GET {path}"), "")
}

/// A volume, an annotations file and a termination log: what a pod keeps over container restarts.
pub(crate) struct Pod {
    pub(crate) directory: TempDir,
    pub(crate) port: u16,
    pub(crate) uid: &'static str,
    /// Value of the annotation that names removed members.
    pub(crate) removed: String,
    /// Value of the annotation that holds earlier incarnations back.
    pub(crate) fence: Option<String>,
    pub(crate) floors: String,
    pub(crate) name: &'static str,
    /// Certificates, where it has any.
    pub(crate) tls: Option<Tls>,
    pub(crate) transport: Option<&'static str>,
    /// Generation of the authorities that it was made for.
    pub(crate) trust: Option<u64>,
    /// The incarnation that grants are for.
    pub(crate) incarnation: u64,
}

impl Pod {
    pub(crate) fn new() -> Self {
        let directory = TempDir::new().unwrap();
        for name in ["volume", "podinfo"] {
            fs::create_dir(directory.path().join(name)).unwrap();
        }
        // A fresh file system has one, and it is no data.
        fs::create_dir(directory.path().join("volume/lost+found")).unwrap();
        fs::write(directory.path().join("termination-log"), "").unwrap();
        // The kubelet writes it before it starts the container.
        fs::write(directory.path().join("podinfo/annotations"), "").unwrap();
        Self {
            directory,
            port: free_port(),
            uid: UID,
            removed: String::new(),
            fence: None,
            floors: String::new(),
            name: "c-0",
            tls: None,
            transport: None,
            trust: None,
            incarnation: 1,
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn volume(&self) -> PathBuf {
        self.path("volume")
    }

    pub(crate) fn command(&self, etcd: &Path, flags: &[String]) -> Command {
        let mut command = Command::new(AGENT);
        command
            .env("POD_UID", "pod-1")
            .env("POD_NAME", self.name)
            .args(["gate", "--cluster-uid", self.uid, "--volume"])
            .arg(self.volume())
            .arg("--annotations")
            .arg(self.path("podinfo/annotations"))
            .arg(format!("--listen=127.0.0.1:{}", self.port))
            .arg("--termination-log")
            .arg(self.path("termination-log"))
            .args(self.transport.map(|text| format!("--transport={text}")))
            .args(self.trust.map(|it| format!("--trust={it}")))
            .args(
                self.trust
                    .map(|_| format!("--trust-file={}", self.path("trust").display())),
            )
            .args(self.tls.iter().flat_map(|tls| tls.arguments(self)))
            .arg("--")
            .arg(etcd)
            .args(flags)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(
                fs::File::options()
                    .create(true)
                    .append(true)
                    .open(self.path("log"))
                    .unwrap(),
            );
        command
    }

    pub(crate) fn start(&self, etcd: &Path, flags: &[String]) -> Process {
        Process::spawn(self.command(etcd, flags))
    }

    /// The report, once the agent serves one.
    pub(crate) fn await_report(&self) -> Report {
        await_some("a report", || self.report())
    }

    pub(crate) fn report(&self) -> Option<Report> {
        let (status, body) = match &self.tls {
            None => get(self.port, "/gate")?,
            Some(tls) => tls.get(tls.port, "/gate").ok()?,
        };
        (status == 200).then(|| serde_json::from_str(&body).unwrap())
    }

    /// The report, which must be of this state.
    pub(crate) fn await_state(&self, state: State) -> Report {
        let report = self.await_report();
        assert_eq!(report.state, state, "{report:?}\n{}", self.log());
        assert_eq!(
            (report.protocol, report.pod_uid.as_str()),
            (gate::PROTOCOL, "pod-1")
        );
        assert_eq!(report.nonce.len(), 32);
        report
    }

    /// The report once a refusal is in it.
    pub(crate) fn await_refusal(&self) -> Report {
        self.await_detail("grant refused")
    }

    /// The report once it says this.
    pub(crate) fn await_detail(&self, text: &str) -> Report {
        await_some(&format!("{text:?} in a report"), || {
            self.report().filter(|report| report.detail.contains(text))
        })
    }

    /// Puts annotations before the agent, as the kubelet does; an empty one is not there.
    pub(crate) fn annotate(&self, value: &str) {
        let mut text = String::from("a=\"b\"\n");
        let fence = self.fence.as_deref().unwrap_or_default();
        for (key, value) in [
            (gate::FENCE_ANNOTATION, fence),
            (gate::FLOORS_ANNOTATION, &self.floors),
            (gate::GRANT_ANNOTATION, value),
            (gate::REMOVED_ANNOTATION, &self.removed),
        ] {
            if !value.is_empty() {
                let quoted = serde_json::to_string(value).unwrap();
                text.extend([key, "=", &quoted, "\n"]);
            }
        }
        text += "z=\"y\"\n";
        fs::write(self.path("podinfo/new"), text).unwrap();
        fs::rename(self.path("podinfo/new"), self.path("podinfo/annotations")).unwrap();
    }

    pub(crate) fn grant(&self, nonce: &str, action: Action) {
        let grant = Grant {
            nonce: nonce.into(),
            cluster_uid: self.uid.into(),
            incarnation: self.incarnation,
            action,
        };
        self.annotate(&serde_json::to_string(&grant).unwrap());
    }

    pub(crate) fn token(&self) -> String {
        format!("{}-{}", self.uid, self.incarnation)
    }

    pub(crate) fn identity(&self) -> Identity {
        serde_json::from_slice(&fs::read(self.volume().join("identity.json")).unwrap()).unwrap()
    }

    pub(crate) fn write_identity(&self, identity: &Identity) {
        let text = serde_json::to_vec(identity).unwrap();
        fs::write(self.volume().join("identity.json"), text).unwrap();
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap_or_default()
    }
}

/// An agent, or the etcd it became; killed when dropped.
pub(crate) struct Process(Child);

impl Process {
    pub(crate) fn spawn(mut command: Command) -> Self {
        Self(command.spawn().unwrap())
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    pub(crate) fn signal(&self, name: &str) {
        let id = self.0.id().to_string();
        assert!(
            Command::new("kill")
                .args(["-s", name, &id])
                .status()
                .unwrap()
                .success()
        );
    }

    /// Kills it with all its children, as the end of a container does. It must have been started as the
    /// leader of a process group.
    pub(crate) fn kill_group(mut self) {
        let group = format!("-{}", self.0.id());
        let killed = Command::new("kill")
            .args(["-s", "KILL", "--", &group])
            .status();
        assert!(killed.unwrap().success());
        self.0.wait().unwrap();
    }

    pub(crate) fn await_exit(mut self) -> ExitStatus {
        await_some("an exit", || self.0.try_wait().unwrap())
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // It may have ended by itself.
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

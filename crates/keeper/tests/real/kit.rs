//! A real etcd on loopback, a store in a temporary directory, and the keeper as the kubelet would start it.

use std::fs::File;
use std::io::{self, Write as _};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::Duration;

use archive::work::{
    Answer, Keep, Kind, MadeBy, Member, Place, Request, Snapshot, Store, Task, Timeline,
};
use etcd::{BoxFuture, BoxStream, Connect, DirectTcp, Pool, Security, Target};
use tempfile::TempDir;

/// Every supported minor version.
pub(crate) const VERSIONS: [&str; 3] = ["3.5.35", "3.6.16", "3.7.3"];

/// The directory of the tools of one version; `None` if the environment offers none.
pub(crate) fn tools(version: &str) -> Option<PathBuf> {
    let directory = PathBuf::from(std::env::var_os("ETCD_BINARIES")?).join(version);
    for tool in ["etcd", "etcdctl", "etcdutl"] {
        let path = directory.join(tool);
        assert!(
            path.is_file(),
            "ETCD_BINARIES is set, but there is no {}",
            path.display()
        );
    }
    Some(directory)
}

/// Says that this test tries nothing, past the test runner's capture.
pub(crate) fn skipped(why: &str) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a test");
    let line = format!("SKIPPED: {name}: {why}\n");
    io::stderr().write_all(line.as_bytes()).unwrap();
}

/// Runs a test on every version, or says that it was skipped.
pub(crate) fn on_every_version<F: Future<Output = ()>>(test: impl Fn(PathBuf) -> F) {
    for version in VERSIONS {
        let Some(tools) = tools(version) else {
            return skipped("ETCD_BINARIES is not set");
        };
        block_on(test(tools));
    }
}

/// The same on the newest version alone, for what does not depend on it.
pub(crate) fn on_one_version<F: Future<Output = ()>>(test: impl Fn(PathBuf) -> F) {
    match tools(VERSIONS[2]) {
        Some(tools) => block_on(test(tools)),
        None => skipped("ETCD_BINARIES is not set"),
    }
}

pub(crate) fn block_on(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    runtime.unwrap().block_on(test);
}

pub(crate) fn free_port() -> u16 {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let base = 31_000 + u16::try_from(std::process::id() % 100).unwrap() * 10;
    loop {
        let port = base + NEXT.fetch_add(1, Ordering::Relaxed) % 700;
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return port;
        }
    }
}

/// A running process; dropping it kills it.
pub(crate) struct Process(pub(crate) Child);

impl Drop for Process {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// A member of a cluster of its own, or of one with others.
pub(crate) struct Seat {
    pub(crate) name: &'static str,
    pub(crate) client: u16,
    pub(crate) peer: String,
    pub(crate) directory: TempDir,
}

impl Seat {
    pub(crate) fn new(name: &'static str) -> Self {
        Self {
            name,
            client: free_port(),
            peer: format!("http://127.0.0.1:{}", free_port()),
            directory: tempfile::tempdir().unwrap(),
        }
    }

    pub(crate) fn start(&self, tools: &Path, all: &[&Seat], state: &str) -> Process {
        let client = format!("http://127.0.0.1:{}", self.client);
        let members = all
            .iter()
            .map(|seat| format!("{}={}", seat.name, seat.peer));
        let members: Vec<_> = members.collect();
        let log = File::create(self.directory.path().join("log")).unwrap();
        let child = Command::new(tools.join("etcd"))
            .args(["--name", self.name, "--unsafe-no-fsync"])
            .arg("--data-dir")
            .arg(self.directory.path().join("data"))
            .args([
                "--listen-client-urls",
                &client,
                "--advertise-client-urls",
                &client,
            ])
            .args(["--listen-peer-urls", &self.peer])
            .args(["--initial-advertise-peer-urls", &self.peer])
            .args(["--initial-cluster", &members.join(",")])
            .args(["--initial-cluster-state", state])
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn();
        Process(child.unwrap())
    }

    pub(crate) fn member(&self) -> etcd::Member {
        member_at(self.client)
    }
}

struct Port(u16);

impl Connect for Port {
    fn connect<'a>(&'a self, target: &'a Target, _: u16) -> BoxFuture<'a, io::Result<BoxStream>> {
        DirectTcp.connect(target, self.0)
    }
}

pub(crate) fn member_at(port: u16) -> etcd::Member {
    let target = Target {
        namespace: "real".to_owned(),
        pod: "c".to_owned(),
        address: "127.0.0.1".to_owned(),
    };
    let pool = Pool::new(Arc::new(Port(port)));
    pool.member(&target, &Security::Plain)
        .with_deadline(Duration::from_secs(10))
}

/// Asks until there is an answer, for at most a minute.
pub(crate) async fn eventually<T>(mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    for _ in 0..1200 {
        if let Some(answer) = ask().await {
            return answer;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("waited for a minute");
}

pub(crate) async fn serving(member: &etcd::Member) -> etcd::Status {
    eventually(async || {
        member
            .status()
            .await
            .ok()
            .filter(|status| status.leader != 0)
    })
    .await
}

/// A cluster of one, and a store.
pub(crate) struct Bench {
    pub(crate) tools: PathBuf,
    pub(crate) seat: Seat,
    pub(crate) member: etcd::Member,
    pub(crate) status: etcd::Status,
    /// Holds the store and all else that the keeper is given.
    pub(crate) directory: TempDir,
    pub(crate) process: Option<Process>,
}

impl Bench {
    pub(crate) async fn new(tools: PathBuf) -> Self {
        let seat = Seat::new("c-0");
        let process = seat.start(&tools, &[&seat], "new");
        let member = seat.member();
        let status = serving(&member).await;
        let directory = tempfile::tempdir().unwrap();
        for name in [
            "store", "secrets", "tls", "identity", "scratch", "into", "spool",
        ] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        Self {
            tools,
            seat,
            member,
            status,
            directory,
            process: Some(process),
        }
    }

    /// Ends etcd as the kubelet does.
    pub(crate) fn stop(&mut self) {
        let Some(mut process) = self.process.take() else {
            return;
        };
        let id = process.0.id().to_string();
        let told = Command::new("kill").arg(id).status();
        assert!(told.unwrap().success());
        process.0.wait().unwrap();
    }

    /// What `etcdctl` says, which must succeed.
    pub(crate) fn etcdctl(&self, words: &[&str]) -> String {
        let done = Command::new(self.tools.join("etcdctl"))
            .env("ETCDCTL_API", "3")
            .arg(format!("--endpoints=127.0.0.1:{}", self.seat.client))
            .args(words)
            .output()
            .unwrap();
        assert!(done.status.success(), "{done:?}");
        String::from_utf8(done.stdout).unwrap()
    }

    /// Writes some keys, some of them large, and a few revisions of one.
    pub(crate) async fn fill(&self, keys: u32) {
        for number in 0..keys {
            let size = if number % 7 == 0 { 20_000 } else { 50 };
            let value: Vec<u8> = noise(number, size);
            self.member
                .put(format!("/k/{number}").as_bytes(), &value)
                .await
                .unwrap();
        }
    }

    /// Writes keys of one size.
    pub(crate) async fn fill_with(&self, keys: u32, size: usize) {
        for number in 0..keys {
            let key = format!("/l/{number}");
            let value = noise(number, size);
            self.member.put(key.as_bytes(), &value).await.unwrap();
        }
    }

    pub(crate) fn place(&self) -> Place {
        Place {
            namespace: "shop".to_owned(),
            cluster: "db".to_owned(),
            cluster_id: format!("{:x}", self.status.cluster_id),
        }
    }

    pub(crate) fn snapshot(&self, id: &str) -> Snapshot {
        Snapshot {
            id: id.to_owned(),
            attempt: 0,
            place: self.place(),
            timeline: Timeline {
                object: "uid".to_owned(),
                incarnation: 1,
            },
            member: Member {
                name: "c-0".to_owned(),
                address: format!("127.0.0.1:{}", self.seat.client),
                server_name: None,
                id: format!("{:x}", self.status.member_id),
            },
            compress: true,
            recipients: Vec::new(),
            made_by: MadeBy {
                namespace: "shop".to_owned(),
                name: "nightly".to_owned(),
                kind: Kind::Scheduled,
            },
            keep: None::<Keep>,
        }
    }

    /// The directory of the timeline.
    pub(crate) fn timeline(&self) -> PathBuf {
        let place = self.place();
        let store = self.directory.path().join("store/backups");
        store
            .join(place.namespace)
            .join(place.cluster)
            .join(place.cluster_id)
    }

    /// Names in a directory of the timeline, in order.
    pub(crate) fn names(&self, directory: &str) -> Vec<String> {
        let listed = std::fs::read_dir(self.timeline().join(directory));
        let names = listed
            .into_iter()
            .flatten()
            .map(|entry| entry.unwrap().file_name());
        let mut names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// The data of a base.
    pub(crate) fn data(&self, id: &str) -> PathBuf {
        let names = self.names("base");
        let begin = format!("{id}-");
        let mut names = names.iter().filter(|name| name.starts_with(&begin));
        self.timeline().join("base").join(names.next().unwrap())
    }

    pub(crate) fn command(&self, store: Store, task: Task) -> Command {
        let request = serde_json::to_string(&Request { store, task }).unwrap();
        self.keeper(&[], &request)
    }

    /// The keeper with some words before its flags.
    pub(crate) fn keeper(&self, words: &[&str], request: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_etcd-keeper"));
        command.args(words).env_clear().env("PATH", &self.tools);
        command.env(archive::work::REQUEST, request);
        let directories = [
            ("--termination-log", "log"),
            ("--store-secrets", "secrets"),
            ("--member-tls", "tls"),
            ("--identity", "identity"),
            ("--local", "store"),
            ("--scratch", "scratch"),
        ];
        for (flag, directory) in directories {
            command.arg(flag).arg(self.directory.path().join(directory));
        }
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// Runs the keeper to its end; its answer, which the exit code agrees with.
    pub(crate) async fn run_with(&self, store: Store, task: Task) -> Answer {
        let command = self.command(store, task);
        self.ended(command).await
    }

    /// The same with a command that was changed.
    pub(crate) async fn ended(&self, mut command: Command) -> Answer {
        let output = tokio::task::spawn_blocking(move || command.output()).await;
        let output = output.unwrap().unwrap();
        let text = std::fs::read_to_string(self.directory.path().join("log"));
        let text = text.unwrap_or_else(|_| panic!("{output:?}"));
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim_end(), text);
        let answer: Answer = serde_json::from_str(&text).unwrap();
        assert_eq!(
            output.status.success(),
            matches!(answer, Answer::Done(_)),
            "{answer:?}"
        );
        answer
    }

    pub(crate) async fn run(&self, task: Task) -> Answer {
        self.run_with(local(), task).await
    }
}

pub(crate) fn local() -> Store {
    Store::Local {
        path: "backups".to_owned(),
    }
}

/// Bytes that do not compress.
fn noise(seed: u32, size: usize) -> Vec<u8> {
    let mut state = u64::from(seed) + 1;
    let next = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        u8::try_from(state >> 56).unwrap()
    };
    (0..size).map(next).collect()
}

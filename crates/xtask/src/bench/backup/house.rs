//! The processes that take part, their directories and ports.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};
use archive::work::{
    Answer, Done, Kind, MadeBy, Member, Place, REQUEST, Request, Snapshot, Store, Task, Timeline,
};
use etcd::{Pool, Security};
use tempfile::TempDir;

use super::Options;
use super::writes::runtime;
use crate::bench::gate_cost::{Port, Running, free_ports};
use crate::cluster::{Layout, VERSITYGW};
use crate::tools::{run, wait_until};

const PATIENCE: Duration = Duration::from_mins(2);
/// Bytes of a value.
const VALUE: usize = 16 * 1024;
/// Writes at once.
const WRITERS: usize = 16;
/// The public key of age's own example.
const RECIPIENT: &str = "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p";

/// A store, a keeper, and where all of it lies.
pub(super) struct House {
    directory: TempDir,
    keeper: PathBuf,
    /// etcd and its tools.
    tools: [PathBuf; 3],
    port: u16,
    _store: Running,
}

/// One run of a keeper.
pub(super) struct Run {
    pub(super) seconds: f64,
    /// MiB that were resident at most.
    pub(super) peak: f64,
}

impl House {
    pub(super) fn new(layout: &Layout, options: &Options, keeper: PathBuf) -> Result<Self> {
        let directory = tempfile::tempdir_in(layout.cache())?;
        for name in ["objects/bucket", "secrets", "empty"] {
            std::fs::create_dir_all(directory.path().join(name))?;
        }
        for (name, secret) in [("access-key", "test"), ("secret-key", "testtest")] {
            std::fs::write(directory.path().join("secrets").join(name), secret)?;
        }
        let [port, _, _] = free_ports()?;
        let store = Command::new(layout.bin("versitygw", VERSITYGW))
            .env("ROOT_ACCESS_KEY", "test")
            .env("ROOT_SECRET_KEY", "testtest")
            .args(["--port", &format!("127.0.0.1:{port}"), "posix"])
            .arg(directory.path().join("objects"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        let store = Running(store.context("start the store\nhint: `cargo xtask cluster build`")?);
        wait_until("the store accepts connections", PATIENCE, || {
            Ok(std::net::TcpStream::connect(("127.0.0.1", port)).is_ok())
        })?;
        let tools = ["etcd", "etcdctl", "etcdutl"].map(|tool| layout.bin(tool, &options.version));
        Ok(Self {
            directory,
            keeper,
            tools,
            port,
            _store: store,
        })
    }

    pub(super) fn etcdutl(&self) -> &Path {
        let [_, _, etcdutl] = &self.tools;
        etcdutl
    }

    /// Where an object is.
    pub(super) fn url(&self, object: &str) -> String {
        format!("http://127.0.0.1:{}/{object}", self.port)
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Whatever the store has.
    pub(super) fn clear(&self) -> Result<()> {
        std::fs::remove_dir_all(self.path("objects/bucket"))?;
        std::fs::create_dir(self.path("objects/bucket"))?;
        Ok(())
    }

    /// What `etcdctl` takes for a snapshot.
    pub(super) fn save(&self, etcd: &Etcd) -> Result<f64> {
        let (file, [_, etcdctl, _]) = (self.path("saved.db"), &self.tools);
        let started = Instant::now();
        run(Command::new(etcdctl)
            .arg(format!("--endpoints=127.0.0.1:{}", etcd.ports[0]))
            .args(["--command-timeout=10m", "snapshot", "save"])
            .arg(&file))?;
        let seconds = started.elapsed().as_secs_f64();
        std::fs::remove_file(file)?;
        Ok(seconds)
    }

    /// What the keeper takes for an encrypted backup.
    pub(super) fn back_up(&self, etcd: &Etcd, id: &str, compress: bool) -> Result<Run> {
        let (run, _url) = self.work(&self.request(etcd, id, compress)?, id)?;
        Ok(run)
    }

    /// Stores a snapshot as it is; the bucket and the name of it.
    pub(super) fn store_raw(&self, etcd: &Etcd, id: &str) -> Result<String> {
        let mut request = self.request(etcd, id, false)?;
        if let Task::Snapshot(task) = &mut request.task {
            task.recipients.clear();
        }
        let (_run, url) = self.work(&request, id)?;
        let object = url
            .strip_prefix("s3://")
            .context("the backup is elsewhere")?;
        Ok(object.to_owned())
    }

    fn work(&self, request: &Request, id: &str) -> Result<(Run, String)> {
        let log = self.path(&format!("{id}.log"));
        let started = Instant::now();
        let mut command = Command::new(&self.keeper);
        command
            .env_clear()
            .env(REQUEST, request.to_text())
            .arg("--termination-log")
            .arg(&log)
            .arg("--store-secrets")
            .arg(self.path("secrets"))
            .stdin(Stdio::null())
            .stdout(Stdio::null());
        for flag in ["--member-tls", "--identity", "--local", "--scratch"] {
            command.arg(flag).arg(self.path("empty"));
        }
        let mut child = Running(command.spawn().context("start the keeper")?);
        let status = PathBuf::from(format!("/proc/{}/status", child.0.id()));
        let mut peak = 0.0;
        let ended = loop {
            // The last one that is read: it only grows.
            peak = peak_of(&status).unwrap_or(peak);
            if let Some(ended) = child.0.try_wait()? {
                break ended;
            }
            std::thread::sleep(Duration::from_millis(20));
        };
        let seconds = started.elapsed().as_secs_f64();
        let answer = std::fs::read_to_string(&log).context("the keeper said nothing")?;
        ensure!(ended.success(), "the keeper ended with {ended}: {answer}");
        let Answer::Done(Done::Snapshot(made)) = serde_json::from_str(&answer)? else {
            bail!("no backup: {answer}");
        };
        Ok((Run { seconds, peak }, made.base.url))
    }

    fn request(&self, etcd: &Etcd, id: &str, compress: bool) -> Result<Request> {
        let status = runtime()?.block_on(etcd.member().status())?;
        let store = Store::S3 {
            bucket: "bucket".to_owned(),
            path: String::new(),
            region: None,
            endpoint: Some(format!("http://127.0.0.1:{}", self.port)),
            path_style: true,
            allow_http: true,
            checksum: false,
        };
        let task = Task::Snapshot(Snapshot {
            id: id.to_owned(),
            attempt: 0,
            place: Place {
                namespace: "bench".to_owned(),
                cluster: "c".to_owned(),
                cluster_id: format!("{:x}", status.cluster_id),
            },
            timeline: Timeline {
                object: "bench".to_owned(),
                incarnation: 1,
            },
            member: Member {
                name: etcd.name.clone(),
                address: format!("127.0.0.1:{}", etcd.ports[0]),
                server_name: None,
                id: format!("{:x}", status.member_id),
            },
            compress,
            recipients: vec![RECIPIENT.to_owned()],
            made_by: MadeBy {
                namespace: "bench".to_owned(),
                name: "bench".to_owned(),
                kind: Kind::Demand,
            },
            keep: None,
        });
        Ok(Request { store, task })
    }
}

/// MiB.
fn peak_of(status: &Path) -> Option<f64> {
    let text = std::fs::read_to_string(status).ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u32 = line.trim().strip_suffix(" kB")?.trim().parse().ok()?;
    Some(f64::from(kibibytes) / 1024.0)
}

/// A member.
pub(super) struct Etcd {
    pub(super) name: String,
    ports: [u16; 3],
    directory: TempDir,
    /// All members, as etcd is told.
    all: String,
    process: Option<Running>,
}

impl Etcd {
    /// A cluster of one.
    pub(super) fn alone(house: &House) -> Result<Self> {
        let mut etcd = Self::new(house, "a", free_ports()?)?;
        etcd.all = etcd.peer();
        etcd.start(house)?;
        Ok(etcd)
    }

    /// A cluster of three.
    pub(super) fn three(house: &House) -> Result<Vec<Self>> {
        let ports = [free_ports()?, free_ports()?, free_ports()?];
        let members = ["a", "b", "c"].into_iter().zip(ports);
        let members = members.map(|(name, ports)| Self::new(house, name, ports));
        let mut members: Vec<Self> = members.collect::<Result<_>>()?;
        let all: Vec<String> = members.iter().map(Self::peer).collect();
        for member in &mut members {
            member.all = all.join(",");
            member.process = Some(member.spawn(house)?);
        }
        for member in &members {
            member.wait()?;
        }
        Ok(members)
    }

    /// What `etcdutl` restored, until it can be read.
    pub(super) fn restored(house: &House, data: &Path) -> Result<Self> {
        let mut etcd = Self::new(house, "default", free_ports()?)?;
        etcd.all = etcd.peer();
        std::fs::rename(data, etcd.directory.path().join("data"))?;
        etcd.start(house)?;
        runtime()?.block_on(etcd.member().read_linearizable())?;
        Ok(etcd)
    }

    fn new(house: &House, name: &str, ports: [u16; 3]) -> Result<Self> {
        Ok(Self {
            name: name.to_owned(),
            ports,
            directory: tempfile::tempdir_in(house.directory.path())?,
            all: String::new(),
            process: None,
        })
    }

    fn peer(&self) -> String {
        format!("{}=http://127.0.0.1:{}", self.name, self.ports[1])
    }

    pub(super) fn start(&mut self, house: &House) -> Result<()> {
        self.process = Some(self.spawn(house)?);
        self.wait()
    }

    fn spawn(&self, house: &House) -> Result<Running> {
        let [client, peer, _] = self.ports.map(|port| format!("http://127.0.0.1:{port}"));
        let [etcd, _, _] = &house.tools;
        let child = Command::new(etcd)
            .args(["--name", &self.name, "--data-dir"])
            .arg(self.directory.path().join("data"))
            .args(["--listen-client-urls", &client])
            .args(["--advertise-client-urls", &client])
            .args(["--listen-peer-urls", &peer])
            .args(["--initial-advertise-peer-urls", &peer])
            .args(["--initial-cluster", &self.all])
            // 32 GiB.
            .args(["--quota-backend-bytes", "34359738368"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn();
        Ok(Running(child.context("start etcd")?))
    }

    fn wait(&self) -> Result<()> {
        let runtime = runtime()?;
        wait_until("etcd has a leader", PATIENCE, || {
            let status = runtime.block_on(self.member().status());
            Ok(status.is_ok_and(|status| status.leader != 0))
        })
    }

    /// As the kubelet does, so that everything is in the database.
    pub(super) fn stop(&mut self) -> Result<()> {
        let mut process = self.process.take().context("etcd does not run")?;
        run(Command::new("kill").arg(process.0.id().to_string()))?;
        process.0.wait()?;
        Ok(())
    }

    pub(super) fn database(&self) -> PathBuf {
        self.directory.path().join("data/member/snap/db")
    }

    pub(super) fn member(&self) -> etcd::Member {
        let target = etcd::Target {
            namespace: "bench".to_owned(),
            pod: self.name.clone(),
            address: "127.0.0.1".to_owned(),
        };
        let pool = Pool::new(Arc::new(Port(self.ports[0])));
        let member = pool.member(&target, &Security::Plain);
        member.with_deadline(Duration::from_secs(10))
    }

    pub(super) fn put_one(&self) -> Result<()> {
        runtime()?.block_on(self.member().put(b"key", b"value"))?;
        Ok(())
    }

    /// Writes so many MiB.
    pub(super) fn fill(&self, mebibytes: u32) -> Result<()> {
        let writes = u64::from(mebibytes) * (1 << 20) / u64::try_from(VALUE)?;
        let runtime = runtime()?;
        runtime.block_on(async {
            let mut clients = tokio::task::JoinSet::new();
            for first in 0..u64::try_from(WRITERS)? {
                clients.spawn(put_each(self.member(), (first..writes).step_by(WRITERS)));
            }
            while let Some(written) = clients.join_next().await {
                written??;
            }
            Ok(())
        })
    }
}

/// Hexadecimal digits, which compress to about a half.
pub(super) fn noise(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_add(1);
    let digit = |_| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let digits = b"0123456789abcdef";
        let at = usize::try_from(state >> 60).unwrap_or(0);
        digits.get(at).copied().unwrap_or(b'0')
    };
    (0..VALUE).map(digit).collect()
}

async fn put_each(
    member: etcd::Member,
    numbers: impl Iterator<Item = u64>,
) -> Result<(), etcd::Error> {
    for number in numbers {
        let key = format!("/bench/{number:08}");
        member.put(key.as_bytes(), &noise(number)).await?;
    }
    Ok(())
}

//! What clusters cost an operator while nothing happens: its processor, against the same process without any, and how
//! often those that are well are looked at while others are silent. Ratios of one run, because machines differ.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::footprint::{self, Process};
use super::place::Place;
use super::table::{Table, verdict};
use crate::cluster::{CONTROL_PLANE_ETCD, Target};
use crate::deploy::NAMESPACE;
use crate::tools::{output, run};

const PROCESSOR_AIM: f64 = 5.0;
const INTERVAL_AIM: f64 = 1.2;
const WATCHED: Duration = Duration::from_mins(1);
/// Until nothing moves any more after members fell silent.
const NOTICED: Duration = Duration::from_secs(15);
const DEPLOYMENT: &str = "deployment/etcd-operator";

/// One row per figure.
pub(super) fn measure(target: &Target, clusters: u8, workers: u16) -> Result<Table> {
    let operator = Operator::with_workers(target, workers)?;
    let place = Place::new(target, "idle")?;
    let none = operator.watch("no cluster")?;
    ensure!(
        none.looks < 1.0,
        "other clusters are there, so nothing is idle"
    );
    for number in 1..=clusters {
        place.create_cluster_with(&format!("m{number}"), 1, CONTROL_PLANE_ETCD, &patient())?;
    }
    footprint::settle(&place)?;
    let all = operator.watch(&format!("{clusters} clusters"))?;
    let frozen = Frozen::half_of(&place)?;
    let silent = u8::try_from(frozen.0.len())?;
    std::thread::sleep(NOTICED);
    let some = operator.watch(&format!("{clusters} clusters, {silent} of them silent"))?;
    ensure!(frozen.is_whole(), "a silent member was restarted");
    drop(frozen);
    let interval = |watched: &Watched, clusters: u8| {
        f64::from(clusters) * WATCHED.as_secs_f64() / watched.looks.max(1.0)
    };
    let (calm, beside) = (interval(&all, clusters), interval(&some, clusters - silent));
    let mut table = Table::new(&["figure", "measured", "ratio", "aim", "verdict"]);
    let mut add = |name: String, measured: String, (ratio, aim): (f64, f64)| {
        let cells = [
            format!("{ratio:.2}"),
            format!("≤ {aim}"),
            verdict(ratio, aim),
        ];
        table.row([vec![name, measured], cells.into()].concat());
    };
    add(
        format!("processor per idle minute with {clusters} clusters, against none"),
        format!("{:.3} s, {:.3} s", all.processor, none.processor),
        (all.processor / none.processor.max(0.001), PROCESSOR_AIM),
    );
    add(
        format!(
            "from one look to the next with {silent} of {clusters} members silent and {workers} workers, against none silent"
        ),
        format!("{beside:.2} s, {calm:.2} s"),
        (beside / calm, INTERVAL_AIM),
    );
    Ok(table)
}

/// Kubernetes would restart a silent member within a minute.
fn patient() -> Value {
    json!({"pod": {"probes": {"liveness": {"failureThreshold": 60}}}})
}

/// What was seen of the operator in a minute.
pub(super) struct Watched {
    /// Seconds.
    pub(super) processor: f64,
    /// Looks that found a cluster as it should be.
    looks: f64,
    /// Connections that it began, to members or anything else. Each one to a member with TLS is a handshake.
    pub(super) connections: f64,
}

/// The operator, with so many workers until this is dropped, where that is another number than it has.
pub(super) struct Operator<'a> {
    target: &'a Target,
    process: Process,
    address: String,
    before: Option<String>,
}

impl<'a> Operator<'a> {
    fn with_workers(target: &'a Target, workers: u16) -> Result<Self> {
        let env = "jsonpath={.spec.template.spec.containers[0].env[?(@.name=='WORKERS')].value}";
        let before = kubectl(target, &["get", DEPLOYMENT, "-o", env])?;
        set_workers(target, &workers.to_string())?;
        Ok(Self {
            target,
            address: only_address(target)?,
            process: Process::of_operator(target)?,
            before: Some(before),
        })
    }

    /// As it runs.
    pub(super) fn at_work(target: &'a Target) -> Result<Self> {
        Ok(Self {
            target,
            address: only_address(target)?,
            process: Process::of_operator(target)?,
            before: None,
        })
    }

    /// MiB.
    pub(super) fn memory(&self) -> Result<f64> {
        self.process.resident()
    }

    pub(super) fn watch(&self, what: &str) -> Result<Watched> {
        eprintln!("  watching {} s: {what}", WATCHED.as_secs());
        let (processor, looks) = (self.process.precise_seconds()?, self.looks()?);
        let connections = self.process.connections()?;
        let start = Instant::now();
        std::thread::sleep(WATCHED);
        let longer = start.elapsed().as_secs_f64() / WATCHED.as_secs_f64();
        Ok(Watched {
            processor: (self.process.precise_seconds()? - processor) / longer,
            looks: (self.looks()? - looks) / longer,
            connections: (self.process.connections()? - connections) / longer,
        })
    }

    /// Looks so far that found a cluster as it should be, as the operator's metrics have them.
    fn looks(&self) -> Result<f64> {
        let address = (self.address.as_str(), 8081);
        let mut stream = TcpStream::connect(address).context("the operator's metrics")?;
        stream.write_all(b"GET /metrics HTTP/1.0\r\nHost: operator\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(count_looks(&text))
    }
}

impl Drop for Operator<'_> {
    fn drop(&mut self) {
        let Some(before) = &self.before else {
            return;
        };
        if let Err(error) = set_workers(self.target, before) {
            eprintln!("the operator keeps the workers of the bench: {error:#}");
        }
    }
}

/// Where the operator is, once its earlier pod is gone.
fn only_address(target: &Target) -> Result<String> {
    let pods = "jsonpath={.items[*].status.podIP}";
    let start = Instant::now();
    loop {
        let found = kubectl(target, &["get", "pods", "-o", pods])?;
        let mut found = found.split_whitespace();
        if let (Some(only), None) = (found.next(), found.next()) {
            return Ok(only.to_owned());
        }
        ensure!(start.elapsed() < WATCHED, "there is not one operator");
        std::thread::sleep(Duration::from_millis(500));
    }
}

fn count_looks(metrics: &str) -> f64 {
    let settled = metrics
        .lines()
        .filter_map(|line| line.strip_prefix("etcd_operator_steps_total{step=\"Nothing\""));
    let counts = settled.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok());
    counts.sum()
}

fn set_workers(target: &Target, workers: &str) -> Result<()> {
    let mut kubectl = target.command("kubectl");
    kubectl.args(["--namespace", NAMESPACE, "set", "env", DEPLOYMENT]);
    run(kubectl.arg(format!("WORKERS={workers}")))?;
    let mut kubectl = target.command("kubectl");
    kubectl.args(["--namespace", NAMESPACE, "rollout", "status", DEPLOYMENT]);
    run(kubectl.arg("--timeout=2m"))?;
    let mut kubectl = target.command("kubectl");
    kubectl.args(["--namespace", NAMESPACE, "wait", "pods", "--all"]);
    run(kubectl.args(["--for=condition=Ready", "--timeout=1m"]))
}

fn kubectl(target: &Target, words: &[&str]) -> Result<String> {
    let mut kubectl = target.command("kubectl");
    output(kubectl.args(["--namespace", NAMESPACE]).args(words))
}

/// Processes that are stopped until this is dropped.
struct Frozen(Vec<String>);

impl Frozen {
    /// The etcd of every other pod.
    fn half_of(place: &Place<'_>) -> Result<Self> {
        let mut kubectl = place.target.command("kubectl");
        kubectl.args(["--namespace", &place.namespace, "get", "pods", "-o"]);
        let uids = output(kubectl.arg("jsonpath={.items[*].metadata.uid}"))?;
        let uids: BTreeSet<&str> = uids.split_whitespace().step_by(2).collect();
        let mut frozen = Self(Vec::new());
        for entry in std::fs::read_dir("/proc")? {
            let path = entry?.path();
            if is_etcd_of(&path, &uids)
                && let Some(id) = path.file_name().and_then(|name| name.to_str())
            {
                signal("STOP", id)?;
                frozen.0.push(id.to_owned());
            }
        }
        ensure!(frozen.0.len() == uids.len(), "a member has no process");
        Ok(frozen)
    }

    fn is_whole(&self) -> bool {
        let mut processes = self.0.iter().map(|id| Path::new("/proc").join(id));
        processes.all(|process| process.exists())
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        for id in &self.0 {
            if let Err(error) = signal("CONT", id) {
                eprintln!("{id} stays stopped: {error:#}");
            }
        }
    }
}

fn is_etcd_of(process: &Path, uids: &BTreeSet<&str>) -> bool {
    let read = |file: &str| std::fs::read_to_string(process.join(file)).unwrap_or_default();
    let groups = read("cgroup").replace('_', "-");
    read("comm").trim() == "etcd" && uids.iter().any(|uid| groups.contains(uid))
}

fn signal(signal: &str, id: &str) -> Result<()> {
    run(std::process::Command::new("kill").args([&format!("-{signal}"), id]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn looks_are_the_steps_that_did_nothing() {
        let metrics = "# TYPE etcd_operator_steps_total counter\n\
            etcd_operator_steps_total{step=\"Nothing\",reason=\"AsExpected\",outcome=\"done\"} 12\n\
            etcd_operator_steps_total{step=\"Wait\",reason=\"StartingPods\",outcome=\"done\"} 7\n\
            etcd_operator_steps_total{step=\"Nothing\",reason=\"Paused\",outcome=\"done\"} 3\n";
        assert!((count_looks(metrics) - 15.0).abs() < f64::EPSILON);
    }
}

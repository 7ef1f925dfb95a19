//! What the operator needs while nothing happens: memory, processor time, room on a node's disk. Read from its process,
//! which only the local cluster shows.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::place::Place;
use super::table::{Table, verdict};
use crate::cluster::{CONTROL_PLANE_ETCD, Layout, Target};
use crate::deploy::NAMESPACE;
use crate::programs::binary;
use crate::tools::output;

const MEMORY_AIM: f64 = 16.0;
const IDLE_AIM: f64 = 0.1;
const IMAGE_AIM: f64 = 25.0;
const SETTLING: Duration = Duration::from_secs(30);
const IDLE: Duration = Duration::from_mins(1);
/// What Linux counts processor time in, for every program on every machine we build for.
const TICKS_PER_SECOND: f64 = 100.0;

/// One row per figure.
pub(super) fn measure(layout: &Layout, target: &Target, clusters: u8) -> Result<Table> {
    let mut table = Table::new(&["figure", "measured", "aim", "verdict"]);
    let mut add = |name: String, figure: f64, unit: &str, aim: f64| {
        let (measured, wanted) = (format!("{figure:.2} {unit}"), format!("< {aim} {unit}"));
        table.row(vec![name, measured, wanted, verdict(figure, aim)]);
    };
    let place = Place::new(target, "operator")?;
    let process = Process::of_operator(target)?;
    create(&place, 1..=1)?;
    let name = format!("resident with {} clusters", count_clusters(target)?);
    add(name, process.resident()?, "MiB", MEMORY_AIM);
    create(&place, 2..=clusters)?;
    eprintln!("  watching the idle operator for {} s", IDLE.as_secs());
    let (count, before) = (count_clusters(target)?, process.processor_seconds()?);
    std::thread::sleep(IDLE);
    let idle = process.processor_seconds()? - before;
    let later = count_clusters(target)?;
    if count.max(later) > usize::from(clusters) {
        eprintln!(
            "  {count} clusters before, {later} after: another program is at work, so this was not idle"
        );
    }
    let name = format!("resident with {count} clusters");
    add(name, process.resident()?, "MiB", MEMORY_AIM);
    let name = format!("processor per idle minute with {count} clusters");
    add(name, idle, "s", IDLE_AIM);
    add_image(layout, add).map(|()| table)
}

/// The archive that `deploy` loaded last, and the programs in it.
fn add_image(layout: &Layout, mut add: impl FnMut(String, f64, &str, f64)) -> Result<()> {
    let size = |path: &Path| -> Result<f64> {
        let file = std::fs::metadata(path)
            .with_context(|| format!("{}\nhint: `cargo xtask deploy`", path.display()))?;
        Ok(megabytes(file.len()))
    };
    let archive = size(&layout.image("etcd-operator"))?;
    add("image, as an archive".to_owned(), archive, "MB", IMAGE_AIM);
    let (operator, agent) = (
        size(&binary("etcd-operator")?)?,
        size(&binary("etcd-agent")?)?,
    );
    let name = format!("image, sum of files (operator {operator:.1}, agent {agent:.1})");
    add(name, operator + agent, "MB", IMAGE_AIM);
    Ok(())
}

fn create(place: &Place<'_>, numbers: std::ops::RangeInclusive<u8>) -> Result<()> {
    for number in numbers {
        place.create_cluster(&format!("m{number}"), 1, CONTROL_PLANE_ETCD)?;
    }
    settle(place)
}

/// Until every cluster is Ready, and a while longer.
pub(super) fn settle(place: &Place<'_>) -> Result<()> {
    let ready = [
        "wait",
        "etcdclusters",
        "--all",
        "--for=condition=Ready",
        "--timeout=300s",
    ];
    place.kubectl(&ready)?;
    std::thread::sleep(SETTLING);
    Ok(())
}

fn count_clusters(target: &Target) -> Result<usize> {
    let mut kubectl = target.command("kubectl");
    kubectl.args(["get", "etcdclusters", "--all-namespaces", "-o", "name"]);
    Ok(output(&mut kubectl)?.lines().count())
}

fn megabytes(bytes: u64) -> f64 {
    f64::from(u32::try_from(bytes / 1000).unwrap_or(u32::MAX)) / 1000.0
}

/// A process, by its directory in /proc.
pub(super) struct Process(PathBuf);

impl Process {
    /// The operator in its pod: another may run on this machine outside of any.
    pub(super) fn of_operator(target: &Target) -> Result<Self> {
        let mut kubectl = target.command("kubectl");
        kubectl.args(["get", "pods", "--namespace", NAMESPACE, "-o"]);
        let uids = output(kubectl.arg("jsonpath={.items[*].metadata.uid}"))?;
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc")? {
            let path = entry?.path();
            // Processes come and go while we look.
            let read = |file: &str| std::fs::read_to_string(path.join(file)).unwrap_or_default();
            let groups = read("cgroup").replace('_', "-");
            let inside = uids.split_whitespace().any(|uid| groups.contains(uid));
            if inside && read("comm").trim() == "etcd-operator" {
                found.push(Self(path));
            }
        }
        ensure!(
            found.len() <= 1,
            "several operators run\nhint: measure with one replica"
        );
        found
            .pop()
            .context("the operator does not run\nhint: `cargo xtask deploy`")
    }

    fn read(&self, file: &str) -> Result<String> {
        let path = self.0.join(file);
        std::fs::read_to_string(&path)
            .with_context(|| format!("the operator has ended ({})", path.display()))
    }

    /// MiB.
    pub(super) fn resident(&self) -> Result<f64> {
        let status = self.read("status")?;
        let kilobytes = parse_resident(&status).context("no VmRSS")?;
        Ok(f64::from(kilobytes) / 1024.0)
    }

    /// The time of every running thread, in nanoseconds: a minute without work is a few ticks only.
    pub(super) fn precise_seconds(&self) -> Result<f64> {
        let mut total = Duration::ZERO;
        for thread in std::fs::read_dir(self.0.join("task")).context("the operator has ended")? {
            // Threads come and go while we look.
            let spent = std::fs::read_to_string(thread?.path().join("schedstat"));
            let spent = spent.unwrap_or_default();
            let spent = spent.split_whitespace().next().unwrap_or_default();
            total += Duration::from_nanos(spent.parse().unwrap_or_default());
        }
        Ok(total.as_secs_f64())
    }

    /// Connections that it, and all else in its network, has begun so far.
    pub(super) fn connections(&self) -> Result<f64> {
        let counted = parse_connections(&self.read("net/snmp")?);
        counted.map(f64::from).context("no count of connections")
    }

    fn processor_seconds(&self) -> Result<f64> {
        let ticks = parse_ticks(&self.read("stat")?).context("no processor time")?;
        Ok(f64::from(ticks) / TICKS_PER_SECOND)
    }
}

/// `VmRSS: 12345 kB` → 12345.
fn parse_resident(status: &str) -> Option<u32> {
    let line = status.lines().find(|line| line.starts_with("VmRSS:"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}

/// The line `Tcp:` with the names, and the one with the figures.
fn parse_connections(snmp: &str) -> Option<u32> {
    let mut lines = snmp.lines().filter_map(|line| line.strip_prefix("Tcp:"));
    let (names, figures) = (lines.next()?, lines.next()?);
    let mut pairs = names.split_whitespace().zip(figures.split_whitespace());
    let (_, opened) = pairs.find(|(name, _)| *name == "ActiveOpens")?;
    opened.parse().ok()
}

/// User and system time. The program's name, in brackets, may hold spaces.
fn parse_ticks(stat: &str) -> Option<u32> {
    let (_, fields) = stat.rsplit_once(')')?;
    let mut fields = fields.split_whitespace().skip(11);
    let (user, system): (u32, u32) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    user.checked_add(system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proc_is_read_as_the_kernel_writes_it() {
        assert_eq!(
            parse_resident("Name:\ta\nVmRSS:\t   12345 kB\n"),
            Some(12345)
        );
        let stat = "7 (a b) c) S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0";
        assert_eq!(parse_ticks(stat), Some(200));
        let snmp = "Ip: Forwarding\nIp: 1\nTcp: RtoMin MaxConn ActiveOpens PassiveOpens\nTcp: 200 -1 17 5\n";
        assert_eq!(parse_connections(snmp), Some(17));
    }
}

//! What a backup costs, on this machine and without Kubernetes: etcd, a store that speaks S3 and the keeper, beside each other on
//! loopback. Each figure stands beside the one that it is compared to, taken by turns in the same run.

mod first;
mod house;
mod synthetic;
mod writes;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use self::house::{Etcd, House, Run};
use super::table::{Table, Times, verdict};
use super::this_machine;
use crate::cluster::{CONTROL_PLANE_ETCD, Layout, Target};
use crate::deploy::build_image;
use crate::programs::{Profile, binary};

/// Times of the keeper to times of `etcdctl`.
const RUN_RATIO: f64 = 1.3;
/// MiB.
const MEMORY: f64 = 64.0;
const GAP_RATIO: f64 = 1.5;
const FIRST_READ_RATIO: f64 = 1.5;
/// MB.
const IMAGE: f64 = 32.0;

/// How `backup` is measured.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Release of etcd
    #[arg(long, default_value = CONTROL_PLANE_ETCD)]
    version: String,
    /// MiB of data of the backups that are timed
    #[arg(long, default_value_t = 1024, value_parser = clap::value_parser!(u32).range(1..))]
    size: u32,
    /// MiB of the database whose backup needs most memory
    #[arg(long, default_value_t = 8192, value_parser = clap::value_parser!(u32).range(64..))]
    stream: u32,
    /// MiB of data of the three members that are written to
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..))]
    written: u32,
    /// Seconds of writing with a backup, and as many without
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u32).range(5..))]
    seconds: u32,
    /// How often everything is done
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
    rounds: u8,
    /// A keeper that is there; otherwise the image is built as it is released, and measured as well
    #[arg(long)]
    keeper: Option<PathBuf>,
    /// Only these rows; `first-read` needs the local cluster
    #[arg(long, value_delimiter = ',', default_values = ["run", "memory", "gap"])]
    only: Vec<Row>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Row {
    /// A backup, against `etcdctl snapshot save`
    Run,
    /// The keeper's peak memory with a large database
    Memory,
    /// The longest pause of a client that writes
    Gap,
    /// From an EtcdRestore to the first read, in the local cluster, against the same by hand
    FirstRead,
}

/// Measures and prints.
pub(super) fn measure(layout: &Layout, context: Option<&str>, options: &Options) -> Result<()> {
    println!("Measured on {}.\n", this_machine()?);
    let mut table = Table::new(&[
        "figure",
        "measured",
        "compared to",
        "ratio",
        "aim",
        "verdict",
    ]);
    let keeper = if let Some(keeper) = &options.keeper {
        keeper.clone()
    } else {
        let archive = build_image(layout, Profile::Release)?.archive;
        let bytes = std::fs::metadata(&archive)?.len();
        let size = f64::from(u32::try_from(bytes / 1000)?) / 1000.0;
        row(&mut table, "image, as an archive, MB", size, None, IMAGE);
        binary("etcd-keeper")?
    };
    let house = House::new(layout, options, keeper)?;
    if options.only.contains(&Row::Run) {
        run(&house, options, &mut table)?;
    }
    if options.only.contains(&Row::Memory) {
        memory(&house, options, &mut table)?;
    }
    if options.only.contains(&Row::Gap) {
        gap(&house, options, &mut table)?;
    }
    if options.only.contains(&Row::FirstRead) {
        first_read(layout, context, &house, options, &mut table)?;
    }
    table.print(&format!("A backup of etcd {}", options.version));
    Ok(())
}

/// A figure, and what it is compared to.
fn row(table: &mut Table, what: &str, figure: f64, beside: Option<f64>, aim: f64) {
    let ratio = beside.map(|beside| figure / beside);
    let aimed = if ratio.is_some() { "ratio ≤" } else { "≤" };
    table.row(vec![
        what.to_owned(),
        format!("{figure:.1}"),
        beside.map_or(String::new(), |beside| format!("{beside:.1}")),
        ratio.map_or(String::new(), |ratio| format!("{ratio:.2}")),
        format!("{aimed} {aim}"),
        verdict(ratio.unwrap_or(figure), aim),
    ]);
}

/// Compressed and encrypted to the store, against `etcdctl` to a file, by turns.
fn run(house: &House, options: &Options, table: &mut Table) -> Result<()> {
    let etcd = Etcd::alone(house)?;
    etcd.fill(options.size)?;
    let (mut keeper, mut etcdctl) = (Vec::new(), Vec::new());
    let mut peak: f64 = 0.0;
    for round in 0..options.rounds {
        for first in [round % 2 == 0, round % 2 != 0] {
            if first {
                let run = house.back_up(&etcd, &format!("run-{round}"), true)?;
                note("keeper, seconds", run.seconds);
                peak = peak.max(run.peak);
                keeper.push(run.seconds);
            } else {
                let seconds = house.save(&etcd)?;
                note("etcdctl, seconds", seconds);
                etcdctl.push(seconds);
            }
        }
    }
    let what = format!(
        "keeper, {} MiB, compressed and encrypted to S3, against etcdctl snapshot save, seconds",
        options.size
    );
    let times = [keeper, etcdctl].map(|times| Times::new(times).median());
    row(table, &what, times[0], Some(times[1]), RUN_RATIO);
    let what = format!("its peak memory with {} MiB, MiB", options.size);
    row(table, &what, peak, None, MEMORY);
    Ok(())
}

/// A database that is large and has hardly any rows: nothing is made smaller on the way, so that all of it passes.
fn memory(house: &House, options: &Options, table: &mut Table) -> Result<()> {
    let mut etcd = Etcd::alone(house)?;
    etcd.put_one()?;
    etcd.stop()?;
    synthetic::grow(&etcd.database(), options.stream)?;
    etcd.start(house)?;
    let Run { seconds, peak } = house.back_up(&etcd, "large", false)?;
    note("keeper with a large database, seconds", seconds);
    let what = format!(
        "keeper's peak memory, synthetic database of {} MiB, encrypted to S3, MiB",
        options.stream
    );
    row(table, &what, peak, None, MEMORY);
    house.clear()
}

/// Three members, a client that writes to the leader, and a backup of a follower, or none.
fn gap(house: &House, options: &Options, table: &mut Table) -> Result<()> {
    let members = Etcd::three(house)?;
    let leader = writes::leader(&members)?;
    let follower = members.iter().find(|member| member.name != leader.name);
    let follower = follower.context("all members lead")?;
    leader.fill(options.written)?;
    let time = Duration::from_secs(options.seconds.into());
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for round in 0..options.rounds {
        for backup in [round % 2 == 0, round % 2 != 0] {
            let meanwhile = || {
                let id = format!("gap-{round}");
                backup
                    .then(|| house.back_up(follower, &id, true))
                    .transpose()
            };
            let gap = writes::longest_gap(leader, time, meanwhile)?;
            let milliseconds = gap.as_secs_f64() * 1000.0;
            note(
                if backup {
                    "gap with a backup, ms"
                } else {
                    "gap without, ms"
                },
                milliseconds,
            );
            if backup { &mut with } else { &mut without }.push(milliseconds);
        }
    }
    let what = format!(
        "longest write gap in {} s with a backup of {} MiB, against as long without, three members, ms",
        options.seconds, options.written
    );
    let times = [with, without].map(|times| Times::new(times).median());
    row(table, &what, times[0], Some(times[1]), GAP_RATIO);
    Ok(())
}

/// From a backup in a bucket to a cluster that can be read.
fn first_read(
    layout: &Layout,
    context: Option<&str>,
    house: &House,
    options: &Options,
    table: &mut Table,
) -> Result<()> {
    let target = Target::resolve(layout, context)?;
    ensure!(
        target.is_local(),
        "the first read is measured in the local cluster only\nhint: `cargo xtask cluster up`, without --context"
    );
    let (mut restored, mut by_hand) = (Vec::new(), Vec::new());
    for _round in 0..options.rounds {
        let once = first::measure(&target, house, &options.version, options.size)?;
        restored.push(once.restored);
        by_hand.push(once.by_hand);
    }
    let what = format!(
        "from an EtcdRestore of {} MiB to the first read, less two empty Jobs, against download, etcdutl and start, seconds",
        options.size
    );
    let times = [restored, by_hand].map(|times| Times::new(times).median());
    row(table, &what, times[0], Some(times[1]), FIRST_READ_RATIO);
    Ok(())
}

fn note(what: &str, value: f64) {
    eprintln!("  {what}: {value:.1}");
}

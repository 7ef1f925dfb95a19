//! `cargo xtask test`: every test there is, in an order that fails early. What needs no cluster comes first; the local
//! cluster is compiled, started and taken down again when it was not up before.

mod azurite;
mod counts;
mod diagnose;
mod stage;
mod stream;
mod targets;

use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::Result;

use self::counts::{Counts, Total};
use self::stage::{Bench, Stage};
use crate::cluster::{self, Layout};

/// What to run.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Also what takes long: 100,000 cases per property, from a new seed, the slow stories of e2e
    #[arg(long)]
    deep: bool,
    /// Only what needs no cluster
    #[arg(long)]
    fast: bool,
    /// Leave the cluster up if this command started it
    #[arg(long)]
    keep: bool,
    /// Only this stage
    #[arg(long, value_name = "NAME", conflicts_with = "fast")]
    stage: Option<Stage>,
}

/// How one stage went.
struct Lap {
    name: &'static str,
    took: Duration,
    verdict: &'static str,
}

/// Runs the stages; the last line on stdout is `N passed, N failed, N skipped`.
pub(crate) fn run(layout: &Layout, context: Option<&str>, options: &Options) -> Result<ExitCode> {
    let started = Instant::now();
    let mut bench = Bench::new(layout, context, options.deep);
    // A caller that asked for a single stage decides about the cluster.
    let whole = options.stage.is_none() && !options.fast;
    let ours = whole && context.is_none() && cluster::is_down(layout)?;
    if whole {
        cluster::warn_if_short(layout.cache())?;
    }
    let mut laps = Vec::new();
    let mut failure = None;
    let stages = stages(options, context);
    for stage in &stages {
        if *stage == Stage::Etcd && stages.contains(&Stage::Deploy) {
            bench.begin_image();
        }
        // Beside real etcds, which are waited for most of the time, and not beside stories: even a process that yields costs
        // them gaps between two writes of more than a second.
        if *stage == Stage::Etcd && stages.contains(&Stage::Rules) {
            bench.begin_rules();
        }
        if let Err(error) = timed(&mut laps, stage.name(), || stage.run(&mut bench)) {
            failure = Some((*stage, error));
            break;
        }
    }
    if let Some((stage, _)) = &failure
        && stage.needs_cluster()
    {
        diagnose::keep(layout, context);
    }
    if let Err(error) = bench.end_image() {
        eprintln!("the image could not be built either: {error:#}");
    }
    // A run that failed tells what the rules say all the same.
    if failure.is_some() && bench.has_begun_rules() {
        let told = timed(&mut laps, Stage::Rules.name(), || {
            Stage::Rules.run(&mut bench)
        });
        if let Err(error) = told {
            report(Stage::Rules.name(), &error);
        }
    }
    let mut down_failed = None;
    if ours && !options.keep && layout.settings()?.is_some() {
        let down = || cluster::run(cluster::Command::Down, None);
        down_failed = timed(&mut laps, "down", down).err();
    }
    print_table(&laps, started.elapsed());
    if options.fast {
        eprintln!("not run, because they need real binaries or a cluster: build … chaos");
    }
    let failed_stages = usize::from(failure.is_some()) + usize::from(down_failed.is_some());
    if let Some((stage, error)) = failure {
        report(stage.name(), &error);
        eprintln!(
            "hint: `cargo xtask test --stage {}` repeats it",
            stage.name()
        );
    }
    if let Some(error) = down_failed {
        report("down", &error);
    }
    Ok(close(bench.counts(), failed_stages))
}

fn report(stage: &str, error: &anyhow::Error) {
    eprintln!("\nfailed: {stage}: {error:#}");
}

/// The closing line. A run that failed never ends with `0 failed`, whatever the tests said.
fn close(counts: &Counts, failed_stages: usize) -> ExitCode {
    let Total {
        passed,
        failed,
        skipped,
    } = counts.total();
    println!(
        "{passed} passed, {} failed, {skipped} skipped",
        failed.max(failed_stages)
    );
    if failed + failed_stages == 0 {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// What is run, in order. On a cluster of the user's own we neither install nor remove anything.
fn stages(options: &Options, context: Option<&str>) -> Vec<Stage> {
    if let Some(stage) = options.stage {
        return vec![stage];
    }
    let foreign = context.is_some();
    Stage::ALL
        .into_iter()
        .filter(|stage| !(options.fast && stage.is_slow()))
        .filter(|stage| !(foreign && matches!(stage, Stage::Up | Stage::Deploy | Stage::Rights)))
        .collect()
}

fn timed(laps: &mut Vec<Lap>, name: &'static str, work: impl FnOnce() -> Result<()>) -> Result<()> {
    eprintln!("── {name}");
    let started = Instant::now();
    let result = work();
    let took = started.elapsed();
    let verdict = if result.is_ok() { "ok" } else { "FAILED" };
    eprintln!("── {name}: {verdict}, {:.1} s", took.as_secs_f32());
    laps.push(Lap {
        name,
        took,
        verdict,
    });
    result
}

fn print_table(laps: &[Lap], total: Duration) {
    println!("\n| stage      | seconds | result |\n|---|--:|---|");
    for lap in laps {
        println!(
            "| {:<10} | {:>7.1} | {} |",
            lap.name,
            lap.took.as_secs_f32(),
            lap.verdict
        );
    }
    println!("| all        | {:>7.1} | |\n", total.as_secs_f32());
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(fast: bool) -> Options {
        Options {
            deep: false,
            fast,
            keep: false,
            stage: None,
        }
    }

    #[test]
    fn fast_runs_nothing_that_needs_a_cluster() {
        let fast = stages(&options(true), None);
        assert_eq!(fast.first(), Some(&Stage::Fmt));
        assert_eq!(fast.last(), Some(&Stage::Rules));
        assert!(!fast.iter().any(|stage| stage.needs_cluster()));
    }

    #[test]
    fn a_cluster_of_the_users_own_is_only_tested() {
        let stages = stages(&options(false), Some("mine"));
        assert!(!stages.contains(&Stage::Up) && !stages.contains(&Stage::Deploy));
        assert!(stages.contains(&Stage::E2e));
    }

    #[test]
    fn a_failed_stage_never_ends_with_no_failure() {
        assert_eq!(close(&Counts::default(), 1), ExitCode::FAILURE);
        assert_eq!(close(&Counts::default(), 0), ExitCode::SUCCESS);
    }
}

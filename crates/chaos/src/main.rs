//! Chaos on a real cluster: edits and faults from a seed while clients read and write, and a check of everything that
//! they were told. `cargo xtask chaos` starts it; docs/chaos.md says how to read what it prints.
#![expect(
    clippy::print_stdout,
    reason = "a tool for a terminal: its result goes to stdout"
)]

mod agreement;
mod clients;
mod database;
mod dice;
mod faults;
mod fill;
mod health;
mod history;
mod linear;
mod login;
mod members;
mod nodes;
mod order;
mod report;
mod run;
mod schedule;
mod timeline;
mod traffic;
mod watchers;
mod watching;
mod wire;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;

use crate::nodes::Tool;
use crate::run::Plan;
use crate::schedule::{FaultKind, Lasting};

/// A round takes about so long, which says how many are worth printing beforehand.
const ROUND: Duration = Duration::from_secs(15);

#[derive(Parser)]
#[command(
    name = "chaos",
    about = "Faults and edits from a seed, while clients read and write"
)]
struct Arguments {
    /// What is done to the cluster follows from this number
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// How long
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=600))]
    minutes: u64,
    /// Release of etcd
    #[arg(long, default_value = "v3.6.16")]
    version: String,
    /// The program whose `cluster` command reaches the nodes; without it, only the Kubernetes API is used
    #[arg(long)]
    tool: Option<PathBuf>,
    /// Faults that last do so for up to a minute, instead of ten seconds
    #[arg(long)]
    long: bool,
    /// Faults that are left out, separated by commas
    #[arg(long, value_delimiter = ',')]
    without: Vec<FaultKind>,
    /// Without TLS and authentication
    #[arg(long)]
    plaintext: bool,
    /// Where the timeline goes
    #[arg(long)]
    report: PathBuf,
}

fn main() -> ExitCode {
    chaos().unwrap_or_else(|error| {
        e2e::tell(&format!("error: {error:#}"));
        ExitCode::FAILURE
    })
}

fn chaos() -> Result<ExitCode> {
    let arguments = Arguments::parse();
    let plan = Plan {
        seed: arguments.seed,
        time: Duration::from_secs(arguments.minutes * 60),
        version: arguments.version,
        tool: arguments.tool.map(Tool),
        lasting: if arguments.long {
            Lasting::Long
        } else {
            Lasting::Briefly
        },
        without: arguments.without,
        plaintext: arguments.plaintext,
    };
    let shown = plan.time.as_secs() / ROUND.as_secs();
    for (number, round) in (1..=shown).zip(plan.schedule()) {
        println!("{number:>4}. {round}");
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let record = runtime.block_on(run::run(&plan))?;
    let path = record.write(&arguments.report)?;
    println!("\n{}\ntimeline in {}", record.summary(), path.display());
    Ok(if record.anomalies.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

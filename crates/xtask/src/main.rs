//! Everything a developer runs: `cargo xtask …`. This file only hands a subcommand to its module.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool for a terminal: data goes to stdout, talk to stderr"
)]

mod bench;
mod chaos;
mod chart;
mod cluster;
mod demo;
mod deploy;
mod generate;
mod image;
mod live;
mod programs;
mod publish;
mod release;
mod rights;
mod test;
mod tidy;
mod tools;
mod values;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::cluster::{Layout, Target};
use crate::programs::Profile;

#[derive(Parser)]
#[command(name = "cargo xtask", about = "Everything a developer runs")]
struct Cli {
    /// Use this context of your own kubeconfig instead of the local cluster
    #[arg(long, global = true, env = "ETCD_OPERATOR_CONTEXT")]
    context: Option<String>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// A three-member cluster from nothing, shown live; leaves it running
    Demo,
    /// Every test there is
    Test(test::Options),
    /// Measure, and compare with what we aim at
    #[command(subcommand)]
    Bench(bench::Command),
    /// Edits and faults from a seed while clients read and write; everything they were told is checked
    Chaos(chaos::Options),
    /// Check the rules of the house that no compiler knows
    Tidy,
    /// A real Kubernetes on this machine, without Docker
    #[command(subcommand)]
    Cluster(cluster::Command),
    /// Build the operator's image, load it and install the chart
    Deploy {
        /// Compile quickly, as for tests, instead of as it is released
        #[arg(long)]
        quick: bool,
        /// Passed to Helm as they are, such as --set replicas=2
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        values: Vec<String>,
    },
    /// Build the operator's image without a cluster, and push it
    Image(publish::Options),
    /// Make all that a release consists of
    Release(release::Options),
    /// Take the operator off; clusters and CRD stay
    Undeploy,
    /// Write everything that is made from the code
    Generate {
        /// Write nothing, fail if something is stale
        #[arg(long)]
        check: bool,
    },
}

fn main() -> ExitCode {
    run().unwrap_or_else(|error| {
        eprintln!("error: {error}");
        for cause in error.chain().skip(1) {
            eprintln!("  because: {cause}");
        }
        ExitCode::FAILURE
    })
}

fn run() -> anyhow::Result<ExitCode> {
    let Cli { context, command } = Cli::parse();
    let layout = Layout::from_environment()?;
    let target = || Target::resolve(&layout, context.as_deref());
    match command {
        Command::Demo => demo::demo(&layout, context.as_deref())?,
        Command::Test(options) => return test::run(&layout, context.as_deref(), &options),
        Command::Bench(command) => bench::run(&layout, context.as_deref(), &command)?,
        Command::Chaos(options) => chaos::run(&layout, &target()?, &options)?,
        Command::Tidy => tidy::tidy()?,
        Command::Cluster(command) => cluster::run(command, context.as_deref())?,
        Command::Deploy { quick, values } => {
            let profile = if quick { Profile::Ci } else { Profile::Release };
            let built = deploy::deploy(&layout, &target()?, profile, &values)?;
            println!("{}", built.name());
        }
        Command::Image(options) => publish::image(&layout, &options)?,
        Command::Release(options) => release::release(&layout, &options)?,
        Command::Undeploy => deploy::undeploy(&target()?)?,
        Command::Generate { check } => generate::generate(&layout, check)?,
    }
    Ok(ExitCode::SUCCESS)
}

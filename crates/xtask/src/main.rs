//! Everything a developer runs: `cargo xtask …`. This file only hands a subcommand to its module.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a tool for a terminal: data goes to stdout, talk to stderr"
)]

mod cluster;
mod deploy;
mod generate;
mod image;
mod tools;

use clap::{Parser, Subcommand};

use crate::cluster::{Layout, Target};

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
    /// A real Kubernetes on this machine, without Docker
    #[command(subcommand)]
    Cluster(cluster::Command),
    /// Build the operator's image, load it and install the chart
    Deploy {
        /// Passed to Helm as they are, such as --set replicas=2
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        values: Vec<String>,
    },
    /// Take the operator off; clusters and CRD stay
    Undeploy,
    /// Write everything that is made from the code
    Generate {
        /// Write nothing, fail if something is stale
        #[arg(long)]
        check: bool,
    },
}

fn main() -> anyhow::Result<()> {
    let Cli { context, command } = Cli::parse();
    let layout = Layout::from_environment()?;
    let target = || Target::resolve(&layout, context.as_deref());
    match command {
        Command::Cluster(command) => cluster::run(command, context.as_deref()),
        Command::Deploy { values } => {
            let built = deploy::deploy(&layout, &target()?, &values)?;
            println!("{}", built.name());
            Ok(())
        }
        Command::Undeploy => deploy::undeploy(&target()?),
        Command::Generate { check } => generate::generate(&layout, check),
    }
}

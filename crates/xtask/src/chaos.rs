//! `cargo xtask chaos`: starts the program of crates/chaos on the cluster that is up, and lends it this one's hands for
//! processes and nodes.

use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::cluster::{Layout, Target};
use crate::deploy::root;
use crate::tools::as_from_a_shell;

/// What to do.
#[derive(Clone, clap::Args)]
pub(crate) struct Options {
    /// What is done to the cluster follows from this number
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// How long
    #[arg(long, default_value_t = 2)]
    pub(crate) minutes: u64,
    /// Release of etcd, if not the usual one
    #[arg(long)]
    pub(crate) version: Option<String>,
    /// Faults that last do so for up to a minute, instead of ten seconds
    #[arg(long)]
    pub(crate) long: bool,
    /// Faults that are left out, separated by commas, such as kill-node,freeze
    #[arg(long)]
    pub(crate) without: Option<String>,
    /// Without TLS and authentication
    #[arg(long)]
    pub(crate) plaintext: bool,
}

/// Runs until the time is over; an anomaly is an error.
pub(crate) fn run(layout: &Layout, target: &Target, options: &Options) -> Result<()> {
    let mut command = command(layout, target, options)?;
    let status = command.status().context("start cargo")?;
    ensure!(
        status.success(),
        "chaos with seed {} failed, as told above",
        options.seed
    );
    Ok(())
}

fn command(layout: &Layout, target: &Target, options: &Options) -> Result<Command> {
    let mut command = target.command(env!("CARGO"));
    as_from_a_shell(&mut command)
        // Not by package: with the features of the whole workspace nothing is compiled twice.
        .args(["run", "--quiet", "--locked", "--bin", "chaos", "--"])
        .args(["--seed", &options.seed.to_string()])
        .args(["--minutes", &options.minutes.to_string()])
        .arg("--report")
        .arg(layout.cache().join("chaos"))
        .current_dir(root());
    if let Some(version) = &options.version {
        command.args(["--version", version]);
    }
    if let Some(without) = &options.without {
        command.args(["--without", without]);
    }
    if options.long {
        command.arg("--long");
    }
    if options.plaintext {
        command.arg("--plaintext");
    }
    if target.is_local() {
        command.arg("--tool").arg(std::env::current_exe()?);
    }
    Ok(command)
}

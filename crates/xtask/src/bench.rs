//! `cargo xtask bench`: what creating, changing and healing a cluster costs, in one run together with the floors it is compared to,
//! and what the operator costs while nothing happens. Tables on stdout; nothing is kept but what is printed.

mod admission;
mod backup;
mod create;
mod floors;
mod footprint;
mod gate_cost;
mod heal;
mod idle;
mod life;
mod place;
mod security;
mod table;

use anyhow::{Result, ensure};

use crate::cluster::{CONTROL_PLANE_ETCD, ETCDS, Layout, Target};
use crate::deploy::NAMESPACE;
use crate::tools::output;

/// What can be measured.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Creating a cluster, the operator at rest, the gate
    Create(Options),
    /// Growing, shrinking, stopping, starting and restarting a cluster, while a client writes
    Life(LifeOptions),
    /// From a fault to three healthy voters, while a client writes
    Heal(HealOptions),
    /// What the webhook adds to writing a spec
    Admission(AdmissionOptions),
    /// What TLS and authentication cost, against the same without them
    Security(SecurityOptions),
    /// What a backup costs: time, memory, and writes meanwhile; without Kubernetes
    Backup(backup::Options),
    /// What clusters cost the operator while nothing happens, and while some of them are silent
    Idle(IdleOptions),
}

/// How `create` is measured.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Releases of etcd, separated by commas
    #[arg(long, value_delimiter = ',', default_values = ETCDS)]
    versions: Vec<String>,
    /// How often each is created
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
    rounds: u8,
    /// One-member clusters of which the operator's memory and idle time are measured
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u8).range(1..))]
    clusters: u8,
    /// Only these parts
    #[arg(long, value_delimiter = ',', default_values = ["gate", "operator", "create"])]
    only: Vec<Part>,
}

/// How `life` is measured.
#[derive(clap::Args)]
pub(crate) struct LifeOptions {
    /// Release of etcd
    #[arg(long, default_value = CONTROL_PLANE_ETCD)]
    version: String,
    /// How often everything is done
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u8).range(1..))]
    rounds: u8,
}

/// How `heal` is measured.
#[derive(clap::Args)]
pub(crate) struct HealOptions {
    /// Release of etcd
    #[arg(long, default_value = CONTROL_PLANE_ETCD)]
    version: String,
    /// How often each fault is inflicted
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..))]
    rounds: u8,
    /// Only these faults
    #[arg(long, value_delimiter = ',', default_values = ["volume", "node", "silent-node", "space", "quorum"])]
    only: Vec<heal::Fault>,
}

/// How `admission` is measured.
#[derive(clap::Args)]
pub(crate) struct AdmissionOptions {
    /// Specs that are written with the webhook, and as many without
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u16).range(1..))]
    specs: u16,
}

/// How `security` is measured.
#[derive(clap::Args)]
pub(crate) struct SecurityOptions {
    /// Release of etcd
    #[arg(long, default_value = CONTROL_PLANE_ETCD)]
    version: String,
    /// How often everything is done
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u8).range(1..))]
    rounds: u8,
    /// One-member clusters with which the operator's memory and processor are measured; 0 for none
    #[arg(long, default_value_t = 20)]
    clusters: u8,
}

/// How `idle` is measured.
#[derive(clap::Args)]
pub(crate) struct IdleOptions {
    /// One-member clusters, half of which fall silent in the end
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u8).range(2..))]
    clusters: u8,
    /// Clusters that the operator looks at at the same time
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..))]
    workers: u16,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    /// The gate's cost per start, on this machine and without Kubernetes
    Gate,
    /// The operator's memory, idle time and image; needs to see its process
    Operator,
    /// From apply to healthy voters, beside two floors
    Create,
}

/// Measures and prints.
pub(crate) fn run(layout: &Layout, context: Option<&str>, command: &Command) -> Result<()> {
    if let Command::Backup(options) = command {
        return backup::measure(layout, context, options);
    }
    let target = &Target::resolve(layout, context)?;
    ensure!(
        target.is_local(),
        "only the local cluster can be measured: its pods and processes are within reach\nhint: `cargo xtask cluster up`, without --context"
    );
    println!("{}", machine(target)?);
    match command {
        Command::Create(options) => measure_create(layout, target, options),
        Command::Life(options) => life::measure(target, &options.version, options.rounds),
        Command::Heal(options) => {
            heal::measure(target, &options.version, options.rounds, &options.only)
        }
        Command::Admission(options) => {
            let table = admission::measure(target, options.specs)?;
            table.print("Writing a spec (server-side dry run of a creation), milliseconds");
            Ok(())
        }
        Command::Security(options) => {
            let SecurityOptions {
                version,
                rounds,
                clusters,
            } = options;
            security::measure(target, version, *rounds, *clusters)
        }
        Command::Backup(options) => backup::measure(layout, context, options),
        Command::Idle(options) => {
            let table = idle::measure(target, options.clusters, options.workers)?;
            table.print("The operator while nothing happens");
            Ok(())
        }
    }
}

/// The operator comes before the creations, which leave their mark on its memory.
fn measure_create(layout: &Layout, target: &Target, options: &Options) -> Result<()> {
    let wants = |part| options.only.contains(&part);
    if wants(Part::Gate) {
        gate_cost::measure(layout)?.print("The gate");
    }
    if wants(Part::Operator) {
        footprint::measure(layout, target, options.clusters)?.print("The operator at rest");
    }
    if wants(Part::Create) {
        let table = create::measure(target, &options.versions, options.rounds)?;
        table.print("From apply to healthy voters, seconds (median, least)");
    }
    Ok(())
}

/// Its cores, and how busy it is.
fn this_machine() -> Result<String> {
    let load = std::fs::read_to_string("/proc/loadavg")?;
    let load = load.split(' ').next().unwrap_or_default();
    let cores = std::thread::available_parallelism()?;
    Ok(format!(
        "a machine with {cores} cores, load {load} at the start"
    ))
}

/// What the figures were measured on.
fn machine(target: &Target) -> Result<String> {
    let mut kubectl = target.command("kubectl");
    kubectl.args(["get", "deployments", "--namespace", NAMESPACE, "-o"]);
    let image = "jsonpath={.items[*].spec.template.spec.containers[*].image}";
    let operator = output(kubectl.arg(image))?;
    Ok(format!(
        "Measured on {}; operator {operator}.\n",
        this_machine()?
    ))
}

//! The command line. The only place that reads the environment.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};

/// Runs etcd clusters on Kubernetes.
#[derive(Debug, Parser)]
#[command(name = "etcd-operator", version)]
pub struct Args {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run the operator, inside a cluster or against a kubeconfig from outside.
    Run(Box<Options>),
    /// Print the CRD as YAML-compatible JSON.
    Crd,
}

/// How to run.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Image that holds the agent; the same as the operator's own.
    #[arg(long, env = "AGENT_IMAGE")]
    pub agent_image: String,
    /// Namespaces to watch, separated by commas; all when empty.
    #[arg(
        long,
        env = "WATCH_NAMESPACES",
        value_delimiter = ',',
        default_value = ""
    )]
    pub namespaces: Vec<String>,
    /// Clusters that are looked at at the same time. One that waits for a silent member for longer than a moment does not
    /// count.
    #[arg(long, env = "WORKERS", default_value_t = 64)]
    pub workers: u16,
    /// Backups that are made at the same time. Others wait for their turn.
    #[arg(long, env = "BACKUPS_AT_ONCE", default_value_t = 10)]
    pub backups_at_once: u16,
    /// How members are reached: `auto` is direct inside a cluster and port-forward outside.
    #[arg(long, env = "REACH", value_enum, default_value_t = Reach::Auto)]
    pub reach: Reach,
    /// Domain of the Kubernetes cluster, for the names in certificates. When absent it is taken from the search list in
    /// `/etc/resolv.conf`, where the kubelet writes it, and else is `cluster.local`.
    #[arg(long, env = "CLUSTER_DOMAIN")]
    pub cluster_domain: Option<String>,
    /// Context of the kubeconfig, when running outside.
    #[arg(long)]
    pub context: Option<String>,
    /// Kubeconfig, when running outside; `$KUBECONFIG` or the default file when absent.
    #[arg(long)]
    pub kubeconfig: Option<PathBuf>,
    /// Work only while holding a lease, so that several replicas can stand by.
    #[arg(long, env = "LEADER_ELECTION")]
    pub leader_election: bool,
    /// Namespace of the lease.
    #[arg(long, env = "LEASE_NAMESPACE", default_value = "default")]
    pub lease_namespace: String,
    /// Who holds the lease; the pod's name.
    #[arg(long, env = "POD_NAME", default_value = "etcd-operator")]
    pub identity: String,
    /// Where `/healthz` and `/readyz` are served.
    #[arg(long, env = "PROBE_ADDRESS", default_value = "[::]:8081")]
    pub probe_address: SocketAddr,
    /// Name of the Service in front of the webhook, in the namespace of the lease; the Secret with its certificate and both
    /// webhook configurations bear it as well. No webhook is served when it is absent or empty.
    #[arg(long, env = "WEBHOOK_SERVICE")]
    pub webhook_service: Option<String>,
    /// Where the webhook is served.
    #[arg(long, env = "WEBHOOK_ADDRESS", default_value = "[::]:9443")]
    pub webhook_address: SocketAddr,
    /// Log format.
    #[arg(long, env = "LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
    /// Log level, or a filter such as `info,operator=debug`.
    #[arg(long, env = "LOG_LEVEL", default_value = "info")]
    pub log_level: String,
}

/// How members are reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Reach {
    /// Direct inside a cluster, port-forward outside.
    Auto,
    /// At the pods' addresses.
    Direct,
    /// Through the API server.
    PortForward,
}

/// Log format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// For machines.
    Json,
}

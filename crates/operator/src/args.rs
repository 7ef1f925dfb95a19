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
    /// Try an installation: make a cluster of one member, write, read, and delete it.
    Check(Check),
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
    /// User of the pods of members and of Jobs, where a spec names none.
    #[arg(long, env = "POD_USER", value_enum, ignore_case = true, default_value_t = PodUser::Auto)]
    pub pod_user: PodUser,
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

/// What to try.
#[derive(Clone, Debug, clap::Args)]
pub struct Check {
    /// Namespace of the cluster; the operator must watch it.
    #[arg(long, env = "CHECK_NAMESPACE")]
    pub namespace: String,
    /// Name of the cluster.
    #[arg(long, env = "CHECK_NAME", default_value = "etcd-operator-trial")]
    pub name: String,
    /// Release of etcd; the default of the operator when empty.
    #[arg(long, env = "CHECK_ETCD_VERSION", default_value = "")]
    pub etcd_version: String,
    /// Repository of etcd's image; the default of the operator when empty.
    #[arg(long, env = "CHECK_REPOSITORY", default_value = "")]
    pub repository: String,
    /// StorageClass of its volume; the default class when empty.
    #[arg(long, env = "CHECK_STORAGE_CLASS", default_value = "")]
    pub storage_class: String,
    /// How long the cluster may take to serve.
    #[arg(long, env = "CHECK_TIMEOUT_SECONDS", default_value_t = 180)]
    pub timeout_seconds: u64,
}

/// Who says which user pods run as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum PodUser {
    /// `assigned` on OpenShift, and `fixed` elsewhere.
    Auto,
    /// The user that goes with the image.
    Fixed,
    /// The platform writes one into each pod.
    Assigned,
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

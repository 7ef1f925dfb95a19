//! `cargo xtask cluster`: a real Kubernetes on this machine without Docker. Upstream components are compiled from their Go
//! modules and nodes are network namespaces, each with its own containerd, kubelet and kube-proxy. It changes nothing but
//! its own cache directory and what bears its names, and `down` removes all but the compiled programs.

mod addons;
mod build;
mod cgroups;
mod clean;
mod control_plane;
mod cut;
mod disk;
mod health;
mod images;
mod network;
mod node;
mod packages;
mod pki;
mod process;
mod state;
mod target;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::thread::{ScopedJoinHandle, scope};
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};

pub(crate) use self::build::{
    CONTROL_PLANE_ETCD, ETCDS, Extent, KUBERNETES, PROMETHEUS, VERSITYGW, has_kubernetes,
};
pub(crate) use self::disk::warn_if_short;
use self::images::Archive;
use self::network::Node;
pub(crate) use self::state::Layout;
use self::state::{Provider, Settings, boot, remove_file};
pub(crate) use self::target::Target;

/// What can be done with the cluster.
#[derive(clap::Subcommand)]
pub(crate) enum Command {
    /// Start the cluster, or repair it; compiles it first if needed (about 15 minutes, once)
    Up {
        #[arg(long, default_value_t = USUAL_NODES, value_parser = clap::value_parser!(u8).range(1..=9))]
        nodes: u8,
        /// Version of Kubernetes
        #[arg(long, default_value = build::KUBERNETES)]
        kubernetes: String,
        /// Use kind and Docker instead
        #[arg(long)]
        kind: bool,
    },
    /// End the cluster and remove every trace of it; compiled programs stay
    Down,
    /// Tell what runs
    Status,
    /// Print what a shell needs: eval "$(cargo xtask cluster env)"
    Env,
    /// End a node as a power cut would
    KillNode { node: u8 },
    /// Start a killed node again
    StartNode { node: u8 },
    /// Cut a node off for a while, as a broken switch would; the kernel ends it in any case
    CutNode {
        node: u8,
        #[arg(long, default_value_t = 5000)]
        milliseconds: u32,
        /// Only its pods from those of other nodes: kubelet and clients on this machine still come through
        #[arg(long)]
        pods_only: bool,
    },
    /// End a cut before its time
    JoinNode { node: u8 },
    /// Kill one of the cluster's processes and start it again: apiserver, kubelet-n1 and so on
    Restart { process: String },
    /// Import an image archive on every node
    Load { archive: PathBuf },
    /// Compile only
    Build {
        /// Version of Kubernetes
        #[arg(long, default_value = build::KUBERNETES)]
        kubernetes: String,
    },
}

const USUAL_NODES: u8 = 3;

/// Where helm lies once it is built.
pub(crate) fn helm(layout: &Layout) -> PathBuf {
    layout.bin("helm", build::HELM)
}

/// Runs one of the commands.
pub(crate) fn run(command: Command, context: Option<&str>) -> Result<()> {
    let layout = Layout::from_environment()?;
    match command {
        Command::Up {
            nodes,
            kubernetes,
            kind: false,
        } => up(&layout, nodes, kubernetes, Extent::Everything)?,
        Command::Up {
            nodes, kind: true, ..
        } => {
            let _lock = layout.lock()?;
            ensure!(
                layout.settings()?.is_none(),
                "a cluster is up\nhint: `cargo xtask cluster down`"
            );
            target::kind_up(&layout, nodes)?;
        }
        Command::Down => return down(&layout),
        Command::Status => return health::print_status(&layout),
        Command::Env => {}
        Command::KillNode { node } => return kill_node(&layout, node),
        Command::StartNode { node } => return start_node(&layout, node),
        Command::CutNode {
            node,
            milliseconds,
            pods_only,
        } => return cut::cut(local_node(&layout, node)?.0, milliseconds, pods_only),
        Command::JoinNode { node } => return cut::join(local_node(&layout, node)?.0),
        Command::Restart { process } => return restart(&layout, &process),
        Command::Load { archive } => {
            return Target::resolve(&layout, context)?.load_image(&archive);
        }
        Command::Build { kubernetes } => {
            let _lock = layout.lock()?;
            return build(&layout, &kubernetes, Extent::Everything).map(drop);
        }
    }
    print_env(&Target::resolve(&layout, context)?)
}

fn up(layout: &Layout, nodes: u8, kubernetes: String, extent: Extent) -> Result<()> {
    packages::ensure_root()?;
    let _lock = layout.lock()?;
    let started = Instant::now();
    let wanted = Settings {
        provider: Provider::Local,
        nodes,
        kubernetes,
        boot: boot()?,
    };
    match layout.settings()? {
        Some(present) if present.boot != wanted.boot => clean::clean(layout)?,
        Some(present) if present != wanted => bail!(
            "a cluster of {} nodes with Kubernetes {} is up\nhint: `cargo xtask cluster down` first",
            present.nodes,
            present.kubernetes
        ),
        Some(_) if health::is_healthy(layout, &wanted) => {
            return add_images(layout, &wanted, extent);
        }
        Some(_) => eprintln!("the cluster is not whole; starting what is missing"),
        None => {}
    }
    disk::refuse_full(layout.cache())?;
    let images = build(layout, &wanted.kubernetes, extent)?;
    network::refuse_conflict()?;
    layout.keep_settings(&wanted)?;
    start(layout, &wanted, &images)?;
    eprintln!("up in {:.1} s", started.elapsed().as_secs_f32());
    Ok(())
}

/// A cluster that an earlier checkout started may lack an image that a test of this one needs.
fn add_images(layout: &Layout, settings: &Settings, extent: Extent) -> Result<()> {
    let images = build(layout, &settings.kubernetes, extent)?;
    Node::first(settings.nodes).try_for_each(|node| node::ensure_images(layout, node, &images))
}

/// Whether nothing of a cluster runs here, whatever an interrupted run left behind.
pub(crate) fn is_down(layout: &Layout) -> Result<bool> {
    Ok(match layout.settings()? {
        None => true,
        Some(present) if present.provider == Provider::Kind => false,
        Some(_) => process::recorded(layout)?
            .iter()
            .all(|name| process::running(layout, name).is_none()),
    })
}

/// The cluster that is up and whole; else a new one. What an interrupted run left behind would be blamed on the tests.
pub(crate) fn ensure_fresh(layout: &Layout) -> Result<()> {
    if let Some(present) = layout.settings()?
        && present.provider == Provider::Local
        && !health::is_healthy(layout, &present)
    {
        eprintln!("the cluster is not whole; beginning with a new one");
        down(layout)?;
    }
    ensure_up(layout, Extent::Everything)
}

/// The cluster that is up, made whole; else a new one of the usual size.
pub(crate) fn ensure_up(layout: &Layout, extent: Extent) -> Result<()> {
    match layout.settings()? {
        Some(Settings {
            provider: Provider::Kind,
            ..
        }) => Ok(()),
        Some(present) => up(layout, present.nodes, present.kubernetes, extent),
        None => up(layout, USUAL_NODES, KUBERNETES.to_owned(), extent),
    }
}

fn build(layout: &Layout, kubernetes: &str, extent: Extent) -> Result<Vec<Archive>> {
    packages::ensure_installed(&layout.cache().join("packages.log"))?;
    packages::ensure_go()?;
    build::ensure(layout, kubernetes, extent)?;
    images::ensure(layout)
}

/// Every step makes only what is missing, so this starts a cluster and repairs one.
fn start(layout: &Layout, settings: &Settings, images: &[Archive]) -> Result<()> {
    link_tools(layout, settings)?;
    pki::ensure(layout, settings.nodes)?;
    network::ensure(settings.nodes)?;
    scope(|scope| {
        // The images are imported while the API server starts.
        let nodes: Vec<ScopedJoinHandle<'_, Result<()>>> = Node::first(settings.nodes)
            .map(|node| scope.spawn(move || node::ensure_containerd(layout, node, images)))
            .collect();
        control_plane::ensure(layout, settings)?;
        addons::apply(layout, settings)?;
        for (handle, node) in nodes.into_iter().zip(Node::first(settings.nodes)) {
            handle
                .join()
                .unwrap_or_else(|_| bail!("starting {} panicked", node.name()))?;
            node::ensure_kubelet(layout, settings, node)?;
        }
        Ok::<_, anyhow::Error>(())
    })?;
    health::wait_for_nodes(layout, settings)?;
    Node::first(settings.nodes).try_for_each(|node| node::open(layout, settings, node))?;
    health::wait(layout, settings)
}

fn down(layout: &Layout) -> Result<()> {
    let _lock = layout.lock()?;
    // Settings that cannot be read must not keep `down` from cleaning up.
    if let Ok(Some(Settings {
        provider: Provider::Kind,
        ..
    })) = layout.settings()
    {
        target::kind_down(layout)?;
        return fs::remove_dir_all(layout.cluster())
            .context("remove the state of the kind cluster");
    }
    packages::ensure_root()?;
    clean::clean(layout)
}

fn kill_node(layout: &Layout, number: u8) -> Result<()> {
    let _lock = layout.lock()?;
    let (node, _) = local_node(layout, number)?;
    node::kill(layout, node)
}

fn start_node(layout: &Layout, number: u8) -> Result<()> {
    let _lock = layout.lock()?;
    let (node, settings) = local_node(layout, number)?;
    node::ensure_containerd(layout, node, &images::ensure(layout)?)?;
    node::ensure_kubelet(layout, &settings, node)
}

/// What `up` does for a process that has died.
fn restart(layout: &Layout, name: &str) -> Result<()> {
    let _lock = layout.lock()?;
    let settings = layout.settings()?.context("no cluster is up")?;
    if control_plane::PROCESSES.contains(&name) {
        process::stop(layout, name)?;
        return control_plane::ensure(layout, &settings);
    }
    let node = name.strip_prefix("kubelet-n").and_then(|n| n.parse().ok());
    let node = node.with_context(|| {
        let known = control_plane::PROCESSES.join(", ");
        format!("no process {name}\nhint: {known}, kubelet-n1 and so on")
    })?;
    let (node, settings) = local_node(layout, node)?;
    process::stop(layout, name)?;
    node::ensure_kubelet(layout, &settings, node)
}

fn local_node(layout: &Layout, number: u8) -> Result<(Node, Settings)> {
    let settings = layout.settings()?.context("no cluster is up")?;
    ensure!(
        settings.provider == Provider::Local,
        "only the local cluster's nodes can be killed"
    );
    let node = Node::new(number)?;
    ensure!(
        number <= settings.nodes,
        "the cluster has {} nodes",
        settings.nodes
    );
    Ok((node, settings))
}

/// The cluster's own tools under their plain names.
fn link_tools(layout: &Layout, settings: &Settings) -> Result<()> {
    for (tool, version) in [
        ("kubectl", settings.kubernetes.as_str()),
        ("helm", build::HELM),
        ("etcdctl", CONTROL_PLANE_ETCD),
        ("etcdutl", CONTROL_PLANE_ETCD),
    ] {
        let link = layout.path().join(tool);
        remove_file(&link)?;
        symlink(layout.bin(tool, version), &link).with_context(|| format!("link {tool}"))?;
    }
    Ok(())
}

fn print_env(target: &Target) -> Result<()> {
    let mut variables = vec![
        ("KUBECONFIG", target.kubeconfig.as_os_str()),
        ("PATH", &target.path),
    ];
    variables.extend(
        target
            .kubectl_cache
            .iter()
            .map(|cache| ("KUBECACHEDIR", cache.as_os_str())),
    );
    let mut line = "export".to_owned();
    for (name, value) in variables {
        let value = value
            .to_str()
            .with_context(|| format!("{name} is not UTF-8"))?;
        line = format!("{line} {name}='{}'", value.replace('\'', r"'\''"));
    }
    println!("{line}");
    Ok(())
}

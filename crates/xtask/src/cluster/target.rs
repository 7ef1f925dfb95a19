//! The cluster that a command works on: the local one, kind, or a context of the user's own kubeconfig.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use super::network::Node;
use super::state::{Layout, Provider, Settings, boot, write};
use super::{build, node};
use crate::tools::{output, run};

const KIND_CLUSTER: &str = "etcd-operator";

/// How to reach a cluster.
pub(crate) struct Target {
    /// Names this one cluster only, as its current context.
    pub(crate) kubeconfig: PathBuf,
    /// PATH with the kubectl, helm and etcdctl that fit.
    pub(crate) path: OsString,
    /// Where kubectl keeps what it learnt, if not at its usual place.
    pub(crate) kubectl_cache: Option<PathBuf>,
    access: Access,
}

/// How an image gets onto the nodes.
enum Access {
    Local(Layout, Settings),
    Kind,
    Foreign(String),
}

impl Target {
    /// The user's context if one is named, else the cluster that is up.
    pub(crate) fn resolve(layout: &Layout, context: Option<&str>) -> Result<Self> {
        if let Some(context) = context {
            return Self::foreign(layout, context);
        }
        let settings = layout.settings()?.context(
            "no cluster is up\nhint: `cargo xtask cluster up`, or name one of your own with --context",
        )?;
        let access = match settings.provider {
            Provider::Local => Access::Local(layout.clone(), settings),
            Provider::Kind => Access::Kind,
        };
        Ok(Self {
            kubeconfig: layout.kubeconfig(),
            path: search_path(layout)?,
            kubectl_cache: Some(layout.kubectl_cache()),
            access,
        })
    }

    /// A command that finds this cluster and its tools.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env("KUBECONFIG", &self.kubeconfig)
            .env("PATH", &self.path);
        if let Some(cache) = &self.kubectl_cache {
            command.env("KUBECACHEDIR", cache);
        }
        command
    }

    /// Whether this machine has routes to the pods, and sees their processes.
    pub(crate) fn is_local(&self) -> bool {
        matches!(self.access, Access::Local(..))
    }

    /// Whether the cluster is the user's own.
    pub(crate) fn is_foreign(&self) -> bool {
        matches!(self.access, Access::Foreign(_))
    }

    /// Makes an image known to every node.
    pub(crate) fn load_image(&self, archive: &Path) -> Result<()> {
        match &self.access {
            Access::Local(layout, settings) => load_on_all(layout, settings.nodes, archive),
            Access::Kind => run(self
                .command("kind")
                .args(["load", "image-archive", "--name", KIND_CLUSTER])
                .arg(archive)),
            Access::Foreign(context) => bail!(
                "{} cannot be loaded into {context}, which is not ours\nhint: push the image to a registry it pulls from",
                archive.display()
            ),
        }
    }

    /// The context alone, in a file of its own: kubectl, helm and our own programs then need no option to agree on it.
    fn foreign(layout: &Layout, context: &str) -> Result<Self> {
        let mut command = Command::new("kubectl");
        command.args([
            "config",
            "view",
            "--raw",
            "--flatten",
            "--minify",
            "--context",
            context,
        ]);
        let config = output(&mut command)?;
        let kubeconfig = layout.cache().join("context.kubeconfig");
        write(&kubeconfig, config)?;
        fs::set_permissions(&kubeconfig, Permissions::from_mode(0o600))?;
        Ok(Self {
            kubeconfig,
            path: std::env::var_os("PATH").unwrap_or_default(),
            kubectl_cache: None,
            access: Access::Foreign(context.to_owned()),
        })
    }
}

/// Makes a kind cluster, for those who have kind and Docker.
pub(crate) fn kind_up(layout: &Layout, nodes: u8) -> Result<()> {
    let settings = Settings {
        provider: Provider::Kind,
        nodes,
        kubernetes: build::KUBERNETES.to_owned(),
        boot: boot()?,
    };
    layout.keep_settings(&settings)?;
    let workers = "- role: worker\n".repeat(usize::from(nodes.saturating_sub(1)));
    let config = layout.cluster().join("kind.yaml");
    write(
        &config,
        format!(
            "kind: Cluster\napiVersion: kind.x-k8s.io/v1alpha4\nnodes:\n- role: control-plane\n{workers}"
        ),
    )?;
    let mut command = Command::new("kind");
    command.args([
        "create",
        "cluster",
        "--name",
        KIND_CLUSTER,
        "--wait",
        "120s",
        "--config",
    ]);
    run(command
        .arg(config)
        .arg("--kubeconfig")
        .arg(layout.kubeconfig()))
}

pub(crate) fn kind_down(layout: &Layout) -> Result<()> {
    let mut command = Command::new("kind");
    command.args(["delete", "cluster", "--name", KIND_CLUSTER, "--kubeconfig"]);
    run(command.arg(layout.kubeconfig()))
}

/// All nodes at once: most of an import is waiting for the disk.
fn load_on_all(layout: &Layout, nodes: u8, archive: &Path) -> Result<()> {
    std::thread::scope(|scope| {
        let loads: Vec<_> = Node::first(nodes)
            .map(|node| scope.spawn(move || node::load(layout, node, archive)))
            .collect();
        loads
            .into_iter()
            .try_for_each(|load| load.join().unwrap_or_else(|_| bail!("a load panicked")))
    })
}

fn search_path(layout: &Layout) -> Result<OsString> {
    let former = std::env::var_os("PATH").unwrap_or_default();
    let own = layout.path();
    let others = std::env::split_paths(&former).filter(|path| *path != own);
    Ok(std::env::join_paths(
        std::iter::once(own.clone()).chain(others),
    )?)
}

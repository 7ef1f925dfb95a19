//! Where the cluster's things lie and what is remembered of it between two commands. Nothing here starts or stops anything.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

/// Every path of the cluster: binaries and images are kept, what is below `cluster/` goes with `down`.
#[derive(Clone)]
pub(crate) struct Layout {
    cache: PathBuf,
}

/// What `up` was asked for; kept while the cluster is up.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) provider: Provider,
    pub(crate) nodes: u8,
    pub(crate) kubernetes: String,
    /// After a reboot nothing of the cluster runs, whatever its files say.
    pub(crate) boot: String,
}

/// Who runs the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Provider {
    Local,
    Kind,
}

impl Layout {
    pub(crate) fn from_environment() -> Result<Self> {
        let set = |name| std::env::var_os(name).filter(|value| !value.is_empty());
        let cache = set("ETCD_OPERATOR_CACHE").map(PathBuf::from).or_else(|| {
            let base = set("XDG_CACHE_HOME").map(PathBuf::from);
            let base = base.or_else(|| set("HOME").map(|home| PathBuf::from(home).join(".cache")));
            base.map(|base| base.join("etcd-operator"))
        });
        let cache = cache.context("set ETCD_OPERATOR_CACHE, XDG_CACHE_HOME or HOME")?;
        ensure!(
            cache.is_absolute(),
            "the cache must be an absolute path, not {}",
            cache.display()
        );
        fs::create_dir_all(&cache).with_context(|| format!("create {}", cache.display()))?;
        // A link in the path would hide our mounts: the kernel lists them by their real path.
        let cache = cache.canonicalize()?;
        Ok(Self { cache })
    }

    pub(crate) fn cache(&self) -> &Path {
        &self.cache
    }

    /// A built program, as `bin/<tool>-<version>`.
    pub(crate) fn bin(&self, tool: &str, version: &str) -> PathBuf {
        self.cache.join("bin").join(format!("{tool}-{version}"))
    }

    pub(crate) fn image(&self, name: &str) -> PathBuf {
        self.cache.join("images").join(format!("{name}.tar"))
    }

    /// Everything that `down` removes.
    pub(crate) fn cluster(&self) -> PathBuf {
        self.cache.join("cluster")
    }

    pub(crate) fn kubeconfig(&self) -> PathBuf {
        self.cluster().join("kubeconfig")
    }

    /// kubectl, helm and etcdctl under their plain names, for a shell's PATH.
    pub(crate) fn path(&self) -> PathBuf {
        self.cluster().join("path")
    }

    /// What kubectl learnt of the API; it must not outlive the cluster, for the next has the same address.
    pub(crate) fn kubectl_cache(&self) -> PathBuf {
        self.cluster().join("kubectl-cache")
    }

    pub(crate) fn pki(&self) -> PathBuf {
        self.cluster().join("pki")
    }

    pub(crate) fn log(&self, process: &str) -> PathBuf {
        self.cluster().join("log").join(format!("{process}.log"))
    }

    /// Which requests the API server writes down.
    pub(crate) fn audit_policy(&self) -> PathBuf {
        self.cluster().join("audit.yaml")
    }

    /// Where it does; the stories look for it beside the kubeconfig.
    pub(crate) fn audit_log(&self) -> PathBuf {
        self.log("audit")
    }

    pub(crate) fn record(&self, process: &str) -> PathBuf {
        self.cluster().join("run").join(process)
    }

    pub(crate) fn node(&self, name: &str) -> PathBuf {
        self.cluster().join("nodes").join(name)
    }

    pub(crate) fn volumes(&self) -> PathBuf {
        self.cluster().join("volumes")
    }

    /// Keeps two commands from changing the cluster at once. The lock ends with the returned file, or the process.
    pub(crate) fn lock(&self) -> Result<File> {
        let path = self.cache.join("lock");
        let file = File::create(&path).with_context(|| format!("create {}", path.display()))?;
        match file.try_lock() {
            Ok(()) => Ok(file),
            Err(TryLockError::WouldBlock) => {
                bail!("another `cargo xtask cluster` command is at work; wait for it to end")
            }
            Err(TryLockError::Error(error)) => Err(error).context("lock the cluster"),
        }
    }

    /// What the cluster was started with, if there is one.
    pub(crate) fn settings(&self) -> Result<Option<Settings>> {
        let path = self.cluster().join("settings.json");
        match fs::read(&path) {
            Ok(text) => Ok(Some(serde_json::from_slice(&text).with_context(|| {
                format!(
                    "read {}; hint: `cargo xtask cluster down` starts afresh",
                    path.display()
                )
            })?)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).with_context(|| format!("read {}", path.display())),
        }
    }

    pub(crate) fn keep_settings(&self, settings: &Settings) -> Result<()> {
        for directory in ["log", "run", "nodes", "volumes", "path", "pki"] {
            fs::create_dir_all(self.cluster().join(directory))?;
        }
        let text = serde_json::to_vec_pretty(settings)?;
        write(&self.cluster().join("settings.json"), &text)
    }
}

/// Writes a file so that no reader ever sees half of it.
pub(crate) fn write(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    let half = path.with_extension("half");
    fs::write(&half, content).with_context(|| format!("write {}", half.display()))?;
    fs::rename(&half, path).with_context(|| format!("write {}", path.display()))
}

/// Removes a file that may be gone already.
pub(crate) fn remove_file(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", path.display()))
        }
        _ => Ok(()),
    }
}

/// The entries of a directory, none if it does not exist.
pub(crate) fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    match fs::read_dir(directory) {
        Ok(entries) => entries
            .map(|entry| Ok(entry?.path()))
            .collect::<std::io::Result<Vec<_>>>()
            .with_context(|| format!("list {}", directory.display())),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error).with_context(|| format!("list {}", directory.display())),
    }
}

/// The kernel's name for this run of the machine.
pub(crate) fn boot() -> Result<String> {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id").context("read the boot id")?;
    Ok(boot.trim().to_owned())
}

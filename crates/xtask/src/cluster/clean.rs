//! Removing every trace of the cluster and nothing else: what is below our directory, what bears our names, and the few
//! things that daemons leave elsewhere and which point back to us.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use rustix::io::Errno;
use rustix::mount::{UnmountFlags, unmount};

use super::cgroups;
use super::network::{self, MAX_NODES, Node};
use super::node::{self, POD_NETWORK};
use super::process::{at_work_below, end_all, recorded, stop};
use super::state::{Layout, entries, remove_file};

/// Safe on a whole cluster, on half of one and on none. A step that fails is told at the end and holds up no other, but
/// for the last: what it deletes says what is left to be cleaned.
pub(crate) fn clean(layout: &Layout) -> Result<()> {
    let mut steps = Vec::new();
    for node in Node::first(MAX_NODES) {
        steps.push(node::kill(layout, node));
    }
    for name in recorded(layout)? {
        steps.push(stop(layout, &name));
    }
    steps.push(at_work_below(&layout.cluster()).and_then(|processes| end_all(&processes)));
    steps.push(network::remove());
    steps.push(unmount_below(&layout.cluster()));
    for node in Node::first(MAX_NODES) {
        steps.push(cgroups::remove(node));
    }
    steps.push(remove_log_links(layout));
    steps.push(remove_network_results());
    steps.push(remove_empty_directories());
    let failed: Vec<String> = steps
        .into_iter()
        .filter_map(|step| Some(format!("{:#}", step.err()?)))
        .collect();
    ensure!(failed.is_empty(), "{}", failed.join("\n"));
    remove_directory(&layout.cluster())
}

/// The kubelet links each container's log into the machine's log directory.
fn remove_log_links(layout: &Layout) -> Result<()> {
    for link in entries(Path::new("/var/log/containers"))? {
        if fs::read_link(&link).is_ok_and(|target| target.starts_with(layout.cluster())) {
            remove_file(&link)?;
        }
    }
    Ok(())
}

/// The CNI library remembers what each pod got: in our network, whose name tells, and on its loopback.
fn remove_network_results() -> Result<()> {
    let directory = Path::new("/var/lib/cni/results");
    for result in entries(directory)? {
        let name = result
            .file_name()
            .and_then(|name| name.to_str())
            .unwrap_or_default();
        let Some(rest) = name.strip_prefix(POD_NETWORK) else {
            continue;
        };
        if let Some(container) = rest
            .strip_prefix('-')
            .and_then(|rest| rest.split('-').next())
        {
            remove_file(&directory.join(format!("cni-loopback-{container}-lo")))?;
        }
        remove_file(&result)?;
    }
    Ok(())
}

/// Directories that daemons of ours make at places they do not let us choose, if no other program uses them.
fn remove_empty_directories() -> Result<()> {
    let kubelet = Path::new("/var/lib/kubelet");
    let plugins = kubelet.join("device-plugins");
    let socket = plugins.join("kubelet.sock");
    if entries(kubelet)? == [plugins.clone()] && entries(&plugins)? == [socket.clone()] {
        remove_file(&socket)?;
    }
    for directory in [
        plugins.as_path(),
        kubelet,
        Path::new("/run/containerd/s"),
        Path::new("/run/containerd"),
        Path::new("/var/lib/cni/results"),
        Path::new("/var/lib/cni"),
        Path::new("/var/log/containers"),
    ] {
        if directory.is_dir() && entries(directory)?.is_empty() {
            fs::remove_dir(directory).with_context(|| format!("remove {}", directory.display()))?;
        }
    }
    Ok(())
}

fn unmount_below(directory: &Path) -> Result<()> {
    // The latest first: it may lie in an earlier one.
    for mount in mounts_below(directory)?.iter().rev() {
        match unmount(mount, UnmountFlags::DETACH) {
            // It went with one that it lay in, or with its namespace.
            Ok(()) | Err(Errno::INVAL | Errno::NOENT) => {}
            Err(error) => {
                return Err(error).with_context(|| format!("unmount {}", mount.display()));
            }
        }
    }
    Ok(())
}

fn mounts_below(directory: &Path) -> Result<Vec<PathBuf>> {
    let mounts = fs::read_to_string("/proc/self/mounts").context("list the mounts")?;
    let targets = mounts
        .lines()
        .filter_map(|line| line.split(' ').nth(1))
        .map(unescape);
    Ok(targets
        .map(PathBuf::from)
        .filter(|target| target.starts_with(directory))
        .collect())
}

/// The kernel writes space, tab, line feed and backslash in a path as octal numbers.
fn unescape(path: &str) -> String {
    [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ]
    .iter()
    .fold(path.to_owned(), |path, (code, plain)| {
        path.replace(code, plain)
    })
}

/// Invariant: nothing is deleted through a mount; a volume mounted in here may be anything.
fn remove_directory(directory: &Path) -> Result<()> {
    let mounts = mounts_below(directory)?;
    ensure!(
        mounts.is_empty(),
        "still mounted, so nothing is deleted: {mounts:?}"
    );
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("remove {}", directory.display()))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_point_is_read_as_the_kernel_means_it() {
        assert_eq!(unescape("/a\\040b\\134c"), "/a b\\c");
    }

    #[test]
    fn mounts_are_found_by_whole_path_components() {
        assert!(!mounts_below(Path::new("/proc")).unwrap().is_empty());
        assert!(mounts_below(Path::new("/pro")).unwrap().is_empty());
    }
}

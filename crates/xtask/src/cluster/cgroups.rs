//! The control groups of a node: made before its kubelet starts, listed to find its containers, removed at the end. Both
//! versions of control groups are served.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, Result};

use super::network::Node;
use super::process::{Identity, end_all};
use super::state::entries;
use crate::tools::wait_until;

const ROOT: &str = "/sys/fs/cgroup";

/// Makes the node's root in every hierarchy.
pub(crate) fn ensure(node: Node) -> Result<()> {
    for hierarchy in hierarchies()? {
        let group = hierarchy.join(node.namespace());
        fs::create_dir_all(&group).with_context(|| format!("create {}", group.display()))?;
        // A new group of the first version's cpuset takes no process until it is told its share.
        for file in ["cpuset.cpus", "cpuset.mems"] {
            let (all, own) = (hierarchy.join(file), group.join(file));
            if hierarchy.ends_with("cpuset") && all.exists() {
                fs::copy(&all, &own).with_context(|| format!("write {}", own.display()))?;
            }
        }
    }
    if is_unified() {
        let control = Path::new(ROOT).join("cgroup.subtree_control");
        let wanted = "+cpu +cpuset +memory +pids +io";
        fs::write(&control, wanted).with_context(|| format!("write {}", control.display()))?;
    }
    Ok(())
}

/// Ends every process in the node's containers, and those they start meanwhile.
pub(crate) fn end_processes(node: Node) -> Result<()> {
    let what = format!("ending the containers of {}", node.name());
    wait_until(&what, Duration::from_secs(10), || {
        let processes = processes(node)?;
        end_all(&processes)?;
        Ok(processes.is_empty())
    })
}

/// Removes the node's groups; they must be empty.
pub(crate) fn remove(node: Node) -> Result<()> {
    for hierarchy in hierarchies()? {
        let mut groups = below(&hierarchy.join(node.namespace()))?;
        groups.reverse();
        for group in groups {
            // A process that has just died can hold its group for a moment.
            wait_until(
                &format!("remove {}", group.display()),
                Duration::from_secs(5),
                || match fs::remove_dir(&group) {
                    Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
                    _removed_or_gone => Ok(true),
                },
            )?;
        }
    }
    Ok(())
}

fn processes(node: Node) -> Result<Vec<Identity>> {
    let mut found = Vec::new();
    for hierarchy in hierarchies()? {
        for group in below(&hierarchy.join(node.namespace()))? {
            // A group may go between being listed and being read.
            let listed = fs::read_to_string(group.join("cgroup.procs")).unwrap_or_default();
            let pids = listed.lines().filter_map(|line| line.parse().ok());
            found.extend(pids.filter_map(Identity::of));
        }
    }
    Ok(found)
}

/// A group and all below it, parents first.
fn below(group: &Path) -> Result<Vec<PathBuf>> {
    let mut groups = Vec::new();
    let mut open = if group.is_dir() {
        vec![group.to_owned()]
    } else {
        Vec::new()
    };
    while let Some(group) = open.pop() {
        open.extend(entries(&group)?.into_iter().filter(|path| path.is_dir()));
        groups.push(group);
    }
    Ok(groups)
}

fn hierarchies() -> Result<Vec<PathBuf>> {
    if is_unified() {
        return Ok(vec![PathBuf::from(ROOT)]);
    }
    let all = entries(Path::new(ROOT))?;
    // Links such as `cpu` to `cpu,cpuacct` lead to a hierarchy that is listed anyway.
    Ok(all
        .into_iter()
        .filter(|path| path.join("cgroup.procs").is_file() && !path.is_symlink())
        .collect())
}

fn is_unified() -> bool {
    Path::new(ROOT).join("cgroup.controllers").exists()
}

//! Whether the cluster is whole, asked of its processes and of the API server. Nothing here changes anything.

use std::time::Duration;

use anyhow::Result;

use super::network::Node;
use super::process::wait_while_alive;
use super::state::{Layout, Settings};
use super::{addons, control_plane, process};
use crate::tools::output;

/// Returns once all nodes are ready.
pub(crate) fn wait_for_nodes(layout: &Layout, settings: &Settings) -> Result<()> {
    let awaited = ("all nodes become ready", Duration::from_secs(90));
    wait_while_alive(layout, &process::recorded(layout)?, awaited, || {
        Ok(ready_nodes(layout, settings)?.len() == usize::from(settings.nodes))
    })
}

/// Returns once names are served, and says which process has ended if one has.
pub(crate) fn wait(layout: &Layout, settings: &Settings) -> Result<()> {
    let awaited = ("names are served", Duration::from_mins(2));
    wait_while_alive(layout, &process::recorded(layout)?, awaited, || {
        Ok(addons::are_available(layout, settings))
    })
}

/// Whether nothing is missing now.
pub(crate) fn is_healthy(layout: &Layout, settings: &Settings) -> bool {
    let recorded = process::recorded(layout).unwrap_or_default();
    let all = control_plane::PROCESSES.len() + 3 * usize::from(settings.nodes);
    recorded.len() == all
        && recorded
            .iter()
            .all(|name| process::running(layout, name).is_some())
        && control_plane::is_ready(layout, settings)
        && ready_nodes(layout, settings)
            .is_ok_and(|nodes| nodes.len() == usize::from(settings.nodes))
        && taints(layout, settings).is_ok_and(|taints| taints.is_empty())
        && addons::are_available(layout, settings)
}

/// Says on stdout what runs.
pub(crate) fn print_status(layout: &Layout) -> Result<()> {
    let Some(settings) = layout.settings()? else {
        println!("no cluster is up");
        return Ok(());
    };
    println!(
        "Kubernetes {}, {} nodes",
        settings.kubernetes, settings.nodes
    );
    let ready = ready_nodes(layout, &settings).unwrap_or_default();
    for node in Node::first(settings.nodes) {
        let state = if ready.contains(&node.name()) {
            "ready"
        } else {
            "not ready"
        };
        println!("  node {}  {state}", node.name());
    }
    for name in process::recorded(layout)? {
        match process::running(layout, &name) {
            Some(process) => println!("  {name}  runs as {}", process.pid()),
            None => println!("  {name}  has ended; see {}", layout.log(&name).display()),
        }
    }
    Ok(())
}

fn ready_nodes(layout: &Layout, settings: &Settings) -> Result<Vec<String>> {
    let ready =
        r#"{range .items[?(@.status.conditions[-1].status=="True")]}{.metadata.name}{"\n"}{end}"#;
    let names = ask_nodes(layout, settings, ready)?;
    Ok(names.lines().map(str::to_owned).collect())
}

/// What keeps pods from nodes, as a story that was interrupted may leave it. A cordon is one, too.
fn taints(layout: &Layout, settings: &Settings) -> Result<String> {
    let taints = ask_nodes(layout, settings, "{.items[*].spec.taints[*].key}")?;
    Ok(taints.trim().to_owned())
}

fn ask_nodes(layout: &Layout, settings: &Settings, path: &str) -> Result<String> {
    let mut command = control_plane::kubectl(layout, settings);
    command.args(["get", "nodes", "--request-timeout=5s", "-o"]);
    command.arg(format!("jsonpath={path}"));
    output(&mut command)
}

//! What a cluster needs beyond Kubernetes itself to be of use: names (`CoreDNS`) and volumes.

use std::process::Command;

use anyhow::{Context, Result};

use super::build::COREDNS;
use super::control_plane::kubectl;
use super::network::DNS_SERVICE;
use super::state::{Layout, Settings};
use crate::tools::{run_with_input, succeeds};

/// Applies the manifests; nothing is waited for.
pub(crate) fn apply(layout: &Layout, settings: &Settings) -> Result<()> {
    let manifests = [
        include_str!("addons/coredns.yaml"),
        include_str!("addons/storage.yaml"),
    ]
    .join("---\n")
    .replace("@COREDNS@", COREDNS)
    .replace("@DNS@", DNS_SERVICE);
    let mut command = kubectl(layout, settings);
    // The client-side check would fetch the whole API description first.
    command.args([
        "apply",
        "--server-side",
        "--force-conflicts",
        "--validate=false",
        "-f",
        "-",
    ]);
    run_with_input(&mut command, &manifests).context("apply the addons")
}

/// Whether they serve now.
pub(crate) fn are_available(layout: &Layout, settings: &Settings) -> bool {
    succeeds(&mut rollout(layout, settings, "1s"))
}

/// Only `CoreDNS` is a pod; volumes are made by a process on the host.
fn rollout(layout: &Layout, settings: &Settings, timeout: &str) -> Command {
    let mut command = kubectl(layout, settings);
    command.args([
        "-n",
        "kube-system",
        "rollout",
        "status",
        "deployment/coredns",
    ]);
    command.arg(format!("--timeout={timeout}"));
    command
}

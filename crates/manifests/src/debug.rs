//! The container with tools: ephemeral, so it is no part of a template, restarts no member and has no say in readiness.

use api::{ClusterIntent, names};
use serde_json::{Value, json};

use crate::{PodUser, pod};

const IMAGE: &str = "nicolaka/netshoot";
const COMMAND: [&str; 2] = ["sleep", "infinity"];

/// The ephemeral container to add to every running pod, if there shall be one. It is let in under restricted pod
/// security. Kubernetes forbids resources here.
pub fn debug_container(intent: &ClusterIntent, says: PodUser) -> Option<Value> {
    let debug = intent.debug.as_ref()?;
    let command = if debug.command.is_empty() {
        COMMAND.map(str::to_owned).into()
    } else {
        debug.command.clone()
    };
    Some(json!({
        "name": names::DEBUG_CONTAINER,
        "image": debug.image.as_deref().unwrap_or(IMAGE),
        "command": command,
        // Without a tag it would be pulled at every start.
        "imagePullPolicy": "IfNotPresent",
        "targetContainerName": names::ETCD_CONTAINER,
        "securityContext": {
            "allowPrivilegeEscalation": false,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": true,
            "runAsUser": pod::user(intent, says),
        },
    }))
}

//! What lies on the volumes of members.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use kube::api::{DeleteParams, PostParams};
use serde_json::json;

use crate::{MINUTE, Stage, until};

/// Runs a command on the volume of a pod, beside it or in its place.
pub async fn on_volume(stage: &Stage, pod: &Pod, command: &str) -> Result<()> {
    let name = pod.name_any();
    let spec = pod.spec.clone().context("no spec")?;
    let identity = spec.security_context.clone().unwrap_or_default();
    let container = json!({"name": "hand", "image": "localhost/busybox:1", "imagePullPolicy": "IfNotPresent",
        "command": ["sh", "-c", command], "volumeMounts": [{"name": "data", "mountPath": "/data"}],
        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}});
    let hand: Pod = serde_json::from_value(
        json!({"metadata": {"name": format!("hand-{name}")}, "spec": {
        "nodeName": spec.node_name, "restartPolicy": "Never", "securityContext": identity, "containers": [container],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": format!("data-{name}")}}]}}),
    )?;
    let pods = stage.api::<Pod>();
    pods.create(&PostParams::default(), &hand).await?;
    until("the command has ended", MINUTE, || async {
        let phase = pods.get_status(&hand.name_any()).await?.status;
        Ok(phase.and_then(|status| status.phase).as_deref() == Some("Succeeded"))
    })
    .await?;
    // As long as it is there, the claim cannot go.
    pods.delete(&hand.name_any(), &DeleteParams::default().grace_period(0))
        .await?;
    Ok(())
}

//! What lies on the volumes of members.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim, Pod};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::json;

use crate::{Cluster, MINUTE, Stage, until};

/// The database file of a member, if it can be reached from here.
pub async fn database(cluster: &Cluster, member: &str) -> Result<Option<PathBuf>> {
    let claims = cluster.stage.api::<PersistentVolumeClaim>();
    let claim = claims.get(&format!("data-{member}")).await?;
    let volume = claim.spec.and_then(|spec| spec.volume_name);
    let volumes: Api<PersistentVolume> = Api::all(cluster.stage.client.clone());
    let volume = volumes.get(&volume.context("no volume")?).await?;
    let local = volume.spec.and_then(|spec| spec.local);
    let path = local.map(|local| Path::new(&local.path).join("data/member/snap/db"));
    Ok(path.filter(|path| path.is_file()))
}

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

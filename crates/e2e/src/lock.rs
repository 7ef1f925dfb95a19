//! Clusters with TLS and authentication, as stories and chaos use them: the certificate that is published for clients is that
//! of a user who may do everything.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::v1alpha1::user::EtcdUser;
use serde_json::{Value, json};

use crate::{Cluster, until};

/// The common name in the published certificate.
const CLIENT: &str = "client";

fn object(cluster: &str) -> String {
    format!("{CLIENT}-{cluster}")
}

/// Has a spec ask for both.
pub fn ask(spec: &mut Value) {
    if let Some(spec) = spec.as_object_mut() {
        let security = json!({"tls": {}, "auth": {"enabled": true}});
        spec.insert("security".to_owned(), security);
    }
}

/// Declares the user that the published certificate is for.
pub async fn let_clients_in(cluster: &Cluster) -> Result<()> {
    let user = json!({"apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdUser",
        "metadata": {"name": object(&cluster.name)},
        "spec": {"clusterName": cluster.name, "userName": CLIENT, "roles": ["root"], "certificate": true}});
    let commands = &cluster.stage.commands;
    commands.apply(&user.to_string()).await?.accepted()?;
    Ok(())
}

/// Waits until the cluster is ready, and etcd asks its callers who they are and knows that user.
pub async fn is_locked_within(cluster: &Cluster, limit: Duration) -> Result<()> {
    cluster.ready_within(limit).await?;
    let users = cluster.stage.api::<EtcdUser>();
    until("authentication is on", limit, || async {
        let user = users.get(&object(&cluster.name)).await?;
        let conditions = user.status.unwrap_or_default().conditions;
        let ready = conditions.iter().find(|it| it.type_ == "Ready");
        let ready = ready.context("the user has no condition")?;
        ensure!(ready.status == "True", "{}", ready.message);
        let auth = cluster.status().await?.auth.context("no status.auth")?;
        ensure!(auth.enabled, "it is off");
        Ok(true)
    })
    .await
    .map(drop)
}

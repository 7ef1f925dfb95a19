//! Clusters with TLS and authentication, as stories and chaos use them: the certificate that is published for clients is that
//! of a user who may do everything.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::names::Scheme;
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

/// Whether clusters are wanted in plaintext, but for those whose spec says something of TLS.
pub fn is_plaintext() -> bool {
    std::env::var_os("E2E_PLAINTEXT").is_some()
}

/// The scheme under which members of a cluster of [`Stage::create`](crate::Stage::create) are listed.
pub fn scheme_of_peers() -> Scheme {
    if is_plaintext() {
        Scheme::Http
    } else {
        Scheme::Https
    }
}

/// Has a spec that says nothing of TLS ask for it.
pub fn ask_for_tls(spec: &mut Value) {
    let Some(spec) = spec.as_object_mut() else {
        return;
    };
    let security = spec.entry("security").or_insert_with(|| json!({}));
    if let Some(security) = security.as_object_mut() {
        security.entry("tls").or_insert_with(|| json!({}));
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

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(mut spec: Value) -> Value {
        ask_for_tls(&mut spec);
        spec
    }

    #[test]
    fn tls_is_added_where_nothing_is_said_of_it_and_what_is_said_stays() {
        assert_eq!(
            asked(json!({"size": 1})),
            json!({"size": 1, "security": {"tls": {}}})
        );
        let policy = json!({"security": {"networkPolicy": {}}});
        let both = json!({"security": {"networkPolicy": {}, "tls": {}}});
        assert_eq!(asked(policy), both);
        let off = json!({"security": {"tls": {"enabled": false}}});
        assert_eq!(asked(off.clone()), off);
    }
}

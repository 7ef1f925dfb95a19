//! Those who installed the operator try what was installed.

use anyhow::{Context, Result, ensure};
use api::EtcdCluster;
use e2e::{OPERATOR_NAMESPACE, Played, story, until};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, ServiceAccount};
use kube::{Api, Client};
use tokio::process::Command;

/// The account of the check, and the cluster that it makes.
const CHECK: &str = "etcd-operator-check";
const TRIAL: &str = "etcd-operator-trial";

#[test]
fn helm_test_writes_reads_and_leaves_nothing() -> Played {
    story(|stage| async move {
        let mut helm = Command::new("helm");
        helm.args(["test", "etcd-operator", "--namespace", OPERATOR_NAMESPACE]);
        helm.args(["--logs", "--timeout", "3m"]);
        let said = helm.output().await.context("helm cannot be started")?;
        let words = String::from_utf8_lossy(&said.stdout).into_owned();
        let errors = String::from_utf8_lossy(&said.stderr);
        ensure!(said.status.success(), "{words}\n{errors}");
        for step in [
            "EtcdCluster made",
            "a key was written and read",
            "EtcdCluster deleted",
            "the installation works",
        ] {
            ensure!(words.contains(step), "nothing says {step:?}: {words}");
        }
        until("the check is gone", e2e::MINUTE, || async {
            is_gone(&stage.client).await
        })
        .await
        .map(drop)
    })
}

/// The cluster with its pod and its data, and the account that made it.
async fn is_gone(client: &Client) -> Result<bool> {
    let place = OPERATOR_NAMESPACE;
    let clusters: Api<EtcdCluster> = Api::namespaced(client.clone(), place);
    let pods: Api<Pod> = Api::namespaced(client.clone(), place);
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), place);
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), place);
    Ok(clusters.get_opt(TRIAL).await?.is_none()
        && pods.get_opt(&format!("{TRIAL}-0")).await?.is_none()
        && claims.get_opt(&format!("data-{TRIAL}-0")).await?.is_none()
        && accounts.get_opt(TRIAL).await?.is_none()
        && accounts.get_opt(CHECK).await?.is_none())
}

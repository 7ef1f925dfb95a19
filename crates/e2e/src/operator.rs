//! The operator itself, for the stories that disturb it. They play one after the other and put back what
//! they found.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::{Mutex, MutexGuard};

use crate::wait::{MINUTE, until};
use crate::{OPERATOR, OPERATOR_NAMESPACE};

/// Held by the story that disturbs the operator.
static ALONE: Mutex<()> = Mutex::const_new(());

/// The operator, to be disturbed.
pub struct Operator {
    client: Client,
    replicas: i32,
    _alone: MutexGuard<'static, ()>,
}

impl Operator {
    /// Waits until no other story disturbs it.
    pub async fn disturb(client: &Client) -> Result<Self> {
        let alone = ALONE.lock().await;
        let deployments: Api<Deployment> = Api::namespaced(client.clone(), OPERATOR_NAMESPACE);
        let replicas = deployments
            .get(OPERATOR)
            .await?
            .spec
            .and_then(|spec| spec.replicas);
        Ok(Self {
            client: client.clone(),
            replicas: replicas.unwrap_or(1).max(1),
            _alone: alone,
        })
    }

    /// Plays with it, and puts back what was found, whatever came of it.
    pub async fn then_restore(self, outcome: Result<()>) -> Result<()> {
        self.scale(self.replicas)
            .await
            .context("the operator was not put back")?;
        outcome
    }

    /// As many replicas as this, and all of them ready.
    pub async fn scale(&self, replicas: i32) -> Result<()> {
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), OPERATOR_NAMESPACE);
        let wanted = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        deployments
            .patch(OPERATOR, &PatchParams::default(), &wanted)
            .await?;
        until(
            format!("{replicas} replicas of the operator are there"),
            MINUTE,
            || async {
                let ready = deployments
                    .get(OPERATOR)
                    .await?
                    .status
                    .and_then(|status| status.ready_replicas);
                let pods = self.pods().await?.len();
                ensure!(i32::try_from(pods)? == replicas, "{pods} pods");
                Ok(ready.unwrap_or_default() == replicas)
            },
        )
        .await
        .map(drop)
    }

    /// Its pods.
    pub async fn pods(&self) -> Result<Vec<Pod>> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), OPERATOR_NAMESPACE);
        Ok(pods.list(&ListParams::default()).await?.items)
    }

    /// The image that it runs, which also holds the agent.
    pub async fn image(&self) -> Result<String> {
        let deployments: Api<Deployment> = Api::namespaced(self.client.clone(), OPERATOR_NAMESPACE);
        let template = deployments
            .get(OPERATOR)
            .await?
            .spec
            .and_then(|spec| spec.template.spec);
        let container = template.and_then(|spec| spec.containers.into_iter().next());
        container
            .and_then(|container| container.image)
            .context("the operator has no image")
    }

    /// Name of the pod that works.
    pub async fn holder(&self) -> Result<String> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), OPERATOR_NAMESPACE);
        let holder = leases
            .get(OPERATOR)
            .await?
            .spec
            .and_then(|spec| spec.holder_identity);
        holder
            .filter(|name| !name.is_empty())
            .context("the lease has no holder")
    }

    /// Deletes one of its pods; `grace` 0 is as good as a crash.
    pub async fn kill(&self, pod: &str, grace: Option<u32>) -> Result<()> {
        let pods: Api<Pod> = Api::namespaced(self.client.clone(), OPERATOR_NAMESPACE);
        let how = DeleteParams {
            grace_period_seconds: grace,
            ..DeleteParams::default()
        };
        pods.delete(pod, &how).await?;
        Ok(())
    }
}

//! The operator's webhook, taken away for stories that store what it refuses, or whose operator runs elsewhere.

use std::fmt::Debug;

use anyhow::{Context, Result};
use k8s_openapi::api::admissionregistration::v1::{
    MutatingWebhookConfiguration, ValidatingWebhookConfiguration,
};
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// Name of the two configurations, the Service and the Secret.
pub const WEBHOOK: &str = "etcd-operator-webhook";

/// Both configurations, as they were found. They have to be put back.
pub struct WithoutAdmission {
    client: Client,
    validating: Option<ValidatingWebhookConfiguration>,
    mutating: Option<MutatingWebhookConfiguration>,
}

impl WithoutAdmission {
    /// Takes them away.
    pub async fn begin(client: &Client) -> Result<Self> {
        Ok(Self {
            validating: take(Api::all(client.clone())).await?,
            mutating: take(Api::all(client.clone())).await?,
            client: client.clone(),
        })
    }

    /// Puts them back, whatever came of it.
    pub async fn then_restore<T>(self, outcome: Result<T>) -> Result<T> {
        give(Api::all(self.client.clone()), self.validating).await?;
        give(Api::all(self.client), self.mutating).await?;
        outcome
    }
}

async fn take<K>(api: Api<K>) -> Result<Option<K>>
where
    K: Resource + Clone + Debug + DeserializeOwned,
{
    let found = api.get_opt(WEBHOOK).await?;
    if found.is_some() {
        let gone = api.delete(WEBHOOK, &DeleteParams::default()).await;
        gone.context("the webhook configuration stays")?;
    }
    Ok(found)
}

async fn give<K>(api: Api<K>, taken: Option<K>) -> Result<()>
where
    K: Resource + Clone + Debug + DeserializeOwned + Serialize,
{
    let Some(mut taken) = taken else {
        return Ok(());
    };
    taken.meta_mut().resource_version = None;
    taken.meta_mut().uid = None;
    taken.meta_mut().managed_fields = None;
    let made = api.create(&PostParams::default(), &taken).await;
    made.context("the webhook configuration was not put back")?;
    Ok(())
}

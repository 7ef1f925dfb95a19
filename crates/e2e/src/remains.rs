//! What is left of a cluster after it was deleted.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod, Service, ServiceAccount};
use k8s_openapi::api::policy::v1::PodDisruptionBudget;
use kube::{Resource, ResourceExt};

use crate::stage::Stage;
use crate::wait::until;

/// No deletion takes longer: nothing of ours stands in its way.
const SOON: Duration = Duration::from_secs(45);

/// Waits until a stage is as empty as it was at the beginning.
pub async fn nothing_is_left(stage: &Stage) -> Result<Duration> {
    until("nothing is left", SOON, || async {
        let mut left: Vec<String> = Vec::new();
        left.extend(names(&stage.list::<PersistentVolumeClaim>().await?));
        left.extend(names(&stage.list::<Pod>().await?));
        left.extend(names(&stage.list::<Service>().await?));
        left.extend(names(&stage.list::<StatefulSet>().await?));
        left.extend(names(&stage.list::<PodDisruptionBudget>().await?));
        left.extend(names(&stage.list::<ServiceAccount>().await?));
        // Every namespace has this one.
        left.retain(|name| name != "ServiceAccount default");
        ensure!(left.is_empty(), "left: {left:?}");
        Ok(true)
    })
    .await
}

fn names<K: Resource<DynamicType = ()>>(objects: &[K]) -> Vec<String> {
    let name = |object: &K| format!("{} {}", K::kind(&()), object.name_any());
    objects.iter().map(name).collect()
}

//! An object of a name that the cluster needs belongs to another owner: it is not touched, it is named, and the cluster
//! goes on once it is out of the way.

use anyhow::{Result, ensure};
use e2e::{Cluster, Played, Stage, story};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Service, ServiceAccount};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::{DeleteParams, PostParams};
use kube::{Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

#[test]
fn a_foreign_service_is_left_alone_and_named_and_other_clusters_go_on() -> Played {
    story(|stage| async move {
        let service = json!({"metadata": {"name": "c-client"},
            "spec": {"ports": [{"port": 80}], "selector": {"app": "another-owners"}}});
        let theirs: Service = put(&stage, service).await?;
        let account: ServiceAccount = put(&stage, json!({"metadata": {"name": "c"}})).await?;
        let policy = json!({"metadata": {"name": "c"},
            "spec": {"podSelector": {"matchLabels": {"app": "another-owners"}}}});
        let policy: NetworkPolicy = put(&stage, policy).await?;
        let spec = json!({"size": 1, "version": "v3.6.16", "storage": {"size": "1Gi"},
            "security": {"networkPolicy": {}}});
        let cluster = stage.create("c", spec).await?;
        let other = one(&stage, "other").await?;
        other.ready().await?;
        cluster
            .complains("Degraded", &["Service c-client", "another owner"])
            .await?;
        for named in ["ServiceAccount c", "NetworkPolicy c"] {
            cluster
                .complains("Degraded", &[named, "another owner"])
                .await?;
        }
        untouched(&stage, &theirs).await?;
        untouched(&stage, &account).await?;
        untouched(&stage, &policy).await?;
        out_of_the_way(&stage, &theirs).await?;
        out_of_the_way(&stage, &account).await?;
        out_of_the_way(&stage, &policy).await?;
        cluster.ready().await?;
        let ours = stage.api::<Service>().get("c-client").await?;
        ensure!(ours.uid() != theirs.uid() && !ours.owner_references().is_empty());
        Ok(())
    })
}

#[test]
fn a_foreign_stateful_set_is_left_alone_and_named_even_with_our_labels_on_it() -> Played {
    story(|stage| async move {
        // It looks like ours in everything but its owner.
        let labels = api::labels::object("c", "database");
        let set = json!({"metadata": {"name": "c", "labels": labels},
            "spec": {"replicas": 0, "serviceName": "none", "selector": {"matchLabels": {"app": "theirs"}},
                "template": {"metadata": {"labels": {"app": "theirs"}},
                    "spec": {"containers": [{"name": "etcd", "image": "quay.io/coreos/etcd:v3.6.16"}]}}}});
        let theirs: StatefulSet = put(&stage, set).await?;
        let plain = json!({"metadata": {"name": "d"}, "spec": theirs.spec.clone()});
        let plain: StatefulSet = put(&stage, plain).await?;
        let labelled = one(&stage, "c").await?;
        let unlabelled = one(&stage, "d").await?;
        labelled
            .complains("Degraded", &["StatefulSet c", "another owner"])
            .await?;
        unlabelled
            .complains("Degraded", &["StatefulSet d", "another owner"])
            .await?;
        untouched(&stage, &theirs).await?;
        untouched(&stage, &plain).await?;
        ensure!(labelled.pods().await?.is_empty(), "it has pods");
        out_of_the_way(&stage, &theirs).await?;
        out_of_the_way(&stage, &plain).await?;
        labelled.ready().await?;
        unlabelled.ready().await?;
        Ok(())
    })
}

async fn one(stage: &Stage, name: &str) -> Result<Cluster> {
    let spec = json!({"size": 1, "version": "v3.6.16", "storage": {"size": "1Gi"}});
    stage.create(name, spec).await
}

async fn put<K>(stage: &Stage, object: Value) -> Result<K>
where
    K: Object,
{
    let object: K = serde_json::from_value(object)?;
    Ok(stage
        .api::<K>()
        .create(&PostParams::default(), &object)
        .await?)
}

/// The operator did not write it. Of a Service not even the resource version moves; a StatefulSet's own
/// controller writes its status, so there the rest has to prove it.
async fn untouched<K: Object>(stage: &Stage, theirs: &K) -> Result<()> {
    let now = stage.api::<K>().get(&theirs.name_any()).await?;
    ensure!(now.uid() == theirs.uid(), "it is another object");
    ensure!(now.owner_references().is_empty(), "it has an owner now");
    let moved = now.resource_version() != theirs.resource_version();
    ensure!(
        K::kind(&()) != "Service" || !moved,
        "its resource version moved"
    );
    let ours = now
        .managed_fields()
        .iter()
        .any(|entry| entry.manager.as_deref() == Some("etcd-operator"));
    ensure!(!ours, "the operator wrote it");
    // A ServiceAccount has none.
    let spec = |object: &K| -> Result<Option<Value>> {
        let value = serde_json::to_value(object)?;
        Ok(value.get("spec").cloned())
    };
    ensure!(spec(&now)? == spec(theirs)?, "its spec changed");
    ensure!(now.labels() == theirs.labels(), "its labels changed");
    Ok(())
}

async fn out_of_the_way<K: Object>(stage: &Stage, theirs: &K) -> Result<()> {
    stage
        .api::<K>()
        .delete(&theirs.name_any(), &DeleteParams::default())
        .await?;
    Ok(())
}

trait Object:
    Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
    + Clone
    + std::fmt::Debug
    + Serialize
    + DeserializeOwned
{
}

impl<K> Object for K where
    K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + Serialize
        + DeserializeOwned
{
}

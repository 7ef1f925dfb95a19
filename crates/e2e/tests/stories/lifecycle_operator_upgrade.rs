//! The operator is upgraded: it comes back with another image for its agent, and no member is restarted for that.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::{
    Cluster, LIMIT, Load, MINUTE, OPERATOR, OPERATOR_NAMESPACE, Operator, Played, Stage, Violated,
    comes_true, stays, story, until,
};
use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{EnvVar, Pod};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

const AGENT_IMAGE: &str = "AGENT_IMAGE";

#[test]
fn another_operator_restarts_no_member_and_leaves_the_template_as_it_is() -> Played {
    story(|stage| async move {
        let operator = Operator::disturb(&stage.client).await?;
        let spec = json!({"size": 3, "version": "v3.6.16", "storage": {"size": "1Gi"}});
        let cluster = stage.create("c", spec).await?;
        cluster.ready().await?;
        let before = agent_image(&stage).await?;
        // It need not exist: no pod is made from it.
        let outcome = upgraded(&cluster, &format!("localhost/{}:2", stage.unique())).await;
        let back = set_agent_image(&stage, before.as_deref()).await;
        let outcome = outcome.and(back);
        operator.then_restore(outcome).await
    })
}

async fn upgraded(cluster: &Cluster, image: &str) -> Result<()> {
    let stage = &cluster.stage;
    let (pods, template) = (uids(&cluster.pods().await?), template(stage).await?);
    let load = Load::start(cluster).await?;
    set_agent_image(stage, Some(image)).await?;
    // It looks at the cluster again: an edit that concerns no pod is noticed and carried out.
    let edit = r#"{"spec":{"storage":{"claimPolicy":{"whenDeleted":"Delete"}}}}"#;
    stage.commands.patch("c", edit).await?.accepted()?;
    cluster.ready().await?;
    stays(
        "no member is restarted",
        Duration::from_secs(20),
        || async {
            let same = uids(&cluster.pods().await?) == pods;
            ensure!(
                same,
                Violated("a pod is another one, or was restarted".to_owned())
            );
            let same = self::template(stage).await? == template;
            ensure!(same, Violated("the template is another one".to_owned()));
            let ready = cluster.condition("Ready").await?;
            ensure!(ready.status == "True", Violated(ready.message));
            Ok(true)
        },
    )
    .await?;
    comes_true(cluster, 3, "3.6.16").await?;
    load.finish().await?.assert_gap(LIMIT)
}

/// Without how far the members have come, which is noted there as they go on.
async fn template(stage: &Stage) -> Result<Value> {
    let set = stage.api::<StatefulSet>().get("c").await?;
    let mut template = set.spec.context("no spec")?.template;
    if let Some(annotations) = template
        .metadata
        .as_mut()
        .and_then(|m| m.annotations.as_mut())
    {
        annotations.remove("etcd.etcd.io/floors");
    }
    Ok(serde_json::to_value(template)?)
}

/// UID and restarts by name.
fn uids(pods: &BTreeMap<String, Pod>) -> BTreeMap<String, (Option<String>, i32)> {
    let restarts = |pod: &Pod| {
        let status = pod.status.iter();
        let all = status.flat_map(|status| status.container_statuses.iter().flatten());
        all.map(|container| container.restart_count).sum()
    };
    pods.iter()
        .map(|(name, pod)| (name.clone(), (pod.uid(), restarts(pod))))
        .collect()
}

fn deployments(stage: &Stage) -> Api<Deployment> {
    Api::namespaced(stage.client.clone(), OPERATOR_NAMESPACE)
}

/// What the Deployment says; nothing where the operator takes the image that it runs itself.
async fn agent_image(stage: &Stage) -> Result<Option<String>> {
    let deployment = deployments(stage).get(OPERATOR).await?;
    let pod = deployment.spec.and_then(|spec| spec.template.spec);
    let containers = pod.into_iter().flat_map(|pod| pod.containers);
    let mut env = containers.flat_map(|container| container.env.unwrap_or_default());
    let found: Option<EnvVar> = env.find(|one| one.name == AGENT_IMAGE);
    Ok(found.and_then(|found| found.value))
}

/// Changes it, and waits until the operator that knows of it is the only one.
async fn set_agent_image(stage: &Stage, image: Option<&str>) -> Result<()> {
    let entry = match image {
        Some(image) => json!({"name": AGENT_IMAGE, "value": image}),
        None => json!({"name": AGENT_IMAGE, "$patch": "delete"}),
    };
    let containers = json!([{"name": "operator", "env": [entry]}]);
    let patch = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    deployments(stage)
        .patch(OPERATOR, &PatchParams::default(), &Patch::Strategic(patch))
        .await?;
    until("the operator is the new one", MINUTE * 2, || async {
        let deployment = deployments(stage).get(OPERATOR).await?;
        let generation = deployment.metadata.generation;
        let wanted = deployment.spec.and_then(|spec| spec.replicas);
        let status = deployment.status.context("no status")?;
        ensure!(status.observed_generation == generation, "not yet noticed");
        Ok(status.updated_replicas == wanted
            && status.replicas == wanted
            && status.ready_replicas == wanted)
    })
    .await
    .map(drop)
}

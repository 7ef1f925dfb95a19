//! What the earlier operator stored, and no rule lets in today: TLS in every object, and nothing encrypted. It plays alone,
//! because the rules of the schema step aside for all objects while such an object is stored.

use anyhow::{Context, Result, ensure};
use e2e::{
    Cluster, Load, MINUTE, Operator, Played, Predecessor, Stage, comes_true, story, until,
    without_rules,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};

const DEFINITION: &str = "etcdclusters.etcd.etcd.io";
const POLITE: &str = "trap 'exit 0' TERM; while true; do sleep 1; done";

#[test]
fn an_object_that_was_stored_with_tls_is_taken_over_and_stays_plaintext() -> Played {
    story(|stage| async move {
        let operator = Operator::disturb(&stage.client).await?;
        let outcome = plaintext_stays(&stage).await;
        operator.then_restore(outcome).await
    })
}

async fn plaintext_stays(stage: &Stage) -> Result<()> {
    let tls =
        json!({"enabled": true, "clientTLSEnabled": true, "peerTLSEnabled": true, "autoTLS": true});
    let spec = json!({"size": 1, "version": "v3.5.35", "storage": {"size": "1Gi"}, "security": {"tls": tls}});
    store(stage, &Predecessor::object(&spec)).await?;
    let cluster = Predecessor::make(stage, POLITE).await?.cluster;
    cluster.put("kept", "from before").await?;
    let (id, before) = (identity(&cluster).await?, cluster.pods().await?);
    let load = Load::start(&cluster).await?;
    cluster.annotate("etcd.etcd.io/paused", None).await?;
    cluster.replaced(&before, 1).await?;
    load.finish().await?;
    // All that looks at members here speaks plaintext.
    comes_true(&cluster, 1, "3.5.35").await?;
    ensure!(identity(&cluster).await? == id, "another cluster or member");
    ensure!(cluster.value("kept").await?.as_deref() == Some("from before"));
    // It can be edited as it is.
    cluster.resize(3).await?;
    cluster.ready_within(MINUTE * 2).await?;
    comes_true(&cluster, 3, "3.5.35").await?;
    let stored = serde_json::to_value(cluster.get().await?.spec)?;
    ensure!(
        stored.pointer("/security/tls/enabled") == Some(&json!(true)),
        "{stored}"
    );
    Ok(())
}

async fn identity(cluster: &Cluster) -> Result<(u64, u64)> {
    let status = cluster.member("c-0").await?.status().await?;
    Ok((status.cluster_id, status.member_id))
}

/// Stores an object as if it had been there before the rules.
async fn store(stage: &Stage, object: &Value) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(stage.client.clone());
    let strict = definitions.get(DEFINITION).await?;
    let loose = without_rules(serde_json::to_value(&strict)?);
    let loose: CustomResourceDefinition = serde_json::from_value(loose)?;
    definitions
        .replace(DEFINITION, &PostParams::default(), &loose)
        .await?;
    let object = object.to_string();
    let stored = until("the object is stored", MINUTE, || async {
        let create = ["create", "-f", "-"];
        let answer = stage.commands.kubectl_with(&create, &object).await?;
        answer.accepted().map(|_| true)
    })
    .await;
    let mut strict = strict;
    strict.metadata.resource_version = definitions.get(DEFINITION).await?.metadata.resource_version;
    definitions
        .replace(DEFINITION, &PostParams::default(), &strict)
        .await
        .context("the rules were not put back")?;
    until("the rules are in force again", MINUTE, || async {
        let probe = e2e::document("probe", &json!({"size": 2}));
        Ok(!stage.commands.try_apply(&probe).await?.ok)
    })
    .await?;
    stored.map(drop)
}

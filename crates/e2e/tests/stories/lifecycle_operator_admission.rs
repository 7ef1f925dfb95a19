//! What the webhook says when a spec is written, and what goes on while it is away. It plays alone, because for a while no
//! story could write a spec.

use anyhow::{Context, Result, ensure};
use e2e::{
    Cluster, MINUTE, OPERATOR_NAMESPACE, Operator, Played, Stage, WEBHOOK, document, story, tell,
    until,
};
use k8s_openapi::ByteString;
use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use kube::api::DeleteParams;
use serde_json::{Value, json};

#[test]
fn a_spec_is_judged_when_it_is_written_and_nothing_else_waits_for_that() -> Played {
    story(|stage| async move {
        let operator = Operator::disturb(&stage.client).await?;
        let play = async {
            speaks(&stage).await?;
            keeps_its_certificate(&stage).await?;
            let spec = json!({"size": 1, "version": "v3.6.16", "storage": {"size": "1Gi",
                "claimPolicy": {"whenDeleted": "Delete"}}});
            let cluster = stage.create("c", spec).await?;
            cluster.ready().await?;
            operator.scale(0).await?;
            goes_on_alone(&stage, &cluster).await
        };
        let outcome = play.await;
        operator.then_restore(outcome).await
    })
}

/// A refusal with our sentence, a warning, and what was left open.
async fn speaks(stage: &Stage) -> Result<()> {
    let volume = json!({"pod": {"volumes": [{"name": "v", "hostPath": {"path": 5}}]}});
    let wrong = stage.commands.try_apply(&document("c", &volume)).await?;
    let told = wrong.refused_with(&["spec.pod.volumes", "write it as a pod has it"])?;
    tell(&format!("a wrong spec is told as: {}", told.trim()));
    let class = json!({"storage": {"storageClassName": "not-there-yet"}});
    let missing = stage.commands.try_apply(&document("c", &class)).await?;
    ensure!(
        missing
            .stderr
            .contains("there is no StorageClass not-there-yet"),
        "{missing:?}"
    );
    missing.accepted()?;
    let bare = stage
        .commands
        .try_apply(&document("c", &json!({"size": 1})))
        .await?;
    let stored: Value = serde_json::from_str(&bare.accepted()?)?;
    let storage = json!({"size": "10Gi", "claimPolicy":
        {"whenStopped": "Retain", "whenScaled": "Delete", "whenDeleted": "Retain"}});
    ensure!(
        stored.pointer("/spec/storage") == Some(&storage),
        "{stored}"
    );
    ensure!(stored.pointer("/spec/security").is_none(), "{stored}");
    Ok(())
}

/// Its Secret is deleted: another certificate is issued, and trusted.
async fn keeps_its_certificate(stage: &Stage) -> Result<()> {
    let secrets: Api<Secret> = Api::namespaced(stage.client.clone(), OPERATOR_NAMESPACE);
    let configurations: Api<ValidatingWebhookConfiguration> = Api::all(stage.client.clone());
    let authority = |secret: Secret| -> Result<ByteString> {
        let data = secret.data.context("an empty Secret")?;
        data.get("ca.crt").cloned().context("no ca.crt")
    };
    let before = authority(secrets.get(WEBHOOK).await?)?;
    secrets.delete(WEBHOOK, &DeleteParams::default()).await?;
    let took = until("another certificate is trusted", MINUTE, || async {
        let now = authority(secrets.get(WEBHOOK).await?)?;
        let hooks = configurations.get(WEBHOOK).await?.webhooks;
        let hook = hooks
            .and_then(|hooks| hooks.into_iter().next())
            .context("no webhook")?;
        ensure!(now != before, "it is the old one");
        Ok(hook.client_config.ca_bundle == Some(now))
    })
    .await?;
    let manifest = document("c", &json!({"size": 1}));
    let dry = ["apply", "--dry-run=server", "-f", "-"];
    let works = until("specs are judged again", MINUTE, || async {
        let answer = stage.commands.kubectl_once(&dry, &manifest).await?;
        answer.accepted().map(|_| true)
    })
    .await?;
    tell(&format!(
        "another certificate was trusted after {:.1} s, and served {:.1} s later",
        took.as_secs_f32(),
        works.as_secs_f32()
    ));
    Ok(())
}

/// No new spec; but labels, annotations and finalizers can be written, members serve, and what is deleted goes.
async fn goes_on_alone(stage: &Stage, cluster: &Cluster) -> Result<()> {
    let away = ["failed calling webhook"];
    let create = ["create", "-f", "-"];
    let new = document("new", &json!({"size": 1}));
    let answer = stage.commands.kubectl_once(&create, &new).await?;
    answer.refused_with(&away)?;
    let kind = "etcdclusters.etcd.etcd.io";
    let edit = async |patch: &str| {
        let arguments = ["patch", kind, "c", "--type", "merge", "-p", patch];
        stage.commands.kubectl_once(&arguments, "").await
    };
    edit(r#"{"spec":{"size":3}}"#).await?.refused_with(&away)?;
    let hold = r#"{"metadata":{"annotations":{"note":"1"},"finalizers":["example.com/hold"]}}"#;
    edit(hold).await?.accepted()?;
    cluster.put("still", "served").await?;
    ensure!(cluster.value("still").await?.as_deref() == Some("served"));
    let delete = ["delete", kind, "c", "--wait=false"];
    stage.commands.kubectl_once(&delete, "").await?.accepted()?;
    edit(r#"{"metadata":{"finalizers":null}}"#)
        .await?
        .accepted()?;
    until("it is gone", MINUTE, || async {
        let get = ["get", kind, "c", "--ignore-not-found"];
        Ok(stage.commands.kubectl(&get).await?.accepted()?.is_empty())
    })
    .await
    .map(drop)
}

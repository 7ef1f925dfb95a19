//! The operator is stopped, killed, replaced, or runs elsewhere. These stories disturb every other one on
//! the cluster, so they have a program of their own and play one after the other.
#![expect(clippy::indexing_slicing, reason = "a story may end where it stands")]

use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::{
    Load, MINUTE, Operator, Played, Stage, WithoutAdmission, check_truth, nothing_is_left, story,
    tell, until, without_rules,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use tokio::process::{Child, Command};

/// How long a hand-over may take when the operator is asked to stop: a new pod has to start at most.
const HAND_OVER: Duration = Duration::from_secs(20);
/// How long when it is forced: its lease is good for 15 s.
const LEASE: Duration = Duration::from_secs(40);

#[test]
fn a_cluster_can_be_deleted_while_the_operator_is_gone() -> Played {
    story(|stage| async move {
        let spec = json!({"size": 1, "version": "v3.6.16",
            "storage": {"size": "1Gi", "claimPolicy": {"whenDeleted": "Delete"}}});
        let cluster = stage.create("c", spec).await?;
        cluster.ready().await?;
        let operator = Operator::disturb(&stage.client).await?;
        let play = async {
            operator.scale(0).await?;
            cluster.delete().await?;
            nothing_is_left(&stage).await.map(drop)
        };
        let outcome = play.await;
        operator.then_restore(outcome).await
    })
}

#[test]
fn another_replica_finishes_what_the_first_one_began() -> Played {
    story(|stage| async move {
        let operator = Operator::disturb(&stage.client).await?;
        let play = async {
            operator.scale(2).await?;
            // Asked to stop, it hands over at once; forced, its lease may have to run out first.
            hand_over(&stage, &operator, "asked", None, HAND_OVER).await?;
            hand_over(&stage, &operator, "forced", Some(0), LEASE).await
        };
        let outcome = play.await;
        operator.then_restore(outcome).await
    })
}

async fn hand_over(
    stage: &Stage,
    operator: &Operator,
    name: &str,
    grace: Option<u32>,
    patience: Duration,
) -> Result<()> {
    let holder = operator.holder().await?;
    let spec = json!({"size": 3, "version": "v3.6.16", "storage": {"size": "1Gi"}});
    let cluster = stage.create(name, spec).await?;
    until("the creation is half done", MINUTE, || async {
        let status = cluster.status().await?;
        Ok(status.remembered().lineage.bootstrap.is_some())
    })
    .await?;
    operator.kill(&holder, grace).await?;
    let taken = until("another replica works", patience, || async {
        Ok(operator.holder().await? != holder)
    })
    .await?;
    let ready = cluster.ready().await?;
    tell(&format!(
        "{name} to stop while it created a cluster: another replica worked after {:.1} s, Ready {:.1} s later",
        taken.as_secs_f32(),
        ready.as_secs_f32()
    ));
    check_truth(&cluster, 3, "3.6.16").await?;
    operator.scale(2).await
}

#[test]
fn after_a_restart_every_cluster_is_looked_after() -> Played {
    story(|stage| async move {
        let spec = json!({"size": 1, "version": "v3.6.16", "storage": {"size": "1Gi"}});
        let names = ["a", "b", "c"];
        for name in names {
            stage.create(name, spec.clone()).await?;
        }
        for name in names {
            stage.cluster(name).ready().await?;
        }
        let operator = Operator::disturb(&stage.client).await?;
        let play = async {
            let load = Load::start(&stage.cluster("a")).await?;
            let working = operator.holder().await?;
            operator.kill(&working, None).await?;
            until("another one works", HAND_OVER, || async {
                Ok(operator.holder().await? != working)
            })
            .await?;
            let delete = r#"{"spec":{"storage":{"claimPolicy":{"whenDeleted":"Delete"}}}}"#;
            for name in names {
                stage.commands.patch(name, delete).await?.accepted()?;
            }
            for name in names {
                stage.cluster(name).ready_within(HAND_OVER).await?;
            }
            load.finish().await.map(drop)
        };
        let outcome = play.await;
        operator.then_restore(outcome).await
    })
}

#[test]
fn the_operator_runs_outside_and_reaches_members_through_the_api_server() -> Played {
    story(|stage| async move {
        build().await?;
        let operator = Operator::disturb(&stage.client).await?;
        let play = async {
            operator.scale(0).await?;
            let mut outside = start_outside(&stage, &operator.image().await?)?;
            let spec = json!({"size": 3, "version": "v3.6.16", "storage": {"size": "1Gi"}});
            let cluster = stage.create("c", spec).await?;
            let ready = cluster.ready().await;
            let alive = outside.try_wait()?.is_none();
            outside.kill().await?;
            ensure!(alive, "it ended by itself");
            tell(&format!(
                "Ready from outside after {:.1} s",
                ready?.as_secs_f32()
            ));
            check_truth(&cluster, 3, "3.6.16").await
        };
        // It serves no webhook: the API server could not reach it.
        let admission = WithoutAdmission::begin(&stage.client).await?;
        let outcome = admission.then_restore(play.await).await;
        operator.then_restore(outcome).await
    })
}

/// With all of the workspace, as the tests were compiled: of the package alone, its dependencies would have other features and be
/// compiled once more.
async fn build() -> Result<()> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["build", "--workspace", "--bin", "etcd-operator"])
        .current_dir(env!("CARGO_MANIFEST_DIR"));
    let output = cargo.output().await?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(())
}

fn start_outside(stage: &Stage, image: &str) -> Result<Child> {
    // The tests lie in target/debug/deps, and programs in target/debug.
    let here = std::env::current_exe()?;
    let program = here
        .ancestors()
        .nth(2)
        .unwrap_or(Path::new("."))
        .join("etcd-operator");
    let kubeconfig = std::env::var("KUBECONFIG").context("KUBECONFIG is not set")?;
    let mut command = Command::new(&program);
    command
        .args([
            "run",
            "--reach",
            "port-forward",
            "--kubeconfig",
            &kubeconfig,
        ])
        .args(["--agent-image", image, "--namespaces", &stage.namespace])
        .args(["--probe-address", "127.0.0.1:0"])
        .stdin(Stdio::null())
        .kill_on_drop(true);
    command
        .spawn()
        .with_context(|| format!("start {}", program.display()))
}

#[test]
fn an_object_that_cannot_be_read_breaks_nothing_for_the_others() -> Played {
    story(|stage| async move {
        let operator = Operator::disturb(&stage.client).await?;
        let play = async {
            let admission = WithoutAdmission::begin(&stage.client).await?;
            let stored = store_malformed(&stage).await;
            admission.then_restore(stored).await?;
            let spec = json!({"size": 1, "version": "v3.6.16", "storage": {"size": "1Gi"}});
            let other = stage.create("other", spec.clone()).await?;
            other.ready().await?;
            // And when it is there from the beginning.
            let working = operator.holder().await?;
            operator.kill(&working, None).await?;
            let later = stage.create("later", spec).await?;
            later.ready().await?;
            says_so(&stage).await
        };
        let outcome = play.await;
        // Otherwise it would disturb the next story.
        let gone = stage
            .commands
            .kubectl(&[
                "delete",
                "etcdclusters.etcd.etcd.io",
                "malformed",
                "--wait=false",
            ])
            .await?;
        let outcome = outcome.and(gone.accepted().map(drop));
        operator.then_restore(outcome).await
    })
}

async fn says_so(stage: &Stage) -> Result<()> {
    let get = [
        "get",
        "etcdclusters.etcd.etcd.io",
        "malformed",
        "-o",
        "json",
    ];
    until(
        "the malformed object says what is wrong with it",
        MINUTE,
        || async {
            let object: Value =
                serde_json::from_str(&stage.commands.kubectl(&get).await?.accepted()?)?;
            let conditions = object["status"]["conditions"]
                .as_array()
                .cloned()
                .unwrap_or_default();
            let degraded = conditions
                .iter()
                .find(|condition| condition["type"] == "Degraded");
            let degraded = degraded.context("no condition Degraded")?;
            ensure!(
                degraded["status"] == "True" && degraded["reason"] == "InvalidSpec",
                "{degraded}"
            );
            Ok(true)
        },
    )
    .await
    .map(drop)
}

/// Stores what no schema of ours ever let in, by taking the schema away for a moment.
async fn store_malformed(stage: &Stage) -> Result<()> {
    let definitions: Api<CustomResourceDefinition> = Api::all(stage.client.clone());
    let name = "etcdclusters.etcd.etcd.io";
    let strict = definitions.get(name).await?;
    let mut loose = without_rules(serde_json::to_value(&strict)?);
    let spec = loose
        .pointer_mut("/spec/versions/0/schema/openAPIV3Schema/properties/spec")
        .context("the definition has no spec")?;
    *spec = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let loose: CustomResourceDefinition = serde_json::from_value(loose)?;
    definitions
        .replace(name, &PostParams::default(), &loose)
        .await?;
    let manifest = e2e::document(
        "malformed",
        &json!({"size": 3, "version": 36, "storage": ["none"]}),
    );
    let stored = until("the malformed object is stored", MINUTE, || async {
        let arguments = ["create", "--validate=false", "-f", "-"];
        stage
            .commands
            .kubectl_with(&arguments, &manifest)
            .await?
            .accepted()?;
        Ok(true)
    })
    .await;
    let mut strict = strict;
    strict.metadata.resource_version = definitions.get(name).await?.metadata.resource_version;
    definitions
        .replace(name, &PostParams::default(), &strict)
        .await?;
    until("the schema is in force again", MINUTE, || async {
        let probe = e2e::document("probe", &json!({"size": 2}));
        Ok(!stage.commands.try_apply(&probe).await?.ok)
    })
    .await?;
    stored.map(drop)
}

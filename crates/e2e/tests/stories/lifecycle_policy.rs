//! The NetworkPolicy of a cluster, by real packets: a network that knows policies is mocked, the policy is the operator's.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use api::names;
use e2e::{Cluster, MINUTE, Played, PolicyMock, Stage, deep, skipped, story, until};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::ResourceExt;
use serde_json::{Value, json};

/// A pod that waits to be told what to call.
fn caller(name: &str) -> String {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": {"app": name}},
        "spec": {
            "terminationGracePeriodSeconds": 0, "automountServiceAccountToken": false,
            "securityContext": {"runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": {"type": "RuntimeDefault"}},
            "containers": [{
                "name": "caller", "image": "localhost/busybox:1", "imagePullPolicy": "Never",
                "command": ["sleep", "3600"],
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            }],
        }})
    .to_string()
}

/// Whether a connection comes about. What is dropped is noticed by its absence.
async fn reaches(stage: &Stage, from: &str, address: &str, port: u16) -> Result<bool> {
    let call = format!("exec {from} -- timeout 4 sh -c");
    let mut words: Vec<&str> = call.split(' ').collect();
    let connect = format!("nc -w 2 {address} {port} < /dev/null > /dev/null");
    words.push(&connect);
    Ok(stage.commands.kubectl(&words).await?.ok)
}

fn address(pod: &Pod) -> Result<String> {
    let status = pod.status.as_ref();
    let address = status.and_then(|status| status.pod_ip.clone());
    address.context("no address")
}

/// Who reaches which port of every member, and nothing else.
async fn is_closed(stage: &Stage, cluster: &Cluster) -> Result<()> {
    let ports = [
        names::CLIENT_PORT,
        names::PEER_PORT,
        names::METRICS_PORT,
        names::SECURE_PORT,
    ];
    let allowed = |from: &str, port: u16| {
        (from == "named" && port == names::CLIENT_PORT)
            || (from == "scraper" && port == names::METRICS_PORT)
    };
    for (name, pod) in cluster.pods().await? {
        for from in ["named", "scraper", "stranger"] {
            for port in ports {
                let got = reaches(stage, from, &address(&pod)?, port).await?;
                let wanted = allowed(from, port);
                ensure!(
                    got == wanted,
                    "{from} to {name}:{port}: {got}, not {wanted}"
                );
            }
        }
    }
    Ok(())
}

fn spec(size: u32, policy: &Value) -> Value {
    json!({"size": size, "version": "v3.6.16", "storage": {"size": "1Gi"},
           "security": {"tls": {}, "networkPolicy": policy}})
}

#[test]
fn a_network_policy_lets_in_members_operator_and_those_that_are_named() -> Played {
    if !deep() {
        skipped("E2E_DEEP is not set");
        return Ok(());
    }
    story(|stage| async move {
        let named = |app: &str| json!([{"podSelector": {"matchLabels": {"app": app}}}]);
        let policy = json!({"clients": named("named"), "metrics": named("scraper")});
        for name in ["named", "scraper", "stranger"] {
            stage.commands.apply(&caller(name)).await?.accepted()?;
        }
        let cluster = stage.create("c", spec(1, &policy)).await?;
        cluster.ready_within(MINUTE * 2).await?;
        let pods = cluster.pods().await?;
        let first = pods.get("c-0").context("no pod")?;
        until(
            "a stranger comes in while nothing carries the policy out",
            MINUTE,
            || async { reaches(&stage, "stranger", &address(first)?, names::CLIENT_PORT).await },
        )
        .await?;
        let policies = stage.list::<NetworkPolicy>().await?;
        ensure!(policies.len() == 1, "{policies:?}");
        let Some(mock) = PolicyMock::start(&stage).await? else {
            return Ok(());
        };
        is_closed(&stage, &cluster).await?;
        // The operator reaches the gates of new members, and they reach each other.
        cluster.resize(3).await?;
        cluster.ready_within(MINUTE * 2).await?;
        is_closed(&stage, &cluster).await?;
        let before = cluster.pods().await?;
        let killed = before.get("c-1").context("no pod")?;
        cluster.kill(killed).await?;
        until("the member is back in another pod", MINUTE * 2, || async {
            let pods = cluster.pods().await?;
            let now = pods.get("c-1").context("no pod")?;
            Ok(now.uid() != killed.uid())
        })
        .await?;
        cluster.ready_within(MINUTE * 2).await?;
        opened(&stage, &cluster).await?;
        mock.stop().await
    })
}

/// Taken out, it closes nothing any more.
async fn opened(stage: &Stage, cluster: &Cluster) -> Result<()> {
    let off = r#"{"spec":{"security":{"networkPolicy":{"enabled":false}}}}"#;
    stage.commands.patch("c", off).await?.accepted()?;
    let pods = cluster.pods().await?;
    let first = pods.get("c-0").context("no pod")?;
    let patience = MINUTE + Duration::from_secs(30);
    until("a stranger comes in again", patience, || async {
        reaches(stage, "stranger", &address(first)?, names::CLIENT_PORT).await
    })
    .await
    .map(drop)
}

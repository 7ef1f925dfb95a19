//! A user lets clients in from outside, and takes that back.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::{Cluster, Load, MINUTE, Played, Stage, check_truth, story, tell, until};
use k8s_openapi::api::core::v1::{Node, Pod, Service, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The port that the spec asks for.
const ASKED: i32 = 30379;

#[test]
fn node_ports_lead_to_etcd_from_outside_and_go_when_they_are_taken_back() -> Played {
    story(|stage| async move {
        let spec = json!({"size": 1, "version": "v3.6.16", "storage": {"size": "1Gi"}, "access": {"type": "NodePort"}});
        // In plaintext: what is asked from outside has no certificate.
        let first = stage.create_as_written("c", spec.clone()).await?;
        let second = stage.create_as_written("d", spec).await?;
        first.ready().await?;
        second.ready().await?;
        let load = Load::start(&first).await?;
        let before = first.pods().await?;
        let (one, other) = (port(&stage, "c").await?, port(&stage, "d").await?);
        ensure!(one != other, "both clusters have the port {one}");
        reaches(&stage, one).await?;
        reaches(&stage, other).await?;
        edit(&first, &json!({"type": "NodePort", "nodePort": ASKED})).await?;
        until("the port is the one asked for", MINUTE, || async {
            let now = port(&stage, "c").await?;
            ensure!(now == ASKED, "it is {now}");
            Ok(true)
        })
        .await?;
        reaches(&stage, ASKED).await?;
        edit(&first, &Value::Null).await?;
        is_gone(&stage, "c-nodeport").await?;
        let client = stage.api::<Service>().get("c-client").await?;
        let kind = client.spec.and_then(|spec| spec.type_);
        ensure!(kind.as_deref() == Some("ClusterIP"), "{kind:?}");
        ensure!(port(&stage, "d").await? == other, "the other one changed");
        let uid = |pods: &std::collections::BTreeMap<String, Pod>| {
            pods.get("c-0").and_then(|pod| pod.metadata.uid.clone())
        };
        ensure!(
            uid(&first.pods().await?) == uid(&before),
            "c-0 was restarted"
        );
        load.finish().await?;
        first.ready().await?;
        check_truth(&first, 1, "3.6.16").await
    })
}

#[test]
fn a_load_balancer_gets_what_it_is_given_and_loses_what_is_taken_out() -> Played {
    story(|stage| async move {
        let access = json!({"type": "LoadBalancer", "loadBalancerClass": "example.com/none",
            "annotations": {"example.com/kept": "a", "example.com/dropped": "b"},
            "loadBalancerSourceRanges": ["10.0.0.0/8"], "externalTrafficPolicy": "Local"});
        let security = json!({"networkPolicy": {"clients": [{"podSelector": {}}]}});
        let spec = json!({"size": 1, "version": "v3.6.16", "storage": {"size": "1Gi"}, "access": access, "security": security});
        let cluster = stage.create("c", spec).await?;
        cluster.ready().await?;
        has_network_policy(&stage).await?;
        what_is_edited_comes_back(&stage).await?;
        let made = stage.api::<Service>().get("c-lb").await?;
        let spec = made.spec.clone().context("no spec")?;
        ensure!(spec.type_.as_deref() == Some("LoadBalancer"), "{spec:?}");
        ensure!(
            spec.load_balancer_class.as_deref() == Some("example.com/none")
                && spec.external_traffic_policy.as_deref() == Some("Local")
                && spec.load_balancer_source_ranges == Some(vec!["10.0.0.0/8".to_owned()]),
            "{spec:?}"
        );
        // This cluster has no provider of load balancers: the Service waits for its address, and the cluster is Ready
        // all the same.
        let address = made.status.and_then(|status| status.load_balancer);
        let ingress = address.and_then(|balancer| balancer.ingress);
        ensure!(ingress.unwrap_or_default().is_empty(), "it has an address");
        has_annotations(&stage, &["example.com/kept", "example.com/dropped"], &[]).await?;
        // Annotations of another writer stay.
        let theirs = ["annotate", "service", "c-lb", "example.com/theirs=c"];
        stage.commands.kubectl(&theirs).await?.accepted()?;
        let drop = r#"{"spec":{"access":{"annotations":{"example.com/dropped":null}}}}"#;
        stage.commands.patch("c", drop).await?.accepted()?;
        has_annotations(
            &stage,
            &["example.com/kept", "example.com/theirs"],
            &["example.com/dropped"],
        )
        .await?;
        edit(&cluster, &Value::Null).await?;
        is_gone(&stage, "c-lb").await?;
        let open = r#"{"spec":{"security":{"networkPolicy":{"enabled":false}}}}"#;
        stage.commands.patch("c", open).await?.accepted()?;
        until("the NetworkPolicy is gone", MINUTE, || async {
            let policy = stage.api::<NetworkPolicy>().get_opt("c").await?;
            Ok(policy.is_none())
        })
        .await?;
        cluster.ready().await?;
        check_truth(&cluster, 1, "3.6.16").await
    })
}

#[test]
fn a_member_that_does_not_vote_yet_is_no_address_for_clients() -> Played {
    story(|stage| async move {
        let spec = json!({"size": 1, "version": "v3.6.16", "storage": {"size": "1Gi"}});
        let cluster = stage.create("c", spec).await?;
        cluster.ready().await?;
        let load = Load::start(&cluster).await?;
        cluster.resize(3).await?;
        let learners = AtomicU32::new(0);
        until(
            "all three are addresses for clients",
            MINUTE * 2,
            || async {
                // First who is ready, then who votes: no member stops voting meanwhile.
                let ready = ready_addresses(&stage).await?;
                let list = cluster.any_member().await?;
                let list = list.member_list(etcd::Consistency::Linearizable).await?;
                let waiting = list.members.iter().filter(|member| member.is_learner);
                for learner in waiting {
                    learners.fetch_add(1, Ordering::SeqCst);
                    assert!(
                        !ready.contains(&learner.name),
                        "{} does not vote and is ready",
                        learner.name
                    );
                }
                Ok(ready.len() == 3)
            },
        )
        .await?;
        let learners = learners.into_inner();
        tell(&format!("looked at learners {learners} times"));
        ensure!(learners > 0, "no learner was seen");
        load.finish().await?;
        cluster.ready().await?;
        check_truth(&cluster, 3, "3.6.16").await
    })
}

/// It selects the members, and is as the API server keeps it: it is not written again and again.
async fn has_network_policy(stage: &Stage) -> Result<()> {
    let policy = stage.api::<NetworkPolicy>().get("c").await?;
    ensure!(policy.metadata.generation == Some(1), "{policy:?}");
    let spec = policy.spec.context("no spec")?;
    let rules = spec.ingress.unwrap_or_default().len();
    ensure!(
        rules == 4,
        "members, operator, keepers and clients, but {rules} rules"
    );
    let selector = spec.pod_selector.and_then(|it| it.match_labels);
    let selector = selector.unwrap_or_default().into_iter();
    let selector: Vec<String> = selector
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    let members = ListParams::default().labels(&selector.join(","));
    let selected = stage.api::<Pod>().list(&members).await?.items.len();
    ensure!(selected == 1, "{selected} pods are selected");
    Ok(())
}

/// Another writer opens the policy, and takes a label off the ServiceAccount.
async fn what_is_edited_comes_back(stage: &Stage) -> Result<()> {
    let label = api::labels::COMPONENT;
    let unlabel = format!(r#"{{"metadata":{{"labels":{{"{label}":null}}}}}}"#);
    let open = r#"{"spec":{"ingress":[{}]}}"#;
    for (kind, patch) in [
        ("networkpolicy", open),
        ("serviceaccount", unlabel.as_str()),
    ] {
        let words = ["patch", kind, "c", "--type=merge", "--patch", patch];
        stage.commands.kubectl(&words).await?.accepted()?;
    }
    until("both are as they were", MINUTE, || async {
        let policy = stage.api::<NetworkPolicy>().get("c").await?;
        let rules = policy.spec.and_then(|spec| spec.ingress);
        let account = stage.api::<ServiceAccount>().get("c").await?;
        let labels = account.metadata.labels.unwrap_or_default();
        Ok(rules.unwrap_or_default().len() == 4 && labels.contains_key(label))
    })
    .await
    .map(drop)
}

async fn edit(cluster: &Cluster, access: &Value) -> Result<()> {
    let patch = json!({"spec": {"access": access}}).to_string();
    let answer = cluster.stage.commands.patch(&cluster.name, &patch).await?;
    answer.accepted().map(drop)
}

async fn port(stage: &Stage, cluster: &str) -> Result<i32> {
    let service = stage.api::<Service>();
    let service = service.get(&format!("{cluster}-nodeport")).await?;
    let ports = service.spec.and_then(|spec| spec.ports).unwrap_or_default();
    let port = ports.first().and_then(|port| port.node_port);
    port.context("no port on the nodes")
}

/// Every node leads to etcd, which says so itself.
async fn reaches(stage: &Stage, port: i32) -> Result<()> {
    let nodes: Api<Node> = Api::all(stage.client.clone());
    for node in nodes.list(&ListParams::default()).await? {
        let addresses = node.status.and_then(|status| status.addresses);
        let mut addresses = addresses.into_iter().flatten();
        let internal = addresses.find(|address| address.type_ == "InternalIP");
        let address = format!("{}:{port}", internal.context("no address")?.address);
        until(format!("etcd answers at {address}"), MINUTE, || async {
            let asked = tokio::time::timeout(Duration::from_secs(2), version_at(&address));
            Ok(asked.await??.contains("etcdserver"))
        })
        .await?;
    }
    Ok(())
}

/// What a plain client gets from `/version`.
async fn version_at(address: &str) -> Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET /version HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}

async fn is_gone(stage: &Stage, service: &str) -> Result<()> {
    until(format!("{service} is gone"), MINUTE, || async {
        Ok(stage.api::<Service>().get_opt(service).await?.is_none())
    })
    .await
    .map(drop)
}

async fn has_annotations(stage: &Stage, there: &[&str], gone: &[&str]) -> Result<()> {
    let what = format!("the Service has {there:?} and not {gone:?}");
    until(what, MINUTE, || async {
        let service = stage.api::<Service>().get("c-lb").await?;
        let annotations = service.metadata.annotations.unwrap_or_default();
        let has = |key: &&str| annotations.contains_key(*key);
        ensure!(
            there.iter().all(has) && !gone.iter().any(has),
            "{annotations:?}"
        );
        Ok(true)
    })
    .await
    .map(drop)
}

/// Names of the pods that clients are led to.
async fn ready_addresses(stage: &Stage) -> Result<Vec<String>> {
    let ours = ListParams::default().labels("kubernetes.io/service-name=c-client");
    let slices = stage.api::<EndpointSlice>().list(&ours).await?;
    let endpoints = slices.items.into_iter().flat_map(|slice| slice.endpoints);
    let ready = endpoints.filter(|endpoint| {
        let conditions = endpoint.conditions.as_ref();
        conditions.and_then(|conditions| conditions.ready) == Some(true)
    });
    let named = ready.filter_map(|endpoint| endpoint.target_ref?.name);
    Ok(named.collect())
}

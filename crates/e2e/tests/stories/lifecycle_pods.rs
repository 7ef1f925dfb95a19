//! A user decides where and how the pods run, and how etcd is set, while the cluster is at work.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use e2e::{
    Cluster, LIMIT, Load, MINUTE, Played, Stage, Witness, check_truth, comes_true, settled, story,
    tell, until,
};
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec, Probe};
use k8s_openapi::api::scheduling::v1::PriorityClass;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

#[test]
fn everything_about_pods_and_etcd_in_one_edit_reaches_every_member_and_can_be_taken_out() -> Played
{
    story(|stage| async move {
        // Preemption would take the pods of other stories.
        let class = json!({"metadata": {"name": format!("{}-class", stage.unique())}, "value": 7, "preemptionPolicy": "Never"});
        let class: PriorityClass = serde_json::from_value(class)?;
        let classes: Api<PriorityClass> = Api::all(stage.client.clone());
        classes.create(&PostParams::default(), &class).await?;
        let outcome = everything(&stage, &class.name_any()).await;
        classes
            .delete(&class.name_any(), &DeleteParams::default())
            .await?;
        outcome
    })
}

async fn everything(stage: &Stage, class: &str) -> Result<()> {
    let cluster = three(stage).await?;
    let before = cluster.pods().await?;
    let seen = roll(&cluster, "all of it", &wishes(class), &before).await?;
    tell(&format!("all of it reached {seen:?}"));
    let pods = cluster.pods().await?;
    for (name, pod) in &pods {
        has_everything(pod, class).with_context(|| name.clone())?;
    }
    comes_true(&cluster, 3, "3.6.16").await?;
    // A node selector that is taken out is gone, and so is the rest that was said about pods.
    roll(&cluster, "taken out", &json!({"pod": null}), &pods).await?;
    for (name, pod) in cluster.pods().await? {
        let spec = spec(&pod)?;
        ensure!(
            spec.node_selector.is_none(),
            "{name} {:?}",
            spec.node_selector
        );
        ensure!(spec.containers.len() == 1, "{name} has a second container");
        ensure!(!pod.labels().contains_key("example.com/team"), "{name}");
        ensure!(spec.priority_class_name.is_none(), "{name}");
        let arguments = arguments(&pod)?;
        ensure!(
            arguments.contains(&"--snapshot-count=5000".to_owned()),
            "{name} lost what was not taken out: {arguments:?}"
        );
    }
    comes_true(&cluster, 3, "3.6.16").await.map(drop)
}

/// One edit with all that can be said.
fn wishes(class: &str) -> Value {
    json!({
        "pod": {
            "labels": {"example.com/team": "blue"},
            "annotations": {"example.com/contact": "team-a"},
            "nodeSelector": {"kubernetes.io/os": "linux"},
            "tolerations": [{"key": "example.com/busy", "operator": "Exists", "effect": "NoSchedule"}],
            "affinity": {"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 1,
                "podAffinityTerm": {"topologyKey": "kubernetes.io/hostname",
                    "labelSelector": {"matchLabels": {"example.com/team": "blue"}}}}]}},
            "priorityClassName": class,
            "env": [{"name": "GOMAXPROCS", "value": "2"}],
            "volumes": [{"name": "scratch", "emptyDir": {}}],
            "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
            "containers": [{"name": "beside", "image": "localhost/busybox:1",
                "command": ["sh", "-c", "trap 'exit 0' TERM; while true; do sleep 1; done"],
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}],
            "terminationGracePeriodSeconds": 20,
            "probes": {"readiness": {"periodSeconds": 1}, "liveness": {"periodSeconds": 7, "failureThreshold": 9}},
        },
        "etcd": {
            "quotaBackendBytes": "256Mi",
            "autoCompaction": {"mode": "Revision", "retention": "1000"},
            "heartbeatIntervalMilliseconds": 90, "electionTimeoutMilliseconds": 900,
            "snapshotCount": 5000, "logLevel": "warn", "maxRequestBytes": "2Mi",
            "flags": {"max-txn-ops": "256"},
        },
    })
}

fn has_everything(pod: &Pod, class: &str) -> Result<()> {
    ensure!(
        pod.labels()
            .get("example.com/team")
            .is_some_and(|team| team == "blue")
    );
    ensure!(pod.annotations().contains_key("example.com/contact"));
    let spec = spec(pod)?;
    let selector = spec.node_selector.clone().unwrap_or_default();
    ensure!(
        selector
            .get("kubernetes.io/os")
            .is_some_and(|os| os == "linux")
    );
    let mut tolerations = spec.tolerations.iter().flatten();
    ensure!(tolerations.any(|one| one.key.as_deref() == Some("example.com/busy")));
    let affinity = spec.affinity.as_ref();
    ensure!(affinity.is_some_and(|affinity| affinity.pod_anti_affinity.is_some()));
    ensure!(spec.priority_class_name.as_deref() == Some(class) && spec.priority == Some(7));
    ensure!(spec.termination_grace_period_seconds == Some(20));
    ensure!(spec.containers.iter().any(|one| one.name == "beside"));
    let etcd = etcd(pod)?;
    let mut env = etcd.env.iter().flatten();
    ensure!(env.any(|one| one.name == "GOMAXPROCS" && one.value.as_deref() == Some("2")));
    let mut mounts = etcd.volume_mounts.iter().flatten();
    ensure!(mounts.any(|mount| mount.mount_path == "/scratch"));
    let period = |probe: &Option<Probe>| probe.as_ref().and_then(|probe| probe.period_seconds);
    ensure!(period(&etcd.readiness_probe) == Some(1));
    ensure!(period(&etcd.liveness_probe) == Some(7));
    let arguments = arguments(pod)?;
    for wanted in [
        "--quota-backend-bytes=268435456",
        "--auto-compaction-mode=revision",
        "--auto-compaction-retention=1000",
        "--heartbeat-interval=90",
        "--election-timeout=900",
        "--snapshot-count=5000",
        "--log-level=warn",
        "--max-request-bytes=2097152",
        "--max-txn-ops=256",
    ] {
        ensure!(
            arguments.contains(&wanted.to_owned()),
            "{wanted} is not in {arguments:?}"
        );
    }
    Ok(())
}

#[test]
fn a_flag_that_etcd_does_not_know_stops_at_the_first_member_and_can_be_taken_back() -> Played {
    story(|stage| async move {
        let cluster = three(&stage).await?;
        let before = cluster.pods().await?;
        let load = Load::start_part(&cluster, "stuck").await?;
        let flag = |value: &Value| json!({"spec": {"etcd": {"flags": {"no-such-flag": value}}}});
        let patch = flag(&json!("1")).to_string();
        stage.commands.patch("c", &patch).await?.accepted()?;
        // Halted, with etcd's own words.
        let words = ["c-", "tries the new template", "no-such-flag"];
        let words = cluster.complains("Degraded", &words).await?;
        tell(&format!(
            "a flag that etcd does not know is told as: {words}"
        ));
        let others = || async {
            let now = cluster.pods().await?;
            let same = now
                .iter()
                .filter(|(name, pod)| before.get(*name).is_some_and(|old| old.uid() == pod.uid()));
            Ok(same.count() == 2)
        };
        settled(
            &stage,
            "two pods are what they were",
            Duration::from_secs(10),
            others,
        )
        .await?;
        load.finish().await?.assert_gap(LIMIT)?;
        let load = Load::start_part(&cluster, "taken back").await?;
        let patch = flag(&Value::Null).to_string();
        stage.commands.patch("c", &patch).await?.accepted()?;
        cluster.ready_within(MINUTE * 2).await?;
        ensure!(others().await?, "another member was restarted");
        load.finish().await?.assert_gap(LIMIT)?;
        comes_true(&cluster, 3, "3.6.16").await.map(drop)
    })
}

#[test]
fn a_container_for_debugging_joins_every_pod_and_restarts_none() -> Played {
    story(|stage| async move {
        let cluster = three(&stage).await?;
        let before = restarts(&cluster.pods().await?);
        let load = Load::start(&cluster).await?;
        let witness = Witness::start(&cluster).await?;
        let patch = r#"{"spec":{"debug":{"enabled":true,"image":"localhost/busybox:1"}}}"#;
        stage.commands.patch("c", patch).await?.accepted()?;
        until(
            "a container for debugging runs in every pod",
            MINUTE,
            || async {
                let pods = cluster.pods().await?;
                let without: Vec<&String> = pods
                    .iter()
                    .filter(|(_, pod)| !is_debugged(pod))
                    .map(|(name, _)| name)
                    .collect();
                ensure!(without.is_empty(), "without: {without:?}");
                Ok(pods.len() == 3)
            },
        )
        .await?;
        cluster.ready().await?;
        let seen = witness.finish().await?;
        ensure!(seen.most_away == 0, "a member was not ready");
        let after = restarts(&cluster.pods().await?);
        ensure!(after == before, "{before:?} became {after:?}");
        check_truth(&cluster, 3, "3.6.16").await?;
        // It sees etcd, and it is still there when the annotation is gone.
        let look = [
            "exec",
            "c-0",
            "-c",
            "debug",
            "--",
            "sh",
            "-c",
            "ps | grep -c '[e]tcd --name'",
        ];
        let found = stage.commands.kubectl(&look).await?.accepted()?;
        ensure!(found.trim() != "0", "it does not see etcd");
        let off = r#"{"spec":{"debug":null}}"#;
        stage.commands.patch("c", off).await?.accepted()?;
        cluster.ready().await?;
        settled(
            &stage,
            "no member is restarted",
            Duration::from_secs(5),
            || async { Ok(restarts(&cluster.pods().await?) == before) },
        )
        .await?;
        load.finish().await?.assert_gap(LIMIT)
    })
}

async fn three(stage: &Stage) -> Result<Cluster> {
    let spec = json!({"size": 3, "version": "v3.6.16", "storage": {"size": "1Gi"}});
    let cluster = stage.create("c", spec).await?;
    cluster.ready().await?;
    Ok(cluster)
}

/// Edits the spec while clients are at work, until every pod was replaced.
async fn roll(
    cluster: &Cluster,
    part: &str,
    spec: &Value,
    before: &BTreeMap<String, Pod>,
) -> Result<Vec<String>> {
    let load = Load::start_part(cluster, part).await?;
    let witness = Witness::start(cluster).await?;
    let patch = json!({"spec": spec}).to_string();
    let answer = cluster.stage.commands.patch(&cluster.name, &patch).await?;
    answer.accepted()?;
    cluster.replaced(before, 3).await?;
    let seen = witness.finish().await?;
    let report = load.finish().await?;
    ensure!(seen.most_away <= 1, "{} were away at once", seen.most_away);
    report.assert_gap(LIMIT)?;
    Ok(seen.replaced)
}

fn spec(pod: &Pod) -> Result<&PodSpec> {
    pod.spec.as_ref().context("no spec")
}

fn etcd(pod: &Pod) -> Result<&Container> {
    let mut containers = spec(pod)?.containers.iter();
    let etcd = containers.find(|container| container.name == "etcd");
    etcd.context("no container etcd")
}

/// Command and arguments of etcd.
fn arguments(pod: &Pod) -> Result<Vec<String>> {
    let etcd = etcd(pod)?;
    Ok(etcd
        .command
        .iter()
        .chain(&etcd.args)
        .flatten()
        .cloned()
        .collect())
}

/// UID and restarts of etcd by name.
fn restarts(pods: &BTreeMap<String, Pod>) -> BTreeMap<String, (Option<String>, Vec<i32>)> {
    let count = |pod: &Pod| {
        let status = pod.status.iter();
        let containers = status.flat_map(|status| status.container_statuses.iter().flatten());
        containers
            .map(|container| container.restart_count)
            .collect()
    };
    pods.iter()
        .map(|(name, pod)| (name.clone(), (pod.uid(), count(pod))))
        .collect()
}

fn is_debugged(pod: &Pod) -> bool {
    let status = pod.status.iter();
    let mut all = status.flat_map(|status| status.ephemeral_container_statuses.iter().flatten());
    all.any(|container| {
        let state = container.state.as_ref();
        container.name == "debug" && state.is_some_and(|state| state.running.is_some())
    })
}

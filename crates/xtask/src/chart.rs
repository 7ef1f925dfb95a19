//! What the chart makes of its values for monitoring: nothing by default, nothing of kinds that Kubernetes does not know, and
//! otherwise rules that promtool reads, dashboards that are JSON, and no place that is not filled in.

use std::collections::BTreeMap;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use serde_yaml::Value;

use crate::cluster::{Layout, PROMETHEUS, helm};
use crate::deploy::{NAMESPACE, root};
use crate::publish::LOCAL;
use crate::tools::{output, run};

const PARTS: [&str; 4] = [
    "serviceMonitor",
    "podMonitor",
    "prometheusRule",
    "dashboards",
];
const OF_PROMETHEUS_OPERATOR: [&str; 3] = ["ServiceMonitor", "PodMonitor", "PrometheusRule"];

/// Renders the chart in four ways and looks at what comes.
pub(crate) fn check(layout: &Layout) -> Result<()> {
    let none = kinds(&render(layout, &[], false)?);
    let all_off = !none.contains_key("ConfigMap") && !knows_monitors(&none);
    ensure!(all_off, "by default the chart must watch nothing: {none:?}");

    let on: Vec<String> = PARTS
        .iter()
        .map(|part| format!("metrics.{part}.enabled=true"))
        .collect();
    let on: Vec<&str> = on.iter().map(String::as_str).collect();
    let without = kinds(&render(layout, &on, false)?);
    let left_out = without.get("ConfigMap") == Some(&3) && !knows_monitors(&without);
    ensure!(
        left_out,
        "kinds that are not known must be left out: {without:?}"
    );

    let label = [&on[..], &["metrics.clusterLabel=etcd_name"]].concat();
    let objects = render(layout, &label, true)?;
    let all = kinds(&objects);
    let complete = OF_PROMETHEUS_OPERATOR
        .iter()
        .all(|kind| all.get(*kind) == Some(&1));
    ensure!(
        complete,
        "something is missing of what was asked for: {all:?}"
    );
    for object in &objects {
        look_at(layout, object)?;
    }
    let alone = render(layout, &["metrics.prometheusRule.enabled=true"], true)?;
    let groups = alone.iter().find_map(|object| groups(object));
    let groups = groups.map(Vec::len);
    ensure!(
        groups == Some(2),
        "alerts about members need their pages, but there are {groups:?} groups"
    );
    Ok(())
}

fn knows_monitors(kinds: &BTreeMap<String, usize>) -> bool {
    OF_PROMETHEUS_OPERATOR
        .iter()
        .any(|kind| kinds.contains_key(*kind))
}

fn render(layout: &Layout, values: &[&str], knows: bool) -> Result<Vec<Value>> {
    let mut command = Command::new(helm(layout));
    command
        .args(["template", "etcd-operator"])
        .arg(root().join("charts/etcd-operator"))
        .args(["--namespace", NAMESPACE])
        .args(["--set", &format!("image.repository={LOCAL}")]);
    for value in values {
        command.args(["--set", value]);
    }
    for kind in OF_PROMETHEUS_OPERATOR.iter().filter(|_| knows) {
        command.args([
            "--api-versions",
            &format!("monitoring.coreos.com/v1/{kind}"),
        ]);
    }
    let text = output(&mut command).context("render the chart")?;
    let documents = serde_yaml::Deserializer::from_str(&text).map(Value::deserialize);
    let documents: Result<Vec<Value>, _> = documents.collect();
    let documents = documents.context("read what the chart renders")?;
    Ok(documents.into_iter().filter(|it| !it.is_null()).collect())
}

fn kinds(objects: &[Value]) -> BTreeMap<String, usize> {
    let mut kinds = BTreeMap::new();
    for object in objects {
        let kind = object
            .get("kind")
            .and_then(Value::as_str)
            .unwrap_or_default();
        *kinds.entry(kind.to_owned()).or_default() += 1;
    }
    kinds
}

fn groups(object: &Value) -> Option<&Vec<Value>> {
    let rules = object.get("kind")?.as_str()? == "PrometheusRule";
    object
        .get("spec")?
        .get("groups")?
        .as_sequence()
        .filter(|_| rules)
}

fn look_at(layout: &Layout, object: &Value) -> Result<()> {
    let kind = object
        .get("kind")
        .and_then(Value::as_str)
        .unwrap_or_default();
    let dashboard = kind == "ConfigMap";
    if !dashboard && !OF_PROMETHEUS_OPERATOR.contains(&kind) {
        return Ok(());
    }
    let text = serde_yaml::to_string(object)?;
    for place in [
        signals::CLUSTER,
        signals::rules::RUNBOOKS,
        signals::rules::OPERATOR,
    ] {
        ensure!(!text.contains(place), "{kind}: {place} is not filled in");
    }
    if dashboard {
        let data = object
            .get("data")
            .and_then(Value::as_mapping)
            .context("no data")?;
        for (name, content) in data {
            let content = content.as_str().context("not a text")?;
            serde_json::from_str::<serde_json::Value>(content)
                .with_context(|| format!("read the dashboard {name:?}"))?;
        }
    }
    if let Some(groups) = groups(object) {
        ensure!(
            groups.len() == 3,
            "with the PodMonitor there are three groups"
        );
        let directory = tempfile::tempdir()?;
        let path = directory.path().join("rules.yaml");
        let rules = serde_json::json!({"groups": groups});
        std::fs::write(&path, rules.to_string())?;
        let mut promtool = Command::new(layout.bin("promtool", PROMETHEUS));
        run(promtool.args(["check", "rules", "--lint=none"]).arg(&path))?;
    }
    Ok(())
}

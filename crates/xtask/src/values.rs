//! The values of the chart, tried with the real helm and without a cluster: values that are wrong are refused by its schema, and an
//! installation that may make nothing without a namespace makes nothing without one.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::Deserialize as _;
use serde_json::Value;

use crate::cluster::{Layout, helm};
use crate::deploy::root;
use crate::publish::{LOCAL, VERSION};
use crate::release::package;
use crate::tools::output;

/// A value as `--set` takes it, and what helm must say of it.
const WRONG: [(&str, &str); 15] = [
    ("image.repository=", "image.repository is empty"),
    ("image.repository=a.b/c:v1", "/image/repository"),
    ("image.digest=abc", "/image/digest"),
    ("image.pullPolicy=Sometimes", "/image/pullPolicy"),
    ("image.regstry=a.b/c", "'regstry' not allowed"),
    ("replica=2", "'replica' not allowed"),
    ("replicas=-1", "/replicas"),
    ("replicas=two", "/replicas"),
    ("workers=0", "/workers"),
    ("log.format=xml", "/log/format"),
    ("namespaces={Team_A}", "/namespaces/0"),
    ("clusterScoped=false", "/namespaces"),
    ("podUser=1000", "/podUser"),
    ("resources.limits.memory=lots", "/resources/limits/memory"),
    ("test.version=v4", "/test/version"),
];

/// Values that belong together.
const RIGHT: [&str; 7] = [
    "replicas=2",
    "image.digest=sha256:0000000000000000000000000000000000000000000000000000000000000000",
    "namespaces={team-a,team-b}",
    "namespaces={team-a},clusterScoped=false",
    "podUser=Assigned,webhook=false,warnings=false,crds=false",
    "resources.limits.cpu=1,resources.requests.memory=64Mi,nodeSelector.disk=fast",
    "imagePullSecrets[0].name=pull,priorityClassName=high,tolerations[0].operator=Exists",
];

/// All that may be made with rights in namespaces only.
const IN_NAMESPACES: [&str; 5] = ["Deployment", "Pod", "Role", "RoleBinding", "ServiceAccount"];

/// Tries all of it.
pub(crate) fn check(layout: &Layout) -> Result<()> {
    check_version()?;
    for values in RIGHT {
        render(layout, values)?;
    }
    for (values, wanted) in WRONG {
        let Err(refused) = render(layout, values) else {
            anyhow::bail!(
                "the chart takes --set {values}\nhint: charts/etcd-operator/values.schema.json"
            )
        };
        let said = format!("{refused:#}");
        ensure!(
            said.contains(wanted),
            "--set {values} is refused, and not for {wanted:?}: {said}"
        );
    }
    let made = kinds(&render(
        layout,
        "namespaces={team-a,team-b},clusterScoped=false",
    )?)?;
    let allowed = BTreeSet::from(IN_NAMESPACES.map(str::to_owned));
    let more: Vec<&String> = made.difference(&allowed).collect();
    ensure!(
        more.is_empty(),
        "clusterScoped=false makes {more:?}, which may have no namespace\nhint: charts/etcd-operator/templates"
    );
    check_package(layout)?;
    eprintln!(
        "the chart: {} values refused, {} taken",
        WRONG.len(),
        RIGHT.len()
    );
    Ok(())
}

/// The chart, what it installs and the programs are one release.
fn check_version() -> Result<()> {
    let text = std::fs::read_to_string(root().join("charts/etcd-operator/Chart.yaml"))?;
    let chart: Value = serde_yaml::from_str(&text)?;
    for key in ["version", "appVersion"] {
        let said = chart.get(key).and_then(Value::as_str);
        ensure!(
            said == Some(VERSION),
            "{key} of charts/etcd-operator/Chart.yaml is {said:?}, and the workspace is {VERSION}"
        );
    }
    Ok(())
}

/// What a release packs is a chart for helm, and needs no value.
fn check_package(layout: &Layout) -> Result<()> {
    let directory = tempfile::tempdir()?;
    let file = directory
        .path()
        .join(format!("etcd-operator-{VERSION}.tgz"));
    let digest = format!("sha256:{}", "0".repeat(64));
    std::fs::write(
        &file,
        package::chart("registry.example.org/team/etcd-operator", &digest)?,
    )?;
    let of = |word: &str| {
        let mut command = Command::new(helm(layout));
        output(command.args([word, "etcd-operator"]).arg(&file))
    };
    let wanted = format!("registry.example.org/team/etcd-operator:{VERSION}@{digest}");
    ensure!(
        of("template")?.matches(&wanted).count() == 3,
        "the packed chart does not name its image for the operator, the agent and the test"
    );
    let mut lint = Command::new(helm(layout));
    output(lint.args(["lint", "--strict"]).arg(&file)).map(drop)
}

fn render(layout: &Layout, values: &str) -> Result<String> {
    let mut command = Command::new(helm(layout));
    command
        .args(["template", "etcd-operator"])
        .arg(root().join("charts/etcd-operator"))
        .args(["--namespace", "etcd-operator-system"])
        .args(["--set", &format!("image.repository={LOCAL},{values}")]);
    output(&mut command).with_context(|| format!("--set {values}"))
}

fn kinds(manifests: &str) -> Result<BTreeSet<String>> {
    let documents = serde_yaml::Deserializer::from_str(manifests);
    let mut kinds = BTreeSet::new();
    for document in documents {
        let object = Value::deserialize(document)?;
        let kind = object.get("kind").and_then(Value::as_str);
        kinds.extend(kind.map(str::to_owned));
    }
    Ok(kinds)
}

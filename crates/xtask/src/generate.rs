//! `cargo xtask generate`: everything in the repository that is made from the code. `--check` writes nothing and fails on drift.

use std::fmt::Write as _;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::cluster::Layout;
use crate::deploy::{NAMESPACE, root};
use crate::publish::LOCAL;
use crate::tools::output;

/// Where the schema goes on as that of a pod does; `kubectl explain` prints it.
const OF_KUBERNETES: [&str; 12] = [
    "spec.pod.affinity",
    "spec.pod.containerSecurityContext",
    "spec.pod.containers[]",
    "spec.pod.env[]",
    "spec.pod.imagePullSecrets[]",
    "spec.pod.securityContext",
    "spec.pod.tolerations[]",
    "spec.pod.topologySpreadConstraints[]",
    "spec.pod.volumeMounts[]",
    "spec.pod.volumes[]",
    "spec.security.networkPolicy.clients[]",
    "spec.security.networkPolicy.metrics[]",
];

/// Writes, or checks, every generated file.
pub(crate) fn generate(layout: &Layout, check: bool) -> Result<()> {
    let mut stale = Vec::new();
    for (path, content) in files(layout, check)? {
        let present = std::fs::read_to_string(&path).unwrap_or_default();
        if present == content {
            continue;
        }
        if check {
            stale.push(
                path.strip_prefix(root())
                    .unwrap_or(&path)
                    .display()
                    .to_string(),
            );
        } else {
            if let Some(directory) = path.parent() {
                std::fs::create_dir_all(directory)?;
            }
            std::fs::write(&path, content).with_context(|| format!("write {}", path.display()))?;
            eprintln!("wrote {}", path.display());
        }
    }
    if !stale.is_empty() {
        bail!(
            "generated files are stale: {}\nhint: `cargo xtask generate`",
            stale.join(", ")
        );
    }
    Ok(())
}

fn files(layout: &Layout, check: bool) -> Result<Vec<(PathBuf, String)>> {
    let mut made = Vec::new();
    let mut templates = Vec::new();
    for crd in api::crd::all()? {
        let crd = serde_json::to_value(crd)?;
        let name = |of: &str| {
            let name = crd.pointer(&format!("/spec/names/{of}"));
            name.and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let yaml = root().join(format!("config/crd/{}.yaml", name("plural")));
        made.push((yaml, serde_yaml::to_string(&crd)?));
        let page = root().join(format!("docs/reference/{}.md", name("singular")));
        made.push((page, reference(&crd, &name("kind"))));
        let mut kept = crd.clone();
        if let Some(metadata) = kept.get_mut("metadata").and_then(Value::as_object_mut) {
            metadata.insert(
                "annotations".into(),
                serde_json::json!({"helm.sh/resource-policy": "keep"}),
            );
        }
        templates.push(serde_yaml::to_string(&kept)?);
    }
    let template = templates.join("---\n");
    let template =
        format!("{{{{- if and .Values.crds .Values.clusterScoped }}}}\n{template}{{{{- end }}}}\n");
    let template_path = root().join("charts/etcd-operator/templates/crd.yaml");
    if !check {
        std::fs::write(&template_path, &template)?;
    }
    made.extend([
        (template_path, template),
        (root().join("config/install.yaml"), install(layout)?),
        (root().join("docs/reference/reasons.md"), reasons()),
        (root().join("docs/reference/cli.md"), commands::reference()),
        (
            root().join("docs/reference/metrics.md"),
            signals::reference::metrics(),
        ),
    ]);
    let logs = root().join("docs/reference/logs.md");
    made.push((logs, signals::logs::reference()));
    made.extend(monitoring()?);
    Ok(made)
}

/// The chart with its default values, for those who do not use Helm. Its image is one that nodes were given: no registry
/// serves that name.
fn install(layout: &Layout) -> Result<String> {
    let mut helm = std::process::Command::new(crate::cluster::helm(layout));
    helm.args(["template", "etcd-operator"])
        .arg(root().join("charts/etcd-operator"))
        .args(["--namespace", NAMESPACE, "--skip-tests"])
        .args(["--set", &format!("image.repository={LOCAL}")]);
    let rendered =
        output(&mut helm).context("render the chart (`cargo xtask cluster build` makes helm)")?;
    Ok(format!(
        "# Made by `cargo xtask generate` from charts/etcd-operator.\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: {NAMESPACE}\n  labels:\n    pod-security.kubernetes.io/enforce: restricted\n{rendered}"
    ))
}

/// Rules and dashboards: for the chart, which fills in their places, and for those who do not use it.
fn monitoring() -> Result<Vec<(PathBuf, String)>> {
    let filled = |text: &str| {
        let runbooks = "docs/user/runbooks/alerts.md";
        signals::rules::filled(text, "cluster", runbooks, NAMESPACE)
    };
    let files = root().join("charts/etcd-operator/files");
    let config = root().join("config/monitoring");
    let mut made = Vec::new();
    let mut groups = Vec::new();
    for group in &signals::alerts::GROUPS {
        let rules = signals::rules::group(group);
        let path = files.join(format!("rules/{}.yaml", group.name));
        made.push((path, serde_yaml::to_string(&[&rules])?));
        groups.push(rules);
    }
    let rules = serde_yaml::to_string(&serde_json::json!({"groups": groups}))?;
    made.push((config.join("rules.yaml"), filled(&rules)));
    for (name, dashboard) in signals::dashboards::all() {
        let text = serde_json::to_string_pretty(&dashboard)?;
        made.push((
            config.join(format!("dashboards/{name}.json")),
            filled(&text) + "\n",
        ));
        made.push((files.join(format!("dashboards/{name}.json")), text + "\n"));
    }
    let keep = serde_yaml::to_string(&signals::keep::keep())?;
    made.push((files.join("keep.yaml"), keep));
    let page = root().join("docs/user/runbooks/alerts.md");
    made.push((page, signals::rules::runbook()));
    Ok(made)
}

fn reasons() -> String {
    let mut page = "# Reasons\n\nConditions, events and logs share these words. Made by `cargo xtask generate`.\n\n| reason | meaning |\n|---|---|\n".to_owned();
    for (reason, meaning) in api::Reason::ALL {
        writeln!(page, "| `{reason}` | {} |", meaning.trim()).unwrap_or_default();
    }
    page
}

/// Every field of the kind, from the schema that users get.
fn reference(crd: &Value, kind: &str) -> String {
    let mut page = format!(
        "# {kind}, field by field\n\nMade by `cargo xtask generate` from the schema; `kubectl explain {}.spec` prints the same.\n\n| field | type | default | meaning |\n|---|---|---|---|\n",
        kind.to_lowercase()
    );
    if let Some(schema) = crd.pointer("/spec/versions/0/schema/openAPIV3Schema") {
        for part in ["spec", "status"] {
            if let Some(schema) = schema.pointer(&format!("/properties/{part}")) {
                rows(&mut page, part, schema);
            }
        }
    }
    page
}

fn rows(page: &mut String, path: &str, schema: &Value) {
    let Some(properties) = schema.get("properties").and_then(Value::as_object) else {
        return;
    };
    for (name, property) in properties {
        let items = property.get("items");
        let path = format!("{path}.{name}{}", if items.is_some() { "[]" } else { "" });
        let kind = property
            .get("type")
            .and_then(Value::as_str)
            .unwrap_or("quantity");
        let default = property
            .get("default")
            .map_or_else(String::new, |value| format!("`{value}`"));
        let meaning = property
            .get("description")
            .and_then(Value::as_str)
            .unwrap_or_default();
        let meaning = meaning.replace('\n', " ").replace('|', "\\|");
        if OF_KUBERNETES.contains(&path.as_str()) {
            let meaning = format!("{meaning} Its fields are those of Kubernetes.");
            writeln!(page, "| `{path}` | {kind} | {default} | {meaning} |").unwrap_or_default();
            continue;
        }
        writeln!(page, "| `{path}` | {kind} | {default} | {meaning} |").unwrap_or_default();
        rows(page, &path, items.unwrap_or(property));
    }
}

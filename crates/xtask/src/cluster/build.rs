//! Compiling everything the cluster is made of from its Go modules, once. A finished program is never touched again; an
//! interrupted build goes on where it stopped.

pub(crate) mod failpoints;
mod go;

use std::fs;
use std::process::Command;

use anyhow::{Context, Result};
use sha2::{Digest, Sha256};

use self::go::{build, install, source, tidy, tools_go};
use super::state::{Layout, write};
use crate::tools::output;

pub(crate) const KUBERNETES: &str = "1.36.3";
pub(crate) const ETCDS: [&str; 3] = ["3.5.35", "3.6.16", "3.7.3"];
/// Earlier releases: one to upgrade from within a minor version, and the one that the predecessor ran by default. They
/// are images only; no test runs on their programs.
pub(crate) const EARLIER_ETCDS: [&str; 2] = ["3.5.21", "3.6.14"];
/// The etcd below the API server, and the etcdctl in the shell's PATH.
pub(crate) const CONTROL_PLANE_ETCD: &str = "3.6.16";
pub(crate) const COREDNS: &str = "1.14.7";
pub(crate) const HELM: &str = "4.3.1";
/// The S3 server that backups are tried with.
pub(crate) const VERSITYGW: &str = "1.8.0";
/// Whose promtool the rules are held against.
pub(crate) const PROMETHEUS: &str = "0.315.0";
pub(crate) const PAUSE: &str = "1";

const KUBERNETES_COMMANDS: [&str; 6] = [
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "kubectl",
];

/// The process that holds a pod's namespaces open.
const PAUSE_SOURCE: &str = r#"package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	<-stop
}
"#;

const PROVISIONER_SOURCE: &str = include_str!("volumes.go");

/// How much of it is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    /// Every release of etcd that is tested, and one with failpoints.
    Everything,
    /// Kubernetes, and the etcd below it, which is also the one that is shown.
    Demo,
}

/// Whether nothing of Kubernetes, which takes longest, is left to be compiled.
pub(crate) fn has_kubernetes(layout: &Layout) -> bool {
    let commands = KUBERNETES_COMMANDS.map(|tool| layout.bin(tool, KUBERNETES));
    commands.iter().all(|path| path.exists()) && layout.bin("helm", HELM).exists()
}

/// Compiles whatever is missing.
pub(crate) fn ensure(layout: &Layout, kubernetes: &str, extent: Extent) -> Result<()> {
    for directory in ["bin", "src", "log"] {
        fs::create_dir_all(layout.cache().join(directory))?;
    }
    build_kubernetes(layout, kubernetes)?;
    build_provisioner(layout, kubernetes)?;
    build_etcd(layout, CONTROL_PLANE_ETCD)?;
    if extent == Extent::Everything {
        for version in ETCDS.into_iter().chain(EARLIER_ETCDS) {
            build_etcd(layout, version)?;
        }
        failpoints::ensure(layout)?;
        let package = "github.com/versity/versitygw/cmd/versitygw";
        install(layout, "versitygw", VERSITYGW, package, "")?;
        build_promtool(layout)?;
    }
    install(layout, "coredns", COREDNS, "github.com/coredns/coredns", "")?;
    let version = format!("-X helm.sh/helm/v4/internal/version.version=v{HELM}");
    install(layout, "helm", HELM, "helm.sh/helm/v4/cmd/helm", &version)?;
    build_pause(layout)
}

/// `go install k8s.io/kubernetes/…@v` is refused because of its replace directives. A module of our own, which replaces each
/// staging module by its published version (v1.X.Y is published as v0.X.Y), builds the unmodified commands.
fn build_kubernetes(layout: &Layout, version: &str) -> Result<()> {
    if KUBERNETES_COMMANDS
        .iter()
        .all(|tool| layout.bin(tool, version).exists())
    {
        return Ok(());
    }
    let source = source(layout, "kubernetes", version)?;
    let packages = KUBERNETES_COMMANDS.map(|command| format!("k8s.io/kubernetes/cmd/{command}"));
    if !source.join("go.sum").exists() {
        let upstream = upstream_go_mod(version)?;
        write(
            &source.join("go.mod"),
            kubernetes_go_mod(version, &upstream)?,
        )?;
        write(&source.join("tools.go"), tools_go(&packages))?;
        tidy(layout, &source, &format!("kubernetes {version} sources"))?;
    }
    let minor = version
        .split('.')
        .nth(1)
        .context("a Kubernetes version has three numbers")?;
    let prefix = "-X k8s.io/component-base/version";
    let flags =
        format!("{prefix}.gitVersion=v{version} {prefix}.gitMajor=1 {prefix}.gitMinor={minor}");
    for (tool, package) in KUBERNETES_COMMANDS.iter().zip(&packages) {
        build(layout, &source, (tool, version), package, &flags)?;
    }
    Ok(())
}

fn upstream_go_mod(version: &str) -> Result<String> {
    let module = format!("k8s.io/kubernetes@v{version}");
    let mut command = Command::new("go");
    // Outside of any module, so that none of ours takes part.
    command
        .args(["mod", "download", "-json", &module])
        .current_dir("/");
    let answer: serde_json::Value = serde_json::from_str(&output(&mut command)?)?;
    let path = answer
        .get("GoMod")
        .and_then(serde_json::Value::as_str)
        .with_context(|| format!("{module} has no go.mod"))?;
    fs::read_to_string(path).with_context(|| format!("read {path}"))
}

fn kubernetes_go_mod(version: &str, upstream: &str) -> Result<String> {
    let go = upstream
        .lines()
        .find(|line| line.starts_with("go "))
        .context("no go version")?;
    let staged = version
        .strip_prefix("1.")
        .context("a Kubernetes version begins with 1.")?;
    let replaced = upstream.lines().filter_map(|line| {
        let (module, target) = line
            .trim()
            .trim_start_matches("replace ")
            .split_once(" => ")?;
        target.starts_with("./staging/").then_some(module.trim())
    });
    let replaced = replaced.map(|module| format!("replace {module} => {module} v0.{staged}\n"));
    let replaced: String = replaced.collect();
    Ok(format!(
        "module local/kubernetes\n\n{go}\n\ngodebug default=go1.26\n\nrequire k8s.io/kubernetes v{version}\n\n{replaced}"
    ))
}

/// In the same module as Kubernetes, whose client is compiled already.
fn build_provisioner(layout: &Layout, kubernetes: &str) -> Result<()> {
    let source = source(layout, "kubernetes", kubernetes)?;
    fs::create_dir_all(source.join("volumes"))?;
    write(&source.join("volumes/main.go"), PROVISIONER_SOURCE)?;
    let version = provisioner_version();
    build(
        layout,
        &source,
        ("volume-provisioner", &version),
        "./volumes",
        "",
    )
}

/// Another source is another program.
pub(crate) fn provisioner_version() -> String {
    crate::image::hex(&Sha256::digest(PROVISIONER_SOURCE))
        .chars()
        .take(8)
        .collect()
}

fn build_etcd(layout: &Layout, version: &str) -> Result<()> {
    let parts = [
        ("etcd", "server"),
        ("etcdctl", "etcdctl"),
        ("etcdutl", "etcdutl"),
    ];
    if parts
        .iter()
        .all(|(tool, _)| layout.bin(tool, version).exists())
    {
        return Ok(());
    }
    let source = source(layout, "etcd", version)?;
    let packages = parts.map(|(_, module)| format!("go.etcd.io/etcd/{module}/v3"));
    if !source.join("go.sum").exists() {
        let required = packages
            .each_ref()
            .map(|name| format!("require {name} v{version}"))
            .join(
                "
",
            );
        write(
            &source.join("go.mod"),
            format!("module local/etcd\n\ngo 1.26.0\n\n{required}\n"),
        )?;
        write(&source.join("tools.go"), tools_go(&packages))?;
        tidy(layout, &source, &format!("etcd {version} sources"))?;
    }
    for ((tool, _), package) in parts.iter().zip(&packages) {
        build(layout, &source, (tool, version), package, "")?;
    }
    Ok(())
}

/// Its module has replace directives, so it is built from one of our own; without the discovery of every cloud, which would be
/// most of the compiling.
fn build_promtool(layout: &Layout) -> Result<()> {
    if layout.bin("promtool", PROMETHEUS).exists() {
        return Ok(());
    }
    let source = source(layout, "prometheus", PROMETHEUS)?;
    let package = "github.com/prometheus/prometheus/cmd/promtool";
    if !source.join("go.sum").exists() {
        let module = "github.com/prometheus/prometheus";
        let required =
            format!("module local/prometheus\n\ngo 1.26.0\n\nrequire {module} v{PROMETHEUS}\n");
        write(&source.join("go.mod"), required)?;
        write(&source.join("tools.go"), tools_go(&[package.to_owned()]))?;
        tidy(layout, &source, &format!("prometheus {PROMETHEUS} sources"))?;
    }
    let tool = ("promtool", PROMETHEUS);
    let options = ["-ldflags", "-s -w", "-tags", WITHOUT_CLOUDS];
    go::build_with(layout, &source, tool, package, &options)
}

const WITHOUT_CLOUDS: &str = "remove_all_sd,enable_kubernetes_sd";

fn build_pause(layout: &Layout) -> Result<()> {
    let source = source(layout, "pause", PAUSE)?;
    write(&source.join("go.mod"), "module local/pause\n\ngo 1.26.0\n")?;
    write(&source.join("main.go"), PAUSE_SOURCE)?;
    build(layout, &source, ("pause", PAUSE), ".", "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_staging_module_is_replaced_by_its_published_version() {
        let upstream = "module k8s.io/kubernetes\n\ngo 1.26.0\n\nreplace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n)\n";
        let text = kubernetes_go_mod("1.36.3", upstream).unwrap();
        assert!(
            text.contains("\nreplace k8s.io/api => k8s.io/api v0.36.3\n"),
            "{text}"
        );
        assert!(text.contains("\ngo 1.26.0\n"), "{text}");
    }
}

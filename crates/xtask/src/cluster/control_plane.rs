//! The control plane: etcd, API server, controller manager, scheduler and volume provisioner, as plain processes on the host. It knows nothing
//! of nodes.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::Result;

use super::build::{CONTROL_PLANE_ETCD, provisioner_version};
use super::network::{HOST, SERVICE_RANGE};
use super::process::{ensure_started, wait_while_alive};
use super::state::{Layout, Settings, write};
use crate::tools::output;

/// Apart from the usual 6443, 2379 and 2380, which something else on this machine may use.
const API_PORT: u16 = 6444;
const ETCD_CLIENT: &str = "http://127.0.0.1:22379";
const ETCD_PEER: &str = "http://127.0.0.1:22380";

/// The names under which the processes are recorded.
pub(crate) const PROCESSES: [&str; 5] = [
    "etcd",
    "apiserver",
    "controller-manager",
    "scheduler",
    "volumes",
];

pub(crate) fn api_server() -> String {
    format!("https://{HOST}:{API_PORT}")
}

/// A kubectl of the cluster's own version, as administrator.
pub(crate) fn kubectl(layout: &Layout, settings: &Settings) -> Command {
    let mut command = Command::new(layout.bin("kubectl", &settings.kubernetes));
    command.arg("--kubeconfig").arg(layout.kubeconfig());
    command.arg("--cache-dir").arg(layout.kubectl_cache());
    command
}

/// Whether the API server answers and says it is ready.
pub(crate) fn is_ready(layout: &Layout, settings: &Settings) -> bool {
    let mut command = kubectl(layout, settings);
    command.args(["get", "--raw", "/readyz", "--request-timeout=5s"]);
    output(&mut command).is_ok_and(|answer| answer == "ok")
}

/// Starts what does not run, and returns once the API server is ready.
pub(crate) fn ensure(layout: &Layout, settings: &Settings) -> Result<()> {
    let [etcd, api_server, controller_manager, scheduler, volumes] = PROCESSES;
    ensure_started(layout, etcd, &mut etcd_command(layout))?;
    write(&layout.audit_policy(), include_str!("addons/audit.yaml"))?;
    ensure_started(
        layout,
        api_server,
        &mut api_server_command(layout, settings),
    )?;
    let awaited = ("the API server becomes ready", Duration::from_secs(90));
    let needed = [etcd, api_server].map(str::to_owned);
    wait_while_alive(layout, &needed, awaited, || Ok(is_ready(layout, settings)))?;
    ensure_started(
        layout,
        controller_manager,
        &mut controller_manager_command(layout, settings),
    )?;
    ensure_started(layout, scheduler, &mut scheduler_command(layout, settings))?;
    ensure_started(layout, volumes, &mut volumes_command(layout))
}

fn etcd_command(layout: &Layout) -> Command {
    let mut command = Command::new(layout.bin("etcd", CONTROL_PLANE_ETCD));
    command.arg(format!(
        "--data-dir={}",
        layout.cluster().join("etcd").display()
    ));
    // Nothing here must survive the machine.
    command.arg("--unsafe-no-fsync").args([
        format!("--listen-client-urls={ETCD_CLIENT}"),
        format!("--advertise-client-urls={ETCD_CLIENT}"),
        format!("--listen-peer-urls={ETCD_PEER}"),
        format!("--initial-advertise-peer-urls={ETCD_PEER}"),
        format!("--initial-cluster=default={ETCD_PEER}"),
    ]);
    command
}

fn api_server_command(layout: &Layout, settings: &Settings) -> Command {
    let pki = |file: &str| layout.pki().join(file).display().to_string();
    let mut command = Command::new(layout.bin("kube-apiserver", &settings.kubernetes));
    command.args([
        format!("--etcd-servers={ETCD_CLIENT}"),
        format!("--bind-address={HOST}"),
        format!("--advertise-address={HOST}"),
        format!("--secure-port={API_PORT}"),
        format!("--service-cluster-ip-range={SERVICE_RANGE}"),
        format!("--tls-cert-file={}", pki("apiserver.crt")),
        format!("--tls-private-key-file={}", pki("apiserver.key")),
        format!("--client-ca-file={}", pki("ca.crt")),
        format!("--service-account-key-file={}", pki("accounts.pub")),
        format!("--service-account-signing-key-file={}", pki("accounts.key")),
        format!(
            "--kubelet-client-certificate={}",
            pki("apiserver-kubelet-client.crt")
        ),
        format!(
            "--kubelet-client-key={}",
            pki("apiserver-kubelet-client.key")
        ),
        format!("--kubelet-certificate-authority={}", pki("ca.crt")),
        format!("--requestheader-client-ca-file={}", pki("ca.crt")),
        format!("--proxy-client-cert-file={}", pki("front-proxy.crt")),
        format!("--proxy-client-key-file={}", pki("front-proxy.key")),
    ]);
    command.args([
        format!("--audit-policy-file={}", layout.audit_policy().display()),
        format!("--audit-log-path={}", layout.audit_log().display()),
        // Megabytes, and one older file beside it.
        "--audit-log-maxsize=50".to_owned(),
        "--audit-log-maxbackup=5".to_owned(),
    ]);
    command.args([
        "--service-account-issuer=https://kubernetes.default.svc",
        "--authorization-mode=Node,RBAC",
        "--enable-admission-plugins=NodeRestriction",
        "--allow-privileged=true",
        "--kubelet-preferred-address-types=InternalIP",
        // The host has no kube-proxy: webhooks and aggregated APIs are dialled at the pods' own addresses.
        "--enable-aggregator-routing=true",
        // Required where clients and the front proxy have the same authority.
        "--requestheader-allowed-names=front-proxy",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-username-headers=X-Remote-User",
    ]);
    command
}

fn controller_manager_command(layout: &Layout, settings: &Settings) -> Command {
    let pki = |file: &str| layout.pki().join(file).display().to_string();
    let mut command = Command::new(layout.bin("kube-controller-manager", &settings.kubernetes));
    command.args([
        format!("--kubeconfig={}", pki("controller-manager.conf")),
        format!("--root-ca-file={}", pki("ca.crt")),
        format!("--service-account-private-key-file={}", pki("accounts.key")),
        format!("--cluster-signing-cert-file={}", pki("ca.crt")),
        format!("--cluster-signing-key-file={}", pki("ca.key")),
    ]);
    command.args([
        "--use-service-account-credentials",
        "--leader-elect=false",
        "--secure-port=0",
        // A lost node shows in seconds instead of most of a minute.
        "--node-monitor-grace-period=12s",
        "--node-monitor-period=2s",
    ]);
    command
}

fn scheduler_command(layout: &Layout, settings: &Settings) -> Command {
    let config: PathBuf = layout.pki().join("scheduler.conf");
    let mut command = Command::new(layout.bin("kube-scheduler", &settings.kubernetes));
    command.arg(format!("--kubeconfig={}", config.display()));
    command.args(["--leader-elect=false", "--secure-port=0"]);
    command
}

fn volumes_command(layout: &Layout) -> Command {
    let mut command = Command::new(layout.bin("volume-provisioner", &provisioner_version()));
    command.args([
        format!(
            "--kubeconfig={}",
            layout.pki().join("volumes.conf").display()
        ),
        format!("--root={}", layout.volumes().display()),
    ]);
    command
}

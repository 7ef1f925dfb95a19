//! A node: containerd, kubelet and kube-proxy in a network namespace of their own, on the host's file system below one
//! directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use serde_json::json;

use super::cgroups;
use super::control_plane::kubectl;
use super::images::{Archive, PAUSE_IMAGE};
use super::network::{DNS_SERVICE, Node, POD_RANGE};
use super::process::{at_work_below, end_all, ensure_started, running, stop, wait_while_alive};
use super::state::{Layout, Settings, entries, remove_file, write};
use crate::tools::{output, run, succeeds};

/// The name of the pod network; it also marks what the CNI plugins leave outside of our directory.
pub(crate) const POD_NETWORK: &str = "etcd-operator-pods";

/// Starts the node's containerd, unless it runs, and gives it the images it lacks.
pub(crate) fn ensure_containerd(layout: &Layout, node: Node, images: &[Archive]) -> Result<()> {
    let name = format!("containerd-{}", node.name());
    let directory = layout.node(&node.name());
    if running(layout, &name).is_none() {
        fs::create_dir_all(directory.join("cni"))?;
        remove_file(&socket(layout, node))?;
        write(
            &directory.join("cni/10-pods.conflist"),
            cni_config(&directory, node),
        )?;
        write(
            &directory.join("containerd.toml"),
            containerd_config(&directory),
        )?;
        let mut command = node.command("containerd");
        command.arg("-c").arg(directory.join("containerd.toml"));
        ensure_started(layout, &name, &mut command)?;
    }
    let what = format!("{name} answers");
    let awaited = (what.as_str(), Duration::from_secs(30));
    wait_while_alive(layout, &[name], awaited, || {
        Ok(succeeds(ctr(layout, node).arg("version")))
    })?;
    ensure_images(layout, node, images)
}

/// Gives a node's containerd the images and the names it lacks.
pub(crate) fn ensure_images(layout: &Layout, node: Node, images: &[Archive]) -> Result<()> {
    let present = output(ctr(layout, node).args(["images", "list", "-q"]))?;
    let lacks = |image: &str| !present.lines().any(|line| line == image);
    for archive in images {
        if lacks(&archive.image) {
            load(layout, node, &archive.path)?;
        }
        for alias in archive.aliases.iter().filter(|alias| lacks(alias)) {
            tag(layout, node, &archive.image, alias)?;
        }
        if archive.pinned {
            pin(layout, node, &archive.image, &lacks)?;
        }
    }
    Ok(())
}

fn tag(layout: &Layout, node: Node, image: &str, alias: &str) -> Result<()> {
    run(ctr(layout, node).args(["images", "tag", image, alias]))
        .with_context(|| format!("tag {alias} on {}", node.name()))
}

/// The name that an image has by its content, as a registry would give it.
fn pin(layout: &Layout, node: Node, image: &str, lacks: &dyn Fn(&str) -> bool) -> Result<()> {
    let listed = output(ctr(layout, node).args(["images", "list", &format!("name=={image}")]))?;
    let digest = listed
        .split_whitespace()
        .find(|word| word.starts_with("sha256:"))
        .with_context(|| format!("{image} has no digest on {}", node.name()))?;
    let repository = image.rsplit_once(':').map_or(image, |(name, _)| name);
    let pinned = format!("{repository}@{digest}");
    if lacks(&pinned) {
        tag(layout, node, image, &pinned)?;
    }
    Ok(())
}

/// Starts kubelet and kube-proxy, unless they run. Containerd must run, and the API server be ready.
pub(crate) fn ensure_kubelet(layout: &Layout, settings: &Settings, node: Node) -> Result<()> {
    cgroups::ensure(node)?;
    let directory = layout.node(&node.name());
    write(
        &directory.join("kubelet.json"),
        kubelet_config(layout, node).to_string(),
    )?;
    write(
        &directory.join("proxy.json"),
        proxy_config(layout, node).to_string(),
    )?;
    let mut kubelet = node.command(layout.bin("kubelet", &settings.kubernetes));
    kubelet.args([
        format!("--config={}", directory.join("kubelet.json").display()),
        format!(
            "--kubeconfig={}",
            layout.pki().join(format!("{}.conf", node.name())).display()
        ),
        format!("--root-dir={}", directory.join("kubelet").display()),
        format!("--cert-dir={}", directory.join("kubelet/pki").display()),
        format!("--hostname-override={}", node.name()),
        format!("--node-ip={}", node.address()),
        format!("--node-labels=topology.kubernetes.io/zone={}", node.zone()),
    ]);
    ensure_started(layout, &format!("kubelet-{}", node.name()), &mut kubelet)?;
    let mut proxy = node.command(layout.bin("kube-proxy", &settings.kubernetes));
    proxy.arg(format!(
        "--config={}",
        directory.join("proxy.json").display()
    ));
    ensure_started(layout, &format!("proxy-{}", node.name()), &mut proxy)
}

/// Lets pods onto a node from which an interrupted story has kept them. Kubernetes puts its own taints back.
pub(crate) fn open(layout: &Layout, settings: &Settings, node: Node) -> Result<()> {
    let mut command = kubectl(layout, settings);
    command.args(["patch", "node", &node.name(), "--type=merge", "-p"]);
    command.arg(r#"{"spec":{"taints":null,"unschedulable":null}}"#);
    output(&mut command).map(drop)
}

/// As a power cut: daemons first, so that nothing reports the containers' end, then every container at once.
pub(crate) fn kill(layout: &Layout, node: Node) -> Result<()> {
    for process in ["kubelet", "proxy", "containerd"] {
        stop(layout, &format!("{process}-{}", node.name()))?;
    }
    end_all(&at_work_below(&layout.node(&node.name()))?)?;
    cgroups::end_processes(node)?;
    remove_shim_sockets(layout, node)
}

/// Imports an image archive on the node.
pub(crate) fn load(layout: &Layout, node: Node, archive: &Path) -> Result<()> {
    run(ctr(layout, node).args(["images", "import"]).arg(archive))
        .with_context(|| format!("load {} on {}", archive.display(), node.name()))
}

/// A shim listens at a path of containerd's choice outside of our directory, and names it in its bundle. A dead shim's
/// socket must go before containerd starts again and forgets the bundle.
fn remove_shim_sockets(layout: &Layout, node: Node) -> Result<()> {
    let bundles = "run/io.containerd.runtime.v2.task/k8s.io";
    for bundle in entries(&layout.node(&node.name()).join(bundles))? {
        let address = fs::read_to_string(bundle.join("address")).unwrap_or_default();
        if let Some(path) = address.trim().strip_prefix("unix://") {
            remove_file(Path::new(path))?;
        }
    }
    Ok(())
}

fn socket(layout: &Layout, node: Node) -> PathBuf {
    layout.node(&node.name()).join("containerd.sock")
}

fn ctr(layout: &Layout, node: Node) -> Command {
    let mut command = Command::new("ctr");
    command
        .arg("-a")
        .arg(socket(layout, node))
        .args(["-n", "k8s.io"]);
    command
}

fn cni_config(directory: &Path, node: Node) -> String {
    json!({
        "cniVersion": "0.4.0",
        "name": POD_NETWORK,
        "plugins": [
            {
                "type": "bridge", "bridge": "cni0", "isGateway": true, "hairpinMode": true,
                "ipam": {
                    "type": "host-local",
                    "dataDir": directory.join("ipam"),
                    "ranges": [[{"subnet": node.pod_range()}]],
                    "routes": [{"dst": "0.0.0.0/0"}],
                },
            },
            {"type": "portmap", "capabilities": {"portMappings": true}},
        ],
    })
    .to_string()
}

fn containerd_config(directory: &Path) -> String {
    let directory = directory.display();
    // restrict_oom_score_adj: where root lacks CAP_SYS_RESOURCE, runc dies on the pause container's -998 without it.
    // netns_mounts_under_state_dir: what is ours lies below our directory, and `down` can find it.
    format!(
        r#"version = 2
root = "{directory}/containerd"
state = "{directory}/run"
[grpc]
  address = "{directory}/containerd.sock"
[plugins."io.containerd.internal.v1.opt"]
  path = "{directory}/opt"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{PAUSE_IMAGE}"
  disable_apparmor = true
  restrict_oom_score_adj = true
  netns_mounts_under_state_dir = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "{directory}/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
      Root = "{directory}/runc"
"#
    )
}

fn kubelet_config(layout: &Layout, node: Node) -> serde_json::Value {
    let pki = |file: String| layout.pki().join(file);
    json!({
        "apiVersion": "kubelet.config.k8s.io/v1beta1",
        "kind": "KubeletConfiguration",
        "authentication": {
            "anonymous": {"enabled": false},
            "webhook": {"enabled": true},
            "x509": {"clientCAFile": pki("ca.crt".into())},
        },
        "authorization": {"mode": "Webhook"},
        "address": node.address(),
        "tlsCertFile": pki(format!("{}.crt", node.name())),
        "tlsPrivateKeyFile": pki(format!("{}.key", node.name())),
        "cgroupDriver": "cgroupfs",
        "cgroupRoot": format!("/{}", node.namespace()),
        "failCgroupV1": false,
        "failSwapOn": false,
        "clusterDNS": [DNS_SERVICE],
        "clusterDomain": "cluster.local",
        "resolvConf": "",
        "containerRuntimeEndpoint": format!("unix://{}", socket(layout, node).display()),
        "podLogsDir": layout.node(&node.name()).join("logs"),
        // The nodes share the machine's disk: how full it is says nothing about them, and an image that a kubelet throws
        // away to make room, the pause image first, comes back from nowhere. 0 % and 100 % switch both off.
        "evictionHard": {"nodefs.available": "0%", "imagefs.available": "0%", "memory.available": "100Mi"},
        "imageGCHighThresholdPercent": 100,
        // With the controller manager's short grace period, a lost node shows in seconds.
        "nodeStatusUpdateFrequency": "4s",
        "maxPods": 200,
    })
}

fn proxy_config(layout: &Layout, node: Node) -> serde_json::Value {
    json!({
        "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
        "kind": "KubeProxyConfiguration",
        "clientConnection": {"kubeconfig": layout.pki().join("proxy.conf")},
        "hostnameOverride": node.name(),
        "mode": "nftables",
        "clusterCIDR": POD_RANGE,
        // A network namespace may not change the machine's connection tracking.
        "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
    })
}

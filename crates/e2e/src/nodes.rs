//! Nodes, for the stories in which one goes, and the processes on them, where they run on this very machine.

use std::collections::BTreeSet;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::ListParams;

use crate::cluster::Cluster;

/// A member's node, the leader's if possible, but not that of the only name server.
pub async fn quiet_node(cluster: &Cluster) -> Result<String> {
    let system: Api<Pod> = Api::namespaced(cluster.stage.client.clone(), "kube-system");
    let system = system.list(&ListParams::default()).await?.items;
    let taken: BTreeSet<String> = system.iter().filter_map(node_of).collect();
    let leader = cluster.leader().await?;
    let mut pods: Vec<(String, Pod)> = cluster.pods().await?.into_iter().collect();
    pods.sort_by_key(|(name, _)| *name != leader);
    let mut nodes = pods.iter().filter_map(|(_, pod)| node_of(pod));
    let node = nodes.find(|node| !taken.contains(node));
    let node = node.context("every member shares its node with the name server")?;
    ensure!(!node.is_empty(), "a pod without a node");
    Ok(node)
}

/// The process that is etcd in a pod.
pub fn etcd_of(uid: &str) -> Result<Option<String>> {
    let pod = format!("pod{uid}");
    process(|read| read("comm").trim() == "etcd" && read("cgroup").contains(&pod))
}

/// Any process of a pod: all of them have its network.
pub(crate) fn process_of(uid: &str) -> Result<Option<String>> {
    let pod = format!("pod{uid}");
    process(|read| read("cgroup").contains(&pod))
}

/// The process that is the kubelet of a node.
pub fn kubelet_of(node: &str) -> Result<Option<String>> {
    let named = format!("--hostname-override={node}");
    process(|read| {
        let mut words = read("cmdline");
        words.push('\0');
        read("comm").starts_with("kubelet") && words.contains(&format!("{named}\0"))
    })
}

/// Sends a signal, such as `STOP`; a process that is gone does not mind.
pub fn signal(process: &str, signal: &str) -> Result<()> {
    let mut kill = Command::new("kill");
    let sent = kill.args([&format!("-{signal}"), process]).status()?;
    let gone = !Path::new("/proc").join(process).exists();
    ensure!(sent.success() || gone, "{process} cannot be sent {signal}");
    Ok(())
}

/// For so long the pods of a node send and receive no more than this in a second; the kernel ends it in any case. `false`
/// where the node is not on this machine.
pub fn slow_down(node: &str, mebibytes: u32, lasting: Duration) -> Result<bool> {
    let Some(kubelet) = kubelet_of(node)? else {
        return Ok(false);
    };
    let network = format!("--net=/proc/{kubelet}/ns/net");
    let mut nft = Command::new("nsenter")
        .args([network.as_str(), "nft", "-f", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .context("nsenter cannot be run")?;
    let rules = slow(mebibytes, lasting);
    let mut input = nft.stdin.take().context("no standard input")?;
    input.write_all(rules.as_bytes())?;
    drop(input);
    ensure!(nft.wait()?.success(), "nft does not take {rules}");
    Ok(true)
}

/// What is more than that is dropped, which the senders notice. Between pods only: all else is as it was.
fn slow(mebibytes: u32, lasting: Duration) -> String {
    let (burst, seconds) = (mebibytes.div_ceil(8), lasting.as_secs());
    let over = format!("limit rate over {mebibytes} mbytes/second burst {burst} mbytes drop");
    format!(
        "table ip e2e_slow {{
  set slow {{ type ifname; flags timeout; elements = {{ \"eth0\" timeout {seconds}s }}; }}
  chain forward {{
    type filter hook forward priority -10;
    ip daddr 10.245.0.0/16 iifname @slow {over}
    ip daddr 10.245.0.0/16 oifname @slow {over}
  }}
}}
"
    )
}

/// Ends it before its time; a node that is not slow does not mind.
pub fn speed_up(node: &str) -> Result<()> {
    if let Some(kubelet) = kubelet_of(node)? {
        let network = format!("--net=/proc/{kubelet}/ns/net");
        let mut nft = Command::new("nsenter");
        nft.args([network.as_str(), "nft", "delete", "table", "ip", "e2e_slow"]);
        // Where there is no such table, there is nothing to delete.
        let _gone = nft.stderr(Stdio::null()).status()?;
    }
    Ok(())
}

/// The first process of which this is so, by what its files in /proc say.
fn process(is_it: impl Fn(&dyn Fn(&str) -> String) -> bool) -> Result<Option<String>> {
    let names =
        fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut ids = names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    Ok(ids.find(|id| {
        let directory = Path::new("/proc").join(id);
        is_it(&|file| fs::read_to_string(directory.join(file)).unwrap_or_default())
    }))
}

fn node_of(pod: &Pod) -> Option<String> {
    pod.spec.as_ref()?.node_name.clone()
}

//! `cargo xtask demo`: a three-member cluster from nothing, shown as it comes up and as it survives the loss of its
//! leader. What it makes stays, for the user to play with.

mod show;

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use etcd::Consistency;
use serde_json::json;

use self::show::Show;
use crate::cluster::{self, Extent, Layout, Target};
use crate::deploy::deploy;
use crate::live::{Etcd, Watch, Writer};
use crate::programs::Profile;
use crate::tools::{output, run, run_with_input, wait_until};

const NAME: &str = "demo";
const SIZE: usize = 3;
const LABEL: &str = "etcd-operator-demo";
const PATIENCE: Duration = Duration::from_mins(3);

/// The whole show.
pub(crate) fn demo(layout: &Layout, context: Option<&str>) -> Result<()> {
    let started = Instant::now();
    if context.is_none() {
        println!("{}", how_long(cluster::has_kubernetes(layout)));
        heading("1. A Kubernetes");
        cluster::ensure_up(layout, Extent::Demo)?;
    }
    let target = Target::resolve(layout, context)?;
    println!("{}", nodes(&target)?);
    heading("2. The operator, installed from its chart");
    install(layout, &target)?;
    heading("3. A cluster of three members");
    let namespace = fresh_namespace(&target)?;
    let etcd = Etcd::new(&target)?;
    let mut pods = Watch::start(&target, &namespace, "pods")?;
    create(&target, &namespace)?;
    let mut show = Show::start(&target, &namespace)?;
    show.until_ready(NAME, PATIENCE)?;
    pods.wait(Duration::from_secs(1));
    heading("4. A key, written through one member and read through another");
    write_and_read(&etcd, &pods)?;
    heading("5. The leader dies while we write");
    lose_the_leader(&target, &etcd, &mut pods, &mut show)?;
    println!(
        "\nAll of this took {:.0} s.",
        started.elapsed().as_secs_f32()
    );
    say_what_next(&namespace, context);
    Ok(())
}

/// Said before anything is compiled.
fn how_long(has_kubernetes: bool) -> &'static str {
    if has_kubernetes {
        "Kubernetes is compiled already. The operator takes up to three minutes on two cores, if it is not; the show takes half a minute."
    } else {
        "Kubernetes, etcd and the operator are compiled first: up to a quarter of an hour on two cores, once. The show takes half a minute."
    }
}

fn heading(text: &str) {
    println!("\n{text}");
}

fn nodes(target: &Target) -> Result<String> {
    let columns = "custom-columns=NODE:.metadata.name,KUBERNETES:.status.nodeInfo.kubeletVersion";
    let said = output(
        target
            .command("kubectl")
            .args(["get", "nodes", "-o", columns]),
    )?;
    Ok(said.trim_end().to_owned())
}

/// Images cannot be loaded into a cluster that is not ours; there we take the operator that is installed.
fn install(layout: &Layout, target: &Target) -> Result<()> {
    if target.is_foreign() {
        let mut kubectl = target.command("kubectl");
        kubectl.args(["get", "crd", "etcdclusters.etcd.etcd.io", "-o", "name"]);
        output(&mut kubectl).context(
            "this cluster has no operator, and images cannot be loaded into it from here\nhint: install the chart with an image it can pull, then run the demo again",
        )?;
        println!("the operator that is installed there is used");
        return Ok(());
    }
    let built = deploy(layout, target, Profile::Ci, &[])?;
    println!("{} runs", built.name());
    Ok(())
}

/// A name that was never looked up: DNS remembers for seconds that a name did not exist. Earlier demos go.
fn fresh_namespace(target: &Target) -> Result<String> {
    let mut kubectl = target.command("kubectl");
    kubectl.args(["delete", "namespace", "--selector", LABEL, "--wait=false"]);
    run(&mut kubectl)?;
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    let namespace = format!("demo-{}", seconds % 1_000_000);
    let labels = json!({LABEL: "true", "pod-security.kubernetes.io/enforce": "restricted"});
    let manifest = json!({
        "apiVersion": "v1", "kind": "Namespace",
        "metadata": {"name": namespace, "labels": labels},
    });
    let mut kubectl = target.command("kubectl");
    kubectl.args(["create", "--filename", "-"]);
    run_with_input(&mut kubectl, &manifest.to_string())?;
    Ok(namespace)
}

fn create(target: &Target, namespace: &str) -> Result<()> {
    let manifest = format!(
        "apiVersion: etcd.etcd.io/v1alpha1\nkind: EtcdCluster\nmetadata:\n  name: {NAME}\nspec:\n  size: {SIZE}\n  version: v3.6.16\n  storage:\n    size: 1Gi\n"
    );
    for line in manifest.lines() {
        println!("    {line}");
    }
    let mut kubectl = target.command("kubectl");
    kubectl.args(["create", "--namespace", namespace, "--filename", "-"]);
    run_with_input(&mut kubectl, &manifest)
}

fn write_and_read(etcd: &Etcd, pods: &Watch) -> Result<()> {
    let members: Vec<_> = pods
        .objects
        .values()
        .filter_map(|pod| etcd.member(pod))
        .collect();
    let [first, .., last] = members.as_slice() else {
        anyhow::bail!("fewer than two members have an address");
    };
    let revision = etcd.run(first.put(b"greeting", b"hello"))?;
    println!(
        "  {}: put greeting hello  (revision {revision})",
        first.target().pod
    );
    let read = etcd.run(last.get(b"greeting", Consistency::Linearizable))?;
    let read = read.context("the key is not there")?;
    let value = String::from_utf8_lossy(&read.value).into_owned();
    println!("  {}: get greeting → {value}", last.target().pod);
    ensure!(value == "hello", "another value was read");
    Ok(())
}

fn lose_the_leader(target: &Target, etcd: &Etcd, pods: &mut Watch, show: &mut Show) -> Result<()> {
    let leader = etcd.leader(&pods.objects).context("no member leads")?;
    let namespace = show.namespace().to_owned();
    let writer = Writer::start(target, &namespace)?;
    std::thread::sleep(Duration::from_secs(1));
    println!("  kubectl delete pod {leader} --grace-period=1");
    let mut kubectl = target.command("kubectl");
    kubectl.args(["delete", "pod", &leader, "--grace-period=1", "--wait=false"]);
    show.restart_clock();
    run(kubectl.args(["--namespace", &namespace]))?;
    show.until_ready_again(NAME, PATIENCE)?;
    let written = writer.stop()?;
    let wait_pods = || {
        pods.wait(Duration::from_millis(100));
        Ok(etcd.are_healthy_voters(&pods.objects, SIZE))
    };
    wait_until("three healthy voters", PATIENCE, wait_pods)?;
    let (acknowledged, attempts, gap) = (written.acknowledged, written.attempts, written.gap);
    println!(
        "  {acknowledged} of {attempts} writes were acknowledged meanwhile, and none of those is lost; the longest gap between two was {:.2} s",
        gap.as_secs_f32()
    );
    if let Some(leader) = etcd.leader(&pods.objects) {
        println!("  {leader} leads now");
    }
    Ok(())
}

fn say_what_next(namespace: &str, context: Option<&str>) {
    let option = context.map_or_else(String::new, |context| format!(" --context {context}"));
    println!(
        r#"
The cluster stays. What to try next:
  eval "$(cargo xtask{option} cluster env)"               # kubectl, helm and etcdctl of this cluster
  kubectl config set-context --current --namespace {namespace}
  kubectl get etcdcluster {NAME} --watch
  kubectl describe etcdcluster {NAME}
  kubectl explain etcdcluster.spec
  kubectl delete pod --selector etcd.etcd.io/cluster={NAME}    # all at once: they come back with their data
  kubectl logs --namespace etcd-operator-system deploy/etcd-operator
  cargo xtask cluster kill-node 1                        # as a power cut; start-node 1 brings it back
To remove it:
  kubectl delete namespace {namespace}
  cargo xtask cluster down                               # and the Kubernetes with it"#
    );
}

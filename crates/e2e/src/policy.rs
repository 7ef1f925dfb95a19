//! A mock of a network that knows policies: the local cluster has none, so this carries out what a stage's policies say,
//! by nft in the network of every pod that they select. What is sent and dropped are real packets; how fast a policy reaches a
//! new pod, and what comes from its node, are the mock's own (a third of a second; everything, as with every implementation).
//! Nothing it does outlives the pods.

mod translate;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::api::ListParams;
use kube::{Api, ResourceExt};
use tokio::task::JoinHandle;
use translate::{TABLE, World, rules};

use crate::nodes::{kubelet_of, process_of};
use crate::stage::Stage;
use crate::story::skipped;

const PERIOD: Duration = Duration::from_millis(300);

/// Carries the policies of a stage out until it is stopped.
pub struct PolicyMock {
    stop: Arc<AtomicBool>,
    task: JoinHandle<Result<()>>,
}

impl PolicyMock {
    /// `None` where the nodes are not on this machine, which is told. Otherwise what is selected now is closed by the end.
    pub async fn start(stage: &Stage) -> Result<Option<Self>> {
        let nodes: Api<Node> = Api::all(stage.client.clone());
        let nodes = nodes.list(&ListParams::default()).await?.items;
        let first = nodes.first().context("a cluster without nodes")?;
        if kubelet_of(&first.name_any())?.is_none() {
            skipped("the nodes of the cluster are not on this machine");
            return Ok(None);
        }
        let mut carried = BTreeMap::new();
        carry_out(stage, &mut carried).await?;
        ensure!(!carried.is_empty(), "no policy selects a pod of the stage");
        let stop = Arc::new(AtomicBool::new(false));
        let (stage, stopped) = (stage.clone(), Arc::clone(&stop));
        let task = tokio::spawn(async move {
            let mut ticks = tokio::time::interval(PERIOD);
            while !stopped.load(Ordering::Relaxed) {
                ticks.tick().await;
                // A pod that goes meanwhile has no network any more: the next look knows it no longer.
                if let Err(error) = carry_out(&stage, &mut carried).await {
                    crate::story::tell(&format!("policies: {error:#}"));
                }
            }
            Ok(())
        });
        Ok(Some(Self { stop, task }))
    }

    /// What is closed stays so.
    pub async fn stop(self) -> Result<()> {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await?
    }
}

/// By pod, what it was told last.
type Carried = BTreeMap<String, Option<String>>;

async fn carry_out(stage: &Stage, carried: &mut Carried) -> Result<()> {
    let everything = ListParams::default();
    let world = World {
        policies: stage.list::<NetworkPolicy>().await?,
        namespaces: Api::<Namespace>::all(stage.client.clone())
            .list(&everything)
            .await?
            .items,
        pods: Api::<Pod>::all(stage.client.clone())
            .list(&everything)
            .await?
            .items,
    };
    let own = world.pods.iter();
    let own = own.filter(|pod| pod.namespace().as_deref() == Some(&stage.namespace));
    for pod in own {
        let Some(uid) = pod.uid() else { continue };
        let Some(process) = process_of(&uid)? else {
            continue;
        };
        let network = format!("--net=/proc/{process}/ns/net");
        let Some(node) = node_of(&network)? else {
            continue;
        };
        let wanted = rules(&world, pod, &node);
        // What no policy ever selected is not touched.
        if carried.get(&uid).unwrap_or(&None) == &wanted {
            continue;
        }
        load(&network, wanted.as_deref())?;
        carried.insert(uid, wanted);
    }
    Ok(())
}

/// From where a pod's node, and with it the kubelet, calls: its way out.
fn node_of(network: &str) -> Result<Option<String>> {
    let mut ip = Command::new("nsenter");
    let ip = ip.args([network, "ip", "-4", "route", "show", "default"]);
    let said = ip.stderr(Stdio::null()).output()?;
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let mut words = said.split_whitespace().skip_while(|word| *word != "via");
    Ok(words.nth(1).map(str::to_owned))
}

/// In one transaction: there is no moment without rules.
fn load(network: &str, rules: Option<&str>) -> Result<()> {
    let mut nft = Command::new("nsenter")
        .args([network, "nft", "-f", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .context("nsenter cannot be run")?;
    let rules = rules.unwrap_or_default();
    let text = format!("table ip {TABLE} {{}}\ndelete table ip {TABLE}\n{rules}");
    let mut input = nft.stdin.take().context("no standard input")?;
    input.write_all(text.as_bytes())?;
    drop(input);
    ensure!(nft.wait()?.success(), "nft does not take {text}");
    Ok(())
}

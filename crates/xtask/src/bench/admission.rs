//! What the webhook adds to writing a spec: the same creation as a server-side dry run, with both webhooks and without, over
//! one connection. The configurations are taken away for the second half of each round, and put back.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use api::EtcdCluster;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde_json::{Value, json};
use tokio::runtime::{Builder, Runtime};

use super::place::Place;
use super::table::{Table, Times, verdict};
use crate::cluster::Target;
use crate::tools::{output, run_with_input};

const KINDS: &str = "validatingwebhookconfigurations,mutatingwebhookconfigurations";
const NAME: &str = "etcd-operator-webhook";
/// Of two, where one is to be at most so much more.
const AIM: f64 = 2.0;
/// With and without by turns, so that the load of the machine meets both.
const ROUNDS: u16 = 4;
const PATIENCE: Duration = Duration::from_secs(30);

/// One row.
pub(super) fn measure(target: &Target, specs: u16) -> Result<Table> {
    let place = Place::new(target, "admission")?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let writes = Writes::new(&runtime, target, &place.namespace)?;
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..ROUNDS {
        with.extend(writes.time(specs / ROUNDS, true)?);
        let mut kubectl = target.command("kubectl");
        let taken = output(kubectl.args([
            "get",
            KINDS,
            "-o",
            "json",
            "--field-selector",
            &format!("metadata.name={NAME}"),
        ]))?;
        place.kubectl(&["delete", KINDS, NAME])?;
        let measured = writes.time(specs / ROUNDS, false);
        let mut kubectl = target.command("kubectl");
        run_with_input(kubectl.args(["create", "--filename", "-"]), &bare(&taken)?)
            .context("the webhook configurations were not put back\nhint: `cargo xtask deploy`")?;
        without.extend(measured?);
    }
    let (with, without) = (Times::new(with), Times::new(without));
    let ratio = with.median() / without.median();
    let mut table = Table::new(&["without", "with both webhooks", "ratio", "aim", "verdict"]);
    table.row(vec![
        without.cell(),
        with.cell(),
        format!("{ratio:.2}"),
        format!("≤ {AIM}"),
        verdict(ratio, AIM),
    ]);
    Ok(table)
}

/// Without what only the API server may write.
fn bare(list: &str) -> Result<String> {
    let mut list: Value = serde_json::from_str(list)?;
    let items = list.get_mut("items").and_then(Value::as_array_mut);
    let items = items.context("no webhook configuration")?;
    ensure!(items.len() == 2, "two webhook configurations were expected");
    for metadata in items
        .iter_mut()
        .filter_map(|item| item.get_mut("metadata")?.as_object_mut())
    {
        for name in [
            "uid",
            "resourceVersion",
            "creationTimestamp",
            "managedFields",
            "generation",
        ] {
            metadata.remove(name);
        }
    }
    Ok(list.to_string())
}

struct Writes<'a> {
    runtime: &'a Runtime,
    clusters: Api<EtcdCluster>,
}

impl<'a> Writes<'a> {
    fn new(runtime: &'a Runtime, target: &Target, namespace: &str) -> Result<Self> {
        let file = Kubeconfig::read_from(&target.kubeconfig)?;
        let choice = KubeConfigOptions::default();
        let config = runtime.block_on(Config::from_custom_kubeconfig(file, &choice))?;
        let client = runtime.block_on(async { Client::try_from(config) })?;
        let clusters = Api::namespaced(client, namespace);
        Ok(Self { runtime, clusters })
    }

    /// Milliseconds of each, once the webhooks are, or are not, in force.
    fn time(&self, specs: u16, webhooks: bool) -> Result<Vec<f64>> {
        let begin = Instant::now();
        // The mutating one writes out what this spec leaves open.
        while self.write().is_ok_and(|filled| filled != webhooks) {
            ensure!(
                begin.elapsed() < PATIENCE,
                "the API server has not heard of the change"
            );
        }
        let mut all = Vec::new();
        for _ in 0..specs {
            let begin = Instant::now();
            ensure!(self.write()? == webhooks, "the webhooks changed meanwhile");
            all.push(begin.elapsed().as_secs_f64() * 1000.0);
        }
        Ok(all)
    }

    fn write(&self) -> Result<bool> {
        let object = json!({"apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdCluster",
            "metadata": {"name": "c"}, "spec": {"size": 3, "version": "v3.6.16", "storage": {"size": "1Gi"}}});
        let object: EtcdCluster = serde_json::from_value(object)?;
        let params = PostParams {
            dry_run: true,
            ..PostParams::default()
        };
        let made = self
            .runtime
            .block_on(self.clusters.create(&params, &object))?;
        Ok(made
            .spec
            .storage
            .is_some_and(|storage| storage.claim_policy.is_some()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_back_can_be_created() {
        let one = json!({"metadata": {"name": "n", "uid": "u", "resourceVersion": "1", "labels": {"a": "b"}}});
        let list = json!({"kind": "List", "items": [one, one]}).to_string();
        let bare: Value = serde_json::from_str(&bare(&list).unwrap()).unwrap();
        assert_eq!(
            bare["items"][0],
            json!({"metadata": {"name": "n", "labels": {"a": "b"}}})
        );
        assert!(super::bare("{}").is_err());
    }
}

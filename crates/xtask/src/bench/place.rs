//! A namespace of the bench's own, and the few things done in it.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use crate::cluster::Target;
use crate::live::{Etcd, Watch, Writer, text};
use crate::tools::{run, run_with_input};

const PATIENCE: Duration = Duration::from_mins(3);

/// A namespace; it goes when this is dropped.
pub(super) struct Place<'a> {
    pub(super) target: &'a Target,
    pub(super) namespace: String,
    pub(super) pods: Watch,
    pub(super) etcd: Etcd,
}

impl<'a> Place<'a> {
    pub(super) fn new(target: &'a Target, what: &str) -> Result<Self> {
        let seconds = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        let namespace = format!("bench-{what}-{}", seconds % 1_000_000);
        run(target
            .command("kubectl")
            .args(["create", "namespace", &namespace]))?;
        // Only here, so that a failure below still removes it.
        let pods = Watch::start(target, &namespace, "pods")?;
        let etcd = Etcd::of(target, &namespace)?;
        Ok(Self {
            target,
            namespace,
            pods,
            etcd,
        })
    }

    /// Posts an object: one request, without the talk of `kubectl apply` around it.
    pub(super) fn post(&self, api: &str, plural: &str, object: &Value) -> Result<()> {
        let path = format!("{api}/namespaces/{}/{plural}", self.namespace);
        let mut kubectl = self.target.command("kubectl");
        kubectl.args(["create", "--raw", &path, "--filename", "-"]);
        run_with_input(&mut kubectl, &object.to_string())
    }

    /// The objects of another kind here.
    pub(super) fn watch(&self, kind: &str) -> Result<Watch> {
        Watch::start(self.target, &self.namespace, kind)
    }

    /// A client that writes to the only cluster here.
    pub(super) fn writer(&self) -> Result<Writer> {
        Writer::start(self.target, &self.namespace)
    }

    pub(super) fn kubectl(&self, arguments: &[&str]) -> Result<()> {
        let mut kubectl = self.target.command("kubectl");
        run(kubectl
            .args(["--namespace", &self.namespace])
            .args(arguments))
    }

    /// Seconds until exactly this many healthy voters answer, from a moment on.
    pub(super) fn voters(&mut self, size: usize, since: Instant) -> Result<f64> {
        let what = format!("{size} healthy voters");
        self.until(&what, since, |place| {
            place.etcd.are_healthy_voters(&place.pods.objects, size)
        })
    }

    /// Seconds until something is so, from a moment on.
    pub(super) fn until(
        &mut self,
        what: &str,
        since: Instant,
        mut question: impl FnMut(&mut Self) -> bool,
    ) -> Result<f64> {
        loop {
            self.etcd.rest(Duration::from_millis(20));
            self.pods.wait(Duration::ZERO);
            if question(self) {
                return Ok(since.elapsed().as_secs_f64());
            }
            if since.elapsed() > PATIENCE {
                bail!(
                    "not within {} s in {}: {what}",
                    PATIENCE.as_secs(),
                    self.namespace
                );
            }
        }
    }

    /// Until every pod is gone; what goes must not slow down what comes next.
    pub(super) fn empty(&mut self) -> Result<()> {
        self.kubectl(&["delete", "etcdclusters,statefulsets", "--all"])?;
        self.until("the pods are gone", Instant::now(), |place| {
            place.pods.objects.is_empty()
        })?;
        self.kubectl(&["delete", "pvc,services", "--all", "--wait=false"])
    }

    /// Until the object is Ready in the generation it has now.
    pub(super) fn settle(&mut self, objects: &mut Watch) -> Result<()> {
        let settled = self.until("c is Ready", Instant::now(), |_| {
            objects.wait(Duration::ZERO);
            objects.objects.get("c").is_some_and(is_ready)
        });
        settled.map(drop).context("the operator does not finish")
    }

    /// An `EtcdCluster` that leaves nothing behind.
    pub(super) fn create_cluster(&self, name: &str, size: u8, version: &str) -> Result<()> {
        self.create_cluster_with(name, size, version, &json!({}))
    }

    /// The same with more fields in its spec.
    pub(super) fn create_cluster_with(
        &self,
        name: &str,
        size: u8,
        version: &str,
        more: &Value,
    ) -> Result<()> {
        let mut spec = json!({
            "size": size, "version": format!("v{version}"),
            "storage": {"size": "1Gi", "claimPolicy": {"whenDeleted": "Delete"}},
        });
        if let (Some(spec), Some(more)) = (spec.as_object_mut(), more.as_object()) {
            spec.extend(more.clone());
        }
        let object = json!({
            "apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdCluster",
            "metadata": {"name": name}, "spec": spec,
        });
        self.post("/apis/etcd.etcd.io/v1alpha1", "etcdclusters", &object)
    }
}

fn is_ready(object: &Value) -> bool {
    let generation = object.pointer("/metadata/generation");
    let conditions = object
        .pointer("/status/conditions")
        .and_then(Value::as_array);
    conditions.is_some_and(|conditions| {
        conditions.iter().any(|condition| {
            text(condition, "/type") == Some("Ready")
                && text(condition, "/status") == Some("True")
                && condition.pointer("/observedGeneration") == generation
        })
    })
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut kubectl = self.target.command("kubectl");
        kubectl.args(["delete", "namespace", &self.namespace, "--wait=false"]);
        if let Err(error) = run(&mut kubectl) {
            eprintln!("{} is left behind: {error:#}", self.namespace);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_counts_in_the_present_generation_only() {
        let object = |observed: u32| {
            json!({"metadata": {"generation": 2}, "status": {"conditions": [
                {"type": "Ready", "status": "True", "observedGeneration": observed}]}})
        };
        assert!(is_ready(&object(2)) && !is_ready(&object(1)));
    }
}

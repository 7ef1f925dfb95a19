//! A namespace for one story, restricted as the strictest users have it.

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

use anyhow::{Context, Result, ensure};
use api::EtcdCluster;
use etcd::{DirectTcp, Pool};
use k8s_openapi::api::core::v1::{Event, Namespace};
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cluster::Cluster;
use crate::commands::{Commands, is_admission_away};
use crate::fixtures::document;
use crate::lock;
use crate::wait::{MINUTE, until};
use crate::{OPERATOR, OPERATOR_NAMESPACE};

/// A spec that is refused, and words that the refusal must have.
pub type Case = (Value, &'static [&'static str]);

/// Where a story plays.
#[derive(Clone)]
pub struct Stage {
    /// The Kubernetes API.
    pub client: Client,
    /// The story's own namespace.
    pub namespace: String,
    /// What a user types.
    pub commands: Commands,
    pub(crate) pool: Pool,
}

impl Stage {
    /// Makes the namespace. Stories get theirs from the kit; a caller of this has to strike it.
    pub async fn set(title: &str) -> Result<Self> {
        let client = Client::try_default()
            .await
            .context("no usable kubeconfig")?;
        let namespaces: Api<Namespace> = Api::all(client.clone());
        let namespace: Namespace = serde_json::from_value(json!({"metadata": {
            "generateName": "e2e-",
            "labels": {"pod-security.kubernetes.io/enforce": "restricted", "etcd-operator-e2e": "true"},
            "annotations": {"etcd-operator-e2e/story": title},
        }}))?;
        let made = namespaces
            .create(&PostParams::default(), &namespace)
            .await
            .context("a namespace cannot be made")?;
        let namespace = made.metadata.name.context("a namespace without a name")?;
        Ok(Self {
            client,
            commands: Commands::new(&namespace),
            namespace,
            pool: Pool::new(Arc::new(DirectTcp)),
        })
    }

    /// Objects of one kind in the story's namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), &self.namespace)
    }

    /// All objects of one kind in the story's namespace.
    pub async fn list<K>(&self) -> Result<Vec<K>>
    where
        K: Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>
            + Clone
            + DeserializeOwned
            + std::fmt::Debug,
    {
        Ok(self.api().list(&ListParams::default()).await?.items)
    }

    /// A word that no other story uses, for objects that belong to no namespace.
    pub fn unique(&self) -> &str {
        &self.namespace
    }

    /// Creates a cluster, with TLS for clients and for peers where the spec says nothing of TLS: so clusters are run. With
    /// `E2E_PLAINTEXT` it stays without.
    pub async fn create(&self, name: &str, mut spec: Value) -> Result<Cluster> {
        if !lock::is_plaintext() {
            lock::ask_for_tls(&mut spec);
        }
        self.create_as_written(name, spec).await
    }

    /// Creates a cluster of exactly this spec, for stories about plaintext, about defaults, and about what is switched. While
    /// the operator is away that is refused, and tried again.
    pub async fn create_as_written(&self, name: &str, spec: Value) -> Result<Cluster> {
        let object: EtcdCluster = serde_json::from_value(json!({
            "apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdCluster",
            "metadata": {"name": name}, "spec": spec,
        }))?;
        let objects = self.api::<EtcdCluster>();
        let refused = OnceLock::new();
        let made = until(format!("{name} is created"), MINUTE, || async {
            match objects.create(&PostParams::default(), &object).await {
                Ok(_) => Ok(true),
                Err(error) if is_admission_away(&error.to_string()) => Err(error.into()),
                Err(error) => Ok(refused.set(error).is_ok()),
            }
        })
        .await;
        match refused.into_inner() {
            Some(error) => Err(error).with_context(|| format!("{name} cannot be created")),
            None => made.map(|_| self.cluster(name)),
        }
    }

    /// Applies every spec, and tells which of them were not refused with their words.
    pub async fn all_refused(&self, cases: Vec<Case>) -> Result<()> {
        let mut wrong = Vec::new();
        for (spec, words) in cases {
            let answer = self.commands.try_apply(&document("c", &spec)).await?;
            if let Err(error) = answer.refused_with(words) {
                wrong.push(format!("{spec}: {error:#}"));
            }
        }
        ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        Ok(())
    }

    /// A cluster that is there already.
    pub fn cluster(&self, name: &str) -> Cluster {
        Cluster::new(self.clone(), name)
    }

    /// Reason and message of every event about an object.
    pub async fn events_of(&self, kind: &str, name: &str) -> Result<Vec<(String, String)>> {
        let events: Vec<Event> = self.list().await?;
        let about = events.into_iter().filter(|event| {
            event.involved_object.kind.as_deref() == Some(kind)
                && event.involved_object.name.as_deref() == Some(name)
        });
        Ok(about
            .map(|event| {
                (
                    event.reason.unwrap_or_default(),
                    event.message.unwrap_or_default(),
                )
            })
            .collect())
    }

    /// What there is to see after a story went wrong.
    pub async fn account(&self) -> String {
        let operator = format!("deploy/{OPERATOR}");
        let conditions = "jsonpath={range .items[*]}{.metadata.name} is {.status.phase}{\"\\n\"}{range .status.conditions[*]}  {.type}={.status} {.reason}: {.message}{\"\\n\"}{end}{end}";
        let here = &self.commands;
        let there = Commands::new(OPERATOR_NAMESPACE);
        let parts: [(&str, &Commands, &[&str]); 6] = [
            (
                "clusters",
                here,
                &["get", "etcdclusters.etcd.etcd.io", "-o", conditions],
            ),
            (
                "objects",
                here,
                &["get", "pods,pvc,statefulsets,services", "-o", "wide"],
            ),
            (
                "events",
                here,
                &["get", "events", "--sort-by=.lastTimestamp"],
            ),
            (
                "etcd",
                here,
                &[
                    "logs",
                    "--selector=app.kubernetes.io/name=etcd",
                    "--container=etcd",
                    "--prefix",
                    "--tail=15",
                    "--max-log-requests=30",
                ],
            ),
            ("operator pods", &there, &["get", "pods", "-o", "wide"]),
            (
                "operator log",
                &there,
                &["logs", &operator, "--since=5m", "--tail=2000"],
            ),
        ];
        let mut account = String::new();
        for (title, commands, arguments) in parts {
            let said = match commands.kubectl(arguments).await {
                Ok(answer) => format!("{}{}", answer.stdout, answer.stderr),
                Err(error) => format!("{error:#}"),
            };
            let said = if title == "operator log" {
                self.lines_about_us(&said)
            } else {
                said
            };
            // Writing to a String cannot fail.
            writeln!(account, "--- {title}\n{}", said.trim_end()).unwrap_or_default();
        }
        account
    }

    fn lines_about_us(&self, log: &str) -> String {
        let lines: Vec<&str> = log
            .lines()
            .filter(|line| {
                // What the operator warns of in general, not what it says of other stories.
                let ours = line.contains(&self.namespace);
                ours || (line.contains("WARN") && !line.contains("\"namespace\":\"e2e-"))
            })
            .collect();
        let tail = lines.len().saturating_sub(60);
        lines.into_iter().skip(tail).collect::<Vec<_>>().join("\n")
    }

    /// Takes the stage away; Kubernetes does the rest on its own.
    pub async fn strike(&self) -> Result<()> {
        if std::env::var_os("E2E_KEEP").is_some() {
            crate::tell(&format!("kept: namespace {}", self.namespace));
            return Ok(());
        }
        let namespaces: Api<Namespace> = Api::all(self.client.clone());
        match namespaces
            .delete(&self.namespace, &DeleteParams::default())
            .await
        {
            Ok(_) => Ok(()),
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
            Err(error) => Err(error).context("the namespace cannot be deleted"),
        }
    }
}

//! What the schema does for a user: defaults, descriptions, columns, `kubectl scale`; and what was stored
//! before its rules existed stays editable.
#![expect(clippy::indexing_slicing, reason = "a story may end where it stands")]

use anyhow::{Context, Result, ensure};
use e2e::{MINUTE, Played, Stage, document, story, until, without_rules};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};

#[test]
fn an_empty_spec_and_no_spec_at_all_get_every_default() -> Played {
    story(|stage| async move {
        let bare = json!({"apiVersion": "etcd.etcd.io/v1alpha1", "kind": "EtcdCluster", "metadata": {"name": "c"}});
        for manifest in [document("c", &json!({})), bare.to_string()] {
            let stored = stage.commands.try_apply(&manifest).await?.accepted()?;
            let spec = serde_json::from_str::<Value>(&stored)?["spec"].clone();
            let policy =
                json!({"whenStopped": "Retain", "whenScaled": "Delete", "whenDeleted": "Retain"});
            let expected = json!({"size": 3, "version": "v3.5.35", "repository": "quay.io/coreos/etcd",
                "storage": {"size": "10Gi", "claimPolicy": policy}});
            ensure!(spec == expected, "{spec}");
        }
        let manifest = document("c", &json!({"storage": {}}));
        let stored = stage.commands.try_apply(&manifest).await?.accepted()?;
        let size = serde_json::from_str::<Value>(&stored)?["spec"]["storage"]["size"].clone();
        ensure!(size == "10Gi", "{size}");
        Ok(())
    })
}

#[test]
fn kubectl_explains_every_field_prints_the_columns_and_scales() -> Played {
    story(|stage| async move {
        for (field, words) in [
            ("spec.size", "Number of members"),
            ("spec.version", "etcd release"),
            ("spec.storage.claimPolicy.whenDeleted", "Retain"),
            ("status.members", "member"),
            ("status.conditions", "Available"),
        ] {
            let told = stage
                .commands
                .kubectl(&["explain", &format!("etcdcluster.{field}")])
                .await?
                .accepted()?;
            ensure!(
                told.contains("DESCRIPTION") && told.contains(words),
                "{field}: {told}"
            );
        }
        // Stopped, so that the operator has nothing to do with it.
        stage.create_as_written("c", json!({"size": 0})).await?;
        let wide = stage
            .commands
            .kubectl(&["get", "etcd", "-o", "wide"])
            .await?
            .accepted()?;
        let head = wide.lines().next().unwrap_or_default();
        let columns: Vec<&str> = head.split_whitespace().collect();
        ensure!(
            columns
                == [
                    "NAME", "PHASE", "SIZE", "READY", "VERSION", "AGE", "LEADER", "HEALTH"
                ],
            "{head}"
        );
        let scale = |size: &str| {
            [
                "scale".to_owned(),
                "etcdclusters.etcd.etcd.io/c".to_owned(),
                format!("--replicas={size}"),
            ]
        };
        let refused = scale("2");
        let words = ["1, 3, 5, 7 or 9"];
        stage
            .commands
            .kubectl(&refused.each_ref().map(String::as_str))
            .await?
            .refused_with(&words)?;
        let accepted = scale("1");
        stage
            .commands
            .kubectl(&accepted.each_ref().map(String::as_str))
            .await?
            .accepted()?;
        let size = stage.cluster("c").get().await?.spec.size;
        ensure!(size == Some(1), "{size:?}");
        Ok(())
    })
}

#[test]
fn objects_that_were_stored_before_the_rules_existed_stay_editable() -> Played {
    story(|stage| async move {
        let elsewhere = Elsewhere::install(&stage).await?;
        let outcome = stored_before(&elsewhere).await;
        elsewhere.remove().await?;
        outcome
    })
}

/// The predecessor stored `tls: true` in every object; ours must not refuse edits of those, nor switch TLS on by one.
async fn stored_before(elsewhere: &Elsewhere) -> Result<()> {
    let tls = json!({"size": 1, "security": {"tls": {"enabled": true, "autoTLS": true}}});
    let even = json!({"size": 4, "version": "3.4.1"});
    // What is served is published a moment later.
    until("kubectl knows the kind", MINUTE, || async {
        elsewhere.create("encrypted", &tls).await.map(|()| true)
    })
    .await?;
    elsewhere.create("even", &even).await?;
    elsewhere.tighten().await?;
    elsewhere
        .edit("encrypted", &json!({"metadata": {"labels": {"team": "a"}}}))
        .await
        .context("a label")?;
    elsewhere
        .edit("encrypted", &json!({"spec": {"size": 3}}))
        .await
        .context("its size")?;
    let off = json!({"spec": {"security": {"tls": {"enabled": false}}}});
    elsewhere.edit("encrypted", &off).await.context("TLS off")?;
    let on = json!({"spec": {"security": {"tls": {"enabled": true}}}});
    let refused = elsewhere
        .edit("encrypted", &on)
        .await
        .err()
        .context("TLS was turned on")?;
    ensure!(format!("{refused:#}").contains("TLS"), "{refused:#}");
    // What makes no sense can still be labelled, and corrected.
    elsewhere
        .edit("even", &json!({"metadata": {"labels": {"team": "a"}}}))
        .await
        .context("a label")?;
    elsewhere
        .edit("even", &json!({"spec": {"size": 5}}))
        .await
        .context("an even size corrected")?;
    elsewhere
        .create("late", &tls)
        .await
        .context("a new object with TLS")
}

const KIND: &str = "FormerCluster";
const PLURAL: &str = "formerclusters";

/// The same schema under another name and group, so that its rules can be taken off without an effect on other stories.
struct Elsewhere {
    stage: Stage,
    group: String,
    definitions: Api<CustomResourceDefinition>,
}

impl Elsewhere {
    async fn install(stage: &Stage) -> Result<Self> {
        let elsewhere = Self {
            stage: stage.clone(),
            group: format!("{}.example.com", stage.unique()),
            definitions: Api::all(stage.client.clone()),
        };
        let loose = without_rules(elsewhere.definition()?);
        let loose: CustomResourceDefinition = serde_json::from_value(loose)?;
        elsewhere
            .definitions
            .create(&PostParams::default(), &loose)
            .await?;
        let path = elsewhere.path();
        until("the definition is served", MINUTE, || async {
            Ok(stage.commands.kubectl(&["get", "--raw", &path]).await?.ok)
        })
        .await?;
        Ok(elsewhere)
    }

    fn name(&self) -> String {
        format!("{PLURAL}.{}", self.group)
    }

    fn definition(&self) -> Result<Value> {
        let mut definition = serde_json::to_value(api::crd::etcd_cluster()?)?;
        definition["metadata"]["name"] = json!(self.name());
        definition["spec"]["group"] = json!(self.group);
        // Other names, too: a user who types `etcdcluster` in the meantime must not be led here.
        definition["spec"]["names"] = json!({"kind": KIND, "listKind": format!("{KIND}List"),
            "plural": PLURAL, "singular": KIND.to_lowercase()});
        Ok(definition)
    }

    fn path(&self) -> String {
        format!(
            "/apis/{}/v1alpha1/namespaces/{}/{PLURAL}",
            self.group, self.stage.namespace
        )
    }

    async fn create(&self, name: &str, spec: &Value) -> Result<()> {
        let object = json!({"apiVersion": format!("{}/v1alpha1", self.group), "kind": KIND,
            "metadata": {"name": name}, "spec": spec});
        let args = ["create", "-f", "-"];
        let answer = self
            .stage
            .commands
            .kubectl_with(&args, &object.to_string())
            .await?;
        answer.accepted().map(drop)
    }

    async fn edit(&self, name: &str, patch: &Value) -> Result<()> {
        let kind = self.name();
        let args = [
            "patch",
            &kind,
            name,
            "--type",
            "merge",
            "-p",
            &patch.to_string(),
        ];
        self.stage
            .commands
            .kubectl(&args)
            .await?
            .accepted()
            .map(drop)
    }

    /// Puts the rules in, and waits until they are in force.
    async fn tighten(&self) -> Result<()> {
        let full = Patch::Merge(self.definition()?);
        self.definitions
            .patch(&self.name(), &PatchParams::default(), &full)
            .await?;
        let probe = json!({"apiVersion": format!("{}/v1alpha1", self.group), "kind": KIND,
            "metadata": {"name": "probe"}, "spec": {"size": 2}});
        until("the rules are in force", MINUTE, || async {
            Ok(!self.stage.commands.try_apply(&probe.to_string()).await?.ok)
        })
        .await
        .map(drop)
    }

    async fn remove(&self) -> Result<()> {
        self.definitions
            .delete(&self.name(), &DeleteParams::default())
            .await?;
        Ok(())
    }
}

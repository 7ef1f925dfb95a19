//! The manifests that the predecessor's users have (`predecessor.md` section 3), unchanged. Only the API
//! server answers here.
#![expect(clippy::indexing_slicing, reason = "a story may end where it stands")]

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use e2e::{Played, documents, story};
use serde::Deserialize;
use serde_json::Value;

const FOLDER: &str = "predecessor";

#[test]
fn every_manifest_of_the_predecessor_that_asks_for_plaintext_is_accepted() -> Played {
    story(|stage| async move {
        let mut tried = 0;
        for (file, manifest) in documents(FOLDER)? {
            if ["tls-", "unknown-field-"]
                .iter()
                .any(|kind| file.starts_with(kind))
            {
                continue;
            }
            for cluster in clusters(&manifest, &stage.namespace)? {
                let answer = stage.commands.try_apply(&cluster).await?;
                answer.accepted().with_context(|| file.clone())?;
                tried += 1;
            }
        }
        ensure!(tried >= 18, "only {tried} clusters were tried");
        Ok(())
    })
}

#[test]
fn the_tls_sample_is_accepted_and_names_one_source_of_certificates() -> Played {
    story(|stage| async move {
        for (file, manifest) in documents(FOLDER)? {
            if !file.starts_with("tls-") {
                continue;
            }
            for cluster in clusters(&manifest, &stage.namespace)? {
                let answer = stage.commands.try_apply(&cluster).await?;
                answer.accepted()?;
                let mut own: Value = serde_json::from_str(&cluster)?;
                own["spec"]["security"]["tls"]["certificateSecret"] = "mine".into();
                let answer = stage.commands.try_apply(&own.to_string()).await?;
                answer.refused_with(&["exactly one source", "autoTLS", "enabled: false"])?;
                // What the sentence proposes is accepted.
                for (field, value) in [("autoTLS", false), ("enabled", false)] {
                    let mut mended = own.clone();
                    mended["spec"]["security"]["tls"][field] = Value::Bool(value);
                    let answer = stage.commands.try_apply(&mended.to_string()).await?;
                    answer.accepted()?;
                }
                own["spec"]["security"]["tls"]["autoTLS"] = Value::Bool(false);
                own["spec"]["security"]["tls"]["certificateSecret"] = "../mine".into();
                let answer = stage.commands.try_apply(&own.to_string()).await?;
                answer.refused_with(&["not the name of a Secret"])?;
            }
        }
        Ok(())
    })
}

#[test]
fn a_field_that_never_was_in_the_schema_is_refused_by_name() -> Played {
    story(|stage| async move {
        for (file, manifest) in documents(FOLDER)? {
            if !file.starts_with("unknown-field-") {
                continue;
            }
            for cluster in clusters(&manifest, &stage.namespace)? {
                let answer = stage.commands.try_apply(&cluster).await?;
                answer.refused_with(&["unknown field", "spec.storage.cleanupPolicy"])?;
            }
        }
        Ok(())
    })
}

#[test]
fn the_fixtures_are_all_there() -> Result<()> {
    let files: BTreeSet<String> = documents(FOLDER)?
        .into_iter()
        .map(|(file, _)| file)
        .collect();
    ensure!(files.len() >= 19, "{files:?}");
    Ok(())
}

/// The clusters in a file, each moved into the namespace of the story.
fn clusters(manifest: &str, namespace: &str) -> Result<Vec<String>> {
    let mut clusters = Vec::new();
    for document in serde_yaml::Deserializer::from_str(manifest) {
        let mut object = Value::deserialize(document)?;
        if object["kind"] != "EtcdCluster" {
            continue;
        }
        object["metadata"]["namespace"] = Value::String(namespace.to_owned());
        clusters.push(object.to_string());
    }
    Ok(clusters)
}

//! What the API server refuses, and the sentence it gives: it says what to write instead. No operator is
//! needed.

use anyhow::{Context, Result};
use e2e::{Case, Played, Stage, document, story};
use serde_json::{Value, json};

const SIZES: &[&str] = &["1, 3, 5, 7 or 9", "0 to stop"];
const RELEASE: &[&str] = &["3.5, 3.6 or 3.7", "such as v3.6.16"];
const QUANTITY: &[&str] = &["not a quantity", "such as 10Gi"];
const TAG: &[&str] = &["not an image repository", "without a tag"];

#[test]
fn nonsense_is_refused_with_what_to_write_instead() -> Played {
    story(|stage| async move {
        let claim = |spec: Value| json!({"storage": {"volumeClaimTemplate": {"spec": spec}}});
        let cases: Vec<Case> = vec![
            (json!({"size": 2}), SIZES),
            (json!({"size": 4}), SIZES),
            (json!({"size": -1}), SIZES),
            (json!({"size": -3}), SIZES),
            (json!({"size": 11}), SIZES),
            (json!({"size": 2_147_483_647}), SIZES),
            (json!({"size": "three"}), &["spec.size", "integer"]),
            (json!({"version": "3.4.1"}), RELEASE),
            (json!({"version": "3.8.0"}), RELEASE),
            (json!({"version": "4.0.0"}), RELEASE),
            (json!({"version": "latest"}), RELEASE),
            (json!({"version": ""}), RELEASE),
            (json!({"version": "3.6"}), RELEASE),
            (json!({"version": "3.5.1"}), &["lose data", "v3.5.35"]),
            (json!({"version": "v3.5.0"}), &["lose data", "v3.5.35"]),
            (json!({"storage": {"size": "ten gigabytes"}}), QUANTITY),
            (json!({"storage": {"size": "10GiB"}}), QUANTITY),
            (json!({"storage": {"size": "-1Gi"}}), QUANTITY),
            (
                json!({"resources": {"requests": {"memory": "lots"}}}),
                QUANTITY,
            ),
            (
                json!({"resources": {"limits": {"cpu": "1 core"}}}),
                QUANTITY,
            ),
            (
                claim(json!({"resources": {"requests": {"storage": "1Gb"}}})),
                QUANTITY,
            ),
            (json!({"repository": "quay.io/coreos/etcd:v3.6.16"}), TAG),
            (json!({"repository": "etcd:3.6"}), TAG),
            (json!({"repository": "https://quay.io/coreos/etcd"}), TAG),
            (
                claim(json!({"volumeMode": "Block"})),
                &["file system", "write Filesystem"],
            ),
            (
                json!({"storage": {"storageClassName": "fast", "volumeClaimTemplate": {"spec": {"storageClassName": "slow"}}}}),
                &["storageClassName", "differ", "write one of them"],
            ),
            (
                json!({"storage": {"size": "1Gi", "volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}}}),
                &["size", "differ", "write one of them"],
            ),
            (
                json!({"storage": {"claimPolicy": {"whenDeleted": "Forget"}}}),
                &["whenDeleted", "Retain", "Delete"],
            ),
            (json!({"sizes": 3}), &["unknown field", "spec.sizes"]),
        ];
        stage.all_refused(cases).await
    })
}

#[test]
fn a_name_that_services_and_labels_cannot_carry_is_refused() -> Played {
    story(|stage| async move {
        let long = "a".repeat(53);
        let mut wrong = Vec::new();
        for name in [long.as_str(), "with.dots", "1st", "0"] {
            let answer = stage
                .commands
                .try_apply(&document(name, &json!({})))
                .await?;
            let words = ["metadata.name", "at most 52 characters", "no dots"];
            if let Err(error) = answer.refused_with(&words) {
                wrong.push(format!("{name}: {error:#}"));
            }
        }
        anyhow::ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
        for name in ["a".repeat(52).as_str(), "a", "with-dashes-1"] {
            let answer = stage
                .commands
                .try_apply(&document(name, &json!({})))
                .await?;
            answer.accepted().with_context(|| name.to_owned())?;
        }
        Ok(())
    })
}

#[test]
fn before_a_cluster_has_formed_its_spec_can_be_corrected_and_its_size_may_change() -> Played {
    story(|stage| async move {
        large(&stage).await?;
        all_accepted(
            &stage,
            vec![
                json!({"version": "v3.7.3"}),
                json!({"repository": "gcr.io/etcd-development/etcd"}),
                json!({"resources": {"requests": {"cpu": "2000"}}}),
                json!({"size": 5}),
                json!({"size": 3}),
                json!({"size": 0}),
                json!({"size": 1}),
            ],
        )
        .await
    })
}

async fn all_accepted(stage: &Stage, changes: Vec<Value>) -> Result<()> {
    for change in changes {
        let answer = edit(stage, &change).await?;
        answer.accepted().with_context(|| change.to_string())?;
    }
    Ok(())
}

/// A cluster that has no room on any node, so that only admission is at work.
async fn large(stage: &Stage) -> Result<()> {
    let storage = json!({"size": "1Gi", "storageClassName": "standard"});
    let spec = json!({"size": 3, "version": "v3.6.16", "storage": storage,
        "resources": {"requests": {"cpu": "1000"}}});
    stage.create_as_written("c", spec).await.map(drop)
}

async fn edit(stage: &Stage, change: &Value) -> Result<e2e::Answer> {
    let patch = json!({"spec": change}).to_string();
    stage.commands.patch("c", &patch).await
}

#[test]
fn an_old_release_is_accepted_with_a_warning_and_a_new_one_without() -> Played {
    story(|stage| async move {
        for (version, words) in [
            ("v3.5.21", &["3.5.21", "3.5.23", "GHSA-"][..]),
            ("3.6.4", &["3.6.4", "3.6.5", "3.6.12"]),
            ("3.7.0", &["3.7.0", "3.7.1"]),
        ] {
            let answer = stage
                .commands
                .try_apply(&document("c", &json!({"version": version})))
                .await?;
            anyhow::ensure!(answer.ok, "{version} is refused: {}", answer.stderr);
            for word in words.iter().chain(&["Warning:"]) {
                anyhow::ensure!(
                    answer.stderr.contains(word),
                    "{version}: no {word:?} in {:?}",
                    answer.stderr
                );
            }
        }
        for version in ["v3.5.35", "v3.6.16", "v3.7.3"] {
            let answer = stage
                .commands
                .try_apply(&document("c", &json!({"version": version})))
                .await?;
            anyhow::ensure!(
                answer.ok && !answer.stderr.contains("Warning:"),
                "{version}: {}",
                answer.stderr
            );
        }
        Ok(())
    })
}

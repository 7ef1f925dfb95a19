//! What may change of a cluster that has formed: the way from release to release, and volumes. Only admission is at work.

use anyhow::{Context, Result};
use api::v1alpha1::status::Phase;
use e2e::{Played, Stage, story};
use serde_json::{Value, json};

/// An edit, and what a refusal says; nothing when it is accepted.
type Edit = (Value, &'static [&'static str]);

const CLASS: &[&str] = &[
    "spec.storage.storageClassName",
    "StorageClass of a volume cannot change",
    "create a new cluster and copy the data into it",
];
const CLAIM: &[&str] = &[
    "spec.storage.volumeClaimTemplate",
    "except for its storage request",
];
const SHRINK: &[&str] = &[
    "spec.storage.size",
    "cannot be reduced",
    "volumes can only be expanded",
];

#[test]
fn a_release_that_is_too_far_away_is_refused_with_the_one_to_go_to_first() -> Played {
    story(|stage| async move {
        formed(&stage, json!({"version": "v3.5.31"})).await?;
        let version = |version: &str| json!({ "version": version });
        let edits: Vec<Edit> = vec![
            (
                version("v3.6.16"),
                &[
                    "from v3.5.31 to v3.6.16",
                    "first go to v3.5.35",
                    "spec.upgrade.allowIntermediate: true",
                ],
            ),
            (version("3.5.35"), &[]),
            (version("v3.7.3"), &["from 3.5.35", "first go to v3.6.16"]),
            (version("v3.6.10"), &[]),
            (version("v3.7.3"), &["first go to v3.6.16"]),
            (version("v3.6.16"), &[]),
            (version("v3.7.3"), &[]),
            (version("v3.5.35"), &["first go to v3.6.16"]),
            (version("v3.6.1"), &[]),
            (version("v3.5.9"), &[]),
        ];
        one_after_another(&stage, edits).await
    })
}

#[test]
fn releases_between_may_be_walked_through_unless_an_image_is_pinned() -> Played {
    story(|stage| async move {
        let walk = json!({"allowIntermediate": true});
        formed(&stage, json!({"version": "v3.5.9", "upgrade": walk})).await?;
        let edits: Vec<Edit> = vec![
            (
                json!({"version": "v3.7.3", "image": {"tag": "v3.7.3"}}),
                &["spec.image pins", "first go to v3.5.35", "spec.image.tag"],
            ),
            (json!({"version": "v3.7.3"}), &[]),
            (json!({"version": "v3.5.35"}), &[]),
            (
                json!({"version": "v3.6.16", "image": {"tag": "v3.6.16"}}),
                &[],
            ),
            (
                json!({"version": "v3.7.3", "image": {"tag": "v3.7.3"}}),
                &[],
            ),
        ];
        one_after_another(&stage, edits).await
    })
}

#[test]
fn image_and_resources_and_settings_may_change_once_a_cluster_has_formed() -> Played {
    story(|stage| async move {
        formed(&stage, json!({"version": "v3.6.16"})).await?;
        let edits: Vec<Edit> = vec![
            (json!({"repository": "gcr.io/etcd-development/etcd"}), &[]),
            (json!({"resources": {"requests": {"cpu": "1"}}}), &[]),
            (json!({"resources": null}), &[]),
            (json!({"etcd": {"logLevel": "debug"}}), &[]),
            (json!({"pod": {"labels": {"team": "a"}}}), &[]),
            (json!({"access": {"type": "LoadBalancer"}}), &[]),
            (
                json!({"access": {"loadBalancerClass": "example.com/a"}}),
                &["spec.access.loadBalancerClass", "type: ClusterIP first"],
            ),
            (json!({"access": {"type": "ClusterIP"}}), &[]),
            (json!({"debug": {"enabled": true}}), &[]),
        ];
        one_after_another(&stage, edits).await
    })
}

#[test]
fn tls_of_a_cluster_that_has_formed_is_switched_by_a_field_of_its_own_only() -> Played {
    story(|stage| async move {
        formed(&stage, json!({"version": "v3.6.16"})).await?;
        let tls = |tls: Value| json!({"security": {"tls": tls}});
        let clients = json!({"clientTLSEnabled": true, "peerTLSEnabled": false});
        let peers = json!({"enabled": true, "clientTLSEnabled": false, "peerTLSEnabled": true});
        let on = |live: Value| json!({"clientTLSEnabled": true, "peerTLSEnabled": false, "liveSwitch": live});
        let edits: Vec<Edit> = vec![
            (tls(json!({"enabled": false})), &[]),
            (
                tls(json!({"enabled": true})),
                &["liveSwitch: true", "for clients", "between members"],
            ),
            (
                tls(peers),
                &["TLS between members is switched on", "liveSwitch: true"],
            ),
            (
                tls(json!({"enabled": true, "clientTLSEnabled": true, "peerTLSEnabled": false})),
                &["TLS for clients is switched on", "liveSwitch: true"],
            ),
            (tls(json!({"enabled": true, "liveSwitch": true})), &[]),
            (json!({"security": {"tls": null}}), &[]),
            (tls(clients), &["TLS for clients is switched on"]),
            (tls(on(json!(false))), &["TLS for clients is switched on"]),
            (tls(on(json!(true))), &[]),
            (tls(json!({"plaintextClients": "Accept"})), &[]),
            (
                tls(json!({"plaintextClients": "Ignore"})),
                &["plaintextClients"],
            ),
        ];
        one_after_another(&stage, edits).await?;
        let runs = json!({"memory": {"lineage": {"transport": {"client": "Tls", "peer": "Tls"}}}});
        stage.commands.patch_status("c", &runs).await?;
        let off = &["TLS for clients is switched off", "liveSwitch: true"];
        let edits: Vec<Edit> = vec![
            (
                tls(json!({"liveSwitch": null, "peerTLSEnabled": true})),
                &[],
            ),
            (
                tls(json!({"peerTLSEnabled": false})),
                &["TLS between members is switched off"],
            ),
            (json!({"security": null}), off),
            (tls(json!({"enabled": false})), off),
            (tls(json!({"enabled": false, "liveSwitch": true})), &[]),
        ];
        one_after_another(&stage, edits).await
    })
}

#[test]
fn volumes_may_grow_and_neither_shrink_nor_become_others() -> Played {
    story(|stage| async move {
        let storage = json!({"size": "1Gi", "storageClassName": "standard"});
        formed(&stage, json!({ "storage": storage })).await?;
        let size = |size: Value| json!({"storage": {"size": size}});
        let template = |spec: Value| json!({"storage": {"volumeClaimTemplate": {"spec": spec}}});
        let request = |size: &str| template(json!({"resources": {"requests": {"storage": size}}}));
        let edits: Vec<Edit> = vec![
            (size(json!("512Mi")), SHRINK),
            (size(json!("0")), &[]),
            (size(json!("9Gi")), SHRINK),
            (size(json!("10240Mi")), &[]),
            (size(json!(10_737_418_241_u64)), &[]),
            (size(json!("10Gi")), SHRINK),
            (json!({"storage": null}), CLASS),
            (json!({"storage": {"storageClassName": "fast"}}), CLASS),
            (json!({"storage": {"storageClassName": null}}), CLASS),
            (template(json!({"storageClassName": "standard"})), &[]),
            (
                template(json!({"accessModes": ["ReadWriteOncePod"]})),
                CLAIM,
            ),
            (template(json!({"accessModes": ["ReadWriteOnce"]})), &[]),
            (
                template(json!({"selector": {"matchLabels": {"a": "b"}}})),
                CLAIM,
            ),
            (
                json!({"storage": {"volumeClaimTemplate": {"metadata": {"labels": {"a": "b"}}}}}),
                CLAIM,
            ),
            (json!({"storage": {"size": "10Gi"}}), SHRINK),
            (
                json!({"storage": {"size": "10Gi", "volumeClaimTemplate": {"spec": {"resources": {"requests": {"storage": "30Gi"}}}}}}),
                &[],
            ),
            (request("20Gi"), SHRINK),
            (json!({"storage": {"volumeClaimTemplate": null}}), SHRINK),
            (
                json!({"storage": {"size": "30Gi", "volumeClaimTemplate": null}}),
                &[],
            ),
            (
                json!({"storage": {"claimPolicy": {"whenStopped": "Delete", "whenScaled": "Retain"}}}),
                &[],
            ),
            (json!({"storage": {"claimPolicy": null}}), &[]),
        ];
        one_after_another(&stage, edits).await
    })
}

async fn one_after_another(stage: &Stage, edits: Vec<Edit>) -> Result<()> {
    let mut wrong = Vec::new();
    for (edit, words) in edits {
        let patch = json!({ "spec": edit }).to_string();
        let answer = stage.commands.patch("c", &patch).await?;
        let judged = if words.is_empty() {
            answer.accepted()
        } else {
            answer.refused_with(words)
        };
        if let Err(error) = judged {
            wrong.push(format!("{edit}: {error:#}"));
        }
    }
    anyhow::ensure!(wrong.is_empty(), "{}", wrong.join("\n"));
    Ok(())
}

/// A stopped cluster that is told to have formed, so that only admission is at work.
async fn formed(stage: &Stage, mut spec: Value) -> Result<()> {
    let object = spec.as_object_mut().context("no spec")?;
    object.insert("size".to_owned(), json!(0));
    stage
        .create_as_written("c", spec)
        .await?
        .phase(Phase::Stopped)
        .await?;
    let arguments = [
        "patch",
        "etcdclusters.etcd.etcd.io",
        "c",
        "--subresource=status",
        "--type=merge",
        "-p",
        r#"{"status":{"clusterID":"cafe","memory":{"lineage":{"clusterID":"cafe"}}}}"#,
    ];
    stage
        .commands
        .kubectl(&arguments)
        .await?
        .accepted()
        .map(drop)
}

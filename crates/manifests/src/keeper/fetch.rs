//! The Job that brings a backup to the volume of a member. It mounts that volume as the member does, on a node on which the
//! member may run, and as the user that the member has: what it writes is the member's to read and to remove. One that only
//! reads the backup mounts no volume of a member.

use api::v1alpha1::backup::EtcdBackupSpec;
use api::{ClusterIntent, labels, names};
use archive::work::{IDENTITY, Request, SCRATCH};
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{
    Container, EnvVar, PersistentVolumeClaimVolumeSource, PodSpec, PodTemplateSpec,
    SecretVolumeSource, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::{Deserialize, Serialize};

use super::{CONTAINER, DEADLINE_SECONDS, PROGRAM, request_variable, resources, store_volumes};
use crate::{Owner, PodUser, metadata, pod};

/// What the Job of a restore is made from.
pub struct Fetch<'a> {
    /// The EtcdCluster, which owns it.
    pub owner: &'a Owner,
    /// Its spec.
    pub intent: &'a ClusterIntent,
    /// What it is for.
    pub run: &'a FetchRun,
    /// Where the backup is.
    pub location: &'a EtcdBackupSpec,
    /// What the keeper is told.
    pub request: &'a Request,
    /// Secret with private keys.
    pub identity: Option<&'a str>,
    /// Image that holds the keeper.
    pub image: &'a str,
    /// Who says which user it runs as.
    pub user: PodUser,
}

/// What a Job of a restore is for: the value of its annotation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct FetchRun {
    /// Hash of what was asked for.
    pub wish: String,
    /// The member to whose volume it is brought; empty where it is only read.
    pub member: String,
    /// UID of its claim; of the EtcdRestore where it is only read.
    #[serde(rename = "claimUID")]
    pub claim_uid: String,
    /// How many attempts failed before.
    pub attempt: i32,
}

/// The Job. The same attempt has the same name, so that it is created once.
pub fn fetch_job(fetch: &Fetch<'_>) -> Result<Job, serde_json::Error> {
    let run = serde_json::to_string(fetch.run)?;
    let mut labels = super::labels_of(&fetch.owner.name, fetch.location);
    let pod = PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels.clone()),
            ..ObjectMeta::default()
        }),
        spec: Some(pod_spec(fetch)),
    };
    labels.insert(labels::MANAGED_BY.to_owned(), labels::OPERATOR.to_owned());
    let name = fetch_job_name(&fetch.owner.name, fetch.run);
    Ok(Job {
        metadata: ObjectMeta {
            labels: Some(labels),
            annotations: Some([(labels::RUN_ANNOTATION.to_owned(), run)].into()),
            ..metadata(fetch.owner, &name, "restore")
        },
        spec: Some(JobSpec {
            backoff_limit: Some(0),
            active_deadline_seconds: Some(DEADLINE_SECONDS),
            template: pod,
            ..JobSpec::default()
        }),
        status: None,
    })
}

/// Its end tells one claim, wish and attempt from another.
pub fn fetch_job_name(cluster: &str, run: &FetchRun) -> String {
    let claim: String = run.claim_uid.chars().take(8).collect();
    let wish: String = run.wish.chars().take(8).collect();
    let what = if run.member.is_empty() {
        "check"
    } else {
        "restore"
    };
    let end = format!("{what}-{wish}-{claim}-{}", run.attempt);
    let room = 63_usize.saturating_sub(end.len().saturating_add(1));
    let stem: String = cluster.chars().take(room).collect();
    format!("{}-{end}", stem.trim_end_matches(['-', '.']))
}

fn pod_spec(fetch: &Fetch<'_>) -> PodSpec {
    let settings = &fetch.intent.pod.settings;
    let account = fetch.location.service_account_name.clone();
    let volumes = volumes(fetch);
    let mounts = volumes.iter().map(|(volume, path)| VolumeMount {
        name: volume.name.clone(),
        mount_path: (*path).to_owned(),
        read_only: Some(*path != SCRATCH),
        ..VolumeMount::default()
    });
    PodSpec {
        containers: vec![Container {
            name: CONTAINER.to_owned(),
            image: Some(fetch.image.to_owned()),
            command: Some(vec![PROGRAM.to_owned()]),
            env: Some(vec![environment(fetch.request)]),
            volume_mounts: Some(mounts.collect()),
            resources: Some(resources()),
            security_context: Some(pod::etcd_container(fetch.intent)),
            ..Container::default()
        }],
        restart_policy: Some("Never".to_owned()),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        service_account_name: account,
        security_context: Some(pod::pod_context(fetch.intent, fetch.user)),
        node_selector: Some(settings.node_selector.clone()).filter(|it| !it.is_empty()),
        tolerations: Some(settings.tolerations.clone()).filter(|it| !it.is_empty()),
        affinity: settings.affinity.clone(),
        priority_class_name: settings.priority_class_name.clone(),
        image_pull_secrets: Some(settings.image_pull_secrets.clone()).filter(|it| !it.is_empty()),
        volumes: Some(volumes.into_iter().map(|(volume, _)| volume).collect()),
        ..PodSpec::default()
    }
}

fn environment(request: &Request) -> EnvVar {
    request_variable(request.to_text())
}

/// Each with the directory at which it is mounted.
fn volumes(fetch: &Fetch<'_>) -> Vec<(Volume, &'static str)> {
    let ordinal = names::ordinal(&fetch.owner.name, &fetch.run.member).unwrap_or(0);
    let seed = Volume {
        name: names::CLAIM_TEMPLATE.to_owned(),
        persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
            claim_name: names::claim(&fetch.owner.name, ordinal),
            read_only: None,
        }),
        ..Volume::default()
    };
    let mut volumes = Vec::new();
    volumes.extend((!fetch.run.member.is_empty()).then_some((seed, SCRATCH)));
    volumes.extend(store_volumes(fetch.location));
    volumes.extend(fetch.identity.map(|secret| {
        let volume = Volume {
            name: "identity".to_owned(),
            secret: Some(SecretVolumeSource {
                secret_name: Some(secret.to_owned()),
                default_mode: Some(0o440),
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        };
        (volume, IDENTITY)
    }));
    volumes
}

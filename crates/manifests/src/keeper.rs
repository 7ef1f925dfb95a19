//! The Job of a keeper: one piece of work in the namespace of the object that asks for it. It has no token of the Kubernetes
//! API, and its Secrets are mounted by reference: the operator reads none of them.

mod fetch;
mod verify;

use std::collections::BTreeMap;

use api::labels;
use api::v1alpha1::backup::{BackupRun, EtcdBackupSpec, StorageType};
use archive::work::{LOCAL, MEMBER_TLS, REQUEST, Request, STORE_SECRETS};
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{
    Capabilities, Container, EnvVar, PersistentVolumeClaimVolumeSource, PodSecurityContext,
    PodSpec, PodTemplateSpec, ProjectedVolumeSource, ResourceRequirements, SeccompProfile,
    SecretProjection, SecretVolumeSource, SecurityContext, Volume, VolumeMount, VolumeProjection,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use crate::PodUser;

pub use fetch::{Fetch, FetchRun, fetch_job, fetch_job_name};
pub use verify::{VerifyWork, verify_job, verify_job_name};

/// Name of the container, and of the program.
pub const CONTAINER: &str = "keeper";
const PROGRAM: &str = "/usr/local/bin/etcd-keeper";
/// No backup takes longer: a store that never answers must not hold a place for ever.
const DEADLINE_SECONDS: i64 = 6 * 3600;
/// The user of the operator's own image.
const USER: i64 = 65532;

/// What the Job of a backup is made from.
pub struct Work<'a> {
    /// The EtcdBackup, which owns it.
    pub owner: OwnerReference,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its spec.
    pub spec: &'a EtcdBackupSpec,
    /// What it is for.
    pub run: &'a BackupRun,
    /// What the keeper is told.
    pub request: &'a Request,
    /// The member that is read.
    pub member: &'a str,
    /// Secret with the certificate for it.
    pub secret: Option<&'a str>,
    /// Image that holds the keeper.
    pub image: &'a str,
    /// Who says which user it runs as.
    pub user: PodUser,
}

/// The Job of a backup. The same run has the same name, so that it is created once.
pub fn job(work: &Work<'_>) -> Result<Job, serde_json::Error> {
    let name = job_name(&work.owner.name, work.run);
    let annotations = [
        (
            labels::RUN_ANNOTATION.to_owned(),
            serde_json::to_string(work.run)?,
        ),
        (labels::READS_ANNOTATION.to_owned(), work.member.to_owned()),
    ];
    Ok(Job {
        metadata: ObjectMeta {
            name: Some(name),
            namespace: Some(work.namespace.to_owned()),
            labels: Some(object_labels(work)),
            annotations: Some(annotations.into()),
            owner_references: Some(vec![work.owner.clone()]),
            ..ObjectMeta::default()
        },
        spec: Some(JobSpec {
            backoff_limit: Some(0),
            active_deadline_seconds: Some(DEADLINE_SECONDS),
            template: PodTemplateSpec {
                metadata: Some(ObjectMeta {
                    labels: Some(pod_labels(work)),
                    ..ObjectMeta::default()
                }),
                spec: Some(pod(work)),
            },
            ..JobSpec::default()
        }),
        status: None,
    })
}

fn pod(work: &Work<'_>) -> PodSpec {
    let volumes = volumes(work);
    PodSpec {
        containers: vec![container(work, &volumes)],
        restart_policy: Some("Never".to_owned()),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        service_account_name: work.spec.service_account_name.clone(),
        security_context: Some(restricted_pod(work.user)),
        volumes: Some(volumes.into_iter().map(|(volume, _)| volume).collect()),
        ..PodSpec::default()
    }
}

fn container(work: &Work<'_>, volumes: &[(Volume, &'static str)]) -> Container {
    let mounts = volumes.iter().map(|(volume, path)| VolumeMount {
        name: volume.name.clone(),
        mount_path: (*path).to_owned(),
        read_only: Some(*path != LOCAL),
        ..VolumeMount::default()
    });
    Container {
        name: CONTAINER.to_owned(),
        image: Some(work.image.to_owned()),
        command: Some(vec![PROGRAM.to_owned()]),
        env: Some(vec![request_variable(work.request.to_text())]),
        volume_mounts: Some(mounts.collect()),
        resources: Some(resources()),
        security_context: Some(restricted_container()),
        ..Container::default()
    }
}

fn restricted_pod(says: PodUser) -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: says.of(USER),
        run_as_group: says.of(USER),
        fs_group: says.of(USER),
        seccomp_profile: Some(SeccompProfile {
            type_: "RuntimeDefault".to_owned(),
            ..SeccompProfile::default()
        }),
        ..PodSecurityContext::default()
    }
}

fn restricted_container() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        capabilities: Some(Capabilities {
            drop: Some(vec!["ALL".to_owned()]),
            ..Capabilities::default()
        }),
        read_only_root_filesystem: Some(true),
        ..SecurityContext::default()
    }
}

fn request_variable(text: String) -> EnvVar {
    EnvVar {
        name: REQUEST.to_owned(),
        value: Some(text),
        ..EnvVar::default()
    }
}

/// At most 63 characters, of which the end tells one run and attempt from another.
pub fn job_name(backup: &str, run: &BackupRun) -> String {
    name_with(backup, &format!("{}-{}", run.id, run.attempt))
}

fn name_with(backup: &str, end: &str) -> String {
    let room = 63_usize.saturating_sub(end.len().saturating_add(1));
    let stem: String = backup.chars().take(room).collect();
    let stem = stem.trim_end_matches(['-', '.']);
    format!("{stem}-{end}")
}

fn object_labels(work: &Work<'_>) -> BTreeMap<String, String> {
    let mut labels = pod_labels(work);
    labels.insert(labels::MANAGED_BY.to_owned(), labels::OPERATOR.to_owned());
    labels
}

fn pod_labels(work: &Work<'_>) -> BTreeMap<String, String> {
    labels_of(&work.spec.cluster_name, work.spec)
}

/// Without those that select members, and without that of the operator's own pods.
fn labels_of(cluster: &str, location: &EtcdBackupSpec) -> BTreeMap<String, String> {
    let labels = [(labels::NAME, labels::KEEPER), (labels::KEEPER_OF, cluster)];
    let owned = labels.map(|(key, value)| (key.to_owned(), value.to_owned()));
    let mut owned = BTreeMap::from(owned);
    let azure = location.azure.as_ref();
    if azure.is_some_and(|azure| azure.credentials_secret.is_none()) {
        // What brings the identity of the service account into a pod asks for it.
        owned.insert("azure.workload.identity/use".to_owned(), "true".to_owned());
    }
    owned
}

fn resources() -> ResourceRequirements {
    limited(&[("cpu", "50m"), ("memory", "64Mi")], "192Mi")
}

fn limited(requests: &[(&str, &str)], memory: &str) -> ResourceRequirements {
    let quantities = |pairs: &[(&str, &str)]| {
        let pairs = pairs.iter();
        let quantities = pairs.map(|(key, value)| ((*key).to_owned(), Quantity((*value).into())));
        Some(quantities.collect())
    };
    ResourceRequirements {
        requests: quantities(requests),
        limits: quantities(&[("memory", memory)]),
        claims: None,
    }
}

/// Each with the directory at which it is mounted.
fn volumes(work: &Work<'_>) -> Vec<(Volume, &'static str)> {
    let mut volumes = store_volumes(work.spec);
    if let Some(secret) = work.secret {
        let volume = Volume {
            name: "member".to_owned(),
            secret: Some(SecretVolumeSource {
                secret_name: Some(secret.to_owned()),
                default_mode: Some(0o440),
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        };
        volumes.push((volume, MEMBER_TLS));
    }
    volumes
}

/// What the keeper needs for the store.
fn store_volumes(spec: &EtcdBackupSpec) -> Vec<(Volume, &'static str)> {
    let mut volumes = Vec::new();
    let secrets = store_secrets(spec);
    if !secrets.is_empty() {
        let sources = secrets.into_iter().map(|name| VolumeProjection {
            secret: Some(SecretProjection {
                name: name.to_owned(),
                ..SecretProjection::default()
            }),
            ..VolumeProjection::default()
        });
        let volume = Volume {
            name: "store".to_owned(),
            projected: Some(ProjectedVolumeSource {
                sources: Some(sources.collect()),
                default_mode: Some(0o440),
            }),
            ..Volume::default()
        };
        volumes.push((volume, STORE_SECRETS));
    }
    let local = spec.local.as_ref();
    let local = local.filter(|_| spec.storage_type == StorageType::Local);
    if let Some(local) = local {
        let volume = Volume {
            name: "local".to_owned(),
            persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                claim_name: local.claim_name.clone(),
                read_only: None,
            }),
            ..Volume::default()
        };
        volumes.push((volume, LOCAL));
    }
    volumes
}

/// Each once: the samples of the predecessor name one Secret for both keys.
fn store_secrets(spec: &EtcdBackupSpec) -> Vec<&str> {
    let named = match spec.storage_type {
        StorageType::S3 => spec.s3.as_ref().map(|s3| {
            let named = [&s3.access_key_secret, &s3.secret_key_secret, &s3.ca_secret];
            named.into_iter().flatten().collect::<Vec<_>>()
        }),
        StorageType::Gcs => spec
            .gcs
            .as_ref()
            .map(|gcs| gcs.credentials_secret.iter().collect()),
        StorageType::Azure => spec
            .azure
            .as_ref()
            .map(|azure| azure.credentials_secret.iter().collect()),
        StorageType::Local => None,
    };
    let mut once = Vec::new();
    for secret in named.unwrap_or_default() {
        if !once.contains(&secret.as_str()) {
            once.push(secret.as_str());
        }
    }
    once
}

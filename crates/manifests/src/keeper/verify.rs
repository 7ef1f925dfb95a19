//! The Job that restores a backup for a trial. Its container has the cluster's own image of etcd, into which an init container
//! copies the keeper; what it restores lies in an `emptyDir`, which goes with the pod.

use api::Quantity as Written;
use api::labels;
use api::v1alpha1::backup::{EtcdBackupSpec, VerifyRun};
use archive::work::{IDENTITY, Request, SCRATCH};
use k8s_openapi::api::batch::v1::{Job, JobSpec};
use k8s_openapi::api::core::v1::{
    Container, EmptyDirVolumeSource, LocalObjectReference, PodSpec, PodTemplateSpec,
    SecretVolumeSource, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};

use super::{
    CONTAINER, DEADLINE_SECONDS, PROGRAM, limited, name_with, request_variable, resources,
    restricted_container, restricted_pod, store_volumes,
};
use crate::PodUser;

const TOOLS: &str = "/keeper";
const COPY: &str = "/keeper/etcd-keeper";
const MEBIBYTE: u64 = 1 << 20;
/// What an etcd and a keeper need beside the database.
const MEMORY: u64 = 512;
/// MiB of logs and what else etcd writes.
const BESIDE: u64 = 128;
/// Write-ahead logs, and what the database grows by.
const ROOM: u64 = 1024;

/// What the Job of a verification is made from.
pub struct VerifyWork<'a> {
    /// The EtcdBackup, which owns it.
    pub owner: OwnerReference,
    /// Its namespace.
    pub namespace: &'a str,
    /// Its spec.
    pub spec: &'a EtcdBackupSpec,
    /// What it is for.
    pub run: &'a VerifyRun,
    /// What the keeper is told.
    pub request: &'a Request,
    /// Image that holds the keeper.
    pub image: &'a str,
    /// Who says which user it runs as.
    pub user: PodUser,
    /// Image that holds etcd.
    pub etcd_image: &'a str,
    /// Secrets with which that is pulled.
    pub pull_secrets: &'a [String],
    /// Bytes of the snapshot.
    pub raw_bytes: u64,
}

/// The Job. The same attempt has the same name, so that it is created once.
pub fn verify_job(work: &VerifyWork<'_>) -> Result<Job, serde_json::Error> {
    let run = serde_json::to_string(work.run)?;
    let mut labels = super::labels_of(&work.spec.cluster_name, work.spec);
    let pod = PodTemplateSpec {
        metadata: Some(ObjectMeta {
            labels: Some(labels.clone()),
            ..ObjectMeta::default()
        }),
        spec: Some(pod(work)),
    };
    labels.insert(labels::MANAGED_BY.to_owned(), labels::OPERATOR.to_owned());
    Ok(Job {
        metadata: ObjectMeta {
            name: Some(verify_job_name(&work.owner.name, work.run)),
            namespace: Some(work.namespace.to_owned()),
            labels: Some(labels),
            annotations: Some([(labels::VERIFIES_ANNOTATION.to_owned(), run)].into()),
            owner_references: Some(vec![work.owner.clone()]),
            ..ObjectMeta::default()
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

/// Its end tells one verification and attempt from another.
pub fn verify_job_name(backup: &str, run: &VerifyRun) -> String {
    name_with(backup, &format!("{}-{}", run.id, run.attempt))
}

fn pod(work: &VerifyWork<'_>) -> PodSpec {
    let volumes = volumes(work);
    let secrets = work.pull_secrets.iter();
    let secrets = secrets.map(|name| LocalObjectReference { name: name.clone() });
    let secrets: Vec<LocalObjectReference> = secrets.collect();
    PodSpec {
        init_containers: Some(vec![copy(work)]),
        containers: vec![trial(work, &volumes)],
        restart_policy: Some("Never".to_owned()),
        automount_service_account_token: Some(false),
        enable_service_links: Some(false),
        service_account_name: work.spec.service_account_name.clone(),
        security_context: Some(restricted_pod(work.user)),
        image_pull_secrets: (!secrets.is_empty()).then_some(secrets),
        volumes: Some(volumes.into_iter().map(|(volume, _)| volume).collect()),
        ..PodSpec::default()
    }
}

/// Brings the keeper into the pod.
fn copy(work: &VerifyWork<'_>) -> Container {
    Container {
        name: "copy".to_owned(),
        image: Some(work.image.to_owned()),
        command: Some([PROGRAM, "install", COPY].map(str::to_owned).into()),
        volume_mounts: Some(vec![mount("tools", TOOLS, false)]),
        resources: Some(resources()),
        security_context: Some(restricted_container()),
        ..Container::default()
    }
}

fn trial(work: &VerifyWork<'_>, volumes: &[(Volume, &'static str)]) -> Container {
    // A claim that is the store is written to as well: what came of it is recorded there.
    let is_written = |path: &str| path == SCRATCH || path == archive::work::LOCAL;
    let mounts = volumes
        .iter()
        .map(|(volume, path)| mount(&volume.name, path, !is_written(path)));
    Container {
        name: CONTAINER.to_owned(),
        image: Some(work.etcd_image.to_owned()),
        command: Some(vec![COPY.to_owned()]),
        env: Some(vec![request_variable(work.request.to_text())]),
        volume_mounts: Some(mounts.collect()),
        resources: Some(limited(
            &[
                ("cpu", "100m"),
                ("memory", "128Mi"),
                ("ephemeral-storage", expected(work).as_str()),
            ],
            &memory(work),
        )),
        security_context: Some(restricted_container()),
        ..Container::default()
    }
}

fn mount(name: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: Some(read_only),
        ..VolumeMount::default()
    }
}

/// etcd keeps an index of all keys in memory; pages of the file are the kernel's, which takes them back.
fn memory(work: &VerifyWork<'_>) -> String {
    let written = work.spec.verify.as_ref();
    let written = written.and_then(|verify| verify.memory_limit.clone());
    let Written(text) = written.unwrap_or_else(|| mebibytes(work.raw_bytes / 2, MEMORY));
    text
}

/// The snapshot as it is brought, the copy that etcd runs on, and what that grows by.
fn scratch(work: &VerifyWork<'_>) -> Quantity {
    let written = work.spec.verify.as_ref();
    let written = written.and_then(|verify| verify.scratch_size.clone());
    let bytes = work.raw_bytes.saturating_mul(3);
    let Written(text) = written.unwrap_or_else(|| mebibytes(bytes, ROOM));
    Quantity(text)
}

/// What it will use, so that it is placed where that is free: the snapshot as it is brought, and the copy that etcd runs on.
fn expected(work: &VerifyWork<'_>) -> String {
    let written = work.spec.verify.as_ref();
    let written = written.and_then(|verify| verify.scratch_size.clone());
    let Written(text) =
        written.unwrap_or_else(|| mebibytes(work.raw_bytes.saturating_mul(2), BESIDE));
    text
}

fn mebibytes(bytes: u64, beside: u64) -> Written {
    let number = bytes.div_ceil(MEBIBYTE).saturating_add(beside);
    Written(format!("{number}Mi"))
}

/// Each with the directory at which it is mounted.
fn volumes(work: &VerifyWork<'_>) -> Vec<(Volume, &'static str)> {
    let empty = |name: &str, limit: Option<Quantity>| Volume {
        name: name.to_owned(),
        empty_dir: Some(EmptyDirVolumeSource {
            size_limit: limit,
            ..EmptyDirVolumeSource::default()
        }),
        ..Volume::default()
    };
    let mut volumes = vec![
        (empty("scratch", Some(scratch(work))), SCRATCH),
        (empty("tools", None), TOOLS),
    ];
    volumes.extend(store_volumes(work.spec));
    let verify = work.spec.verify.as_ref();
    let identity = verify.and_then(|verify| verify.identity_secret.clone());
    volumes.extend(identity.map(|secret| {
        let volume = Volume {
            name: "identity".to_owned(),
            secret: Some(SecretVolumeSource {
                secret_name: Some(secret),
                default_mode: Some(0o440),
                ..SecretVolumeSource::default()
            }),
            ..Volume::default()
        };
        (volume, IDENTITY)
    }));
    volumes
}

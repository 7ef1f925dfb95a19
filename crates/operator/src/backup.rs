//! The reconcile of an EtcdBackup: what was seen of it goes into [`plan::backup::decide`], the status is written, and then the
//! one step is done. The operator sees no data and reads no Secret of a store: that is the keeper's.

pub(crate) mod elsewhere;
pub(crate) mod job;
pub mod places;

use std::sync::Arc;
use std::time::Duration;

use api::v1alpha1::backup::{BackupRun, EtcdBackup};
use api::{EtcdCluster, labels};
use k8s_openapi::api::batch::v1::Job;
use kube::api::{DeleteParams, PostParams, Preconditions, PropagationPolicy};
use kube::core::DeserializeGuard;
use kube::runtime::controller::Action;
use kube::runtime::events::{Event, EventType};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Resource, ResourceExt};
use manifests::keeper::{self, VerifyWork, Work};
use plan::backup::{self as rules, Begin, BeginVerify, Cluster, Next, Seen, Step};
use thiserror::Error;
use tracing::Instrument;

use crate::caches::{self, get};
use crate::context::Context;
use places::Places;

/// An `EtcdBackup`, or why it cannot be read.
pub type Guarded = DeserializeGuard<EtcdBackup>;

/// What every reconcile needs.
pub struct Backups {
    /// What the clusters need.
    pub context: Arc<Context>,
    /// Jobs of keepers.
    pub jobs: Store<Job>,
    /// How many of them may run at once.
    pub places: Arc<Places>,
}

const AFTER_A_FAILURE: Duration = Duration::from_secs(10);
const AFTER_A_CONFLICT: Duration = Duration::from_millis(100);

/// Why a reconcile could not end; it is tried again.
#[derive(Debug, Error)]
pub enum Error {
    /// The caches are gone: the operator is stopping.
    #[error("the watch caches ended")]
    Caches(#[source] kube::runtime::reflector::store::WriterDropped),
    /// The status could not be written.
    #[error("the status of the EtcdBackup cannot be written")]
    Status(#[source] kube::Error),
    /// What its Job said could not be read.
    #[error("the pod of a backup's Job cannot be read")]
    Pod(#[source] kube::Error),
    /// A Job could not be created.
    #[error("Job {0} cannot be created")]
    Create(String, #[source] kube::Error),
    /// A Job could not be deleted.
    #[error("Job {0} cannot be deleted")]
    Delete(String, #[source] kube::Error),
    /// A Job could not be rendered.
    #[error("the Job of a backup cannot be rendered")]
    Render(#[source] serde_json::Error),
}

/// One look at one EtcdBackup.
pub async fn reconcile(guarded: Arc<Guarded>, ctx: Arc<Backups>) -> Result<Action, Error> {
    let backup = match &guarded.0 {
        Ok(backup) => backup,
        Err(invalid) => {
            let name = invalid.metadata.name.as_deref().unwrap_or_default();
            tracing::warn!(name, error = %invalid.error, "an EtcdBackup cannot be read: correct its spec");
            return Ok(Action::await_change());
        }
    };
    // Its Jobs go with it, and its backups stay.
    if backup.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let ready = ctx.context.caches.ready().await;
    ready.map_err(Error::Caches)?;
    let span = tracing::info_span!(
        "backup",
        namespace = backup.metadata.namespace.as_deref().unwrap_or_default(),
        name = %backup.name_any(),
    );
    look(backup, &ctx).instrument(span).await
}

/// A reconcile that could not end is tried again.
#[expect(clippy::needless_pass_by_value, reason = "the controller calls it so")]
pub fn on_error(guarded: Arc<Guarded>, error: &Error, _: Arc<Backups>) -> Action {
    let name = guarded.meta().name.clone().unwrap_or_default();
    if let Error::Status(kube::Error::Api(status)) = error
        && status.code == 409
    {
        return Action::requeue(AFTER_A_CONFLICT);
    }
    let source = std::error::Error::source(error).map(ToString::to_string);
    tracing::warn!(name, %error, source, "a look at an EtcdBackup failed, trying again");
    Action::requeue(AFTER_A_FAILURE)
}

/// Sees, decides, tells, does.
pub async fn look(backup: &EtcdBackup, ctx: &Backups) -> Result<Action, Error> {
    let seen = observe(backup, ctx).await?;
    let next = rules::decide(&seen);
    tracing::debug!(step = ?next.step, "decided");
    // First: what is done rests on what is recorded.
    let backup = &report(backup, &seen, &next, ctx).await?;
    match &next.step {
        Step::Nothing => {}
        Step::Begin(begin) => {
            if let Err(rejected) = begin_backup(backup, begin, ctx).await? {
                let seen = told(seen, &next);
                let next = rules::rejected(&seen, begin, &rejected);
                report(backup, &seen, &next, ctx).await?;
                return Ok(Action::requeue(next.requeue));
            }
        }
        Step::Verify(begin) => {
            if let Err(rejected) = begin_verification(backup, begin, ctx).await? {
                let seen = told(seen, &next);
                let next = rules::verification_rejected(&seen, begin, &rejected);
                report(backup, &seen, &next, ctx).await?;
                return Ok(Action::requeue(next.requeue));
            }
        }
        Step::Forget { name, uid } => delete(&seen.namespace, name, uid, ctx).await?,
    }
    Ok(Action::requeue(next.requeue))
}

/// What was seen, with the status that was written since.
fn told(seen: Seen, next: &Next) -> Seen {
    Seen {
        status: next.status.clone(),
        ..seen
    }
}

async fn observe(backup: &EtcdBackup, ctx: &Backups) -> Result<Seen, Error> {
    let namespace = backup.namespace().unwrap_or_default();
    let name = backup.name_any();
    let uid = backup.uid().unwrap_or_default();
    let clusters = &ctx.context.caches.clusters;
    let cluster = get(clusters, &namespace, &backup.spec.cluster_name);
    let cluster = cluster.and_then(|cluster| cluster.0.as_ref().ok().map(Cluster::of));
    let client = &ctx.context.client;
    let of = (namespace.as_str(), uid.as_str());
    let job = match job::with(&ctx.jobs, of, labels::RUN_ANNOTATION) {
        Some(job) => job::see(&job, client).await?,
        None => None,
    };
    let trial = match job::with(&ctx.jobs, of, labels::VERIFIES_ANNOTATION) {
        Some(job) => job::see_trial(&job, client).await?,
        None => None,
    };
    let now = crate::clock::now();
    let created = backup.metadata.creation_timestamp.as_ref();
    let annotations = backup.metadata.annotations.as_ref();
    let asked = annotations.and_then(|all| all.get(labels::BACKUP_NOW_ANNOTATION).cloned());
    Ok(Seen {
        now,
        generation: backup.metadata.generation.unwrap_or_default(),
        created: created.map_or(now, |time| time.0),
        asked,
        spec: backup.spec.clone(),
        status: backup.status.clone().unwrap_or_default(),
        job,
        trial,
        cluster,
        has_place: ctx.places.has_one(&ctx.jobs),
        has_place_to_spare: ctx.places.has_one_to_spare(&ctx.jobs),
        spared: spared(backup, ctx),
        namespace,
        name,
        uid,
    })
}

/// Backups that a restore needs. Where the operator watches some namespaces, those of others are not seen.
fn spared(backup: &EtcdBackup, ctx: &Backups) -> Vec<String> {
    if backup.spec.retention_policy.is_none() {
        return Vec::new();
    }
    let caches = &ctx.context.caches;
    let restores = caches.restores.state().into_iter();
    let restores: Vec<_> = restores
        .filter_map(|it| it.0.as_ref().ok().cloned())
        .collect();
    let clusters = caches.clusters.state().into_iter();
    let concerns = |cluster: &&EtcdCluster| {
        let status = cluster.status.as_ref();
        let memory = status.and_then(|status| status.memory.as_ref());
        let replaces = memory.is_some_and(|memory| memory.replace.is_some());
        replaces || cluster.spec.bootstrap.is_some()
    };
    let clusters = clusters.filter_map(|it| it.0.as_ref().ok().filter(concerns).cloned());
    let clusters: Vec<_> = clusters.collect();
    rules::spared(backup, &restores, &clusters)
}

/// The status, if it says something new, and then the event.
async fn report(
    backup: &EtcdBackup,
    seen: &Seen,
    next: &Next,
    ctx: &Backups,
) -> Result<EtcdBackup, Error> {
    let mut written = backup.clone();
    if next.status != seen.status {
        let api: Api<EtcdBackup> = Api::namespaced(ctx.context.client.clone(), &seen.namespace);
        written.status = Some(next.status.clone());
        written = api
            .replace_status(&seen.name, &PostParams::default(), &written)
            .await
            .map_err(Error::Status)?;
    }
    let Some((reason, note)) = &next.event else {
        return Ok(written);
    };
    tracing::info!(%reason, "{note}");
    let type_ = match reason {
        api::Reason::BackupFailed
        | api::Reason::BackupDamaged
        | api::Reason::VerificationFailed => EventType::Warning,
        _good => EventType::Normal,
    };
    let event = Event {
        type_,
        reason: reason.to_string(),
        note: Some(note.chars().take(1000).collect()),
        action: "Backup".to_owned(),
        secondary: None,
    };
    let object = backup.object_ref(&());
    if let Err(error) = ctx.context.recorder.publish(&event, &object).await {
        tracing::debug!(%error, "an event was not published");
    }
    Ok(written)
}

async fn begin_backup(
    backup: &EtcdBackup,
    begin: &Begin,
    ctx: &Backups,
) -> Result<Result<(), String>, Error> {
    let namespace = backup.namespace().unwrap_or_default();
    let Some(owner) = backup.controller_owner_ref(&()) else {
        return Ok(Ok(()));
    };
    let job = keeper::job(&Work {
        owner,
        namespace: &namespace,
        spec: &backup.spec,
        run: &begin.run,
        request: &begin.request,
        member: &begin.member,
        secret: begin.secret.as_deref(),
        image: &ctx.context.install.agent_image,
        user: ctx.context.install.pod_user,
    });
    let job = job.map_err(Error::Render)?;
    let (id, member) = (&begin.run.id, &begin.member);
    create(&namespace, &job, ctx, || {
        tracing::info!(job = job.name_any(), id, member, "backup begun");
    })
    .await
}

async fn begin_verification(
    backup: &EtcdBackup,
    begin: &BeginVerify,
    ctx: &Backups,
) -> Result<Result<(), String>, Error> {
    let namespace = backup.namespace().unwrap_or_default();
    let Some(owner) = backup.controller_owner_ref(&()) else {
        return Ok(Ok(()));
    };
    let job = keeper::verify_job(&VerifyWork {
        owner,
        namespace: &namespace,
        spec: &backup.spec,
        run: &begin.run,
        request: &begin.request,
        image: &ctx.context.install.agent_image,
        user: ctx.context.install.pod_user,
        etcd_image: &begin.image,
        pull_secrets: &begin.pull_secrets,
        raw_bytes: begin.raw_bytes,
    });
    let job = job.map_err(Error::Render)?;
    let id = &begin.run.backup;
    create(&namespace, &job, ctx, || {
        tracing::info!(job = job.name_any(), id, "verification begun");
    })
    .await
}

/// Creates a Job; the inner error is the API server's own words for why it must not be.
async fn create(
    namespace: &str,
    job: &Job,
    ctx: &Backups,
    say: impl Fn(),
) -> Result<Result<(), String>, Error> {
    let name = job.name_any();
    if !ctx.places.take(&ctx.jobs, namespace, &name) {
        return Ok(Ok(()));
    }
    let api: Api<Job> = Api::namespaced(ctx.context.client.clone(), namespace);
    match api.create(&PostParams::default(), job).await {
        Ok(_) => {
            say();
            Ok(Ok(()))
        }
        // The cache has not heard of it yet.
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(Ok(())),
        Err(error) => {
            ctx.places.give_back(namespace, &name);
            match error {
                kube::Error::Api(status) if matches!(status.code, 400 | 403 | 422) => {
                    Ok(Err(status.message))
                }
                error => Err(Error::Create(name, error)),
            }
        }
    }
}

async fn delete(namespace: &str, name: &str, uid: &str, ctx: &Backups) -> Result<(), Error> {
    let api: Api<Job> = Api::namespaced(ctx.context.client.clone(), namespace);
    let params = DeleteParams {
        propagation_policy: Some(PropagationPolicy::Background),
        preconditions: Some(Preconditions {
            uid: Some(uid.to_owned()),
            resource_version: None,
        }),
        ..DeleteParams::default()
    };
    match api.delete(name, &params).await {
        Ok(_) => Ok(()),
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(()),
        Err(error) => Err(Error::Delete(name.to_owned(), error)),
    }
}

/// The EtcdBackup that a Job belongs to.
pub fn owner_of(job: &Job) -> Option<ObjectRef<Guarded>> {
    let owners = job.metadata.owner_references.as_ref()?;
    let owner = owners.iter().find(|owner| owner.kind == "EtcdBackup")?;
    let namespace = job.metadata.namespace.as_deref()?;
    Some(ObjectRef::new(&owner.name).within(namespace))
}

/// What a Job says it is for.
fn run_of(job: &Job) -> Option<BackupRun> {
    let annotations = job.metadata.annotations.as_ref()?;
    serde_json::from_str(annotations.get(labels::RUN_ANNOTATION)?).ok()
}

/// Jobs of keepers, of which what they are told is not kept.
pub fn trim(job: &mut Job) {
    if let Some(spec) = &mut job.spec {
        spec.template.spec = None;
    }
}

/// The members of a cluster that keepers read at this moment.
pub fn read_members(jobs: &Store<Job>, namespace: &str, cluster: &str) -> Vec<String> {
    let jobs = jobs.state().into_iter().filter(|job| {
        let of = job.labels().get(labels::KEEPER_OF);
        job.namespace().as_deref() == Some(namespace)
            && of.is_some_and(|of| of == cluster)
            && job::is_active(job)
    });
    jobs.filter_map(|job| job.annotations().get(labels::READS_ANNOTATION).cloned())
        .collect()
}

/// Watches the Jobs of keepers.
pub fn watch_jobs(
    api: Api<Job>,
    scope: &crate::health::Scope,
) -> (Store<Job>, caches::Triggers<Job>) {
    caches::watch_owned(api, trim, scope)
}

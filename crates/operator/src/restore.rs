//! The reconcile of an EtcdRestore: what was seen of it goes into [`plan::restore::decide`], the status is written, and then
//! its EtcdCluster is created. What that is made of and begins with is seen to by the reconcile of the cluster.

use std::sync::Arc;
use std::time::{Duration, Instant};

use api::EtcdCluster;
use api::v1alpha1::backup::EtcdBackup;
use api::v1alpha1::restore::{EtcdRestore, EtcdRestoreSpec};
use kube::api::PostParams;
use kube::core::DeserializeGuard;
use kube::runtime::controller::Action;
use kube::runtime::events::{Event, EventType};
use kube::runtime::reflector::Store;
use kube::{Api, Resource, ResourceExt};
use plan::backup::elsewhere::{judge, namespace_of};
use plan::restore::{self as rules, Named, Next, Original, Rejected, Seen, Step, Target};
use thiserror::Error;
use tracing::Instrument;

use crate::backoff::{Attempts, Pace};
use crate::backup::elsewhere;
use crate::caches::{self, get};
use crate::context::Context;

/// An `EtcdRestore`, or why it cannot be read.
pub type Guarded = DeserializeGuard<EtcdRestore>;

/// What every reconcile needs.
pub struct Restores {
    /// What the clusters need.
    pub context: Arc<Context>,
    /// The EtcdRestores.
    pub store: Store<Guarded>,
    /// Creates that the API server rejected, by the generation of the EtcdRestore, and its words. They may differ each
    /// time, and the status that quotes them wakes the next look: so the pause is kept here.
    pub rejected: Attempts<String>,
}

const AFTER_A_FAILURE: Duration = Duration::from_secs(10);
const AFTER_A_CONFLICT: Duration = Duration::from_millis(100);
/// The cache has not heard of the cluster yet.
const UNHEARD: Duration = Duration::from_secs(1);
/// Between two attempts that are rejected.
const REJECTED: Pace = Pace {
    free: 0,
    first: Duration::from_secs(10),
    longest: Duration::from_mins(1),
};

/// Why a reconcile could not end; it is tried again.
#[derive(Debug, Error)]
pub enum Error {
    /// The caches are gone: the operator is stopping.
    #[error("the watch caches ended")]
    Caches(#[source] kube::runtime::reflector::store::WriterDropped),
    /// The status could not be written.
    #[error("the status of the EtcdRestore cannot be written")]
    Status(#[source] kube::Error),
    /// The cluster that was made could not be read.
    #[error("EtcdCluster {0} cannot be read")]
    Read(String, #[source] kube::Error),
    /// The cluster could not be created.
    #[error("EtcdCluster {0} cannot be created")]
    Create(String, #[source] kube::Error),
}

/// What became of a create.
enum Created {
    /// One of this UID is there.
    Made(String),
    /// One of that name was there before.
    Exists,
    /// The API server's own words for why it must not be.
    Rejected(String),
}

/// One look at one EtcdRestore.
pub async fn reconcile(guarded: Arc<Guarded>, ctx: Arc<Restores>) -> Result<Action, Error> {
    let restore = match &guarded.0 {
        Ok(restore) => restore,
        Err(invalid) => {
            let name = invalid.metadata.name.as_deref().unwrap_or_default();
            tracing::warn!(name, error = %invalid.error, "an EtcdRestore cannot be read: correct its spec");
            return Ok(Action::await_change());
        }
    };
    // Its cluster stays.
    if restore.metadata.deletion_timestamp.is_some() {
        return Ok(Action::await_change());
    }
    let ready = ctx.context.caches.ready().await;
    ready.map_err(Error::Caches)?;
    let span = tracing::info_span!(
        "restore",
        namespace = restore.metadata.namespace.as_deref().unwrap_or_default(),
        name = %restore.name_any(),
    );
    // It holds two whole specs of clusters: not in every task, but while it looks.
    Box::pin(look(restore, &ctx)).instrument(span).await
}

/// A reconcile that could not end is tried again.
#[expect(clippy::needless_pass_by_value, reason = "the controller calls it so")]
pub fn on_error(guarded: Arc<Guarded>, error: &Error, _: Arc<Restores>) -> Action {
    let name = guarded.meta().name.clone().unwrap_or_default();
    if let Error::Status(kube::Error::Api(status)) = error
        && status.code == 409
    {
        return Action::requeue(AFTER_A_CONFLICT);
    }
    let source = std::error::Error::source(error).map(ToString::to_string);
    tracing::warn!(name, %error, source, "a look at an EtcdRestore failed, trying again");
    Action::requeue(AFTER_A_FAILURE)
}

/// Sees, decides, tells, does.
pub async fn look(restore: &EtcdRestore, ctx: &Restores) -> Result<Action, Error> {
    let seen = observe(restore, ctx).await?;
    let next = rules::decide(&seen);
    tracing::debug!(step = ?next.step, "decided");
    let cluster = match &next.step {
        Step::Nothing if next.status == seen.status => return Ok(Action::requeue(next.requeue)),
        Step::Nothing => {
            report(restore, &next, ctx).await?;
            return Ok(Action::requeue(next.requeue));
        }
        Step::Create(cluster) => cluster,
    };
    // First, and also where it says nothing new: the API server accepts it only for the newest version of the object. So no
    // cluster is created that another look has recorded already, nor for an EtcdRestore that was deleted.
    let restore = &report(restore, &next, ctx).await?;
    let seen = Seen {
        status: next.status,
        ..seen
    };
    let told = match create(cluster, ctx).await? {
        Created::Made(uid) => rules::created(&seen, &uid),
        Created::Exists => return Ok(Action::requeue(UNHEARD)),
        Created::Rejected(why) => {
            let left = note(&seen, &why, ctx);
            rules::rejected(&seen, &why, left)
        }
    };
    if told.status != seen.status {
        report(restore, &told, ctx).await?;
    }
    Ok(Action::requeue(told.requeue))
}

async fn observe(restore: &EtcdRestore, ctx: &Restores) -> Result<Seen, Error> {
    let namespace = restore.namespace().unwrap_or_default();
    let uid = restore.uid().unwrap_or_default();
    let spec = restore.spec.clone();
    let status = restore.status.clone().unwrap_or_default();
    let clusters = &ctx.context.caches.clusters;
    let cached = get(clusters, &namespace, &spec.cluster_name);
    let mut target = cached.map(|cluster| target_of(&cluster));
    // Whether the one that was made is gone is not for a cache to say, which may not have heard of it yet.
    let made = status.cluster_uid.as_ref();
    if made.is_some_and(|made| target.as_ref().is_none_or(|it| it.uid != *made)) {
        target = read(&namespace, &spec.cluster_name, ctx).await?;
    }
    let (backup, withheld) = backup_of(&spec, &namespace, &ctx.context).await;
    let original = rules::copied_from(&spec, &namespace, &backup);
    let original = original.and_then(|name| get(clusters, &namespace, name));
    let original = named(original.as_deref(), |cluster| Original {
        id: cluster.status.as_ref().and_then(|it| it.cluster_id.clone()),
        spec: cluster.spec.clone(),
    });
    let generation = restore.metadata.generation.unwrap_or_default();
    let held = ctx.rejected.held(&uid, &generation, Instant::now());
    Ok(Seen {
        now: crate::clock::now(),
        rejected: held.map(|(left, why)| Rejected { why, left }),
        namespace,
        name: restore.name_any(),
        uid,
        generation,
        spec,
        status,
        target,
        backup,
        withheld,
        original,
    })
}

/// The EtcdBackup that is named, and why one of another namespace cannot be used.
async fn backup_of(
    spec: &EtcdRestoreSpec,
    namespace: &str,
    ctx: &Context,
) -> (Named<String>, Option<String>) {
    let Some(name) = &spec.backup_name else {
        return (Named::Absent, None);
    };
    let cluster = |backup: &EtcdBackup| backup.spec.cluster_name.clone();
    let there = namespace_of(spec.backup_namespace.as_deref(), namespace);
    if there == namespace {
        let backup = get(&ctx.caches.backups, namespace, name);
        return (named(backup.as_deref(), cluster), None);
    }
    let found = elsewhere::find(name, there, ctx).await;
    let judged = found.and_then(|backup| {
        judge(&rules::from(spec), namespace, backup.as_ref())?;
        Ok(backup.as_ref().map(cluster))
    });
    match judged {
        Ok(cluster) => (cluster.map_or(Named::Absent, Named::There), None),
        Err(why) => (Named::Absent, Some(why)),
    }
}

/// What is needed of an object that may not be there.
fn named<K, T>(found: Option<&DeserializeGuard<K>>, of: impl Fn(&K) -> T) -> Named<T> {
    match found.map(|found| &found.0) {
        None => Named::Absent,
        Some(Err(_invalid)) => Named::Unreadable,
        Some(Ok(object)) => Named::There(of(object)),
    }
}

fn target_of(cluster: &caches::Guarded) -> Target {
    Target::of(cluster.meta(), cluster.0.as_ref().ok())
}

/// The cluster as the API server has it.
async fn read(namespace: &str, name: &str, ctx: &Restores) -> Result<Option<Target>, Error> {
    let client = ctx.context.client.clone();
    let api: Api<caches::Guarded> = Api::namespaced(client, namespace);
    let cluster = api.get_opt(name).await;
    let cluster = cluster.map_err(|error| Error::Read(name.to_owned(), error))?;
    Ok(cluster.as_ref().map(target_of))
}

/// The status, and then the event.
async fn report(restore: &EtcdRestore, next: &Next, ctx: &Restores) -> Result<EtcdRestore, Error> {
    let namespace = restore.namespace().unwrap_or_default();
    let api: Api<EtcdRestore> = Api::namespaced(ctx.context.client.clone(), &namespace);
    let status = EtcdRestore {
        status: Some(next.status.clone()),
        ..restore.clone()
    };
    let written = api
        .replace_status(&restore.name_any(), &PostParams::default(), &status)
        .await
        .map_err(Error::Status)?;
    let Some((reason, note)) = &next.event else {
        return Ok(written);
    };
    tracing::info!(%reason, "{note}");
    let type_ = match reason {
        api::Reason::RestoreInvalid => EventType::Warning,
        _good => EventType::Normal,
    };
    let event = Event {
        type_,
        reason: reason.to_string(),
        note: Some(note.chars().take(1000).collect()),
        action: "Restore".to_owned(),
        secondary: None,
    };
    let object = restore.object_ref(&());
    if let Err(error) = ctx.context.recorder.publish(&event, &object).await {
        tracing::debug!(%error, "an event was not published");
    }
    Ok(written)
}

async fn create(cluster: &EtcdCluster, ctx: &Restores) -> Result<Created, Error> {
    let name = cluster.name_any();
    let namespace = cluster.namespace().unwrap_or_default();
    let api: Api<EtcdCluster> = Api::namespaced(ctx.context.client.clone(), &namespace);
    match api.create(&PostParams::default(), cluster).await {
        Ok(made) => Ok(Created::Made(made.uid().unwrap_or_default())),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(Created::Exists),
        Err(kube::Error::Api(status)) if matches!(status.code, 400 | 403 | 422) => {
            Ok(Created::Rejected(status.message))
        }
        Err(error) => Err(Error::Create(name, error)),
    }
}

/// Takes note of a create that was rejected: how long until the next.
fn note(seen: &Seen, why: &str, ctx: &Restores) -> Duration {
    let known: Vec<String> = ctx.store.state().iter().filter_map(|it| it.uid()).collect();
    ctx.rejected.retain(|uid| known.iter().any(|it| it == uid));
    let attempt = (why.to_owned(), REJECTED);
    let times = ctx
        .rejected
        .note(&seen.uid, &seen.generation, attempt, Instant::now());
    REJECTED.pause(times)
}

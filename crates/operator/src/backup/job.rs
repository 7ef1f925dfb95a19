//! How far the Job of a backup is, and what its keeper said.

use std::sync::Arc;

use api::labels;
use archive::work::Answer;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::api::ListParams;
use kube::runtime::reflector::Store;
use kube::{Api, Client, ResourceExt};
use manifests::keeper::CONTAINER;
use plan::backup as rules;
use plan::backup::JobState;

use super::{Error, run_of};

/// A pod that has not started by then is given up: its spec may be corrected by now, and it keeps others waiting.
const PATIENCE: SignedDuration = SignedDuration::from_mins(5);

/// The oldest Job of the object with this UID.
pub(crate) fn of(jobs: &Store<Job>, namespace: &str, uid: &str) -> Option<Arc<Job>> {
    let jobs = owned(jobs, namespace, uid).into_iter();
    jobs.min_by_key(|job| (job.creation_timestamp().map(|it| it.0), job.name_any()))
}

/// The same, of those that have this annotation.
pub(super) fn with(
    jobs: &Store<Job>,
    (namespace, uid): (&str, &str),
    annotation: &str,
) -> Option<Arc<Job>> {
    let jobs = owned(jobs, namespace, uid).into_iter();
    let jobs = jobs.filter(|job| job.annotations().contains_key(annotation));
    jobs.min_by_key(|job| (job.creation_timestamp().map(|it| it.0), job.name_any()))
}

fn owned(jobs: &Store<Job>, namespace: &str, uid: &str) -> Vec<Arc<Job>> {
    let is_owned = |job: &Job| {
        let owners = job.metadata.owner_references.iter().flatten();
        let mut owners = owners.map(|owner| owner.uid.as_str());
        job.metadata.namespace.as_deref() == Some(namespace) && owners.any(|owner| owner == uid)
    };
    let jobs = jobs.state().into_iter();
    jobs.filter(|job| is_owned(job)).collect()
}

/// It has not ended.
pub(super) fn is_active(job: &Job) -> bool {
    let conditions = job
        .status
        .iter()
        .flat_map(|it| it.conditions.iter().flatten());
    let mut conditions = conditions.filter(|it| it.status == "True");
    !conditions.any(|it| matches!(it.type_.as_str(), "Complete" | "Failed"))
}

/// What was seen of it. One that does not say what it is for is not one of ours.
pub(super) async fn see(job: &Job, client: &Client) -> Result<Option<rules::Job>, Error> {
    let Some(run) = run_of(job) else {
        return Ok(None);
    };
    Ok(Some(rules::Job {
        name: job.name_any(),
        uid: job.uid().unwrap_or_default(),
        run,
        state: state_of(job, client).await?,
    }))
}

/// The same of a verification.
pub(super) async fn see_trial(job: &Job, client: &Client) -> Result<Option<rules::Trial>, Error> {
    let run = job.annotations().get(labels::VERIFIES_ANNOTATION);
    let Some(run) = run.and_then(|run| serde_json::from_str(run).ok()) else {
        return Ok(None);
    };
    Ok(Some(rules::Trial {
        name: job.name_any(),
        uid: job.uid().unwrap_or_default(),
        run,
        state: state_of(job, client).await?,
    }))
}

/// How far it is.
pub(crate) async fn state_of(job: &Job, client: &Client) -> Result<JobState, Error> {
    if job.metadata.deletion_timestamp.is_some() {
        return Ok(JobState::Leaving);
    }
    let pod = find_pod(job, client).await?;
    Ok(state(job, pod.as_ref(), crate::clock::now()))
}

async fn find_pod(job: &Job, client: &Client) -> Result<Option<Pod>, Error> {
    let namespace = job.namespace().unwrap_or_default();
    let api: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let selector = format!("batch.kubernetes.io/job-name={}", job.name_any());
    let pods = api.list(&ListParams::default().labels(&selector)).await;
    Ok(pods.map_err(Error::Pod)?.items.into_iter().next())
}

fn state(job: &Job, pod: Option<&Pod>, now: Timestamp) -> JobState {
    let status = pod.and_then(|pod| pod.status.as_ref());
    let containers = status.and_then(|it| it.container_statuses.as_ref());
    let keeper = containers.and_then(|all| all.iter().find(|it| it.name == CONTAINER));
    if is_active(job) {
        let started = keeper.and_then(|it| it.state.as_ref());
        let started = started.is_some_and(|it| it.running.is_some() || it.terminated.is_some());
        let trouble = keeper
            .and_then(trouble)
            .or_else(|| pod.and_then(unscheduled));
        let created = job.creation_timestamp().map_or(now, |it| it.0);
        if !started && now.duration_since(created) > PATIENCE {
            return JobState::Stuck(trouble.unwrap_or_else(|| {
                "a Secret, claim or service account that it names may be missing: kubectl describe its pod".to_owned()
            }));
        }
        return JobState::Active(trouble);
    }
    let ended = keeper.and_then(|it| it.state.as_ref()?.terminated.as_ref());
    let said = ended.and_then(|it| it.message.as_deref());
    if let Some(answer) = said.and_then(|said| serde_json::from_str::<Answer>(said).ok()) {
        return JobState::Answered(answer);
    }
    let why = ended.map(|it| {
        let reason = it.reason.as_deref().unwrap_or("ended");
        format!(
            "the keeper ended without an answer: {reason}, exit code {}",
            it.exit_code
        )
    });
    JobState::Lost(why.unwrap_or_else(|| why_failed(job)))
}

/// Why a Job without a pod ended.
fn why_failed(job: &Job) -> String {
    let conditions = job
        .status
        .iter()
        .flat_map(|it| it.conditions.iter().flatten());
    let mut told = conditions.filter(|it| it.type_ == "Failed" && it.status == "True");
    let message = told.next().and_then(|it| it.message.clone());
    message.unwrap_or_else(|| "the pod of its Job is gone".to_owned())
}

/// Why a pod finds no node.
fn unscheduled(pod: &Pod) -> Option<String> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let mut conditions = conditions.iter();
    let told = conditions.find(|it| it.type_ == "PodScheduled" && it.status == "False");
    told?.message.clone()
}

/// Why a container does not start.
fn trouble(container: &ContainerStatus) -> Option<String> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.as_deref()?;
    if matches!(reason, "ContainerCreating" | "PodInitializing") {
        return None;
    }
    Some(match &waiting.message {
        Some(message) => format!("{reason}: {message}"),
        None => reason.to_owned(),
    })
}

//! Everything that happened to a cluster and what belongs to it, the oldest first.

use std::collections::BTreeSet;

use api::names;
use api::v1alpha1::backup::EtcdBackup;
use api::v1alpha1::restore::EtcdRestore;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Event;
use kube::ResourceExt;
use serde::Serialize;

/// Members that a cluster has at most.
const MOST: u32 = 9;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Happening {
    /// When it was last seen.
    pub time: Timestamp,
    /// Normal or Warning.
    #[serde(rename = "type")]
    pub kind: String,
    /// What it happened to: kind and name.
    pub object: String,
    /// One word.
    pub reason: String,
    /// In words.
    pub message: String,
    /// How often.
    pub count: i32,
    /// What reported it.
    pub source: String,
}

/// Kind and name of an object.
pub type Subject = (String, String);

/// The objects whose events tell of a cluster.
pub fn subjects(
    cluster: &str,
    backups: &[EtcdBackup],
    restores: &[EtcdRestore],
) -> BTreeSet<Subject> {
    let mut all: BTreeSet<Subject> = ["EtcdCluster", "StatefulSet", "PodDisruptionBudget"]
        .map(|kind| (kind.to_owned(), cluster.to_owned()))
        .into();
    for ordinal in 0..MOST {
        all.insert(("Pod".to_owned(), names::member(cluster, ordinal)));
        all.insert((
            "PersistentVolumeClaim".to_owned(),
            names::claim(cluster, ordinal),
        ));
    }
    for service in [
        names::client_service(cluster),
        names::peer_service(cluster),
        names::nodeport_service(cluster),
        names::load_balancer_service(cluster),
    ] {
        all.insert(("Service".to_owned(), service));
    }
    let backups = backups.iter().filter(|it| it.spec.cluster_name == cluster);
    all.extend(backups.map(|it| ("EtcdBackup".to_owned(), it.name_any())));
    let restores = restores.iter().filter(|it| it.spec.cluster_name == cluster);
    all.extend(restores.map(|it| ("EtcdRestore".to_owned(), it.name_any())));
    all
}

/// What happened to these.
pub fn timeline(events: &[Event], subjects: &BTreeSet<Subject>) -> Vec<Happening> {
    let mut all: Vec<Happening> = events
        .iter()
        .filter(|event| {
            let object = &event.involved_object;
            let kind = object.kind.clone().unwrap_or_default();
            subjects.contains(&(kind, object.name.clone().unwrap_or_default()))
        })
        .map(happening)
        .collect();
    all.sort();
    all
}

fn happening(event: &Event) -> Happening {
    let series = event.series.as_ref();
    let times = [
        series
            .and_then(|series| series.last_observed_time.as_ref())
            .map(|time| time.0),
        event.last_timestamp.as_ref().map(|time| time.0),
        event.event_time.as_ref().map(|time| time.0),
        event.first_timestamp.as_ref().map(|time| time.0),
        event.creation_timestamp().map(|time| time.0),
    ];
    let source = event
        .source
        .as_ref()
        .and_then(|source| source.component.clone());
    let object = &event.involved_object;
    let count = series.and_then(|series| series.count).or(event.count);
    Happening {
        time: times
            .into_iter()
            .flatten()
            .next()
            .unwrap_or(Timestamp::UNIX_EPOCH),
        kind: event.type_.clone().unwrap_or_default(),
        object: format!(
            "{}/{}",
            object.kind.as_deref().unwrap_or("?"),
            object.name.as_deref().unwrap_or("?")
        ),
        reason: event.reason.clone().unwrap_or_default(),
        message: event.message.clone().unwrap_or_default(),
        count: count.unwrap_or(1).max(1),
        source: event
            .reporting_component
            .clone()
            .filter(|text| !text.is_empty())
            .or(source)
            .unwrap_or_default(),
    }
}

//! One cluster, as its object and its pods tell it.

use std::collections::BTreeMap;

use api::intent::DEFAULT_SIZE;
use api::v1alpha1::status::{MemberStatus, Role};
use api::{EtcdCluster, Reason, labels};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use serde::Serialize;

/// One cluster.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterReport {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// How it stands, in one word.
    pub standing: Standing,
    /// The operator's own word, `status.phase`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// What its owner asked the operator to leave alone.
    pub paused: bool,
    /// It is being deleted.
    pub deleting: bool,
    /// The operator has not looked at the newest spec yet.
    pub behind: bool,
    /// Members that are asked for.
    pub size: i64,
    /// Members that vote.
    pub voters: usize,
    /// Those that are healthy.
    pub healthy_voters: usize,
    /// Healthy voters that can be lost before the cluster stops; absent while there is no quorum.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub can_lose: Option<usize>,
    /// The lowest release that a member runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// The release that the spec names, where it names one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub wanted_version: Option<String>,
    /// ID of the etcd cluster, hexadecimal.
    #[serde(rename = "clusterID", skip_serializing_if = "Option::is_none")]
    pub cluster_id: Option<String>,
    /// When the object was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
    /// Since when no quorum is known to serve.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable_since: Option<Timestamp>,
    /// Where clients connect.
    pub endpoints: Vec<String>,
    /// What the operator says, condition by condition.
    pub conditions: Vec<ConditionReport>,
    /// Members and pods that should become one.
    pub members: Vec<MemberReport>,
    /// What could not be seen, and why.
    pub unseen: Vec<String>,
}

/// How a cluster stands, in one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Standing {
    /// Ready: everything is as asked for.
    Ok,
    /// It serves, nothing is wrong, and something is under way.
    Working,
    /// It serves, and something is wrong.
    Degraded,
    /// No quorum is known to serve.
    Down,
    /// It has not formed yet.
    Forming,
    /// Stopped, as asked for.
    Stopped,
    /// The operator has not said anything of it.
    Unknown,
}

impl Standing {
    /// Nothing is wrong.
    pub fn is_well(self) -> bool {
        match self {
            Self::Ok | Self::Working | Self::Forming | Self::Stopped => true,
            Self::Degraded | Self::Down | Self::Unknown => false,
        }
    }

    /// In one word.
    pub fn word(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Working => "working",
            Self::Degraded => "degraded",
            Self::Down => "down",
            Self::Forming => "forming",
            Self::Stopped => "stopped",
            Self::Unknown => "unknown",
        }
    }
}

/// What the operator says of one thing.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ConditionReport {
    /// Available, Progressing, Degraded or Ready.
    #[serde(rename = "type")]
    pub kind: String,
    /// True, False or Unknown.
    pub status: String,
    /// One word.
    pub reason: String,
    /// What that word means in general; absent for a word of another release.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub meaning: Option<&'static str>,
    /// What it is here.
    pub message: String,
    /// Since when.
    pub since: Timestamp,
}

/// One member.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MemberReport {
    /// Its name, and that of its pod.
    pub name: String,
    /// Its ID, hexadecimal; absent until etcd lists it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// leader, follower or learner; absent while it is none of them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<Role>,
    /// It answers, votes and has a leader.
    pub ready: bool,
    /// The release that it runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub version: Option<String>,
    /// What it does instead, while it is not healthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Where clients reach it.
    #[serde(rename = "clientURL", skip_serializing_if = "Option::is_none")]
    pub client_url: Option<String>,
    /// Its pod, where that was seen.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pod: Option<PodReport>,
}

/// The pod of a member.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct PodReport {
    /// Its node.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Its address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address: Option<String>,
    /// How often etcd was started again in it.
    pub restarts: i32,
    /// When it was created.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub created: Option<Timestamp>,
    /// It is being deleted.
    pub terminating: bool,
}

/// The report of a cluster. Of the pods, why they were not seen may stand instead.
pub fn report(cluster: &EtcdCluster, pods: Option<Result<&[Pod], String>>) -> ClusterReport {
    let status = cluster.status.clone().unwrap_or_default();
    let conditions: Vec<ConditionReport> = status.conditions.iter().map(condition).collect();
    let (pods, unseen) = match pods {
        None => (BTreeMap::new(), Vec::new()),
        Some(Ok(pods)) => (by_name(pods), Vec::new()),
        Some(Err(why)) => (BTreeMap::new(), vec![format!("pods ({why})")]),
    };
    let members: Vec<MemberReport> = status
        .members
        .iter()
        .map(|member| of_member(member, pods.get(&member.name).copied()))
        .collect();
    let has_vote =
        |member: &&MemberStatus| member.id.is_some() && member.role != Some(Role::Learner);
    let voters = status.members.iter().filter(has_vote).count();
    let healthy = status
        .members
        .iter()
        .filter(has_vote)
        .filter(|it| it.ready)
        .count();
    let behind = status.observed_generation != cluster.metadata.generation;
    ClusterReport {
        namespace: cluster.namespace().unwrap_or_default(),
        name: cluster.name_any(),
        standing: standing(cluster, &conditions, behind),
        phase: status.phase.map(|phase| format!("{phase:?}")),
        paused: is_paused(cluster),
        deleting: cluster.metadata.deletion_timestamp.is_some(),
        behind,
        size: cluster.spec.size.map_or(i64::from(DEFAULT_SIZE), i64::from),
        voters,
        healthy_voters: healthy,
        can_lose: (voters > 0)
            .then(|| healthy.checked_sub(voters / 2 + 1))
            .flatten(),
        version: status.version,
        wanted_version: cluster
            .spec
            .version
            .as_deref()
            .map(|it| it.trim_start_matches('v').to_owned()),
        cluster_id: status.cluster_id,
        created: cluster.creation_timestamp().map(|time| time.0),
        unavailable_since: status.unavailable_since.map(|time| time.0),
        endpoints: status.client_endpoints,
        conditions,
        members,
        unseen,
    }
}

/// `true`, or anything but `false`, as the operator takes it.
pub fn is_paused(cluster: &EtcdCluster) -> bool {
    let paused = cluster.annotations().get(labels::PAUSED_ANNOTATION);
    paused.is_some_and(|paused| paused != "false")
}

fn standing(cluster: &EtcdCluster, conditions: &[ConditionReport], behind: bool) -> Standing {
    let find = |kind: &str| conditions.iter().find(|condition| condition.kind == kind);
    let is =
        |kind: &str, status: &str| find(kind).is_some_and(|condition| condition.status == status);
    let available = find("Available");
    let Some(available) = available else {
        return Standing::Unknown;
    };
    let reason = available.reason.as_str();
    let asked_to_stop = cluster.spec.size == Some(0);
    if available.status == "True" {
        if is("Degraded", "True") {
            Standing::Degraded
        } else if is("Ready", "True") && !behind {
            Standing::Ok
        } else {
            Standing::Working
        }
    } else if is("Degraded", "True") {
        Standing::Down
    } else if reason == Reason::Stopped.to_string() && asked_to_stop {
        Standing::Stopped
    } else if reason == Reason::NotFormed.to_string() {
        Standing::Forming
    } else if available.status == "Unknown" && find("Degraded").is_none() {
        Standing::Unknown
    } else {
        Standing::Down
    }
}

fn condition(condition: &Condition) -> ConditionReport {
    let known = Reason::ALL
        .iter()
        .find(|(reason, _)| reason.to_string() == condition.reason);
    ConditionReport {
        kind: condition.type_.clone(),
        status: condition.status.clone(),
        reason: condition.reason.clone(),
        meaning: known.map(|(_, meaning)| meaning.trim()),
        message: condition.message.clone(),
        since: condition.last_transition_time.0,
    }
}

fn by_name(pods: &[Pod]) -> BTreeMap<String, &Pod> {
    pods.iter().map(|pod| (pod.name_any(), pod)).collect()
}

fn of_member(member: &MemberStatus, pod: Option<&Pod>) -> MemberReport {
    MemberReport {
        name: member.name.clone(),
        id: member.id.clone(),
        role: member.role,
        ready: member.ready,
        version: member.version.clone(),
        message: member.message.clone(),
        client_url: member.client_url.clone(),
        pod: pod.map(of_pod),
    }
}

fn of_pod(pod: &Pod) -> PodReport {
    let status = pod.status.as_ref();
    let containers = status.and_then(|status| status.container_statuses.as_deref());
    let etcd = containers.unwrap_or_default().iter();
    let mut etcd = etcd.filter(|container| container.name == api::names::ETCD_CONTAINER);
    PodReport {
        node: pod.spec.as_ref().and_then(|spec| spec.node_name.clone()),
        address: status.and_then(|status| status.pod_ip.clone()),
        restarts: etcd.next().map_or(0, |container| container.restart_count),
        created: pod.creation_timestamp().map(|time| time.0),
        terminating: pod.metadata.deletion_timestamp.is_some(),
    }
}

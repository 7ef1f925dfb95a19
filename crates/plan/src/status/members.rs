//! The members in the status, keyed by member ID: every one that etcd lists, and every pod that should
//! become one.

use api::names;
use api::v1alpha1::status::{MemberStatus, Role};

use crate::observed::{Member, Observed, Pod, Serving, describe, format_id};

pub(super) fn decide(observed: &Observed) -> Vec<MemberStatus> {
    let intent = observed.cluster.intent.as_ref();
    let size = intent.map_or(u32::MAX, |intent| intent.size);
    let listed = observed.etcd.members.iter().flat_map(|list| &list.members);
    let mut all: Vec<(Option<u32>, MemberStatus)> = listed
        .map(|member| (observed.ordinal_of(member), of_member(observed, member)))
        .collect();
    let unlisted = observed.pods.iter().filter(|(ordinal, pod)| {
        // Once it is known who is a member, the pod of one that has left is no longer of interest.
        let left = observed.etcd.members.is_some() && (pod.terminating || **ordinal >= size);
        !left && observed.member_of(**ordinal).is_none()
    });
    for (ordinal, pod) in unlisted {
        all.push((Some(*ordinal), of_pod(observed, *ordinal, pod)));
    }
    all.sort_by_key(|(ordinal, status)| (ordinal.unwrap_or(u32::MAX), status.id.clone()));
    all.into_iter().map(|(_, status)| status).collect()
}

fn of_member(observed: &Observed, member: &Member) -> MemberStatus {
    let ordinal = observed.ordinal_of(member);
    let serving = observed.serving_as(member.id);
    let healthy = observed.is_healthy(member);
    let leads = observed.leader() == Some(member.id);
    let pod = ordinal.and_then(|ordinal| observed.pods.get(&ordinal));
    MemberStatus {
        name: ordinal.map_or_else(|| member.name.clone(), |n| observed.member_name(n)),
        id: Some(format_id(member.id)),
        peer_url: member.peer_urls.first().cloned(),
        client_url: ordinal.map(|n| client_url(observed, n)),
        ready: healthy && !member.learner,
        role: match (member.learner, leads, serving.is_some()) {
            (true, _, _) => Some(Role::Learner),
            (false, true, true) => Some(Role::Leader),
            (false, false, true) => Some(Role::Follower),
            (false, _, false) => None,
        },
        version: serving.and_then(version),
        message: message(ordinal, pod, healthy),
    }
}

/// While it is not healthy, what it is doing instead.
fn message(ordinal: Option<u32>, pod: Option<&Pod>, healthy: bool) -> Option<String> {
    match (ordinal, pod) {
        (None, _) => Some("not managed by the operator: left alone and not counted".to_owned()),
        (Some(_), None) => Some("has no pod".to_owned()),
        (Some(_), Some(pod)) => (!healthy).then(|| describe(pod)),
    }
}

fn of_pod(observed: &Observed, ordinal: u32, pod: &Pod) -> MemberStatus {
    let serving = pod.serving();
    MemberStatus {
        name: observed.member_name(ordinal),
        id: serving.map(|serving| format_id(serving.member_id)),
        peer_url: Some(observed.peer_url(ordinal)),
        client_url: Some(client_url(observed, ordinal)),
        ready: false,
        role: None,
        version: serving.and_then(version),
        message: Some(describe(pod)),
    }
}

fn client_url(observed: &Observed, ordinal: u32) -> String {
    // As its own pod announces it.
    let pod = observed.pods.get(&ordinal).map(|pod| pod.transport);
    let scheme = pod.unwrap_or_else(|| observed.runs()).client.scheme();
    let (name, namespace) = (&observed.cluster.name, &observed.cluster.namespace);
    names::client_url(scheme, name, namespace, ordinal)
}

fn version(serving: &Serving) -> Option<String> {
    serving.version.map(|version| version.to_string())
}

pub(super) fn lowest_version(observed: &Observed) -> Option<String> {
    let versions = observed
        .pods
        .values()
        .filter_map(|pod| pod.serving()?.version);
    versions.min().map(|version| version.to_string())
}

//! Where members run, and how often they ended.

use std::collections::BTreeMap;

use api::names::ETCD_CONTAINER;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube::ResourceExt;

use super::{Finding, Level};
use crate::report::{ClusterReport, Standing};

/// So many starts of a container are no accident any more.
const OFTEN: i32 = 5;

/// Members that one node takes along.
pub(super) fn placement(told: &ClusterReport, pods: &[Pod]) -> Vec<Finding> {
    let mut nodes: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for pod in pods {
        let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
        if let Some(node) = node {
            nodes.entry(node).or_default().push(pod.name_any());
        }
    }
    let shared = nodes.into_iter().filter(|(_, pods)| pods.len() > 1);
    let findings = shared.map(|(node, mut pods)| {
        pods.sort();
        // What is healthy and is not on this node must still be a quorum.
        let healthy = |name: &String| told.members.iter().any(|it| it.name == *name && it.ready);
        let lost = pods.iter().filter(|name| healthy(name)).count();
        let stops =
            told.standing != Standing::Stopped && told.can_lose.is_some_and(|more| lost > more);
        let end = if stops {
            "its loss stops the cluster"
        } else {
            "its loss takes them all"
        };
        Finding::new(
            Level::Warn,
            "placement",
            format!("{} share node {node}: {end}", pods.join(" and ")),
        )
        .fix("spread them with spec.pod.affinity or topologySpreadConstraints")
        .page("docs/user/guides/placement.md")
    });
    findings.collect()
}

/// Members that ended again and again.
pub(super) fn restarts(told: &ClusterReport, pods: &[Pod]) -> Vec<Finding> {
    let findings = pods.iter().filter_map(|pod| {
        let (name, etcd) = (pod.name_any(), etcd(pod)?);
        let state = etcd
            .last_state
            .as_ref()
            .and_then(|state| state.terminated.as_ref());
        let reason = state.and_then(|state| state.reason.clone());
        let out_of_memory = reason.as_deref() == Some("OOMKilled");
        if etcd.restart_count < OFTEN && !out_of_memory {
            return None;
        }
        let times = etcd.restart_count;
        let last = reason.map_or_else(String::new, |reason| format!(", last with {reason}"));
        let text = format!("{name} was restarted {times} times{last}");
        let finding = Finding::new(Level::Warn, "restarts", text);
        Some(if out_of_memory {
            finding.fix("raise spec.resources.limits.memory")
        } else {
            finding.fix(format!(
                "kubectl logs {name} -n {} -c etcd --previous",
                told.namespace
            ))
        })
    });
    findings.collect()
}

fn etcd(pod: &Pod) -> Option<&ContainerStatus> {
    let containers = pod.status.as_ref()?.container_statuses.as_ref()?;
    containers
        .iter()
        .find(|container| container.name == ETCD_CONTAINER)
}

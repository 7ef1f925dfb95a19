//! What the scheduler or the kubelet says stands in a pod's way, in their own words.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

pub(super) fn problem(pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let unscheduled = status
        .conditions
        .iter()
        .flatten()
        .find(|condition| condition.type_ == "PodScheduled" && condition.status == "False");
    if let Some(condition) = unscheduled {
        return condition
            .message
            .clone()
            .or_else(|| condition.reason.clone());
    }
    if status.phase.as_deref() == Some("Failed") {
        let words = status.message.clone().or_else(|| status.reason.clone());
        return Some(words.unwrap_or_else(|| "the pod failed".to_owned()));
    }
    let init = status.init_container_statuses.iter().flatten();
    init.chain(status.container_statuses.iter().flatten())
        .find_map(waiting)
}

fn waiting(container: &ContainerStatus) -> Option<String> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let reason = waiting.reason.as_deref()?;
    // Every container begins so.
    if matches!(reason, "ContainerCreating" | "PodInitializing") {
        return None;
    }
    let message = waiting.message.as_deref().unwrap_or_default();
    let ended = container
        .last_state
        .as_ref()
        .and_then(|state| state.terminated.as_ref());
    let ended = ended.map_or_else(String::new, |ended| {
        let words = ended.message.as_deref().unwrap_or_default().trim();
        format!(" (last exit code {} {words})", ended.exit_code)
    });
    Some(format!("{reason}: {message}{ended}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: &serde_json::Value) -> Option<String> {
        problem(&serde_json::from_value(serde_json::json!({"status": status})).unwrap())
    }

    #[test]
    fn the_words_of_scheduler_and_kubelet_are_kept() {
        let unscheduled = serde_json::json!({"conditions": [{"type": "PodScheduled", "status": "False",
            "reason": "Unschedulable", "message": "0/3 nodes are available: 3 Insufficient cpu."}]});
        assert_eq!(
            of(&unscheduled).as_deref(),
            Some("0/3 nodes are available: 3 Insufficient cpu.")
        );
        let image = serde_json::json!({"containerStatuses": [{"name": "etcd", "image": "x", "imageID": "",
            "ready": false, "restartCount": 0, "state": {"waiting": {"reason": "ImagePullBackOff",
            "message": "Back-off pulling image \"x\""}}}]});
        assert_eq!(
            of(&image).as_deref(),
            Some("ImagePullBackOff: Back-off pulling image \"x\"")
        );
    }

    #[test]
    fn a_container_that_is_being_made_is_no_problem() {
        let creating = serde_json::json!({"containerStatuses": [{"name": "etcd", "image": "x", "imageID": "",
            "ready": false, "restartCount": 0, "state": {"waiting": {"reason": "ContainerCreating"}}}]});
        assert_eq!(of(&creating), None);
    }
}

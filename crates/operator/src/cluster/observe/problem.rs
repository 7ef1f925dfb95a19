//! What the scheduler or the kubelet says stands in a pod's way, in their own words.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use serde_json::Value;

/// Longer words are cut.
const ENOUGH: usize = 300;

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
        let words = last_words(ended.message.as_deref().unwrap_or_default());
        format!(" (last exit code {} {words})", ended.exit_code)
    });
    Some(format!("{reason}: {message}{ended}"))
}

/// What matters of the end of a log: what etcd says of its own end, else the first line that is no entry of its log, such
/// as a complaint about a flag in front of the usage, else the last one.
fn last_words(message: &str) -> String {
    let lines = || {
        message
            .lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
    };
    let entry = |line: &str| serde_json::from_str::<Value>(line).ok();
    let plain = lines().find(|line| entry(line).is_none());
    let fatal = lines().rev().find_map(|line| of_entry(&entry(line)?));
    let words = fatal.or_else(|| plain.or_else(|| lines().next_back()).map(str::to_owned));
    words.unwrap_or_default().chars().take(ENOUGH).collect()
}

/// Message and error of an entry that ends a process.
fn of_entry(entry: &Value) -> Option<String> {
    let text = |key: &str| entry.get(key).and_then(Value::as_str);
    if !matches!(text("level")?, "fatal" | "panic") {
        return None;
    }
    let message = text("msg")?;
    Some(match text("error") {
        Some(error) => format!("{message}: {error}"),
        None => message.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(status: &Value) -> Option<String> {
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
    fn of_a_log_only_the_words_that_matter_are_told() {
        let usage = "flag provided but not defined: -no-such-flag\nUsage:\n\n  etcd [OPTIONS]\n";
        assert_eq!(
            last_words(usage),
            "flag provided but not defined: -no-such-flag"
        );
        let log = "{\"level\":\"info\",\"msg\":\"starting\"}\n\
            {\"level\":\"fatal\",\"msg\":\"discovery failed\",\"error\":\"member count is unequal\"}\n\
            trailing";
        assert_eq!(last_words(log), "discovery failed: member count is unequal");
        assert_eq!(
            last_words("the volume cannot be read\n"),
            "the volume cannot be read"
        );
        assert_eq!(last_words(""), "");
        assert_eq!(last_words(&"x".repeat(1000)).len(), ENOUGH);
    }

    #[test]
    fn a_container_that_is_being_made_is_no_problem() {
        let creating = serde_json::json!({"containerStatuses": [{"name": "etcd", "image": "x", "imageID": "",
            "ready": false, "restartCount": 0, "state": {"waiting": {"reason": "ContainerCreating"}}}]});
        assert_eq!(of(&creating), None);
    }
}

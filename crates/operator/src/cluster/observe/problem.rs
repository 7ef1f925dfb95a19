//! What the scheduler or the kubelet says stands in a pod's way, in their own words.

use api::names;
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

/// How etcd ends when its data cannot be used. Of a long end only the last of it is kept, so places in its code count,
/// too: no process ends in its database for another reason.
const BROKEN: &[&str] = &[
    "failed to open database",
    "failed to recover v3 backend",
    "recoverSnapshot",
    "crc mismatch",
    "is out of range [lastIndex",
    "go.etcd.io/bbolt.",
];
/// So often it must have ended so, at least.
const AGAIN: i32 = 2;

/// What etcd says of its data while it ends again and again.
pub(super) fn broken(pod: &Pod) -> Option<String> {
    let statuses = pod.status.as_ref()?.container_statuses.iter().flatten();
    let etcd = statuses
        .into_iter()
        .find(|status| status.name == names::ETCD_CONTAINER)?;
    let state = etcd.state.as_ref()?;
    let last = etcd.last_state.as_ref().and_then(|s| s.terminated.as_ref());
    let ended = match (&state.waiting, &state.terminated) {
        (Some(waiting), _) if waiting.reason.as_deref() == Some("CrashLoopBackOff") => last,
        (_, Some(ended)) => Some(ended),
        _other => None,
    }?;
    let said = ended.message.as_deref().unwrap_or_default();
    let found = BROKEN.iter().find(|words| said.contains(**words))?;
    // A process that was killed says nothing of its data.
    let by_itself = matches!(ended.exit_code, 1 | 2);
    (by_itself && etcd.restart_count >= AGAIN).then(|| {
        let words = last_words(said);
        let told = if words.contains(found) {
            &words
        } else {
            *found
        };
        format!("etcd ended with {told:?} {} times", etcd.restart_count)
    })
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
    fn data_is_broken_only_if_etcd_says_so_again_and_again() {
        let said = |message: &str, code: i32, restarts: i32| {
            let status = serde_json::json!({"containerStatuses": [{"name": "etcd", "image": "x", "imageID": "",
                "ready": false, "restartCount": restarts,
                "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                "lastState": {"terminated": {"exitCode": code, "message": message}}}]});
            broken(&serde_json::from_value(serde_json::json!({"status": status})).unwrap())
        };
        let open = "{\"level\":\"panic\",\"msg\":\"failed to open database\",\"error\":\"invalid database\"}\n\
            panic: failed to open database\n\ngoroutine 103 [running]:\n";
        assert_eq!(
            said(open, 2, 3).unwrap(),
            "etcd ended with \"failed to open database: invalid database\" 3 times"
        );
        let cut = "dex(...)\n\tgo.etcd.io/bbolt@v1.4.3/db.go:421\ngo.etcd.io/bbolt.(*DB).freepages(0xc000)\n";
        assert!(said(cut, 2, 2).unwrap().contains("bbolt"));
        let log =
            "{\"level\":\"fatal\",\"msg\":\"discovery failed\",\"error\":\"walpb: crc mismatch\"}";
        assert!(said(log, 1, 2).is_some());
        assert_eq!(said(open, 2, 1), None, "once may be chance");
        assert_eq!(said(open, 137, 5), None, "it was killed");
        assert_eq!(said("flag provided but not defined", 2, 9), None);
    }

    #[test]
    fn a_container_that_is_being_made_is_no_problem() {
        let creating = serde_json::json!({"containerStatuses": [{"name": "etcd", "image": "x", "imageID": "",
            "ready": false, "restartCount": 0, "state": {"waiting": {"reason": "ContainerCreating"}}}]});
        assert_eq!(of(&creating), None);
    }
}

//! What a pod is doing, for sentences that name what is waited for.

use super::{Pod, Process};

/// What a pod is doing, in a few words.
pub(crate) fn describe(pod: &Pod) -> String {
    if let Some(stranger) = &pod.stranger {
        return format!("does not respond: at its address {stranger} responds");
    }
    match (&pod.problem, &pod.process) {
        (_, Process::Serving(serving)) if serving.leader == 0 => "has no leader".into(),
        (_, Process::Serving(_)) if pod.stall.is_some() => "serves but does not keep up".into(),
        (_, Process::Serving(_)) => "serves".into(),
        (_, Process::Held(report)) => format!("waits for permission to start ({})", report.detail),
        (_, Process::Refusing(why)) => format!("responds, but not to the operator: {why}"),
        (_, Process::Starting) => "is running but does not serve yet".into(),
        (Some(problem), Process::Unknown) => format!("cannot start: {problem}"),
        (None, Process::Unknown) => "does not respond".into(),
    }
}
